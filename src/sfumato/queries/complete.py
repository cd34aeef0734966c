"""Completed tables: every record with a sensitive value that is likely given what it shows.

Made from a release alone. P(value | quasi) is fitted through what the release shows, for every copy
to another half of its units: a fit to a random half scatters around the fit to all by as much as
that one does around the truth, so that copies differ by what is not known of the rule as well
(methods, section 9). One pass over the records writes all copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray, Positions
from sfumato.errors import QueryError, UsageError
from sfumato.operators import Operator
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Links
from sfumato.queries.bucketed import bucket_table_of
from sfumato.queries.completion import Lists, Uniform, dealt_values, values_given_symbols
from sfumato.queries.evaluate import source_of
from sfumato.queries.model_sample import drawn_sample, listed_sample
from sfumato.queries.perturbed_source import PerturbedSource
from sfumato.queries.quasi_codes import QuasiCode, codes_of_columns
from sfumato.queries.rules import Normal, RuleShape, Sample, with_pairs
from sfumato.queries.session import Session, session_of
from sfumato.queries.sources import QuestionSource
from sfumato.queries.statements import sorted_records
from sfumato.release import BucketedRelease, BundleWriter, Release

MOST_COPIES = 100
FEWEST = 200  # records, below which nothing can be learnt from a half
_ROWS = 1 << 16  # records that are completed at once, at most
_CELLS = 1 << 22  # (record, value) pairs that are weighed at once, at most
Progress = Callable[[str, int, int], None]
Values = Callable[[int], IntArray]  # of a copy, by its number


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Rules for every copy, and how records are read by them."""

    coded: Sequence[QuasiCode]
    shape: RuleShape
    rules: list[Links]
    evidence: list[Any]  # what symbols told, by copy

    def features(self, records: pa.Table, quasi: Sequence[str]) -> list[IntArray]:
        codes = codes_of_columns([records.column(name) for name in quasi], self.coded)
        return with_pairs(codes, self.shape.coarse, self.shape.pairs)


