"""What a reader who knows the table's own links could believe of people in buckets.

The links are naive Bayes of the raw table, counted; who in a bucket has which value is weighed over
all ways to deal its list (`operators.dealt`). The reader is given which record is whose. Nothing is
promised against this reader by ceilings alone, so the finding is told and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Finding
from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import Dealt, approximated
from sfumato.operators.links import Links, links_of_counts
from sfumato.release import scan

PAIRS = 1 << 22  # of records and values looked at at once; for a figure that is only told, at all
SURE = 0.8


def check_links(case: AuditCase) -> Iterator[Finding]:
    """The share of people believed beyond twice the ceiling, and above 80 %."""
    if not case.table.quasi or not case.release.manifest.rows:
        return
    for histogram in case.profile.histograms.values():
        ceilings = np.array([float(each) for each in case.guarantee.ceilings(histogram)])
        reader = LinkedReader(case, histogram.column)
        beliefs = next(reader.beliefs(np.minimum(2 * ceilings, 1.0)), None)
        if beliefs is None:
            return
        yield Finding.info(
            catalogue.LINKED,
            float(f"{beliefs.beyond.mean():.4g}"),
            column=histogram.column,
            witness=f"above {SURE:.0%} for {(beliefs.largest > SURE).mean():.1%}, at most "
            f"{beliefs.largest.max():.2f}; {len(beliefs.largest):,} records looked at"
            f"{approximated(beliefs.exact)}",
        )


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Per record: the largest chance of a value, whether one is beyond its limit, and whether
    these chances are exact."""

    largest: FloatArray
    beyond: BoolArray
    exact: BoolArray


@dataclass(frozen=True, eq=False)
class LinkedReader:
    """The raw table's links, and the records of a bucketed release to read by them."""

    case: AuditCase
    column: str

    @cached_property
    def known(self) -> tuple[Links, dict[str, pa.Array]]:
        """Naive Bayes, counted in one pass, and the quasi values by code."""
        quasi = self.case.table.quasi
        histogram = self.case.profile.histograms[self.column]
        code = f"__code_{self.case.table.sensitive.index(self.column)}"
        values = len(histogram.values)
        domains: dict[str, pa.Array] = {}
        tables = {name: np.zeros((0, values), np.int64) for name in quasi}
        for batch in self.case.raw_batches():
            truth = batch.column(code).to_numpy()
            for name in quasi:
                column = batch.column(name)
                known = domains.get(name, pa.array([], column.type))
                fresh = column.unique()
                fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=known)))
                domains[name] = known = pa.concat_arrays([known, fresh])
                place = _codes(column, known) * values + truth
                grown = np.bincount(place, minlength=len(known) * values).reshape(-1, values)
                grown[: len(tables[name])] += tables[name]
                tables[name] = grown
        return links_of_counts(histogram.counts, list(tables.values())), domains

    def beliefs(self, limits: FloatArray) -> Iterator[Beliefs]:
        """Some buckets at a time, all of them in the end."""
        rule, domains = self.known
        case, rows = self.case, self.case.release.manifest.rows
        # a record is weighed with every value of its bucket
        pieces = -(-rows * rows // (max(case.release.plan.buckets, 1) * PAIRS))
        column = self.column
        names = ", ".join(quoted(name) for name in case.table.quasi)
        lists, connection = scan([case.release.file("sensitive")]), case.connect()
        for piece in range(pieces):
            some = f"WHERE bucket % {pieces} = {piece}"
            records = connection.sql(f"SELECT bucket, {names} FROM published {some}")
            listed = connection.sql(
                f"SELECT bucket, {quoted(column)}, sum(count)::BIGINT AS count FROM {lists} "
                f"{some} GROUP BY ALL ORDER BY bucket"
            )
            shown, cells = records.to_arrow_table(), listed.to_arrow_table()
            buckets, place = np.unique(cells.column("bucket").to_numpy(), return_inverse=True)
            dealt = Dealt(
                np.searchsorted(buckets, shown.column("bucket").to_numpy()),
                place,
                case.release.shown_codes(cells, column),
                np.asarray(cells.column("count").to_numpy(), np.int64),
                len(limits),
            )
            codes = [_codes(shown.column(name), domains[name]) for name in case.table.quasi]
            if any((each < 0).any() for each in codes):
                return  # records that are not the table's: another check has said so
            pairs = dealt.given(rule, codes).summed()
            beyond = np.zeros(shown.num_rows, np.bool_)
            beyond[pairs.record[pairs.chance > limits[pairs.value] * (1 + 1e-9)]] = True
            yield Beliefs(pairs.likeliest(shown.num_rows), beyond, dealt.exact[dealt.bucket])


def _codes(array: pa.Array | pa.ChunkedArray, domain: pa.Array) -> IntArray:
    found = pc.index_in(array.cast(domain.type), value_set=domain)
    return np.asarray(found.fill_null(-1).to_numpy(), np.int64)
