"""What all releases of the same people tell together, by enumeration of their histories.

A schedule says, release by release, under which key file (or afresh) and by which promise a table
of few people is published, and who is in it. Every history of one person's values is published
under a ledger of its own; which releases it lets pass is what a reader sees of it. Among histories
that look alike to it, the posterior after the person's own records is computed from the draws
themselves: a keyed draw is a function of key file, operator, person and value. Two-point priors
over histories are the worst, so nothing is sampled and no product of γ is taken.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee

VALUES = ("a", "b", "c")
UNIFORM = ("rho-privacy(0.4, 0.6)", "uniform")  # odds rise 2.25 times
STRICT = ("rho-privacy(0.4, 0.5)", "uniform")  # 1.5 times
FINE = (
    "fine-rho-privacy(limits='a:0.4:0.6;*:0.4:0.9')",
    "fine-grain(objective=counts)",
)  # 2.25, 2.88
PROMISE = "fine-rho-privacy(limits='a:0.4:0.8;*:0.4:0.92')"  # 6 and 17.25 times
RHO1, RHO2 = Fraction(2, 5), {"a": Fraction(4, 5), "b": Fraction(23, 25), "c": Fraction(23, 25)}


class Planned(NamedTuple):
    """A release of a schedule."""

    key: str  # the key file; "" for fresh draws
    promise: tuple[str, str]
    present: bool  # whether the person is in it
    column: bool = True  # whether a key column says who is who


def published(schedule: Sequence[Planned], values: Sequence[str], folder: Path) -> list[object]:
    """For every release the retentions of its operator, None where the ledger refused it."""
    folder.mkdir(parents=True)
    operators: list[object] = []
    for number, (release, value) in enumerate(zip(schedule, values, strict=True)):
        others = [(f"other {n}", VALUES[n % 3]) for n in range(9)]
        people = [*([("p", value)] if release.present else []), *others]
        table = pa.table({"id": [who for who, _ in people], "s": [held for _, held in people]})
        promise, mechanism = release.promise
        roles = {"key": "id"} if release.key or release.column else {"drop": "id"}
        try:
            done = sf.publish(
                table, promise, mechanism=mechanism, to=folder / str(number), quasi="",
                sensitive="s", domain={"s": "a,b,c"}, ledger=folder / "ledger",
                ledger_promise=PROMISE, key_file=folder.parent / release.key if release.key
                else None, **roles,
            )  # fmt: skip
        except InfeasibleGuarantee:
            operators.append(None)
            continue
        operator = done.manifest.plan.operators["s"]
        operators.append(tuple(map(int, operator.numerators())))
    return operators


def likelihood(
    schedule: Sequence[Planned],
    operators: Sequence[object],
    values: Sequence[str],
    shown: Sequence[str],
) -> Fraction:
    """How likely these values are shown, where equal draws are one draw."""
    seen: dict[object, str] = {}
    chance = Fraction(1)
    for number, (release, operator) in enumerate(zip(schedule, operators, strict=True)):
        if operator is None or not release.present:
            continue
        value, y = values[number], shown[number]
        draw = (release.key, operator, value) if release.key else number
        if draw in seen:
            if seen[draw] != y:
                return Fraction(0)
            continue
        seen[draw] = y
        kept = Fraction(operator[VALUES.index(value)], 1 << 32)  # type: ignore[index]
        chance *= kept * (value == y) + (1 - kept) / len(VALUES)
    return chance


def beyond(schedule: Sequence[Planned], folder: Path) -> list[str]:
    """Where some reader's posterior exceeds the promise."""
    alike = defaultdict(list)
    for values in itertools.product(VALUES, repeat=len(schedule)):
        operators = published(schedule, values, folder / "".join(values))
        alike[tuple(operators)].append(values)
    found = []
    for operators, histories in alike.items():
        for shown in itertools.product(VALUES, repeat=len(schedule)):
            chances = {h: likelihood(schedule, operators, h, shown) for h in histories}
            for number, x in itertools.product(range(len(schedule)), VALUES):
                with_x = [chance for h, chance in chances.items() if h[number] == x]
                without = [chance for h, chance in chances.items() if h[number] != x]
                if not with_x or not without or max(with_x) == 0:
                    continue
                raised, other = RHO1 * max(with_x), (1 - RHO1) * min(without)
                if raised > RHO2[x] * (raised + other):
                    posterior = float(raised / (raised + other))
                    found.append(f"{x} at {number}, {shown} shown: {posterior:.3f} > {RHO2[x]}")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, digits in (("K", "5a0123456789bcde"), ("L", "0f1e2d3c4b5a6978")):
        (tmp_path / name).write_text(4 * digits)
        (tmp_path / name).chmod(0o600)
    return tmp_path


SCHEDULES = {
    "drift": [Planned("K", UNIFORM, True)] * 3,
    "fine-grain afresh": [Planned("", FINE, True)] * 2,
    "nobody named": [Planned("", UNIFORM, True, column=False)] * 3,
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_of_such_a_history_nobody_concludes_more(schedule: list[Planned], folder: Path) -> None:
    assert not beyond(schedule, folder)


@pytest.mark.parametrize("seed", range(5))
def test_of_no_history_anybody_concludes_more(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    keys, promises = ("K", "K", "L", ""), (UNIFORM, STRICT, FINE)
    schedule = [
        Planned(
            keys[rng.integers(4)], promises[rng.integers(3)], bool(rng.random() < 0.8),
            bool(rng.random() < 0.8),
        )
        for _ in range(3)
    ]  # fmt: skip
    assert not beyond(schedule, folder), schedule
