"""Sets as yes/no columns: whatever is shown, no profile is likelier than the promise allows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from sfumato.draws import Draws
from sfumato.engines.words import Facts
from sfumato.guarantees import BetaLikeness, Guarantee, LDiversity, RhoPrivacy, jointly
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.generalized import RangeCover, TablePlan
from sfumato.mechanisms.grouped import Burel, Ring
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Histogram, Profile


@pytest.mark.parametrize("mechanism", ["uniform", "fine-grain(objective=counts)"])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_no_profile_gains_more_than_the_limit(mechanism: str, columns: int) -> None:
    """All pairs of profiles and all that can be shown, in fractions."""
    promise = RhoPrivacy("0.3", "0.8")
    histograms = {
        f"illness {k}": Histogram(f"illness {k}", ("no", "yes"), np.array([90 - 5 * k, 10 + 5 * k]))
        for k in range(columns)
    }
    profile = Profile(100, histograms)
    plan = parse_mechanism(mechanism).plan(
        profile, jointly(promise, profile.histograms), Draws.from_seed(1)
    )
    exact = [_exact(operator) for operator in plan.operators.values()]  # type: ignore[attr-defined]
    profiles = list(product((0, 1), repeat=columns))
    for shown in profiles:
        chances = [
            prod(matrix[x][y] for matrix, x, y in zip(exact, truth, shown, strict=True))
            for truth in profiles
        ]
        assert max(chances) <= promise.gamma * min(chances)
    widest = max(
        prod(max(column) / min(column) for column in choice)
        for choice in product(*(list(zip(*matrix, strict=True)) for matrix in exact))
    )
    assert widest > promise.gamma * Fraction(95, 100)  # and the limit is used


def _exact(operator: object) -> list[list[Fraction]]:
    if hasattr(operator, "rows"):
        return [[Fraction(entry, 1 << 32) for entry in row] for row in operator.rows]
    kept = [Fraction(float(retention)) for retention in operator.retentions]  # type: ignore[attr-defined]
    return [
        [(kept[x] if x == y else 0) + (1 - kept[x]) / len(kept) for y in range(len(kept))]
        for x in range(len(kept))
    ]


OFTEN = 400  # times that a release has to come up
Release = tuple[tuple[int, int, int], ...]


def release_of(way: Mechanism, promise: Guarantee, world: Sequence[int], seed: int) -> Release:
    """The rows of one publication as their reader sees them: in no order."""
    codes = np.array(world)
    axis = NumericAxis("age", np.arange(len(codes)), np.arange(len(codes)), len(codes) - 1)
    counts = np.bincount(codes)
    profile = Profile(len(codes), {"s": Histogram("s", tuple(range(len(counts))), counts)})
    plan = way.plan(profile, promise, Draws.from_seed(seed))
    assert isinstance(plan, TablePlan)
    made = plan.generalize([axis], codes, Draws.from_seed(seed), lambda *_: None)
    (cover,) = made.covers
    assert isinstance(cover, RangeCover)
    shown = codes[made.source]
    return tuple(sorted(zip(cover.low.tolist(), cover.high.tolist(), shown.tolist(), strict=True)))


def posteriors(
    way: Mechanism, promise: Guarantee, counts: Sequence[int], seeds: int
) -> list[tuple[float, int]]:
    """The largest chance of a value of one person, and how often its release came up."""
    values = [value for value, count in enumerate(counts) for _ in range(count)]
    worlds = sorted(set(itertools.permutations(values)))
    seen: Counter[tuple[Release, tuple[int, ...]]] = Counter()
    for number, world in enumerate(worlds):
        for seed in range(seeds):
            seen[release_of(way, promise, world, number * seeds + seed), world] += 1
    found = []
    total: Counter[Release] = Counter()
    for (release, _), times in seen.items():
        total[release] += times
    for release, times in total.items():
        if times >= OFTEN:
            table = np.zeros((len(values), len(counts)))
            for world in worlds:
                table[np.arange(len(values)), list(world)] += seen[release, world]
            found.append((float(table.max()) / times, times))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "number", "seeds"), [((2, 2), 2, 400), ((3, 3), 2, 200), ((1, 1, 1, 1), 4, 50)]
)
def test_heterogeneous_tells_such_a_reader_no_more_than_one_in_l(
    counts: tuple[int, ...], number: int, seeds: int
) -> None:
    found = posteriors(HeterogeneousGeneralization(), LDiversity(number), counts, seeds)
    assert found
    for chance, times in found:
        assert chance <= 1 / number + 5 * np.sqrt(1 / number * (1 - 1 / number) / times)


@pytest.mark.slow
def test_heterogeneous_likeness_tells_such_a_reader_no_more_than_its_ceilings() -> None:
    """Three values of one person each under beta = 1: at most two in three."""
    found = posteriors(HeterogeneousGeneralization(), BetaLikeness(1), (1, 1, 1), 300)
    assert found
    for chance, times in found:
        assert chance <= 2 / 3 + 5 * np.sqrt(2 / 9 / times)


def test_the_baselines_say_that_they_do_not_hold_against_such_a_reader() -> None:
    """The statement names whom the promise is for."""
    histogram = Histogram("s", (0, 1), np.array([3, 3]))
    profile = Profile(6, {"s": histogram})
    for way, promise in ((Ring(), LDiversity(2)), (Burel(), BetaLikeness(1))):
        plan = way.plan(profile, promise, Draws.from_seed(1))
        (said,) = Facts.of_plan(way, promise, plan, profile.histograms).statement()
        assert "does not know the program" in said
