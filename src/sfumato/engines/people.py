"""People with several rows: which of a person's rows are published, and what is promised of them.

Every row gets a random word, and of a person's rows those with the smallest words are published. So
which rows are withheld depends on nothing that they hold, and the rest of the house sees a table
with at most so many rows of anybody. One byte per row is held in memory. Under a key file the word
belongs to the row's key, so that the same rows of a person are published again.
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
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import plain_batch, take_profile, whole_rows
from sfumato.engines.kinds import count_kinds
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import (
    CeilingGuarantee,
    CeilingsOfPeople,
    Guarantee,
    OddsGuarantee,
    OddsOfPeople,
)
from sfumato.mechanisms import Mechanism
from sfumato.profile import Holders, Kinds, Profile
from sfumato.release import PersonRule
from sfumato.scratch import scratch_database
from sfumato.table import MOST_ROWS_PER_PERSON, Source, Table, reading_errors

TRIED = (1, 2, 3, 4)  # rows per person that are compared where none are asked for
_BEYOND = MOST_ROWS_PER_PERSON + 1
_SCHEMA = pa.schema([("position", pa.int64()), ("word", pa.uint64())])


class ChosenRows(Source):
    """Those rows of a source whose place among their person's rows is at most `most`, row by row.

    Where everybody shows as many rows, `most` is one number.
    """

    def __init__(
        self, source: Source, places: npt.NDArray[np.uint8], most: npt.NDArray[np.uint8]
    ) -> None:
        self.source, self.places, self.most = source, places, most
        self.label, self.schema, self.foreign = source.label, source.schema, source.foreign

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self.source.batches(columns, rows, threads):
            here = slice(start, start + batch.num_rows)
            places = self.places[here]
            start += batch.num_rows
            if len(places) < batch.num_rows:
                break
            most = self.most[here] if len(self.most) > 1 else self.most
            yield batch.filter(pa.array(places <= most))  # 0: left out elsewhere
        if start != len(self.places):
            raise DataError(f"{self.label} has other rows than a moment ago. Use a fixed copy.")


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Every row's random place among its person's rows, from 1; 0 for rows that do not count.

    `sizes[n]` people have n rows; `own[i]` is how many the person of row i has, up to a limit.
    """

    table: Table
    places: npt.NDArray[np.uint8]
    sizes: IntArray
    own: npt.NDArray[np.uint8]

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

    def withheld(self, shown: Sequence[int]) -> int:
        """How many rows stay out where people with n rows show `shown[n − 1]`, or the last."""
        rows = np.arange(len(self.sizes))
        stays = np.array([0, *shown])[np.minimum(rows, len(shown))]
        return int(((rows - stays) * self.sizes).sum())

    def chosen(self, shown: Sequence[int]) -> Table:
        """The table of the published rows."""
        most = np.array(shown[-1:], np.uint8)
        if any(number != place for place, number in enumerate(shown, start=1)):
            most = np.array([0, *shown], np.uint8)[np.minimum(self.own, len(shown))]
        source = ChosenRows(self.table.source, self.places, most)
        return replace(self.table, source=source, rows_per_person=max(shown))


def rank_rows(table: Table, draws: Draws) -> RankedRows:
    """Put every person's rows in a random order. DuckDB sorts, and spills where it must."""
    table = _with_domains(table)
    assert table.person is not None
    kind = table.type_of(table.person)
    schema = _SCHEMA.append(pa.field("person", kind))
    keyed = [str(table.key)] if draws.origin == "key-file" else []
    read = absent = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal read, absent
        for batch in table.batches([str(table.person), *table.sensitive, *keyed]):
            address: Address = Positions(read, batch.num_rows)
            if keyed:
                keys = batch.column(table.key).to_pylist()
                address = draws.persons("rows", [str(key).encode() for key in keys])
            word = draws.words("rows", address)
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
        places, own, sizes = np.empty(0, np.uint8), np.empty(0, np.uint8), np.zeros(1, np.int64)
        for batch in placed:
            if not len(places):  # all rows have been read before the first comes back in order
                places, own = np.zeros(read, np.uint8), np.zeros(read, np.uint8)
            place, size = batch.column("place").to_numpy(), batch.column("size").to_numpy()
            position = batch.column("position").to_numpy()
            places[position], own[position] = place, np.minimum(size, _BEYOND)
            found = np.bincount(size[place == 1], minlength=len(sizes))
            found[: len(sizes)] += sizes
            sizes = found
    if absent:
        raise DataError(
            f"The person column {table.person!r} of {table.label} is missing in {absent:,} rows. "
            "Say whose they are, or leave them out."
        )
    return RankedRows(table, places, sizes, own)


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
        if isinstance(self.guarantee, OddsOfPeople | CeilingsOfPeople):
            return replace(profile, histograms=self.guarantee.holders)
        return profile


