"""Do 95 % intervals hold the truth, for every mechanism, aggregate, size and association?

    python -m benchmarks.coverage [TABLE …] [--rows 10000] [--publications 8] [--conditions 16]
                                  [--mechanism NAME …] [--aggregate NAME …] [--write]

Rows of a table (of occ100k: of its second half) are published several times. Each release is
asked, for every sensitive value within conditions that random people satisfy (counts under all of
them, medians under a quarter, the rest under half), for the aggregates below; the raw rows have the
truth. Answers fall into cells: classes by their true count, times the true count over the count
under independence. Intervals of one release depend on each other, because conditions overlap: ± is
twice the error of a share by the scatter between publications, or twice the binomial one if that is
larger. `identified` are answers whose interval is not simply what is possible or certain: at
99.99 %, asked of every fourth publication, it is wider. `always outside` is the share of answers
whose interval misses the truth in every publication; `none` is that of answers without a finite
interval, though the truth has a number. CENSUS, ADULT and COIL need SFUMATO_DATA. Tables with
several sensitive columns are asked about each, by itself and together with a value of the next one
(`WITHIN`). This is also the harness of the tests.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.associated import hospital, kdd
from benchmarks.measure import DATA, adult, census, generated, report
from sfumato.errors import QueryError, SfumatoError

SIZES = ((0, 0), (1, 10), (11, 50), (51, 200), (201, 2_000), (2_001, 10**9))
STRATA = ((0, 1 / 2), (1 / 2, 2), (2, 5), (5, np.inf))
LEAST, FEWEST = 0.93, 100
OF_CONDITIONS = {
    "COUNT": 1,
    "WITHIN": 1,
    "MEDIAN": 4,
}  # under what part an aggregate is asked; else half
SURE = 0.9999  # an interval that is no wider at this confidence ends at what is possible
AGGREGATES = {  # of x, the summed column, and y, another numeric one
    "COUNT": "COUNT(*)",
    "WITHIN": "COUNT(*)",
    "SUM": "SUM({x})",
    "AVG": "AVG({x})",
    "MEDIAN": "MEDIAN({x})",
}
# asked without GROUP BY: of two values that are named
TOGETHER = {
    "share": "COUNT(*) FILTER (WHERE {s} = {first}) / COUNT(*)",
    "ratio": "COUNT(*) FILTER (WHERE {s} = {first}) / COUNT(*) FILTER (WHERE {s} = {second})",
}

MECHANISMS = {  # what is published: mechanism, guarantee
    "uniform": ("uniform", "rho-privacy(0.15, 0.5)"),
    "fine-grain": ("fine-grain", "fine-rho-privacy(theta=6)"),
    "partitioned": ("partitioned", "rho-privacy(0.15, 0.5)"),
    "splu": ("splu", "small-sum(5)"),
    "optimal, l-diversity": ("optimal", "l-diversity(5)"),
    "optimal, f-privacy": ("optimal", "f-privacy(theta=2, floor=0.05)"),
    "optimal, beta-likeness": ("optimal", "beta-likeness(2)"),
    "optimal, enhanced": ("optimal", "enhanced-beta-likeness(2)"),
    "local, f-privacy": ("local", "f-privacy(theta=2, floor=0.05)"),
    "local, enhanced": ("local", "enhanced-beta-likeness(2)"),
    "two-size": ("optimal(objective=two-size)", "l-diversity(5)"),
    "local": ("local", "l-diversity(5)"),
    "optimal with fakes": ("optimal(fakes=1)", "l-diversity(5)"),
    "sps": ("sps", "reconstruction-privacy(0.3, 0.3)"),
    "heterogeneous": ("heterogeneous", "l-diversity(5)"),
    "ring": ("ring", "l-diversity(5)"),
    "burel": ("burel", "beta-likeness(3)"),
}


@dataclass(frozen=True)
class Source:
    """A table: how it is read, its sensitive column, and the numeric columns x and y.

    `beside` are further sensitive columns, `open` what f-privacy need not protect in them.
    """

    read: Callable[[], pa.Table]
    sensitive: str
    x: str
    y: str
    beside: tuple[str, ...] = ()
    open: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.sensitive, *self.beside)

    def promise(self, guarantee: str) -> str | dict[str, str]:
        """By column, where there are several."""
        if self.open is None:
            return guarantee
        opened = guarantee.replace(")", f", open={self.open})")
        few = self.beside[-1:] if guarantee.startswith("f-privacy") else ()
        return {name: opened if name in few else guarantee for name in self.columns}


def _adult() -> pa.Table:
    quasi = ["age", "workclass", "marital_status", "race", "sex", "hours_per_week", "occupation"]
    return adult().select(quasi)


def _coil() -> pa.Table:
    quasi = ["MAANTHUI", "MGEMOMV", "MGEMLEEF", "MOSHOOFD", "MOSTYPE"]
    return pq.read_table(DATA / "coil2000.parquet").select(quasi)


SOURCES = {
    "generated": Source(
        lambda: pq.read_table(generated("census", 200_000)), "occupation", "age", "education"
    ),
    "occ100k": Source(lambda: census(first=50_000), "occupation", "age", "education"),
    "sal500k": Source(lambda: census("salary_class"), "salary_class", "age", "education"),
    "adult": Source(_adult, "occupation", "age", "hours_per_week"),
    "coil": Source(_coil, "MOSTYPE", "MGEMLEEF", "MGEMOMV"),
    "kdd": Source(lambda: kdd(40_000, 1), "work", "age", "age", ("job", "veteran"), "v0"),
    "hospital": Source(
        lambda: hospital(40_000, 1), "diagnosis", "age", "age", ("treatment", "outcome"), "o0"
    ),
}


@dataclass(frozen=True)
class Coverage:
    """What share of some intervals held the truth, twice its error, and how many there are."""

    share: float
    error: float
    number: int

    def __str__(self) -> str:
        return f"{self.share:.1%} ± {self.error:.1%}"

    @property
    def is_low(self) -> bool:
        """Below by more than the error of its share."""
        return self.share < LEAST - self.error


@dataclass(frozen=True, eq=False)
class Answers:
    """By answer: which question and value, the true count, that under independence, its interval.

    `inside` is 1, 0, or not a number where the truth has a number and the answer has none; `width`
    is the interval's length.
    """

    publication: np.ndarray
    question: np.ndarray
    count: np.ndarray
    independent: np.ndarray
    largest: np.ndarray  # the row of its GROUP BY with the largest estimate
    inside: np.ndarray
    width: np.ndarray
    identified: np.ndarray

    def groups(self) -> Iterator[tuple[str, np.ndarray]]:
        """Cells: classes of the true count, each by association."""
        ratio = self.count / np.maximum(self.independent, 1e-9)
        for low, high in SIZES:
            counted = (self.count >= low) & (self.count <= high)
            for least, most in STRATA if high else STRATA[:1]:
                name = f"{low:,} to {high:,} at {least:.2g} to {most:.2g} × independence"
                yield name if high else "0", counted & (ratio >= least) & (ratio < most)

    def coverage(self, chosen: np.ndarray | None = None) -> Coverage | None:
        """Of some answers; nothing where there are fewer than 100."""
        known = ~np.isnan(self.inside) if chosen is None else chosen & ~np.isnan(self.inside)
        number = int(known.sum())
        if number < FEWEST:
            return None
        inside = self.inside[known]
        share = float(inside.mean())
        by_publication = np.bincount(self.publication[known], inside - share)
        scatter = float(np.sqrt((by_publication**2).sum())) / number
        return Coverage(share, 2 * max(scatter, float(np.sqrt(0.05 * 0.95 / number))), number)

    def always_outside(self) -> float:
        """The share of questions whose interval missed the truth in every publication."""
        known = ~np.isnan(self.inside)
        asked = np.bincount(self.question[known])
        held = np.bincount(self.question[known], self.inside[known])
        several = asked >= 2
        return float((held[several] == 0).mean()) if several.any() else 0.0


def condition(people: pa.Table, source: Source, draw: np.random.Generator) -> str:
    """What a random person satisfies: one to three columns, half of the numeric ones as ranges."""
    person = int(draw.integers(people.num_rows))
    quasi = [name for name in people.column_names if name not in source.columns]
    terms = []
    for column in draw.choice(quasi, min(int(draw.integers(1, 4)), len(quasi)), replace=False):
        value = people[str(column)][person].as_py()
        if column in (source.x, source.y) and draw.random() < 0.5:
            width = int(draw.integers(1, 12))
            terms.append(f"{column} BETWEEN {value - width} AND {value + width}")
        else:
            terms.append(f"{column} = {value!r}")
    return " AND ".join(terms)


def measure(
    people: pa.Table,
    source: Source,
    guarantee: str,
    mechanism: str,
    *,
    publications: int,
    conditions: int,
    seed: int = 11,
    aggregates: Sequence[str] = ("COUNT",),
) -> dict[str, Answers]:
    """Publish and ask. The same seed draws the same conditions and releases."""
    quasi = [name for name in people.column_names if name not in source.columns]
    draw = np.random.default_rng(seed)
    wheres = [condition(people, source, draw) for _ in range(conditions)]
    asked = Questions.of(people, source, wheres, aggregates, draw)
    rows: dict[str, list[list[float]]] = {name: [] for name, *_ in asked.texts}
    for publication in range(publications):
        with tempfile.TemporaryDirectory() as folder:
            sf.publish(
                people,
                source.promise(guarantee),
                to=Path(folder, "release"),
                mechanism=mechanism,
                quasi=quasi,
                sensitive=list(source.columns),
                seed=seed + publication,
            )
            release = sf.open(Path(folder, "release"))
            for name, row in asked.ask(release, surer=publication % 4 == 0):
                rows[name].append([publication, *row])
    made = {}
    for name, lines in rows.items():
        if lines:
            publication, question, *rest = np.array(lines, np.float64).T
            made[name] = Answers(publication.astype(int), question.astype(int), *rest)
    return made


@dataclass
class Questions:
    """The questions of a run, each with its true answers by value."""

    shares: list[dict[object, float]]  # of every value, by question
    texts: list[tuple[str, str]]  # aggregate, SQL with columns v, n and a
    truths: list[dict[object, tuple[int, float | None]]]

    @classmethod
    def of(
        cls,
        people: pa.Table,
        source: Source,
        wheres: Sequence[str],
        aggregates: Sequence[str],
        draw: np.random.Generator,
    ) -> Questions:
        texts, shares = [], []
        for column, other in zip(source.columns, np.roll(source.columns, -1), strict=True):
            share, words = _shares(people, column), {"x": source.x, "y": source.y, "s": column}
            common = np.array(list(share)[:12], object)
            given = list(_shares(people, str(other)))[:12]
            for number, where in enumerate(wheres):
                for name in aggregates:
                    if number * OF_CONDITIONS.get(name, 2) >= len(wheres):
                        continue
                    key = f"{name} of {column}" if source.beside else name
                    if name in AGGREGATES:
                        within = where
                        if name == "WITHIN":
                            within = f"{where} AND {other} = {given[number % len(given)]!r}"
                        sql = f"SELECT {column} AS v, COUNT(*) AS n, {AGGREGATES[name]} AS a "
                        sql += f"FROM release WHERE {within} GROUP BY {column}"
                        texts.append((key, sql.format(**words)))
                        shares.append(share)
                        continue
                    for _ in range(3):
                        first, second = map(repr, draw.choice(common, 2, replace=False).tolist())
                        sql = TOGETHER[name].format(first=first, second=second, **words)
                        sql = f"SELECT 0 AS v, COUNT(*) AS n, {sql} AS a FROM release WHERE {where}"
                        texts.append((key, sql))
                        shares.append(share)
        with duckdb.connect() as raw:
            raw.register("release", people)
            truths = [{v: (n, a) for v, n, a in raw.execute(s).fetchall()} for _, s in texts]
        return cls(shares, texts, truths)

    def ask(self, release: sf.OpenedRelease, *, surer: bool) -> Iterator[tuple[str, list[float]]]:
        """By answer: its number, the true and the independent count, and the interval; asked again
        at 99.99 %, whether it is identified."""

        def answered(sql: str, confidence: float) -> dict[object, dict[str, Any]]:
            return {row.get("v", 0): row for row in release.sql(sql, confidence=confidence).rows()}

        asked_questions = zip(self.texts, self.shares, self.truths, strict=True)
        for number, ((name, sql), shares, truth) in enumerate(asked_questions):
            places = {value: place for place, value in enumerate([*shares, 0])}
            asked = sql.replace("0 AS v, ", "")
            try:
                rows = answered(asked, 0.95)
            except QueryError:  # merged values, or an aggregate that this kind does not answer
                continue
            wider = answered(asked, SURE) if surer else {}
            matching = sum(n for n, _ in truth.values())
            largest = max((row["a"] or 0 for row in rows.values()), default=0)
            nobody = (0, 0 if name.split()[0] in ("COUNT", "WITHIN", "SUM") else None)
            for value in {**rows, **truth}:
                count, true = truth.get(value, nobody)
                if true is None or true != true:
                    continue
                low, high = ends_of(rows.get(value, {}))
                lowest, highest = ends_of(wider.get(value, {}))
                room = 1e-6 * max(abs(float(true)), 1.0)
                yield (
                    name,
                    [
                        number * 1000 + places[value],
                        count,
                        matching * shares.get(value, 1.0),
                        rows.get(value, {}).get("a") == largest,
                        low - room <= true <= high + room if low == low else low,
                        high - low,
                        surer and not (lowest > low - room and highest < high + room),
                    ],
                )


def _shares(people: pa.Table, column: str) -> dict[object, float]:
    """Of every value, the most frequent first."""
    names, counts = np.unique(np.array(people[column].to_pylist(), object), return_counts=True)
    order = np.argsort(-counts)
    shares = counts[order] / people.num_rows
    return dict(zip(names[order].tolist(), shares.tolist(), strict=True))


def ends_of(row: dict[str, Any]) -> tuple[float, float]:
    """The interval of an answer's row; not numbers where there is none."""
    low, high = row.get("a_low"), row.get("a_high")
    return (np.nan, np.nan) if low is None or high is None else (low, high)


