"""Does a generalized release keep its promise? From the trace, and from release and table alone.

The promise speaks of the published matches of one *original* record (Definitions 2 and 4), so
that is what is counted, besides the originals behind one published record (errata H1). Ranges and
sets also hold people by accident; the shares among those are a risk of its own (H3).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.audits.ranges import Ranges, Trace
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.guarantees.beta_likeness import BetaLikeness

_AT_ONCE = 1 << 14  # match sets that are looked at together
_PAIRS = 1 << 28  # records × rows that are compared when coverage is looked at


def check_generalized(case: AuditCase) -> Iterator[Finding]:
    """All checks of the kind; the tables are loaded once."""
    hand = case.release.plan.get("hand", "shift")
    yield Finding(
        "values handed out so that the promise can hold",
        hand == "shift",
        str(hand),
        "shift",
        None if hand == "shift" else "for comparison only: the promise is not kept per person",
    )
    ranges = Ranges(case)
    yield from _check_counts(case, ranges)
    yield from _check_coverage(case, ranges)
    if case.trace is None:
        yield Finding(
            f"promise about {ranges.sensitive}",
            False,
            case.release.manifest.guarantee,
            None,
            "who matches whom is private: name the folder that 'publish --trace' wrote",
        )
        return
    trace = Trace(case.trace)
    yield from _check_sources(ranges, trace)
    if len(trace.source) != ranges.records.num_rows:
        return  # the trace of another release tells nothing about this one
    if trace.matches is not None:
        yield from _check_graph(case, ranges, trace.source, trace.matches)
    if trace.group is not None:
        yield from _check_groups(case, ranges, trace)


def _check_counts(case: AuditCase, ranges: Ranges) -> Iterator[Finding]:
    """Every value is published as often as it occurs, less what is withheld."""
    counts = case.profile.histograms[ranges.sensitive].counts
    shown = np.bincount(ranges.published[ranges.published >= 0], minlength=len(counts))
    foreign = int((ranges.published < 0).sum())
    lacking = counts - shown
    yield Finding(
        f"published counts of {ranges.sensitive}",
        foreign == 0 and bool((lacking >= 0).all()),
        int(lacking.sum()),
        case.release.manifest.withheld,
        f"{foreign:,} rows show a value that the table does not have" if foreign else None,
    )


def _check_coverage(case: AuditCase, ranges: Ranges) -> Iterator[Finding]:
    """Every record fits its number of rows; and how its observed matches look (H3).

    Without the private trace nobody knows which of the rows that a record fits are its matches, but
    they are among those: if s ≥ μ matches keep the ceilings c, then Σ min(rows with x, s·c_x) ≥ s,
    and, the sum being concave in s, also for s = μ. A record whose rows cannot do that proves that
    the promise is broken.
    """
    rows = max(ranges.records.num_rows, 1)
    sample = ranges.sample(max(100, _PAIRS // rows))
    needed = int(case.release.plan.get("matches", 1))
    shares = case.profile.histograms[ranges.sensitive].shares
    ceilings = np.array([float(c) for c in _ceilings(case, ranges)])
    room = np.maximum(ceilings * needed, _allowed(case, ranges, needed))
    fewest, uncovered, above, worst, most_fitting = rows, 0, 0, (0.0, -1, -1), 0
    impossible = 0
    for record in sample.tolist():
        fitting = np.flatnonzero(ranges.matching(record))
        fewest = min(fewest, len(fitting))
        most_fitting = max(most_fitting, len(fitting))
        uncovered += len(fitting) < needed
        held = np.bincount(ranges.published[fitting], minlength=len(ceilings))
        impossible += bool(np.minimum(held, room).sum() < needed - 1e-9)
        if len(fitting):
            found = held / len(fitting)
            above += bool((found > ceilings + 1e-12).any())
            value = int(np.argmax(found - ceilings))
            worst = max(worst, (float(found[value]), value, record))
    withheld = case.release.manifest.withheld
    whole = "" if len(sample) == len(ranges.codes) else f" ({len(sample):,} records looked at)"
    yield Finding(
        f"records that fit fewer than {needed} published rows{whole}",
        uncovered <= withheld,
        uncovered,
        withheld,
        f"fewest rows of a record: {fewest:,}; most: {most_fitting:,}",
    )
    yield Finding(
        f"records whose rows cannot keep the promise{whole}",
        impossible <= withheld,
        impossible,
        withheld,
        None if case.trace else "necessary, not sufficient: the trace shows the matches themselves",
    )
    share, value, record = worst
    name = value_text(case.profile.histograms[ranges.sensitive].values[value])
    yield Finding(
        f"share of a value among observed matches{whole} (not promised)",
        True,
        share,
        None,
        f"record {record}: {name}, {float(shares[value]):.4g} of the table; above the ceiling for "
        f"{above:,} of {len(sample):,} records",
    )


def _check_sources(ranges: Ranges, trace: Trace) -> Iterator[Finding]:
    """Every row shows the value of one record, and no record stands behind two rows."""
    twice = len(trace.source) - len(np.unique(trace.source))
    same = len(trace.source) == ranges.records.num_rows
    wrong = int((ranges.codes[trace.source] != ranges.published).sum()) if same else -1
    yield Finding(
        "rows that show the value of their own record, each record once",
        same and twice == 0 and wrong == 0,
        len(trace.source) - twice - max(wrong, 0),
        ranges.records.num_rows,
        None if same else "the trace belongs to another release",
    )


def _check_graph(
    case: AuditCase, ranges: Ranges, source: IntArray, matches: IntArray
) -> Iterator[Finding]:
    rows, number = matches.shape
    distinct = np.sort(matches, axis=1)
    repeated = int((distinct[:, 1:] == distinct[:, :-1]).any(axis=1).sum())
    degrees = np.bincount(matches.ravel(), minlength=len(ranges.codes))
    irregular = int((degrees[degrees > 0] != number).sum()) + repeated
    yield Finding(
        f"rows and records without {number} different matches", irregular == 0, irregular, 0
    )
    strange = int((matches != source[:, None]).all(axis=1).sum())
    yield Finding("rows whose value comes from outside their matches", strange == 0, strange, 0)
    wrong = 0
    for start in range(0, rows, _AT_ONCE):
        part = np.arange(start, min(start + _AT_ONCE, rows))
        exact = np.ones(len(part), np.bool_)
        for cover in ranges.covers.values():
            exact &= cover.exact(part, matches[part])
        wrong += int((~exact).sum())
    yield Finding("rows that do not show exactly their matches", wrong == 0, wrong, 0)
    yield from _check_shares(
        case, ranges, "published record", ranges.codes[matches], np.arange(rows)
    )
    order = np.argsort(matches.ravel(), kind="stable")
    owners = matches.ravel()[order]
    carried = ranges.published[order // number]
    if irregular == 0:
        yield from _check_shares(
            case, ranges, "original record", carried.reshape(-1, number), owners[::number]
        )


def _check_shares(
    case: AuditCase, ranges: Ranges, side: str, values: IntArray, owners: IntArray
) -> Iterator[Finding]:
    """The share of each value among the matches of everybody, against its ceiling."""
    number = values.shape[1]
    histogram = case.profile.histograms[ranges.sensitive]
    allowed = _allowed(case, ranges, number)
    shares = np.array([float(share) or 1.0 for share in histogram.shares])
    broken = different = 0
    worst, gain = (-number, 0, 0, 0), 0.0  # by how much, how often, value, owner
    for start in range(0, len(values), _AT_ONCE):
        ordered = np.sort(values[start : start + _AT_ONCE], axis=1)
        run = _repeats(ordered)
        excess = run - allowed[ordered]
        broken += int((excess > 0).any(axis=1).sum())
        different += int((run.max(axis=1) == 1).sum())
        gain = max(gain, float((run / number / shares[ordered]).max()) - 1)
        row, place = divmod(int(np.argmax(excess)), number)
        found = (int(excess[row, place]), int(run[row, place]), int(ordered[row, place]))
        if found[0] > worst[0]:
            worst = (*found, int(owners[start + row]))
    _, times, value, owner = worst
    where = f"record {owner}: {value_text(histogram.values[value])}"
    if isinstance(case.guarantee, BetaLikeness):
        where += f"; attained beta {gain:.4g}"
    else:
        where += f"; all {number} values differ for {different:,} of {len(values):,}"
    yield Finding(
        f"largest share of a value among the matches of one {side}",
        broken == 0,
        float(Fraction(times, number)),
        float(Fraction(int(allowed[value]), number)),
        where + (f"; broken for {broken:,}" if broken else ""),
    )


def _repeats(ordered: IntArray) -> IntArray:
    """How often each value of a sorted row has come up to there.

    >>> _repeats(np.array([[1, 1, 2, 2, 2]])).tolist()
    [[1, 2, 1, 2, 3]]
    """
    run = np.ones(ordered.shape, np.int64)
    for place in range(1, ordered.shape[1]):
        same = ordered[:, place] == ordered[:, place - 1]
        run[:, place] = np.where(same, run[:, place - 1] + 1, 1)
    return run


def _check_groups(case: AuditCase, ranges: Ranges, trace: Trace) -> Iterator[Finding]:
    """Homogeneous groups: the share of each value in each of them."""
    assert trace.group is not None
    histogram = case.profile.histograms[ranges.sensitive]
    _, group = np.unique(trace.group, return_inverse=True)
    values = len(histogram.counts)
    counts = np.bincount(group * values + ranges.published, minlength=(group.max() + 1) * values)
    table = counts.reshape(-1, values)
    sizes = table.sum(axis=1)
    ceilings = _ceilings(case, ranges)
    most = np.array([[int(c * int(size)) for c in ceilings] for size in sizes])
    excess = table - most
    where, value = divmod(int(np.argmax(excess)), values)
    gain = (table / sizes[:, None] / np.array([float(s) or 1.0 for s in histogram.shares])).max()
    yield Finding(
        "largest share of a value in a group",
        bool((excess <= 0).all()),
        float(table[where, value] / sizes[where]),
        float(ceilings[value]),
        f"group {where} of {len(sizes):,}: {value_text(histogram.values[value])}; attained "
        f"beta {float(gain) - 1:.4g}",
    )
    apart = 0
    for rows, others in _mates(group, sizes):
        for cover in ranges.covers.values():
            apart += int((~cover.inside(rows, trace.source[others])).sum())
    yield Finding("records outside what a row of their group shows", apart == 0, apart, 0)


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


def _ceilings(case: AuditCase, ranges: Ranges) -> list[Fraction]:
    return case.guarantee.ceilings(case.profile.histograms[ranges.sensitive])


def _allowed(case: AuditCase, ranges: Ranges, number: int) -> IntArray:
    """How often each value may stand among `number` matches: the ceiling, or the wider limit that
    the manifest states for a value that lies in several buckets."""
    values = case.profile.histograms[ranges.sensitive].values
    several = case.release.plan.get("several", {})
    allowed = []
    for value, ceiling in zip(values, _ceilings(case, ranges), strict=True):
        stated = several.get(value_text(value), 0) if isinstance(several, dict) else 0
        allowed.append(max(int(ceiling * number), stated if isinstance(stated, int) else 0))
    return np.array(allowed, np.int64)