def for_people(
    table: Table, guarantee: Guarantee, mechanism: Mechanism | None, draws: Draws
) -> ForPeople:
    """What is published of a table of people: all of it, where each has one row."""
    if table.person is None:
        return ForPeople(table, guarantee)
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
    chosen = rank_rows(table, draws).chosen([1])
    return replace(chosen, person=None, rows_per_person=None)


def _with_rows(
    ranked: RankedRows, rows: int, guarantee: Guarantee, mechanism: Mechanism | None
) -> ForPeople:
    shown = list(range(1, rows + 1))
    table = ranked.chosen(shown)
    assert table.person is not None
    rule = PersonRule(table.person, rows, ranked.withheld(shown))
    if rows == 1:
        return ForPeople(table, guarantee, rule)
    if isinstance(guarantee, CeilingGuarantee):
        return _in_buckets(ranked, shown, guarantee, mechanism)
    if not isinstance(guarantee, OddsGuarantee):
        raise UsageError(
            f"'{guarantee}' can be kept for people of whom one row each is published. Give "
            "--rows-per-person 1, or a promise about odds or ceilings, such as rho-privacy or "
            "l-diversity."
        )
    promise = OddsOfPeople(guarantee, count_holders(table), rows)
    if mechanism is not None and not mechanism.keeps(promise):
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use uniform, whose draws hold for several rows together."
        )
    return ForPeople(table, promise, rule)


def _in_buckets(
    ranked: RankedRows,
    shown: list[int],
    guarantee: CeilingGuarantee,
    mechanism: Mechanism | None,
) -> ForPeople:
    """All rows of a person in one bucket, among people with as many rows.

    Where those with so many rows are too few, or hold a value too often, for any bucket of them,
    they show a row less each: `shown[n − 1]` rows of people with n.
    """
    if mechanism is not None and not mechanism.several_rows:
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use optimal, whose buckets hold people with all their rows."
        )
    while max(shown) > 1:
        table = ranked.chosen(shown)
        kinds = count_kinds(table, (profile := take_profile(table)).histograms).kinds
        holders = {name: kinds.holders(each) for name, each in profile.histograms.items()}
        promise = CeilingsOfPeople(guarantee, holders, max(shown))
        too_many = crowded_rows(kinds, profile, promise)
        if not too_many:
            rule = PersonRule(str(table.person), max(shown), ranked.withheld(shown), tuple(shown))
            return ForPeople(table, promise, rule)
        most = max(too_many)
        shown = [number - (number == most) for number in shown]
    return _with_rows(ranked, 1, guarantee, mechanism)


def crowded_rows(kinds: Kinds, profile: Profile, promise: CeilingsOfPeople) -> list[int]:
    """Numbers of rows, above 1, of which even all people together break a ceiling."""
    found = []
    for rows in set(kinds.rows.tolist()) - {1}:
        chosen = kinds.rows == rows
        some = Kinds(kinds.columns, kinds.held[chosen], kinds.counts[chosen])
        for histogram in profile.histograms.values():
            ceilings, held = promise.ceilings(histogram), some.holders(histogram)
            if any(share > most for share, most in zip(held.shares, ceilings, strict=True)):
                found.append(rows)
                break
    return found


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
