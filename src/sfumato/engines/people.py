"""People with several rows: which of a person's rows are published, and what is promised of them.

Every row gets a random word, and of a person's rows those with the smallest words are published. So
which rows are withheld depends on nothing that they hold, and the rest of the house sees a table
with at most so many rows of anybody. One byte per row is held in memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import plain_batch, take_profile, whole_rows
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, OddsGuarantee, OddsOfPeople
from sfumato.mechanisms import Mechanism
from sfumato.profile import Holders, Profile
from sfumato.release import PersonRule
from sfumato.scratch import scratch_database
from sfumato.table import MOST_ROWS_PER_PERSON, Source, Table, reading_errors

TRIED = (1, 2, 3, 4)  # rows per person that are compared where none are asked for
_BEYOND = MOST_ROWS_PER_PERSON + 1
_SCHEMA = pa.schema([("position", pa.int64()), ("word", pa.uint64())])


class ChosenRows(Source):
    """Those rows of a source whose place among their person's rows is at most `rows`."""

    def __init__(self, source: Source, places: npt.NDArray[np.uint8], rows: int) -> None:
        self.source, self.places, self.rows = source, places, rows
        self.label, self.schema, self.foreign = source.label, source.schema, source.foreign

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self.source.batches(columns, rows, threads):
            places = self.places[start : start + batch.num_rows]
            start += batch.num_rows
            if len(places) < batch.num_rows:
                break
            yield batch.filter(pa.array(places <= self.rows))  # 0: left out elsewhere
        if start != len(self.places):
            raise DataError(f"{self.label} has other rows than a moment ago. Use a fixed copy.")


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Every row's random place among its person's rows, from 1; 0 for rows that do not count.

    `sizes[n]` people have n rows.
    """

    table: Table
    places: npt.NDArray[np.uint8]
    sizes: IntArray

    @property
    def people(self) -> int:
        return int(self.sizes.sum())

    @property
    def rows(self) -> int:
        return int((np.arange(len(self.sizes)) * self.sizes).sum())

    @property
    def most(self) -> int:
        """How many rows the person with the most has."""
        return len(self.sizes) - 1

    def withheld(self, rows: int) -> int:
        """How many rows stay out where at most `rows` of a person are published."""
        return int((np.maximum(np.arange(len(self.sizes)) - rows, 0) * self.sizes).sum())

    def chosen(self, rows: int) -> Table:
        """The table of the published rows."""
        source = ChosenRows(self.table.source, self.places, rows)
        return replace(self.table, source=source)


def rank_rows(table: Table, draws: Draws) -> RankedRows:
    """Put every person's rows in a random order. DuckDB sorts, and spills where it must."""
    table = _with_domains(table)
    assert table.person is not None
    kind = table.type_of(table.person)
    schema = _SCHEMA.append(pa.field("person", kind))
    read = absent = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal read, absent
        for batch in table.batches([str(table.person), *table.sensitive]):
            word = draws.words("rows", Positions(read, batch.num_rows))
            position = np.arange(read, read + batch.num_rows)
            read += batch.num_rows
            counted = whole_rows(table, batch)
            person = plain_batch(batch.select([table.person])).column(0)
            taken = pa.RecordBatch.from_arrays(
                [pa.array(position), pa.array(word), person], schema=schema
            )
            taken = taken if counted.all() else taken.filter(pa.array(counted))
            absent += taken.column("person").null_count
            yield taken

    connection = scratch_database()
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, rows()))
    with reading_errors(table.source):
        placed = connection.sql(
            f"""
            SELECT position, least(row_number() OVER mine, {_BEYOND})::UTINYINT AS place,
                   count(*) OVER (PARTITION BY person) AS size
            FROM rows WINDOW mine AS (PARTITION BY person ORDER BY word, position)
            """
        ).to_arrow_reader(1 << 17)
        places, sizes = np.empty(0, np.uint8), np.zeros(1, np.int64)
        for batch in placed:
            if not len(places):  # all rows have been read before the first comes back in order
                places = np.zeros(read, np.uint8)
            place = batch.column("place").to_numpy()
            places[batch.column("position").to_numpy()] = place
            found = np.bincount(batch.column("size").to_numpy()[place == 1], minlength=len(sizes))
            found[: len(sizes)] += sizes
            sizes = found
    if absent:
        raise DataError(
            f"The person column {table.person!r} of {table.label} is missing in {absent:,} rows. "
            "Say whose they are, or leave them out."
        )
    return RankedRows(table, places, sizes)


def _with_domains(table: Table) -> Table:
    """The table with the sensitive values of all its rows as domains, also of those withheld.

    Else the domain, and the operator with it, would tell which rows were chosen.
    """
    found: dict[str, Values | Range] = {
        column: Values(histogram.values)
        for column, histogram in take_profile(table).histograms.items()
    }
    return replace(table, domains={**table.domains, **found})


@dataclass(frozen=True, eq=False)
class ForPeople:
    """A table with at most so many rows of a person, and the promise that plans are made with."""

    table: Table
    guarantee: Guarantee
    rule: PersonRule | None = None

    def counted(self, profile: Profile) -> Profile:
        """The people by value, for what is said of people: each may have several values."""
        if isinstance(self.guarantee, OddsOfPeople):
            return replace(profile, histograms=self.guarantee.holders)
        return profile


