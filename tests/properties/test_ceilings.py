"""Buckets of random small tables keep every ceiling, and fail only where nothing could keep it.

Recomputed from the published files and the raw rows in fractions, by code that shares nothing with
the planner: ceilings by the guarantees' own formulas, buckets by counting lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

Ceiling = Callable[[Fraction], Fraction]


def _enhanced(share: Fraction) -> Fraction:
    with localcontext(prec=60):
        log = (Decimal(share.denominator) / share.numerator).ln()
        return share * (1 + min(Fraction(1), Fraction(log)))


GUARANTEES: dict[str, Ceiling] = {
    "l-diversity(2)": lambda share: Fraction(1, 2),
    "l-diversity(5)": lambda share: Fraction(1, 5),
    "beta-likeness(0.5)": lambda share: share * Fraction(3, 2),
    "beta-likeness(2)": lambda share: share * 3,
    "enhanced-beta-likeness(1)": _enhanced,
    "f-privacy(theta=2, floor=0.05)": lambda share: 2 * share + Fraction(1, 20),
    "f-privacy(theta=1, floor=0)": lambda share: share,
    "f-privacy(theta=2, floor=0.05, doubt=0.25)": lambda share: min(
        2 * share + Fraction(1, 20), 1 - (1 - share) / 4
    ),
}
MECHANISMS = (
    "optimal",
    "local(min=5)",
    "optimal(objective=two-size)",
    "optimal(objective=multi-size)",
    "optimal(objective=loss)",
)


def random_table(rng: np.random.Generator, columns: int) -> pa.Table:
    """Columns with few or many values, now and then associated with a quasi-identifier."""
    rows = int(rng.integers(1, 90))
    table = {"age": rng.integers(0, 9, rows), "sex": rng.choice(list("mf"), rows)}
    for name in ("s", "t")[:columns]:
        shares = rng.dirichlet(np.full(int(rng.integers(2, 14)), rng.choice([0.5, 2.0, 20.0])))
        codes = rng.choice(len(shares), rows, p=shares)
        linked = rng.random(rows) < rng.choice([0.0, 0.7])
        table[name] = np.where(linked, table["age"] % len(shares), codes)
    return pa.table(table)


def worst_ratio(raw: pa.Table, release: Path, columns: list[str], ceiling: Ceiling) -> Fraction:
    """The largest share of a value in a bucket over its ceiling; checks that all people are there,
    each value as often as in the raw rows, and buckets as large as their lists."""
    listed = pq.read_table(release / "sensitive.parquet").to_pylist()
    sizes = Counter(pq.read_table(release / "records")["bucket"].to_pylist())
    worst = Fraction(0)
    for column in columns:
        counts, shown = Counter(raw[column].to_pylist()), Counter()
        held: Counter[tuple[int, object]] = Counter()
        for line in listed:
            held[line["bucket"], line[column]] += line["count"]
            shown[line[column]] += line["count"]
        assert shown == counts
        in_bucket: Counter[int] = Counter()
        for (bucket, value), number in held.items():
            in_bucket[bucket] += number
            most = ceiling(Fraction(counts[value], raw.num_rows))
            worst = max(worst, Fraction(number, sizes[bucket]) / most)
        assert in_bucket == sizes
    return worst


def kept(seed: int, to: Path) -> Fraction | None:
    """The worst ratio of one table, and that it is refused only where the table itself exceeds."""
    rng = np.random.default_rng(seed)
    columns = ["s", "t"][: 1 + seed % 2]
    raw = random_table(rng, len(columns))
    guarantee = str(rng.choice(list(GUARANTEES)))
    mechanism = str(rng.choice(MECHANISMS[: 2 if len(columns) > 1 else None]))
    ceiling = GUARANTEES[guarantee]
    shares = [
        Fraction(count, raw.num_rows)
        for column in columns
        for count in Counter(raw[column].to_pylist()).values()
    ]
    possible = all(share <= ceiling(share) for share in shares)
    try:
        sf.publish(
            raw,
            guarantee,
            to=to,
            mechanism=mechanism,
            quasi=["age", "sex"],
            sensitive=columns,
            left_out=1,
        )
    except sf.InfeasibleGuarantee:
        assert not possible, (seed, guarantee, mechanism)
        return None
    assert possible, (seed, guarantee, mechanism)
    return worst_ratio(raw, to, columns, ceiling)


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 2060), marks=pytest.mark.slow)], ids=str
)
def test_nobody_stands_above_a_ceiling(seeds: range, tmp_path: Path) -> None:
    ratios = [kept(seed, tmp_path / str(seed)) for seed in seeds]
    reached = [ratio for ratio in ratios if ratio is not None]
    assert max(reached) == 1  # never above, and ceilings are used up
    assert len(reached) > len(ratios) / 4
