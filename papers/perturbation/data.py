"""Tables to rerun the thesis on, and the simulated releases of their histograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from papers import public_files
from sfumato import datasets
from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.stream import ranks_in_value
from sfumato.mechanisms import Batch, RecordPlan
from sfumato.mechanisms.partitioned import PartitionedPlan, SubTables
from sfumato.operators import Parts
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram, Profile

DRAWS = Draws.from_seed(2012)


@dataclass(frozen=True)
class Setting:
    """How much to simulate: instances of T*, and conditions in the query pool."""

    runs: int
    conditions: int


@dataclass(frozen=True, eq=False)
class Microdata:
    """Integer codes: the quasi columns and the sensitive one."""

    quasi: Mapping[str, IntArray]
    sensitive: IntArray
    values: int

    def first(self, rows: int) -> Microdata:
        """The first `rows` records; from the start again where there are fewer."""
        index = np.arange(rows) % len(self.sensitive)
        return Microdata(
            {name: codes[index] for name, codes in self.quasi.items()},
            self.sensitive[index],
            self.values,
        )

    @property
    def histogram(self) -> Histogram:
        return histogram(np.bincount(self.sensitive, minlength=self.values))


def histogram(counts: IntArray) -> Histogram:
    return Histogram("s", tuple(range(len(counts))), np.asarray(counts, np.int64))


def profile(of: Histogram) -> Profile:
    return Profile(of.rows, {of.column: of})


def load(data_dir: Path | None, rows: int) -> tuple[Microdata, Microdata, list[str]]:
    """OCC and EDU: CENSUS where its files are, else tables generated like it."""
    places = {
        "occupation": data_dir / "occ100k.parquet" if data_dir else None,
        "education": data_dir / "sal500k.parquet" if data_dir else None,
    }
    found, notes = {}, []
    for column, path in places.items():
        if path is not None and path.is_file():
            table = public_files.read_census(path)
            short = "" if table.num_rows >= rows else ", repeated to larger sizes"
            notes.append(f"{column}: CENSUS, {table.num_rows:,} records{short}.")
        else:
            table = datasets.census(rows, seed=1)
            notes.append(f"{column}: generated CENSUS-like records.")
        found[column] = _coded(table, column)
    return found["occupation"], found["education"], notes


def _coded(table: pa.Table, sensitive: str) -> Microdata:
    dropped = {"occupation", "salary_class"} - {sensitive}
    codes = {
        name: np.unique(np.asarray(table.column(name).to_pylist()), return_inverse=True)[1].astype(
            np.int64
        )
        for name in table.column_names
        if name not in dropped
    }
    chosen = codes.pop(sensitive)
    return Microdata(codes, chosen, int(chosen.max()) + 1)


def zipf(values: int, skew: float, rows: int = 300_000, least: float = 0.0) -> IntArray:
    """f_i ~ i^−λ (errata T17); shares below `least` are dropped, as Table 6 seems to have."""
    shares = np.arange(1, values + 1, dtype=np.float64) ** -skew
    shares /= shares.sum()
    counts: IntArray = np.floor(np.where(shares >= least, shares, 0.0) * rows).astype(np.int64)
    counts[0] += rows - int(counts.sum())
    return np.asarray(counts)


def shown_symbols(plan: RecordPlan, data: Microdata, draws: Draws) -> IntArray:
    """What a plan publishes of each record: codes, or symbols where it has parts."""
    seen = np.zeros(data.values, np.int64)
    batch = Batch(
        {"s": data.sensitive},
        {"s": ranks_in_value(data.sensitive, seen)} if plan.needs_rank else {},
        {"s": Positions(0, len(data.sensitive))},
    )
    published = plan.apply(batch, draws)
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


def cut_reconstructions(cut: SubTables, runs: int, purpose: str) -> list[FloatArray]:
    return reconstructions(cut.operator, cut.symbol_counts, runs, purpose)


def anatomy(data: Microdata, diversity: int, draws: Draws) -> tuple[IntArray, IntArray]:
    """Buckets of Anatomy on counts (errata F14): (kept records, their buckets).

    Where the commonest values are too common, records of theirs are left out at random until the
    table is eligible, as the thesis does for EDU.
    """
    counts = data.histogram.counts
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
    data: Microdata, kept: IntArray, buckets: IntArray, rows: tuple[IntArray, ...]
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
