"""Are intervals honest, for every mechanism, size of count and distance from independence?

    python -m benchmarks.coverage [TABLE …] [--rows 20000] [--publications 3] [--conditions 40]
                                  [--mechanism NAME …]

Publishes rows of a table several times and asks, of each release, for every sensitive value within
conditions that random people satisfy: COUNT, SUM and AVG of a quasi column, each with its default
95 % interval, held against the raw rows. Answers fall into classes by
their true count, and into strata by the true count over the count under independence. The intervals
of a release hang together, because conditions overlap: ± is twice the error of a share by the
scatter between publications, or twice the binomial one if that is larger. Of redrawn values and
decoys, an AVG whose count may be 0 has by default an interval that ends only where records do, and
always holds: such answers are left out. Beside the tables stands what is outside 93 to 98 %
by more than ±. CENSUS, ADULT and COIL need SFUMATO_DATA.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.measure import generated, print_table
from sfumato.datasets import read_adult
from sfumato.errors import QueryError, SfumatoError

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
SIZES = ((0, 0), (1, 10), (11, 50), (51, 200), (201, 500), (501, 2_000), (2_001, 10**9))
STRATA = ((0, 1 / 3), (1 / 3, 3), (3, 10), (10, np.inf))
LEAST, MOST, FEWEST = 0.93, 0.98, 50
AGGREGATES = ("COUNT", "SUM", "AVG")
AVERAGE = AGGREGATES.index("AVG")
COUNTS_ONLY = ("sps", "heterogeneous", "ring", "burel")  # quasi columns are not numbers there

MECHANISMS = {  # what is published: mechanism, guarantee
    "uniform": ("uniform", "rho-privacy(0.15, 0.5)"),
    "fine-grain": ("fine-grain", "fine-rho-privacy(theta=6)"),
    "general": ("general", "fine-rho-privacy(theta=6)"),
    "partitioned": ("partitioned", "rho-privacy(0.15, 0.5)"),
    "splu": ("splu", "small-sum(5)"),
    "optimal, l-diversity": ("optimal", "l-diversity(5)"),
    "optimal, f-privacy": ("optimal", "f-privacy(theta=2, floor=0.05)"),
    "optimal, beta-likeness": ("optimal", "beta-likeness(2)"),
    "two-size": ("two-size", "l-diversity(5)"),
    "local": ("local", "l-diversity(5)"),
    "optimal with fakes": ("optimal(fakes=1)", "l-diversity(5)"),
    "sps": ("sps", "reconstruction-privacy(0.3, 0.3)"),
    "heterogeneous": ("heterogeneous", "l-diversity(5)"),
    "ring": ("ring", "l-diversity(5)"),
    "burel": ("burel", "beta-likeness(3)"),
    "resample": ("resample", "rho-privacy(0.15, 0.5)"),
}


@dataclass(frozen=True)
class Source:
    """A table: how it is read, its sensitive column, and the quasi column that is summed."""

    read: Callable[[], pa.Table]
    sensitive: str
    summed: str
    ranges: tuple[str, ...]  # quasi columns that are half of the time asked for by ranges


def _census(name: str, sensitive: str) -> Source:
    return Source(
        lambda: pq.read_table(DATA / f"{name}.parquet"), sensitive, "age", ("age", "education")
    )


def _adult() -> pa.Table:
    table = read_adult(DATA / "adult.data", DATA / "adult.test")
    kept = ["age", "workclass", "marital_status", "race", "sex", "hours_per_week", "occupation"]
    table = table.select(kept).drop_null()
    return pa.table(
        {
            n: c.cast(pa.string()) if n not in ("age", "hours_per_week") else c
            for n, c in zip(kept, table.columns, strict=True)
        }
    )


def _coil() -> pa.Table:
    kept = ["MAANTHUI", "MGEMOMV", "MGEMLEEF", "MOSHOOFD", "MOSTYPE"]
    return pq.read_table(DATA / "coil2000.parquet").select(kept)


SOURCES = {
    "generated": Source(
        lambda: pq.read_table(generated("census", 200_000)), "occupation", "age", ("age",)
    ),
    "occ100k": _census("occ100k", "occupation"),
    "sal500k": _census("sal500k", "salary_class"),
    "adult": Source(_adult, "occupation", "age", ("age", "hours_per_week")),
    "coil": Source(_coil, "MOSTYPE", "MGEMLEEF", ("MGEMLEEF",)),
}


@dataclass(frozen=True)
class Cell:
    """What share of some intervals held, twice its error, and how many there are."""

    share: float
    error: float
    number: int
    least: float = LEAST

    def __str__(self) -> str:
        return f"{self.share:.1%} ± {self.error:.1%}"

    @property
    def is_outside(self) -> bool:
        return self.share < self.least - self.error or self.share > MOST + self.error


@dataclass(frozen=True, eq=False)
class Held:
    """By answer: the true count, the count under independence, and what each interval held."""

    count: np.ndarray
    independent: np.ndarray
    inside: np.ndarray  # (aggregate, answer): 1, 0, or not a number where nothing was answered
    publication: np.ndarray

    def groups(self) -> Iterator[tuple[str, np.ndarray]]:
        for low, high in SIZES:
            name = f"{low:,} to {high:,}" if high < 10**9 else f"{low:,} and more"
            yield (
                f"counts {name}" if high else "counts 0",
                (self.count >= low) & (self.count <= high),
            )
        ratio = self.count / np.maximum(self.independent, 1e-9)
        for low, high in STRATA:
            name = f"{low:.2g} to {high:.2g}" if high < np.inf else f"above {low:g}"
            yield f"{name} × independence", (ratio >= low) & (ratio < high) & (self.count > 0)


def condition(people: pa.Table, source: Source, draw: np.random.Generator) -> str:
    """What a random person satisfies: one to three columns, half of the numeric ones as ranges."""
    person = int(draw.integers(people.num_rows))
    quasi = [name for name in people.column_names if name != source.sensitive]
    found = []
    for column in draw.choice(quasi, min(int(draw.integers(1, 4)), len(quasi)), replace=False):
        value = people[str(column)][person].as_py()
        if column in source.ranges and draw.random() < 0.5:
            width = int(draw.integers(1, 12))
            found.append(f"{column} BETWEEN {value - width} AND {value + width}")
        else:
            found.append(f"{column} = {value!r}")
    return " AND ".join(found)


def held(
    people: pa.Table,
    source: Source,
    guarantee: str,
    mechanism: str,
    *,
    publications: int,
    conditions: int,
    seed: int = 11,
    aggregates: Sequence[str] = AGGREGATES,
    estimator: str | None = None,
) -> Held:
    """Publish, ask and compare. The same seed draws the same conditions and releases."""
    quasi = [name for name in people.column_names if name != source.sensitive]
    shown = people[source.sensitive].to_numpy(zero_copy_only=False)
    values, code = np.unique(shown, return_inverse=True)
    share = dict(zip(values.tolist(), np.bincount(code) / len(code), strict=True))
    raw = duckdb.connect()
    raw.register("release", people)
    draw = np.random.default_rng(seed)
    asked = ", ".join(
        f"{each}({'*' if each == 'COUNT' else source.summed}) AS a{place}"
        for place, each in enumerate(aggregates)
    )
    rows: list[list[float]] = []
    for number in range(publications):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            sf.publish(
                people,
                guarantee,
                to=place,
                mechanism=mechanism,
                quasi=quasi,
                sensitive=source.sensitive,
                seed=seed + number,
            )
            release = sf.open(place)
            drawn = release.manifest.kind == "perturbed" and estimator is None
            for _ in range(conditions):
                where = condition(people, source, draw)
                sql = (
                    f"SELECT {source.sensitive} AS v, {asked} FROM release WHERE {where} "
                    f"GROUP BY {source.sensitive}"
                )
                truth = {v: rest for v, *rest in raw.execute(sql).fetchall()}
                matching = sum(rest[0] for rest in truth.values())
                try:
                    rows_of = release.sql(sql, estimator=estimator).rows()
                except QueryError:  # merged values cannot be asked for one by one
                    continue
                for row in rows_of:
                    true = truth.get(row["v"], [0, 0, None][: len(aggregates)])
                    inside = [_inside(row, f"a{k}", each) for k, each in enumerate(true)]
                    if drawn and len(inside) > AVERAGE and row["a0_low"] <= 0 <= row["a0_high"]:
                        inside[AVERAGE] = np.nan
                    rows.append([number, true[0], matching * share[row["v"]], *inside])
    publication, count, independent, *inside = np.array(rows, np.float64).T
    return Held(count, independent, np.array(inside), publication)


def _inside(row: dict[str, object], name: str, true: float | None) -> float:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if true is None or low is None or high is None:
        return float("nan")
    room = 1e-6 * max(abs(float(true)), 1.0)
    return float(float(low) - room <= float(true) <= float(high) + room)  # type: ignore[arg-type]


def lines_of(found: Held, least: float = LEAST) -> Iterator[tuple[str, int, list[Cell | None]]]:
    """By group of answers: their number, and a cell for every aggregate."""
    for name, chosen in found.groups():
        cells = [_cell_of(each, chosen, found.publication, least) for each in found.inside]
        if any(cell is not None for cell in cells):
            yield name, int(chosen.sum()), cells


def _cell_of(
    inside: np.ndarray, chosen: np.ndarray, publication: np.ndarray, least: float
) -> Cell | None:
    known = chosen & ~np.isnan(inside)
    number = int(known.sum())
    if number < FEWEST:
        return None
    share = float(inside[known].mean())
    by_publication = np.bincount(publication[known].astype(np.int64), inside[known] - share)
    scatter = float(np.sqrt((by_publication**2).sum())) / number
    return Cell(share, 2 * max(scatter, float(np.sqrt(0.05 * 0.95 / number))), number, least)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", default=list(SOURCES))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--publications", type=int, default=3)
    parser.add_argument("--conditions", type=int, default=40)
    parser.add_argument("--mechanism", action="append", choices=MECHANISMS)
    given = parser.parse_args()
    names = given.mechanism or MECHANISMS
    warnings.simplefilter("ignore")
    marked: list[tuple[object, ...]] = []
    summary: list[tuple[object, ...]] = []
    for table in given.tables:
        source = SOURCES[table]
        people = source.read()
        chosen = np.random.default_rng(3).permutation(people.num_rows)[: given.rows]
        people = people.take(pa.array(np.sort(chosen)))
        for name in names:
            mechanism, guarantee = MECHANISMS[name]
            aggregates = AGGREGATES[:1] if mechanism in COUNTS_ONLY else AGGREGATES
            try:
                found = held(
                    people,
                    source,
                    guarantee,
                    mechanism,
                    publications=given.publications,
                    conditions=given.conditions,
                    aggregates=aggregates,
                )
            except SfumatoError as error:
                print(f"\n{name} on {table}: {error}")
                continue
            lines = list(lines_of(found))
            print_table(
                f"{table}, {guarantee} by {mechanism}: held "
                f"by 95 % intervals, {len(people):,} "
                f"rows, {given.publications} publications × {given.conditions} conditions",
                ("answers", "number", *aggregates),
                [(each, n, *(cell or "" for cell in cells)) for each, n, cells in lines],
            )
            cells_of = [
                (each, k, cell) for each, _, cells in lines for k, cell in enumerate(cells) if cell
            ]
            summary.append((table, name, *_ends(cells_of), len(cells_of)))
            marked += [
                (table, name, each, AGGREGATES[k], cell, cell.number)
                for each, k, cell in cells_of
                if cell.is_outside
            ]
    print_table(
        "Smallest and largest share of all classes and strata with 50 answers or more",
        ("table", "mechanism", *AGGREGATES, "cells"),
        summary,
    )
    print_table(
        f"Outside {LEAST:.0%} to {MOST:.0%} by more than ±",
        ("table", "mechanism", "answers", "of", "held", "number"),
        marked,
    )


def _ends(cells: Sequence[tuple[str, int, Cell]]) -> Iterator[str]:
    for place in range(len(AGGREGATES)):
        shares = [cell.share for _, k, cell in cells if k == place]
        yield f"{min(shares):.1%} – {max(shares):.1%}" if shares else ""


if __name__ == "__main__":
    main()