def for_people(
    table: Table, guarantee: Guarantee, mechanism: Mechanism | None, draws: Draws
) -> ForPeople:
    """What is published of a table of people: all of it, where each has one row."""
    if table.person is None:
        return ForPeople(table, guarantee)
    if draws.origin == "key-file":
        raise UsageError(
            "With --key-file a person is published alike each time, but which of a person's rows "
            "are published is drawn anew. Leave --person or --key-file out."
        )
    ranked = rank_rows(table, draws.child("people"))
    if not ranked.people:
        return ForPeople(table, guarantee)  # nobody: whoever counts the table says so
    asked = table.rows_per_person
    if asked is not None:
        return _with_rows(ranked, asked, guarantee, mechanism)
    able = isinstance(guarantee, OddsGuarantee) and (mechanism is None or mechanism.several_rows)
    tried = [rows for rows in TRIED if rows <= ranked.most] if able else [1]
    found = [_with_rows(ranked, rows, guarantee, mechanism) for rows in tried]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda each: _loss(each, mechanism, ranked.rows))


def one_row_each(table: Table, draws: Draws) -> Table:
    """The table with one row of each person, for whoever plans without publishing.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "a", "b"], "ill": ["flu", "cold", "HIV"]})
    >>> declared = read(stays, quasi="", sensitive="ill", person="who")
    >>> take_profile(one_row_each(declared, Draws.from_seed(1))).rows
    2
    """
    if table.person is None:
        return table
    if (table.rows_per_person or 1) > 1:
        raise UsageError(
            "What several rows of a person cost is told by 'describe --guarantee' and by 'publish' "
            "alone. Leave --rows-per-person out: one row of each person is looked at here."
        )
    chosen = rank_rows(table, draws).chosen(1)
    return replace(chosen, person=None, rows_per_person=None)


def _with_rows(
    ranked: RankedRows, rows: int, guarantee: Guarantee, mechanism: Mechanism | None
) -> ForPeople:
    table = ranked.chosen(rows)
    assert table.person is not None
    rule = PersonRule(table.person, rows, ranked.withheld(rows))
    if rows == 1:
        return ForPeople(table, guarantee, rule)
    if not isinstance(guarantee, OddsGuarantee):
        raise UsageError(
            f"'{guarantee}' can be kept for people of whom one row each is published. Give "
            "--rows-per-person 1, or a promise about odds, such as rho-privacy."
        )
    promise = OddsOfPeople(guarantee, count_holders(table), rows)
    if mechanism is not None and not mechanism.keeps(promise):
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use uniform, whose draws hold for several rows together."
        )
    return ForPeople(table, promise, rule)


def _loss(found: ForPeople, mechanism: Mechanism | None, rows: int) -> float:
    """The predicted relative error of a count: by the draws, and by what is withheld of `rows`.

    √(e² + m·Σ f(1 − f)·(1/n − 1/N)), n of N rows taken as a random sample, in the terms of
    `Plan.predicted_error`, which speaks of the published rows alone.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is chosen is planned again, and warns then
            profile = profile_for(found.table, found.guarantee, mechanism)
            draws = Draws.system()  # for plans that are thrown away
            _, plan = choose_plan(profile, found.guarantee, mechanism, draws)
    except InfeasibleGuarantee:
        return math.inf
    sampled = 0.0
    for histogram in profile.histograms.values():
        shares = histogram.counts / profile.rows
        spread = len(shares) * float((shares * (1 - shares)).sum())
        sampled = max(sampled, spread * (1 / profile.rows - 1 / rows))
    return math.sqrt(plan.predicted_error() ** 2 + sampled)


def count_holders(table: Table, profile: Profile | None = None) -> dict[str, Holders]:
    """How many people have each value in some row, for every sensitive column.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "a", "b"], "ill": ["flu", "flu", "HIV"]})
    >>> count_holders(read(stays, quasi="", sensitive="ill", person="who"))["ill"].counts.tolist()
    [1, 1]
    """
    assert table.person is not None
    histograms = (profile or take_profile(table)).histograms
    coders = {name: SensitiveCoder(table, name, h.values) for name, h in histograms.items()}
    names = [f"code_{index}" for index in range(len(coders))]
    schema = pa.schema(
        [("person", table.type_of(table.person)), *((name, pa.int64()) for name in names)]
    )

    def coded() -> Iterator[pa.RecordBatch]:
        for batch in table.batches([str(table.person), *coders]):
            batch = batch.filter(pa.array(whole_rows(table, batch)))
            person = plain_batch(batch.select([table.person])).column(0)
            codes = [pa.array(coder(batch.column(name))) for name, coder in coders.items()]
            yield pa.RecordBatch.from_arrays([person, *codes], schema=schema)

    connection = scratch_database()
    connection.register("coded", pa.RecordBatchReader.from_batches(schema, coded()))
    with reading_errors(table.source):
        connection.execute("CREATE TABLE rows AS SELECT DISTINCT * FROM coded")
    (people,) = connection.execute("SELECT count(DISTINCT person) FROM rows").fetchall()[0]
    found = {}
    for name, (column, histogram) in zip(names, histograms.items(), strict=True):
        counts = np.zeros(len(histogram.values), np.int64)
        listed = f"SELECT {name}, count(DISTINCT person) FROM rows GROUP BY ALL"
        for code, count in connection.execute(listed).fetchall():
            counts[code] = count
        found[column] = Holders(column, histogram.values, counts, people)
    return found
