"""How exposed the people of a release are: numbers that a steward should see before giving it out.

Told from the release alone, or with the counts of the table behind it. Where a number cannot be
known, it is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.columns import Column, quoted
from sfumato.errors import SfumatoError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.operators import Parts
from sfumato.profile import Histogram, Profile
from sfumato.release import BucketedRelease, GeneralizedRelease, Release, scan
from sfumato.results import Result
from sfumato.scratch import scratch_database

FEW = 5  # people: a value that fewer have may name them
_COUNTED = 1_000_000  # rows whose quasi columns are compared; of more, a part chosen by hash


@dataclass(frozen=True)
class ColumnExposure:
    """Of one sensitive column: people whose value the release shows as it is, people about whom
    nothing is promised, and values that fewer than `FEW` people have."""

    column: str
    shown_as_it_is: int | None
    without_promise: int | None
    rare_values: int | None


@dataclass(frozen=True, repr=False)
class Exposure(Result):
    """The numbers of a release. `alone` counts rows that nobody shares all quasi values with;
    `alone_exact` says whether all rows were compared. `dropped` rows had no sensitive value.

    >>> column = ColumnExposure("ill", 3, 4, 1)
    >>> print(Exposure(10, 0, 2, 1, 6, True, (column,)))
    3 of 10 people are shown with their value of 'ill' as it is.
    Nothing is promised about the value of 'ill' of 4 people.
    1 value of 'ill' is held by fewer than 5 people.
    The smallest bucket has 1 record.
    6 rows are alone with their quasi-identifiers.
    2 rows without a sensitive value were dropped.
    """

    rows: int
    withheld: int
    dropped: int | None
    smallest_bucket: int | None
    alone: int | None
    alone_exact: bool
    columns: tuple[ColumnExposure, ...]

    def lines(self, *, promised: bool = True) -> Iterator[str]:
        """A sentence for everything that is not 0, the worst first.

        `promised` says whether those without a promise are among it.
        """
        for column in self.columns:
            if column.shown_as_it_is:
                yield (
                    f"{column.shown_as_it_is:,} of {self.rows:,} people are shown with their value "
                    f"of {column.column!r} as it is."
                )
            if column.without_promise and promised:
                yield (
                    f"Nothing is promised about the value of {column.column!r} of "
                    f"{column.without_promise:,} people."
                )
            if column.rare_values:
                held = f"of {column.column!r} {_are(column.rare_values)} held by fewer than"
                yield f"{_rows(column.rare_values, 'value')} {held} {FEW} people."
        if self.smallest_bucket is not None:
            yield f"The smallest bucket has {_rows(self.smallest_bucket, 'record')}."
        if self.alone:
            rows = f"{'' if self.alone_exact else 'About '}{_rows(self.alone)}"
            yield f"{rows} {_are(self.alone)} alone with their quasi-identifiers."
        if self.withheld:
            yield f"{_rows(self.withheld)} {_were(self.withheld)} suppressed."
        if self.dropped:
            yield f"{_rows(self.dropped)} without a sensitive value {_were(self.dropped)} dropped."

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "Nobody is exposed more than the promise says."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _rows(number: int, what: str = "row") -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def exposure_of(
    release: Release, profile: Profile | None = None, promise: Guarantee | None = None
) -> Exposure:
    """What a release shows of its people; `profile` has the counts of the table behind it.

    `promise` is what the manifest says, where whoever asks has read it already.

    Cost: one pass over the quasi columns, and one over the list of the buckets.
    """
    if profile is not None and release.manifest.person and profile.rows > release.rows:
        profile = None  # of all rows: nobody knows which of them were published
    with scratch_database(columns=len(release.quasi)) as connection:
        alone, every = _alone(release, connection)
        columns = tuple(
            _column(release, column, profile, promise, connection) for column in release.sensitive
        )
    sizes = release.manifest.plan.sizes if isinstance(release, BucketedRelease) else ()
    smallest = min((part.size for part in sizes if part.buckets), default=None)
    manifest = release.manifest
    dropped = 0 if manifest.missing != "drop" else None if profile is None else profile.dropped
    suppressed = manifest.suppressed
    return Exposure(release.rows, suppressed, dropped, smallest, alone, every == 1, columns)


def _alone(release: Release, connection: Any) -> tuple[int | None, int]:
    """Rows with quasi values of their own, and one in how many of the hashes was looked at."""
    if not release.shows_quasi_exactly or not release.quasi:
        return None, 1
    names = ", ".join(quoted(column.name) for column in release.quasi)
    every = -(-release.rows // _COUNTED)
    lonely = connection.sql(
        f"SELECT count(*) FROM (SELECT hash({names}) AS h FROM {scan(release.records)} "
        f"WHERE h % {every} = 0 GROUP BY h HAVING count(*) = 1)"
    ).fetchall()[0][0]
    return int(lonely) * every, every


def _column(
    release: Release,
    column: Column,
    profile: Profile | None,
    promise: Guarantee | None,
    connection: Any,
) -> ColumnExposure:
    known = None if profile is None else profile.histograms[column.name]
    histogram = known or shown_histogram(release, column)
    without = rare = None
    if histogram is not None:
        with suppress(SfumatoError):  # a promise that nobody here knows, or not of this column
            guarantee = promise or parse_guarantee(release.manifest.guarantee)
            without = int(histogram.counts[guarantee.left_out(histogram)].sum())
        rare = int(((histogram.counts > 0) & (histogram.counts < FEW)).sum())
    shown = _shown_as_it_is(release, column.name, connection)
    return ColumnExposure(column.name, shown, without, rare)


def _shown_as_it_is(release: Release, name: str, connection: Any) -> int | None:
    """People in buckets, or in parts, of one value."""
    if isinstance(release, GeneralizedRelease):
        return None  # values stand there as they are; whose they are, is what is hidden
    if (file := release.list_of(name)) is not None:
        if release.fakes:  # listed beside the values in every bucket
            return 0
        query = (
            f"SELECT coalesce(sum(n), 0) FROM (SELECT sum(count) AS n FROM {scan([file])} "
            f"GROUP BY bucket HAVING min(hash({quoted(name)})) = max(hash({quoted(name)})))"
        )
    else:
        operator, part = release.operators.get(name), release.part_column(name)
        if not isinstance(operator, Parts) or part is None:
            return 0
        single = [number for number, part in enumerate(operator.parts) if len(part.codes) == 1]
        if not single:
            return 0
        query = (
            f"SELECT count(*) FROM {scan(release.records)} "
            f"WHERE {quoted(part)} IN ({str(single)[1:-1]})"
        )
    return int(connection.sql(query).fetchall()[0][0])


def shown_histogram(release: Release, column: Column) -> Histogram | None:
    """How many people have each value, where the release tells it."""
    values = tuple(release.domain(column.name).to_pylist())
    if isinstance(release, BucketedRelease) and release.histogram is not None:
        return Histogram(column.name, values, np.array(release.histogram, np.int64))
    if not release.discloses_histogram:
        return None
    name = quoted(column.name)
    file = release.list_of(column.name)
    source, number = (release.records, "count(*)") if file is None else ([file], "sum(count)")
    with scratch_database() as connection:
        shown = connection.sql(
            f"SELECT {name}, {number} AS n FROM {scan(source)} GROUP BY {name}"
        ).to_arrow_table()
    codes = release.shown_codes(shown.select([column.name]), column.name)
    counts = np.zeros(len(values), np.int64)
    counts[codes] = shown.column("n").to_numpy()
    return Histogram(column.name, values, counts)