def lines_of(table: str, name: str, measured: dict[str, Answers]) -> Iterator[list[object]]:
    """One line per aggregate."""
    for aggregate, answers in measured.items():
        pooled = answers.coverage()
        if pooled is None:
            continue
        identified = answers.coverage(answers.identified == 1)
        cells = [(group, answers.coverage(chosen)) for group, chosen in answers.groups()]
        named = [("all", pooled), ("identified", identified), *cells]
        known = [(group, cell) for group, cell in named if cell is not None]
        below = [(group, cell) for group, cell in known if cell.share < LEAST]
        low = sum(cell.is_low for _, cell in below)
        words = [
            f"{'' if cell.is_low else 'perhaps '}{cell} of {cell.number} ({group})"
            for group, cell in below
        ]
        counts = aggregate.split()[0] in ("COUNT", "WITHIN")
        top = answers.coverage(answers.largest == 1) if counts else None
        yield [
            table,
            name,
            aggregate,
            pooled.number,
            pooled,
            "" if identified is None else f"{identified} of {identified.number}",
            f"{low} (perhaps {len(below) - low} more) of {len(known)}",
            "; ".join(words),
            "" if top is None else top,
            f"{answers.always_outside():.2%}",
            f"{(~np.isfinite(answers.width)).mean():.1%}",
            f"{answers.width[np.isfinite(answers.width)].mean():.3g}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser()
    one_column = [name for name, source in SOURCES.items() if not source.beside]
    parser.add_argument("tables", nargs="*", default=one_column)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--publications", type=int, default=8)
    parser.add_argument("--conditions", type=int, default=16)
    parser.add_argument("--mechanism", action="append", choices=MECHANISMS)
    parser.add_argument("--aggregate", action="append", choices=[*AGGREGATES, *TOGETHER])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[list[object]] = []
    for table in options.tables:
        source = SOURCES[table]
        people = source.read()
        chosen = np.random.default_rng(3).permutation(people.num_rows)[: options.rows]
        people = people.take(pa.array(np.sort(chosen)))
        for name in options.mechanism or MECHANISMS:
            mechanism, guarantee = MECHANISMS[name]
            aggregates = [*AGGREGATES, *TOGETHER]
            if not source.beside:
                aggregates.remove("WITHIN")
            try:
                answers = measure(
                    people,
                    source,
                    guarantee,
                    mechanism,
                    publications=options.publications,
                    conditions=options.conditions,
                    aggregates=options.aggregate or aggregates,
                )
            except SfumatoError as error:
                print(f"\n{name} on {table}: {error}")
                continue
            for line in lines_of(table, name, answers):
                lines.append(line)
                print(*line, sep=" | ", flush=True)
    note = (
        f"95 % intervals against the raw rows: {options.rows:,} rows, {options.publications} "
        f"publications, {options.conditions} conditions. `below 93 %`: cells of size and "
        "association with 100 answers or more, and all answers, that are below by more than ± "
        "(perhaps: by less)."
    )
    heads = ("table", "mechanism", "of", "answers", "held", "identified", "below 93 %", "which",
             "largest row", "always outside", "none", "mean width")  # fmt: skip
    report("Coverage", note, heads, lines, options.write)


if __name__ == "__main__":
    main()
