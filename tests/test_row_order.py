"""What the order of rows tells: bounds that hold, power that is there, orders that are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.row_order import FOLDED, OrderTest, Told

ALARM = 1e-3


def looked_at(codes: np.ndarray, pieces: int = 1) -> Told:
    test = OrderTest()
    for piece in np.array_split(codes, pieces):
        test.add(piece)
    names = [str(k) for k in range(int(codes.max()) + 1)]
    return Told.of(test.looks("s", names), ALARM)


@pytest.mark.parametrize(
    "codes", [[0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]]
)
def test_bounds_hold_over_all_orders(codes: list[int]) -> None:
    """Every single test of every order of seven rows: no exponent is larger than −log of its tail.

    Exact: all orders are listed, so there is no false alarm.
    """
    listed = sorted(set(permutations(codes)))
    rows = []
    for order in listed:
        test = OrderTest()
        test.add(np.array(order))
        looks = test.looks("s", [str(k) for k in range(6)])
        rows.append(np.concatenate([exponents for exponents, _ in looks]))
    exponents = np.stack(rows)
    for column in exponents.T:
        for least in np.unique(column[column > 0]):
            assert (column >= least - 1e-12).mean() <= np.exp(-least) * (1 + 1e-9)


def test_random_orders_tell_nothing() -> None:
    """3 × 100 random orders at 1e-3 each: two alarms or more with a chance of at most 0.037."""
    rng = np.random.default_rng(20)
    alarms = sum(
        bool(looked_at(rng.integers(0, values, rows)).patterns)
        for rows, values in ((30, 2), (500, 6), (2000, 300))
        for _ in range(100)
    )
    assert alarms <= 1


def test_pieces_do_not_matter() -> None:
    codes = np.random.default_rng(4).integers(0, 9, 5000)
    assert looked_at(codes) == looked_at(codes, 7) == looked_at(codes, 4999)


def spread(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 50, 20_000)


def some_sorted(rng: np.random.Generator) -> np.ndarray:
    codes = spread(rng)
    chosen = np.sort(rng.choice(len(codes), 1000, replace=False))
    codes[chosen] = np.sort(codes[chosen])
    return codes


def one_ward(rng: np.random.Generator) -> np.ndarray:
    """Among 500 rows in the middle, one value has 15 % instead of 2."""
    codes = spread(rng)
    ward = slice(9000, 9500)
    codes[ward] = np.where(rng.random(500) < 0.15, 7, codes[ward])
    return codes


def short_runs(rng: np.random.Generator) -> np.ndarray:
    """Every twentieth row repeats the value before it."""
    codes = spread(rng)
    again = np.flatnonzero(rng.random(len(codes) - 1) < 0.05) + 1
    codes[again] = codes[again - 1]
    return codes


def turns(rng: np.random.Generator) -> np.ndarray:
    return np.arange(20_000) % 50


def many_values(rng: np.random.Generator) -> np.ndarray:
    """More values than are told apart, in blocks of equal ones."""
    return np.repeat(rng.permutation(FOLDED * 4), 10)


@pytest.mark.parametrize("made", [some_sorted, one_ward, short_runs, turns, many_values])
def test_power(made: Callable[[np.random.Generator], np.ndarray]) -> None:
    """What the guide says is noticed: ten of ten, where each is noticed with 0.95 or more.

    Sorted: 1 in 20 of 20,000 people with 50 values.
    """
    rng = np.random.default_rng(8)
    assert sum(bool(looked_at(made(rng)).patterns) for _ in range(10)) >= 9


# -- publish --order keep -------------------------------------------------------------------------


def people(order: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 4, 600)
    codes = codes[order(codes)]
    ill = np.array(["angina", "flu", "gout", "ulcer"])[codes]
    return pa.table({"age": rng.integers(18, 90, 600), "ill": ill, "dose": codes * 1.5})


def by_value(codes: np.ndarray) -> np.ndarray:
    return np.argsort(codes, kind="stable")


def as_it_came(codes: np.ndarray) -> np.ndarray:
    return np.arange(len(codes))


ROLES: dict[str, Any] = {"quasi": "age", "sensitive": "ill", "drop": "dose"}
BINS: dict[str, Any] = {
    "quasi": "age", "sensitive": "dose", "drop": "ill", "bins": {"dose": [0, 1, 2, 4, 9]},
}  # fmt: skip


@pytest.mark.parametrize("roles", [ROLES, BINS], ids=["text", "bins"])
@pytest.mark.parametrize("promise", ["rho-privacy(0.3, 0.6)", "l-diversity(2)"])
def test_a_sorted_table_is_not_kept(tmp_path: Path, promise: str, roles: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"cannot be published in their order.*Leave out --order"):
        sf.publish(people(by_value), promise, to=tmp_path / "release", order="keep", **roles)
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("promise", ["rho-privacy(0.3, 0.6)", "l-diversity(2)"])
def test_a_kept_order_is_said_and_passes_its_audit(tmp_path: Path, promise: str) -> None:
    data = people(as_it_came)
    done = sf.publish(data, promise, to=tmp_path / "release", order="keep", **ROLES)
    assert any("stand in the order of the table" in caveat for caveat in done.manifest.caveats)
    assert sf.audit(data, done.release).holds
    shuffled = sf.publish(data, promise, to=tmp_path / "shuffled", **ROLES)
    assert not any("order of the table" in caveat for caveat in shuffled.manifest.caveats)


def test_a_file_is_refused_by_the_command(cli: Any, tmp_path: Path) -> None:
    import pyarrow.csv as csv

    csv.write_csv(people(by_value), tmp_path / "people.csv")
    outcome = cli(
        "publish", tmp_path / "people.csv", "--quasi", "age", "--sensitive", "ill",
        "--drop", "dose", "--guarantee", "l-diversity(2)", "--order", "keep",
        "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2
    assert "tells sensitive values: " in outcome.err
    assert not (tmp_path / "release").exists()
