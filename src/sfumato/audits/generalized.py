"""Does a generalized release keep its promise? From the receipt, and from release and table alone.

The promise speaks of the published matches of one *original* record (Definitions 2 and 4), so
that is what is counted, besides the originals behind one published record (errata H1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.ranges import Ranges
from sfumato.audits.replay import Matches
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.guarantees import CeilingGuarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.release import GeneralizedRelease
from sfumato.release.marginals import places_of

_PAIRS = 1 << 28  # records × rows that are compared when coverage is looked at


@concerns(GeneralizedRelease)
def check_generalized(case: AuditCase) -> Iterator[Finding]:
    """All checks of the kind; the tables are loaded once. There is one sensitive column."""
    release = case.release
    assert isinstance(release, GeneralizedRelease)
    ranges = Ranges(case)
    yield _counts(ranges)
    for name, marginal in release.marginals.items():
        positions = places_of(release.column(name), ranges.raw.column(name).combine_chunks())
        people = np.bincount(
            marginal.cell[positions[positions >= 0]], minlength=len(marginal.people)
        )
        off = int(np.abs(people - marginal.people).sum()) + int((positions < 0).sum())
        yield Finding.none(catalogue.MARGINALS, off, column=name)
    yield from _coverage(ranges)
    if case.trace is None:
        yield Finding.skipped(
            catalogue.PROMISE,
            column=ranges.histogram.column,
            value=release.manifest.guarantee,
            witness="who matches whom is private: audit with --receipt",
        )
        return
    trace = case.trace.matches
    assert trace is not None
    rows = ranges.records.num_rows
    if len(trace.source) != rows:
        other = "the receipt belongs to another release"
        yield Finding.none(catalogue.SOURCES, rows, witness=other)
        return
    # every row shows the value of one record, and no record stands behind two rows
    twice = rows - len(np.unique(trace.source))
    wrong = int((ranges.codes[trace.source] != ranges.published).sum())
    yield Finding.none(catalogue.SOURCES, twice + wrong)
    yield Finding.limited(catalogue.SPANS, trace.spans, Direction.EXACTLY, release.spans)
    if not isinstance(case.guarantee, CeilingGuarantee):
        return  # matches cannot be held to a promise that states no ceilings
    if trace.matches is not None and trace.starts is not None:
        yield from _graph(ranges, release, trace.source, trace.starts, trace.matches)
    if trace.group is not None:
        yield from _groups(ranges, trace)


def _counts(ranges: Ranges) -> Finding:
    """Every value is published as often as it occurs, less what is withheld."""
    counts = ranges.histogram.counts
    shown = np.bincount(ranges.published[ranges.published >= 0], minlength=len(counts))
    foreign, lacking = int((ranges.published < 0).sum()), counts - shown
    off = foreign + int(np.maximum(-lacking, 0).sum())
    off += abs(int(np.maximum(lacking, 0).sum()) - ranges.case.release.manifest.suppressed)
    witness = f"{foreign:,} rows show a value that the table does not have" if foreign else None
    return Finding.none(
        catalogue.VALUE_COUNTS, off, column=ranges.histogram.column, witness=witness
    )


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
        Direction.AT_MOST,
        release.manifest.suppressed,
        about=f"{needed} published rows{whole}",
        witness=f"fewest rows of a record: {min(fitting, default=0):,}; most: "
        f"{max(fitting, default=0):,}",
    )
    yield Finding.limited(
        catalogue.IMPOSSIBLE,
        impossible,
        Direction.AT_MOST,
        release.manifest.suppressed,
        about=whole,
        witness=None if case.trace else "necessary, not sufficient: the receipt shows the matches",
    )


def _graph(
    ranges: Ranges,
    release: GeneralizedRelease,
    source: IntArray,
    starts: IntArray,
    matches: IntArray,
) -> Iterator[Finding]:
    """Row r has the matches `matches[starts[r]:starts[r + 1]]`: as many as there must be, with its
    value among theirs, and shown exactly."""
    lengths = np.diff(starts)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rows, matches))
    twice = (np.diff(matches[order]) == 0) & (np.diff(rows[order]) == 0)
    degrees, needed = np.bincount(matches, minlength=ranges.people), release.matches
    irregular = int(twice.sum() + (degrees < needed).sum() + (lengths < needed).sum())
    irregular += int((degrees[matches] != lengths[rows]).sum())
    irregular += len(lengths) - len(np.unique(rows[matches == source[rows]]))
    yield Finding.none(catalogue.IRREGULAR, irregular, about=str(needed))
    exact = np.ones(len(lengths), np.bool_)
    for cover in ranges.covers.values():
        exact &= cover.exact(starts, rows, matches)
    yield Finding.none(catalogue.INEXACT, int((~exact).sum()))
    ends = np.concatenate([[0], np.cumsum(degrees)])
    for side, cuts, values in (
        ("published record", starts, ranges.codes[matches]),
        ("original record", ends, ranges.published[rows[order]]),
    ):
        yield _shares(ranges, catalogue.MATCH_SHARE, side, cuts, values)


def _groups(ranges: Ranges, trace: Matches) -> Iterator[Finding]:
    """Homogeneous groups: the share of each value in each, and everybody inside what is shown."""
    assert trace.group is not None
    _, group = np.unique(trace.group, return_inverse=True)
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    yield _shares(ranges, catalogue.GROUP_SHARE, "group", starts, ranges.published[order])
    outside, rank = 0, np.arange(len(order)) - np.repeat(starts[:-1], sizes)
    size, start = np.repeat(sizes, sizes), np.repeat(starts[:-1], sizes)
    for shift in range(int(sizes.max(initial=0))):  # every row with every record of its group
        inside = shift < size
        other = order[start[inside] + (rank[inside] + shift) % size[inside]]
        for cover in ranges.covers.values():
            outside += int((~cover.inside(order[inside], trace.source[other])).sum())
    yield Finding.none(catalogue.OUTSIDE_GROUP, outside)


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
        Direction.AT_MOST,
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
