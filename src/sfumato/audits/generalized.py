"""Does a generalized release keep its promise? From the receipt, and from release and table alone.

The promise speaks of the published matches of one *original* record (Definitions 2 and 4), so
that is what is counted, besides the originals behind one published record (errata H1). Ranges and
sets also hold people by accident; the shares among those are a risk of its own (H3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.ranges import HeldValues, Ranges
from sfumato.audits.replay import Matches
from sfumato.audits.shares import LargestShare, largest_share
from sfumato.draws import IntArray
from sfumato.guarantees import CeilingGuarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.release import GeneralizedRelease
from sfumato.release.marginals import places_of

_AT_ONCE = 1 << 14  # match sets that are looked at together
_PAIRS = 1 << 28  # records × rows that are compared when coverage is looked at


def _release(case: AuditCase) -> GeneralizedRelease:
    assert isinstance(case.release, GeneralizedRelease)
    return case.release


def check_generalized(case: AuditCase) -> Iterator[Finding]:
    """All checks of the kind; the tables are loaded once."""
    ranges = Ranges(case)
    yield from _check_counts(case, ranges)
    yield from _check_marginals(case, ranges)
    yield from _check_coverage(case, ranges)
    if case.trace is None:
        for each in ranges.held:
            yield Finding.skipped(
                catalogue.PROMISE,
                column=each.histogram.column,
                value=case.release.manifest.guarantee,
                witness="who matches whom is private: audit with --receipt",
            )
        return
    trace = case.trace.matches
    assert trace is not None
    yield from _check_sources(ranges, trace)
    if len(trace.source) != ranges.records.num_rows:
        return  # the receipt of another release tells nothing about this one
    yield Finding.limited(catalogue.SPANS, trace.spans, Direction.EXACTLY, _release(case).spans)
    if not isinstance(case.guarantee, CeilingGuarantee):
        return  # matches cannot be held to a promise that states no ceilings
    if trace.matches is not None and trace.starts is not None:
        yield from _check_graph(case, ranges, trace.source, trace.starts, trace.matches)
    if trace.group is not None:
        yield from _check_groups(case, ranges, trace)


def _check_counts(case: AuditCase, ranges: Ranges) -> Iterator[Finding]:
    """Every value is published as often as it occurs, less what is withheld."""
    for held in ranges.held:
        counts = held.histogram.counts
        shown = np.bincount(held.published[held.published >= 0], minlength=len(counts))
        foreign = int((held.published < 0).sum())
        lacking = counts - shown
        off = foreign + int(np.maximum(-lacking, 0).sum())
        off += abs(int(np.maximum(lacking, 0).sum()) - case.release.manifest.suppressed)
        yield Finding.none(
            catalogue.VALUE_COUNTS,
            off,
            column=held.histogram.column,
            witness=f"{foreign:,} rows show a value that the table does not have"
            if foreign
            else None,
        )


def _check_marginals(case: AuditCase, ranges: Ranges) -> Iterator[Finding]:
    """Answers are read by what the manifest tells of the quasi columns."""
    for name, told in _release(case).marginals.items():
        place = places_of(case.release.column(name), ranges.raw.column(name).combine_chunks())
        counts = np.bincount(told.cell[place[place >= 0]], minlength=len(told.people))
        off = int(np.abs(counts - told.people).sum()) + int((place < 0).sum())
        yield Finding.none(catalogue.MARGINALS, off, column=name)


def _check_coverage(case: AuditCase, ranges: Ranges) -> Iterator[Finding]:
    """Every record fits its number of rows; and how its observed matches look (H3).

    Without the receipt nobody knows which of the rows that a record fits are its matches, but
    they are among those: if s ≥ μ matches keep the ceilings c, then Σ min(rows with x, s·c_x) ≥ s,
    and, the sum being concave in s, also for s = μ. A record whose rows cannot do that proves that
    the promise is broken.
    """
    rows = max(ranges.records.num_rows, 1)
    sample = ranges.sample(max(100, _PAIRS // rows))
    needed, withheld = _release(case).matches, case.release.manifest.suppressed
    fewest, uncovered, most_fitting = rows, 0, 0
    looks = [_Fitting(held, needed) for held in ranges.held]
    for record in sample.tolist():
        fitting = np.flatnonzero(ranges.matching(record))
        fewest = min(fewest, len(fitting))
        most_fitting = max(most_fitting, len(fitting))
        uncovered += len(fitting) < needed
        for look in looks:
            look.add(record, fitting)
    whole = "" if len(sample) == ranges.people else f" ({len(sample):,} records looked at)"
    yield Finding.limited(
        catalogue.COVERAGE,
        uncovered,
        Direction.AT_MOST,
        withheld,
        about=f"{needed} published rows{whole}",
        witness=f"fewest rows of a record: {fewest:,}; most: {most_fitting:,}",
    )
    for look in looks:
        yield Finding.limited(
            catalogue.IMPOSSIBLE,
            look.impossible,
            Direction.AT_MOST,
            withheld,
            about=whole,
            witness=None
            if case.trace
            else "necessary, not sufficient: the receipt shows the matches themselves",
        )
        yield look.worst_finding(whole, len(sample))


class _Fitting:
    """What the rows that fit somebody show of a column, over everybody who is looked at."""

    def __init__(self, held: HeldValues, needed: int) -> None:
        self.held, self._needed = held, needed
        self._ceilings = np.array([float(c) for c in held.ceilings])
        self.impossible = self._above = 0
        self._worst = (0.0, -1, -1)

    def add(self, record: int, fitting: IntArray) -> None:
        held = np.bincount(self.held.published[fitting], minlength=len(self._ceilings))
        room = np.minimum(held, self._ceilings * self._needed).sum()
        self.impossible += bool(room < self._needed - 1e-9)
        if len(fitting):
            found = held / len(fitting)
            self._above += bool((found > self._ceilings + 1e-12).any())
            value = int(np.argmax(found - self._ceilings))
            self._worst = max(self._worst, (float(found[value]), value, record))

    def worst_finding(self, about: str, people: int) -> Finding:
        share, value, record = self._worst
        of_table = float(self.held.histogram.shares[value])
        return Finding.info(
            catalogue.OBSERVED_SHARE,
            share,
            about=about,
            witness=f"record {record}: {self.held.name(value)}, {of_table:.4g} of the table; above "
            f"the ceiling for {self._above:,} of {people:,} records",
        )


def _check_sources(ranges: Ranges, trace: Matches) -> Iterator[Finding]:
    """Every row shows the value of one record, and no record stands behind two rows."""
    twice = len(trace.source) - len(np.unique(trace.source))
    same = len(trace.source) == ranges.records.num_rows
    rows = ranges.records.num_rows
    (shown,) = ranges.held
    wrong = int((shown.codes[trace.source] != shown.published).sum()) if same else rows
    yield Finding.none(
        catalogue.SOURCES,
        twice + wrong,
        witness=None if same else "the receipt belongs to another release",
    )


def _check_graph(
    case: AuditCase, ranges: Ranges, source: IntArray, starts: IntArray, matches: IntArray
) -> Iterator[Finding]:
    """Row r has the matches `matches[starts[r]:starts[r + 1]]`."""
    lengths = np.diff(starts)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.argsort(matches, kind="stable")
    twice = (np.diff(matches[order]) == 0) & (np.diff(rows[order]) == 0)
    degrees = np.bincount(matches, minlength=ranges.people)
    needed = _release(case).matches
    irregular = int(twice.sum() + (degrees < needed).sum() + (lengths < needed).sum())
    irregular += int((degrees[matches] != lengths[rows]).sum())
    yield Finding.none(catalogue.IRREGULAR, irregular, about=str(needed))
    strange = len(lengths) - len(np.unique(rows[matches == source[rows]]))
    yield Finding.none(catalogue.STRANGE_VALUES, strange)
    wrong = 0
    for length in np.unique(lengths).tolist():
        alike = np.flatnonzero(lengths == length)
        for start in range(0, len(alike), _AT_ONCE):
            part = alike[start : start + _AT_ONCE]
            held = matches[starts[part][:, None] + np.arange(length)]
            exact = np.ones(len(part), np.bool_)
            for cover in ranges.covers.values():
                exact &= cover.exact(part, held)
            wrong += int((~exact).sum())
    yield Finding.none(catalogue.INEXACT, wrong)
    ends = np.concatenate([[0], np.cumsum(degrees)])
    for each in ranges.held:
        yield _check_shares(case, each, "published record", starts, each.codes[matches])
        carried = each.published[rows[order]]
        yield _check_shares(case, each, "original record", ends, carried)


def _check_shares(
    case: AuditCase, held: HeldValues, side: str, starts: IntArray, values: IntArray
) -> Finding:
    """The share of each value among the matches of everybody, against its ceiling."""
    worst = largest_share(starts, values, held.ceilings)
    where = f"record {worst.owner}: {held.name(worst.value)}"
    if isinstance(case.guarantee, BetaLikeness):
        where += _attained(largest_share(starts, values, held.histogram.shares))
    else:
        where += f"; all values differ for {worst.differ:,} of {len(starts) - 1:,}"
    return Finding.limited(
        catalogue.MATCH_SHARE,
        worst.share,
        Direction.AT_MOST,
        worst.ceiling,
        column=held.histogram.column,
        about=side,
        witness=where + (f"; broken for {worst.broken:,}" if worst.broken else ""),
    )


def _attained(worst: LargestShare) -> str:
    return "" if worst.ratio is None else f"; attained beta {float(worst.ratio - 1):.4g}"


def _check_groups(case: AuditCase, ranges: Ranges, trace: Matches) -> Iterator[Finding]:
    """Homogeneous groups: the share of each value in each of them."""
    assert trace.group is not None
    _, group = np.unique(trace.group, return_inverse=True)
    sizes = np.bincount(group)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for held in ranges.held:
        values = held.published[np.argsort(group, kind="stable")]
        worst = largest_share(starts, values, held.ceilings)
        attained = _attained(largest_share(starts, values, held.histogram.shares))
        yield Finding.limited(
            catalogue.GROUP_SHARE,
            worst.share,
            Direction.AT_MOST,
            worst.ceiling,
            column=held.histogram.column,
            witness=f"group {worst.owner} of {len(sizes):,}: {held.name(worst.value)}{attained}",
        )
    apart = 0
    for rows, others in _mates(group, sizes):
        for cover in ranges.covers.values():
            apart += int((~cover.inside(rows, trace.source[others])).sum())
    yield Finding.none(catalogue.OUTSIDE_GROUP, apart)


def _mates(group: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Every pair of rows of the same group, a row with itself included, in portions.

    >>> pairs = [list(zip(a.tolist(), b.tolist())) for a, b in _mates(np.array([0, 1, 0]),
    ...                                                               np.array([2, 1]))]
    >>> pairs
    [[(0, 0), (2, 2), (1, 1)], [(0, 2), (2, 0)]]
    """
    order = np.argsort(group, kind="stable")
    size = sizes[group[order]]
    start = (np.cumsum(sizes) - sizes)[group[order]]
    place = np.arange(len(order)) - start
    for shift in range(int(sizes.max(initial=0))):
        inside = shift < size
        other = start[inside] + (place[inside] + shift) % size[inside]
        yield order[inside], order[other]
