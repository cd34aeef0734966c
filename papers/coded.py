"""The tables that papers are rerun on, as integer codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from papers.public_files import read_census
from sfumato import datasets
from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.stream import ranks_in_value
from sfumato.mechanisms import Batch, Published, RecordPlan
from sfumato.operators import Parts
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram, Profile


@dataclass(frozen=True, eq=False)
class People:
    """Codes of the quasi columns and of one sensitive column.

    >>> table = pa.table({"age": [30, 41, 30], "s": ["b", "a", "b"]})
    >>> coded(table, "s").counts.tolist()
    [1, 2]
    """

    quasi: Mapping[str, IntArray]
    sensitive: IntArray
    values: int

    @property
    def rows(self) -> int:
        return len(self.sensitive)

    @property
    def counts(self) -> IntArray:
        return np.bincount(self.sensitive, minlength=self.values)

    @property
    def profile(self) -> Profile:
        return profile_of(self.counts)

    @property
    def ranks(self) -> IntArray:
        """How many earlier records have the same value."""
        return ranks_in_value(self.sensitive, np.zeros(self.values, np.int64))

    def published(self, plan: RecordPlan, draws: Draws) -> Published:
        """What a plan for the column `s` makes of all records."""
        address = {"s": Positions(0, self.rows)}
        return plan.apply(Batch({"s": self.sensitive}, {"s": self.ranks}, address), draws)

    @property
    def largest_groups(self) -> int:
        """The most different values that groups of equal size can have."""
        return self.rows // int(self.counts.max())

    def first(self, rows: int) -> People:
        """The first `rows` records; from the start again where there are fewer."""
        index = np.arange(rows) % self.rows
        quasi = {name: codes[index] for name, codes in self.quasi.items()}
        return People(quasi, self.sensitive[index], self.values)


def profile_of(counts: IntArray) -> Profile:
    """Of the one sensitive column `s`, whose values are numbers."""
    histogram = Histogram("s", tuple(range(len(counts))), np.asarray(counts, np.int64))
    return Profile(histogram.rows, {"s": histogram})


def census(
    data_dir: Path | None, rows: int, file: str = "occ100k.parquet", seed: int = 1
) -> tuple[pa.Table, str]:
    """The extract of CENSUS where the user has it, else so many generated records; and a note."""
    path = data_dir / file if data_dir else None
    if path is not None and path.is_file():
        table = read_census(path)
        return table, f"CENSUS: {table.num_rows:,} real records."
    return datasets.census(rows, seed=seed), f"CENSUS: {rows:,} generated records stand in."


def coded(table: pa.Table, sensitive: str) -> People:
    """All columns of a table as codes, in the order of their values."""
    codes = {
        name: np.unique(np.asarray(table.column(name).to_pylist()), return_inverse=True)[1].astype(
            np.int64
        )
        for name in table.column_names
    }
    chosen = codes.pop(sensitive)
    return People(codes, chosen, int(chosen.max()) + 1)


@dataclass(frozen=True, eq=False)
class Conjunctions:
    """Conditions A₁ = a₁ AND … AND A_d = a_d; `rows[k]` are the records that satisfy number k.

    Each condition stands for m queries, one per sensitive value (thesis, Equation 59).
    """

    rows: tuple[IntArray, ...]

    def counts(self, codes: IntArray, values: int) -> IntArray:
        """Counts by (condition, code)."""
        return np.array(
            [np.bincount(codes[rows], minlength=values) for rows in self.rows], np.int64
        ).reshape(len(self.rows), values)

    def estimates(self, shown: IntArray, operator: Operator) -> FloatArray:
        """Unbiased answers by (condition, value) from published codes, or symbols of parts."""
        observed = self.counts(shown, operator.values).astype(np.float64)
        answers = np.array([operator.estimate(row) for row in observed])
        if isinstance(operator, Parts):
            answers = np.array([operator.total(row) for row in answers])
        return answers.reshape(len(self.rows), -1)


def random_conjunctions(
    columns: Mapping[str, IntArray], count: int, draws: Draws, *, most_columns: int = 3
) -> Conjunctions:
    """The thesis's pool (Section 4.4.1): d in 1 … 3 columns, one value each, all uniform.

    `columns` hold codes; a column's domain is its codes up to the largest.

    >>> table = {"sex": np.array([0, 1, 1]), "city": np.array([0, 0, 1])}
    >>> len(random_conjunctions(table, 5, Draws.from_seed(1)).rows)
    5
    """
    names = sorted(columns)
    most = min(most_columns, len(names))
    sizes = {name: int(columns[name].max()) + 1 for name in names}
    found = []
    for number in range(count):
        purpose = f"conjunction {number}"
        width = 1 + int(draws.below(f"{purpose} width", Positions(0, 1), most)[0])
        chosen = draws.order(f"{purpose} columns", len(names))[:width]
        matches = np.ones(len(columns[names[0]]), np.bool_)
        for place in chosen:
            name = names[int(place)]
            value = draws.below(f"{purpose} {name}", Positions(0, 1), sizes[name])[0]
            matches &= columns[name] == value
        found.append(np.flatnonzero(matches))
    return Conjunctions(tuple(found))


def laplace_noise(scale: float, count: int, draws: Draws, purpose: str) -> FloatArray:
    """Laplace noise, good enough to play the adversary: it protects nobody.

    >>> noise = laplace_noise(2.0, 20_000, Draws.from_seed(1), "demo")
    >>> bool(abs(np.abs(noise).mean() - 2) < 0.1)
    True
    """
    words = draws.words(purpose, Positions(0, count)) >> np.uint64(11)
    share = (words.astype(np.float64) + 0.5) / (1 << 53) - 0.5
    return np.asarray(-scale * np.sign(share) * np.log1p(-2 * np.abs(share)))


def multinomial(draws: Draws, purpose: str, counts: npt.ArrayLike, weights: IntArray) -> IntArray:
    """Exact Multinomial(counts[i], weights / sum) for integer weights; shape (i, weights).

    >>> multinomial(Draws.from_seed(1), "p", [4, 2], np.array([1, 0, 1])).sum(axis=1).tolist()
    [4, 2]
    """
    cumulative = np.cumsum(np.asarray(weights, np.int64))
    owners = np.repeat(np.arange(len(sizes := np.asarray(counts))), sizes)
    drawn = draws.below(purpose, Positions(0, len(owners)), int(cumulative[-1]))
    flat = owners * len(cumulative) + np.searchsorted(cumulative, drawn, side="right")
    return np.bincount(flat, minlength=len(sizes) * len(cumulative)).reshape(len(sizes), -1)