class Completion(ABC):
    """A release of one kind, to be completed."""

    def __init__(
        self, source: QuestionSource, copies: int, draws: Draws, progress: Progress
    ) -> None:
        self.source, self.release = source, source.release
        self.copies, self.draws, self._progress = copies, draws, progress
        (self.column,) = (column.name for column in self.release.sensitive)
        self.quasi = [column.name for column in self.release.quasi]
        self._asked: dict[str, int] = {}

    @abstractmethod
    def sample(self) -> Sample:
        """The records that rules are fitted to."""

    @abstractmethod
    def pieces(self) -> Iterator[tuple[pa.Table, Values]]:
        """Records with their quasi columns, and the codes that a copy draws for them."""

    @cached_property
    def fitted(self) -> _Fitted:
        sample = self.sample()
        shape = RuleShape.of(sample)
        rules, seen = [], []
        for copy in range(self.copies):
            self._progress("fitting the copies", copy, self.copies)
            order = self.draws.order(f"units of copy {copy}", sample.units)
            half = np.sort(order[: max(sample.units // 2, 1)])
            evidence, prior = sample.read(half)
            rules.append(shape.draw(evidence, prior, half, self.normal(f"prior of copy {copy}")))
            seen.append(evidence)
        self._progress("fitting the copies", self.copies, self.copies)
        return _Fitted(sample.coded, shape, rules, seen)

    def numbers(self, purpose: str) -> Uniform:
        """Numbers between 0 and 1 that no other call for this purpose gets."""

        def asked(count: int) -> FloatArray:
            start = self._asked.get(purpose, 0)
            self._asked[purpose] = start + count
            words = self.draws.words(purpose, Positions(start, count))
            return np.asarray(((words >> np.uint64(12)) + 0.5) * 2.0**-52, np.float64)

        return asked

    def normal(self, purpose: str) -> Normal:
        from scipy.special import ndtri

        numbers = self.numbers(purpose)
        return lambda count: np.asarray(ndtri(numbers(count)), np.float64)

    def tables(self) -> Iterator[list[pa.Table]]:
        """The next records of every copy."""
        domain = self.release.domain(self.column)
        done = 0
        for records, values in self.pieces():
            self._progress("completing records", done, self.release.rows)
            done += len(records)
            yield [self._table(records, domain, values(copy)) for copy in range(self.copies)]
        self._progress("completing records", self.release.rows, self.release.rows)

    def _table(self, records: pa.Table, domain: pa.Array, codes: IntArray) -> pa.Table:
        drawn = domain.take(pa.array(codes))
        return pa.table(
            {
                column.name: drawn if column.name == self.column else records.column(column.name)
                for column in self.release.columns
            }
        )


class DrawnCompletion(Completion):
    """Records that show what an operator made of their value, in the order of the release."""

    source: PerturbedSource

    @property
    def _operator(self) -> Operator:
        return self.source.operator(self.column)

    def sample(self) -> Sample:
        return drawn_sample(self.release, self.column, self._operator)

    def pieces(self) -> Iterator[tuple[pa.Table, Values]]:
        rows = max(min(_ROWS, _CELLS // max(self._operator.domain_size, 1)), 1)
        names = list(
            dict.fromkeys([*self.quasi, *self.release.shown_as(self.release.column(self.column))])
        )
        for _, batch in self.release.batches(names, rows):
            records = pa.Table.from_batches([batch])
            yield records, self._values(records)

    def _values(self, records: pa.Table) -> Values:
        fitted = self.fitted
        features = fitted.features(records, self.quasi)
        shown = self.release.shown_codes(records, self.column)

        def values(copy: int) -> IntArray:
            likelihood = fitted.evidence[copy].likelihood[shown]
            return values_given_symbols(
                fitted.rules[copy], features, likelihood, self.numbers(f"values of copy {copy}")
            )

        return values


class DealtCompletion(Completion):
    """Records in buckets, in the order of the buckets: each gets the values that it lists."""

    release: BucketedRelease

    def sample(self) -> Sample:
        return listed_sample(self.release, bucket_table_of(self.release), self.draws)

    def pieces(self) -> Iterator[tuple[pa.Table, Values]]:
        for records in _whole_buckets(self.source.session, self.quasi):
            yield records, self._values(records)

    def _values(self, records: pa.Table) -> Values:
        fitted = self.fitted
        features = fitted.features(records, self.quasi)
        numbers, sizes = np.unique(records.column("bucket").to_numpy(), return_counts=True)
        shares = bucket_table_of(self.release).shares[numbers]
        shares.sort_indices()
        counts = np.round(shares.data * np.repeat(sizes, np.diff(shares.indptr))).astype(np.int64)
        lists = Lists(sizes, np.repeat(shares.indices.astype(np.int64), counts))
        if len(lists.values) != len(records):
            raise QueryError(
                "A bucket of the release lists more or fewer values than it has records, so that "
                "they cannot be assigned. Fetch the release again."
            )

        def values(copy: int) -> IntArray:
            return dealt_values(
                fitted.rules[copy], features, lists, self.numbers(f"values of copy {copy}")
            )

        return values


def _whole_buckets(session: Session, quasi: Sequence[str]) -> Iterator[pa.Table]:
    """Records sorted by bucket, never a part of one; sorting spills, memory does not grow."""
    statement = sorted_records({name: session.names[name] for name in ["bucket", *quasi]})
    left: pa.Table | None = None
    for batch in session.batches(statement, _ROWS):
        records = pa.Table.from_batches([batch])
        if left is not None:
            records = pa.concat_tables([left, records])
        buckets = records.column("bucket").to_numpy()
        ends = int(np.searchsorted(buckets, buckets[-1])) if len(buckets) else 0
        if ends:
            yield records.slice(0, ends)
        left = records.slice(ends)
    if left is not None and len(left):
        yield left


def completion_of(
    release: Release, copies: int, draws: Draws, threads: int | None, progress: Progress
) -> Completion:
    """A release as completion sees it, or one sentence why it cannot be completed."""
    if not 1 <= copies <= MOST_COPIES:
        raise UsageError(
            f"The 'copies' parameter must be a whole number from 1 to {MOST_COPIES}. "
            f"Got {copies} instead."
        )
    source = source_of(release, session_of(release, threads))
    if len(release.sensitive) != 1:
        raise QueryError(
            f"A release with {len(release.sensitive)} sensitive columns cannot be completed: what "
            "they have to do with each other would be lost. Ask it by SQL."
        )
    reason = source.uncompletable() or _hindrance(source)
    if reason is not None:
        raise QueryError(f"This release cannot be completed: {reason}. Ask it by SQL.")
    kind = DealtCompletion if source.deals_together else DrawnCompletion
    return kind(source, copies, draws, progress)


def _hindrance(source: QuestionSource) -> str | None:
    """Why nothing can be fitted to this release, if so."""
    release = source.release
    if not release.quasi:
        return "the release has no quasi-identifiers to learn from"
    if release.rows < FEWEST:
        return f"{release.rows:,} records are too few to learn from"
    if release.scales is not None:
        return "records of this release are copies of samples"
    if release.fakes:
        return "the buckets of this release list fakes"
    return None


def complete_in_memory(completion: Completion) -> list[pa.Table]:
    """The copies as tables."""
    pieces = list(completion.tables())
    return [pa.concat_tables(piece[copy] for piece in pieces) for copy in range(completion.copies)]


def complete_to(completion: Completion, place: Path) -> list[Path]:
    """The copies as Parquet files in a folder that appears whole or not at all."""
    import pyarrow.parquet as pq

    names = [f"completed-{copy + 1}.parquet" for copy in range(completion.copies)]
    with BundleWriter(place) as bundle:
        paths = [bundle.folder / name for name in names]
        with ExitStack() as stack:
            writers: list[pq.ParquetWriter] = []
            for tables in completion.tables():
                writers = writers or [
                    stack.enter_context(pq.ParquetWriter(path, table.schema))
                    for path, table in zip(paths, tables, strict=True)
                ]
                for writer, table in zip(writers, tables, strict=True):
                    writer.write_table(table)
        bundle.appear(paths)
    return [place / name for name in names]
