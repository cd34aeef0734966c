"""Does a generalized release keep its promise? From the receipt, and from release and table alone.

The promise speaks of the published matches of one *original* record (Definitions 2 and 4), so
that is what is counted, besides the originals behind one published record (errata H1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, encoded
from sfumato.audits.findings import Finding
from sfumato.columns import Column, value_text
from sfumato.draws import BoolArray, IntArray
from sfumato.guarantees import CeilingGuarantee
from sfumato.guarantees.ceilings import BetaLikeness
from sfumato.release import GeneralizedRelease
from sfumato.release.marginals import places_of

_PAIRS = 1 << 28  # records × rows that are compared when coverage is looked at


class Ranges:
    """A generalized release and its raw table in memory, in the same codes: of the sensitive column
    `codes` by record of the table, `published` by row of the release."""

    def __init__(self, case: AuditCase) -> None:
        self.case = case
        self.raw = pa.Table.from_batches(list(case.raw_batches())).combine_chunks()
        self.records = case.release.table()
        (self.histogram,) = case.profile.histograms.values()
        self.ceilings = case.guarantee.ceilings(self.histogram)
        self.codes = np.asarray(self.raw.column("__code_0").to_numpy(), np.int64)
        shown = self.records.column(self.histogram.column)
        domain = pa.array(self.histogram.values, shown.type)
        published = pc.index_in(shown, value_set=domain).fill_null(-1)  # −1: not in the table
        self.published = np.asarray(published.to_numpy(), np.int64)
        self.people = int(self.raw.num_rows)
        self.around = [_around(self, column) for column in case.release.quasi]

    def matching(self, record: int) -> BoolArray:
        """The published rows whose ranges and sets hold what the record has."""
        return np.asarray(np.logical_and.reduce([around(record) for around in self.around]))


def _around(ranges: Ranges, column: Column) -> Callable[[int], BoolArray]:
    """Of a record: the rows whose range or set holds its value."""
    shown = [ranges.records.column(name) for name in ranges.case.release.shown_as(column)]
    raw = ranges.raw.column(column.name)
    if column.kind == "numeric":
        low, high, value = (
            np.asarray(numbers.cast(pa.float64(), safe=False).to_numpy(), np.float64)
            for numbers in (*shown, raw)
        )
        return lambda record: (low <= value[record]) & (value[record] <= high)
    lists, (domain, code_of_record) = pa.concat_arrays(shown[0].chunks), encoded(raw)
    codes = pc.index_in(lists.flatten(), value_set=domain).fill_null(len(domain)).to_numpy()
    order = np.argsort(codes, kind="stable")
    rows = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))[order]
    starts = np.searchsorted(codes[order], np.arange(len(domain) + 1))

    def around(record: int) -> BoolArray:
        code, holds = code_of_record[record], np.zeros(len(lists), np.bool_)
        holds[rows[starts[code] : starts[code + 1]]] = True
        return holds

    return around


@concerns(GeneralizedRelease)
def check_generalized(case: AuditCase) -> Iterator[Finding]:
    """All checks of the kind; the tables are loaded once. There is one sensitive column."""
    release = case.release
    assert isinstance(release, GeneralizedRelease)
    ranges = Ranges(case)
    yield _counts(ranges)
    for name, marginal in release.marginals.items():
        positions = places_of(release.column(name), ranges.raw.column(name).combine_chunks())
        cells = marginal.cell[positions[positions >= 0]]
        people = np.bincount(cells, minlength=len(marginal.people))
        off = int(np.abs(people - marginal.people).sum()) + int((positions < 0).sum())
        yield Finding.limited(catalogue.MARGINALS, off, column=name)
    yield from _coverage(ranges)
    if case.matches is None:
        yield Finding.skipped(
            catalogue.PROMISE,
            column=ranges.histogram.column,
            value=release.manifest.guarantee,
            witness="who matches whom is private: audit with --receipt",
        )
    elif isinstance(case.guarantee, CeilingGuarantee):
        yield from _matched(ranges)


def _counts(ranges: Ranges) -> Finding:
    """Every value is published as often as it occurs, less what is withheld."""
    counts = ranges.histogram.counts
    shown = np.bincount(ranges.published[ranges.published >= 0], minlength=len(counts))
    foreign, lacking = int((ranges.published < 0).sum()), counts - shown
    off = foreign + int(np.maximum(-lacking, 0).sum())
    off += abs(int(np.maximum(lacking, 0).sum()) - ranges.case.release.manifest.suppressed)
    wrong = f"{foreign:,} rows show a value that the table does not have" if foreign else None
    return Finding.limited(catalogue.VALUE_COUNTS, off, column=ranges.histogram.column, wrong=wrong)


def _coverage(ranges: Ranges) -> Iterator[Finding]:
    """Every record fits its number of rows, and these can keep the promise.

    Without the receipt nobody knows which of the rows that a record fits are its matches, but
    they are among those: if s ≥ μ matches keep the ceilings c, then Σ min(rows with x, s·c_x) ≥ s,
    and, the sum being concave in s, also for s = μ. A record whose rows cannot do that proves that
    the promise is broken.
    """
    case, rows = ranges.case, ranges.records.num_rows
    release = case.release
    assert isinstance(release, GeneralizedRelease)
    step = max(1, -(-ranges.people // max(100, _PAIRS // max(rows, 1))))
    sample, needed = range(0, ranges.people, step), release.matches
    ceilings = np.array([float(ceiling) for ceiling in ranges.ceilings])
    fitting, impossible = list[int](), 0
    for record in sample:
        fits = np.flatnonzero(ranges.matching(record))
        fitting.append(len(fits))
        shown = np.bincount(ranges.published[fits], minlength=len(ceilings))
        impossible += bool(np.minimum(shown, ceilings * needed).sum() < needed - 1e-9)
    whole = "" if step == 1 else f" ({len(sample):,} records looked at)"
    yield Finding.limited(
        catalogue.COVERAGE,
        sum(number < needed for number in fitting),
        release.manifest.suppressed,
        about=f"{needed} published rows{whole}",
        witness=f"fewest rows of a record: {min(fitting, default=0):,}; most: "
        f"{max(fitting, default=0):,}",
    )
    yield Finding.limited(
        catalogue.IMPOSSIBLE,
        impossible,
        release.manifest.suppressed,
        about=whole,
        witness=None if case.repeated else "necessary, not sufficient: receipts show the matches",
    )


def _matched(ranges: Ranges) -> Iterator[Finding]:
    """The largest shares among who matches whom, as the receipt repeats it, and in whole groups.

    That rows show their matches, and each its own value, follows from comparing every record.
    """
    trace = ranges.case.matches
    assert trace is not None
    if len(trace.source) != ranges.records.num_rows:
        return  # the receipt belongs to another release: no record is as it repeats them
    if trace.matches is not None and trace.starts is not None:
        rows = np.repeat(np.arange(len(trace.source)), np.diff(trace.starts))
        shown = ranges.published[rows[np.lexsort((rows, trace.matches))]]
        ends = np.cumsum(np.bincount(trace.matches, minlength=ranges.people))
        carried = ranges.codes[trace.matches]
        yield _shares(ranges, catalogue.MATCH_SHARE, "published record", trace.starts, carried)
        yield _shares(
            ranges, catalogue.MATCH_SHARE, "original record", np.concatenate([[0], ends]), shown
        )
    if trace.group is not None:
        _, group = np.unique(trace.group, return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(np.bincount(group))])
        values = ranges.published[np.argsort(group, kind="stable")]
        yield _shares(ranges, catalogue.GROUP_SHARE, "group", starts, values)


def _shares(
    ranges: Ranges, check: catalogue.AuditCheck, side: str, starts: IntArray, values: IntArray
) -> Finding:
    """The largest share of a value among what belongs to one person, row or group: exactly."""
    share, ceiling, value, owner, broken = largest_share(starts, values, ranges.ceilings)
    names = [*map(value_text, ranges.histogram.values), "a value that is not there"]
    witness = f"{'group' if side == 'group' else 'record'} {owner}: {names[value]}"
    if isinstance(ranges.case.guarantee, BetaLikeness):
        of_table = largest_share(starts, values, ranges.histogram.shares)
        witness += (
            f"; attained beta {float(of_table[0] / of_table[1] - 1):.4g}" if of_table[1] else ""
        )
    return Finding.limited(
        check,
        share,
        ceiling,
        column=ranges.histogram.column,
        about=side,
        witness=witness + (f"; broken for {broken:,}" if broken else ""),
    )


def largest_share(
    starts: IntArray, values: IntArray, ceilings: Sequence[Fraction]
) -> tuple[Fraction, Fraction, int, int, int]:
    """Share, ceiling, value and owner where a value comes closest to its ceiling or goes furthest
    beyond it, and how many owners have one beyond. Owner i has `values[starts[i]:starts[i + 1]]`;
    a negative value is never allowed.

    >>> largest_share(np.array([0, 3, 5]), np.array([0, 1, 1, 0, 1]), [Fraction(1, 2)] * 2)
    (Fraction(2, 3), Fraction(1, 2), 1, 0, 1)
    """
    limits, sizes = [*ceilings, Fraction(0)], np.diff(starts)
    codes = np.where(values < 0, len(ceilings), values)
    pairs = np.repeat(np.arange(len(sizes)), sizes) * len(limits) + codes
    pair, count = np.unique(pairs, return_counts=True)
    owner, value = np.divmod(pair, len(limits))
    # few combinations of count, size and value come up: those are compared as fractions
    kinds, where, kind = np.unique(
        np.stack([count, sizes[owner], value]), axis=1, return_index=True, return_inverse=True
    )
    shares = [Fraction(times, size) for times, size, _ in kinds.T.tolist()]
    above = np.array([s > limits[c] for s, c in zip(shares, kinds[2], strict=True)], np.bool_)
    broken = len(np.unique(owner[above[kind.reshape(-1)]]))
    worst = (Fraction(0), Fraction(1), 0, 0)
    for index, share in enumerate(shares):
        code = int(kinds[2, index])
        if share * worst[1] > worst[0] * limits[code]:
            worst = share, limits[code], code, int(owner[where[index]])
    return *worst, broken
