"""Tables to rerun the thesis on, and the simulated releases of their histograms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from papers.coded import People, census, coded, profile_of
from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms import RecordPlan
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.operators import Parts
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram

DRAWS = Draws.from_seed(2012)


@dataclass(frozen=True)
class Setting:
    """How much to simulate: instances of T*, and conditions in the query pool."""

    runs: int
    conditions: int


def histogram(counts: IntArray) -> Histogram:
    return profile_of(counts).histograms["s"]


def load(data_dir: Path | None, rows: int) -> tuple[People, People, list[str]]:
    """OCC and EDU: CENSUS where its files are, else tables generated like it."""
    found, notes = [], []
    for column, file in (("occupation", "occ100k.parquet"), ("education", "sal500k.parquet")):
        table, note = census(data_dir, rows, file)
        notes.append(f"{column}: {note}")
        dropped = {"occupation", "salary_class"} - {column}
        found.append(
            coded(table.select([c for c in table.column_names if c not in dropped]), column)
        )
    return found[0], found[1], notes


def zipf(values: int, skew: float, rows: int = 300_000, least: float = 0.0) -> IntArray:
    """f_i ~ i^−λ (errata T17); shares below `least` are dropped, as Table 6 seems to have."""
    shares = np.arange(1, values + 1, dtype=np.float64) ** -skew
    shares /= shares.sum()
    counts: IntArray = np.floor(np.where(shares >= least, shares, 0.0) * rows).astype(np.int64)
    counts[0] += rows - int(counts.sum())
    return np.asarray(counts)


def shown_symbols(plan: RecordPlan, data: People, draws: Draws) -> IntArray:
    """What a plan publishes of each record: codes, or symbols where it has parts."""
    published = data.published(plan, draws)
    if isinstance(plan, PartitionedPlan):
        lookup = plan.columns["s"].operator.lookup
        return np.asarray(lookup[published.extra["part"], published.codes["s"]])
    return published.codes["s"]


def reconstructions(
    operator: Operator, counts: IntArray, runs: int, purpose: str
) -> list[FloatArray]:
    """Estimated counts by value over `runs` instances; `counts` by code, or by symbol."""
    codes = np.repeat(np.arange(len(counts)), counts)
    found = []
    for number in range(runs):
        address = Positions(number * len(codes), len(codes))
        shown = operator.apply(codes, purpose, address, DRAWS)
        observed = np.bincount(shown, minlength=operator.values).astype(np.float64)
        estimated = operator.estimate(observed)
        found.append(operator.total(estimated) if isinstance(operator, Parts) else estimated)
    return found


def anatomy(data: People, diversity: int, draws: Draws) -> tuple[IntArray, IntArray]:
    """Buckets of Anatomy on counts (errata F14): (kept records, their buckets).

    Where the commonest values are too common, records of theirs are left out at random until the
    table is eligible, as the thesis does for EDU.
    """
    counts = data.counts
    low, high = 0, int(counts.max())
    while low < high:  # the largest cap with cap·ℓ ≤ Σ min(count, cap)
        cap = (low + high + 1) // 2
        low, high = (
            (cap, high) if cap * diversity <= np.minimum(counts, cap).sum() else (low, cap - 1)
        )
    order = draws.order("anatomy", len(data.sensitive))
    by_value = order[np.argsort(data.sensitive[order], kind="stable")]
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(by_value)) - starts[data.sensitive[by_value]]
    kept = by_value[rank < low]
    buckets = np.arange(len(kept)) % (len(kept) // diversity)
    return kept, buckets


def anatomy_estimates(
    data: People, kept: IntArray, buckets: IntArray, rows: tuple[IntArray, ...]
) -> FloatArray:
    """Σ over buckets of matching records × share of the value, by (condition, value)."""
    sizes = np.bincount(buckets)
    position = np.full(len(data.sensitive), -1, np.int64)
    position[kept] = buckets
    answers = []
    for matching in rows:
        inside = position[matching]
        matches = np.bincount(inside[inside >= 0], minlength=len(sizes))
        weight = (matches / sizes)[buckets]
        answers.append(np.bincount(data.sensitive[kept], weight, minlength=data.values))
    return np.array(answers, np.float64)


def relative_error(
    truth: IntArray, estimates: FloatArray, rows: int = 1, least: float = 0.0
) -> float:
    """(1/m)·Σ |f − f*|/f over true counts of at least a share of the rows (thesis, Definition 2).

    Zero counts have no relative error and never count (T17).

    >>> round(relative_error(np.array([10, 0, 20]), np.array([11.0, 3.0, 18.0])), 3)
    0.1
    >>> round(relative_error(np.array([5, 50]), np.array([6.0, 45.0]), 100, 0.5), 3)
    0.1
    """
    true = np.asarray(truth, np.float64).reshape(-1)
    chosen = (true >= least * rows) & (true > 0)
    off = np.abs(np.asarray(estimates, np.float64).reshape(-1) - true)
    return float((off[chosen] / true[chosen]).mean()) if chosen.any() else float("nan")
