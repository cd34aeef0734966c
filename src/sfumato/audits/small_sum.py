"""Does a release of decoys keep small-sum privacy, and is it what it says?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.perturbed import FALSE_ALARM, grouped_counts
from sfumato.columns import value_text
from sfumato.guarantees import SmallSum
from sfumato.guarantees.small_sum import USUAL_ERROR, USUAL_UP_TO
from sfumato.guarantees.small_sum_tails import small_sum_privacy, wrong_condition_sum
from sfumato.operators import Decoy
from sfumato.profile import Histogram

_MOST_TAILS = 4000  # different (group, value) sizes whose tails are computed


def check_group_size(case: AuditCase) -> Iterator[Finding]:
    """The stated group size keeps the promise, and no value has more records than groups."""
    guarantee = case.guarantee
    if not isinstance(guarantee, SmallSum):
        return
    for column, operator in case.release.operators.items():
        if not isinstance(operator, Decoy):
            told = f"has no decoys; the promise asks for groups of {guarantee.size}"
            yield Finding.plain(catalogue.GROUP_SIZE, False, column=column, witness=told)
            continue
        yield Finding.limited(
            catalogue.GROUP_SIZE,
            operator.groups,
            Direction.EXACTLY,
            guarantee.size,
            column=column,
        )
        histogram = case.profile.histograms[column]
        common = int(np.argmax(histogram.counts))
        most = histogram.rows // operator.groups
        held = int(histogram.counts[common])
        name = value_text(histogram.values[common])
        yield Finding.limited(
            catalogue.ELIGIBILITY,
            held,
            Direction.AT_MOST,
            most,
            column=column,
            witness=f"{name} would repeat in a group" if held > most else None,
        )
        yield from _beliefs(guarantee, operator, histogram)


def _beliefs(guarantee: SmallSum, operator: Decoy, histogram: Histogram) -> Iterator[Finding]:
    """Where beliefs are limited besides: each of a group's values is one's own with chance 1/c."""
    ceilings = guarantee.ceilings(histogram)
    if min(ceilings) >= 1:
        return
    lowest = ceilings.index(min(ceilings))
    yield Finding.limited(
        catalogue.POSTERIOR,
        Fraction(1, operator.groups),
        Direction.AT_MOST,
        ceilings[lowest],
        column=histogram.column,
        about=value_text(histogram.values[lowest]),
        witness=f"one of {operator.groups} different values",
    )


def check_published_counts(case: AuditCase) -> Iterator[Finding]:
    """Published counts follow Binomial(c·o, 1/c): exact tails, all values together at 1e-6.

    Withheld records (fewer than c) and, in further columns, borrowed groups (at most 2(c−1)
    single draws) are allowed for on the lenient side.
    """
    from scipy import stats

    for index, (column, operator) in enumerate(_decoys(case)):
        histogram = case.profile.histograms[column]
        published = grouped_counts(case, index, column)[1].sum(axis=0)
        c, slack = operator.groups, 2 * (operator.groups - 1)
        most = c * histogram.counts + slack
        least = np.maximum(c * (histogram.counts - case.release.manifest.suppressed) - slack, 0)
        many = stats.binom.sf(published - 1, most, 1 / c)
        few = np.where(least > 0, stats.binom.cdf(published, least, 1 / c), 1.0)
        chances = np.minimum(np.minimum(many, few) * 2 * len(published), 1.0)
        worst = int(np.argmin(chances))
        told = (
            f"{value_text(histogram.values[worst])}: {int(published[worst]):,} published, "
            f"{int(histogram.counts[worst]):,} true"
        )
        yield Finding.limited(
            catalogue.DECOY_COUNTS,
            float(chances[worst]),
            Direction.AT_LEAST,
            FALSE_ALARM,
            column=column,
            witness=told if chances[worst] < FALSE_ALARM else None,
        )


def check_own_share(case: AuditCase) -> Iterator[Finding]:
    """Records show their own value as often as a group of c lets them: 1/c of the time.

    Published and raw counts are compared in groups by a hash of the quasi columns: where a value
    is commoner than elsewhere, it has to be published oftener by 1/c of the surplus. An honest
    release fails with a chance of 1e-6; one that publishes true values is off by c − 1 times the
    limit.
    """
    for index, (column, operator) in enumerate(_decoys(case)):
        raw, published = grouped_counts(case, index, column)
        counts = raw.sum(axis=0)
        rows, c = int(counts.sum()), operator.groups
        without = np.maximum(rows - counts, 1)
        rate = counts * (c - 1) / (c * without)
        sizes = raw.sum(axis=1, keepdims=True)
        surplus = raw - sizes * counts / rows
        expected = raw / c + (sizes - raw) * rate
        weight = float((surplus**2).sum())
        if len(raw) < 2 or weight == 0:
            continue
        deviation = float((surplus * (published - expected)).sum()) / weight
        noise = float(np.sqrt((surplus**2 * expected).sum())) / weight
        yield Finding.limited(
            catalogue.OWN_SHARE,
            abs(deviation),
            Direction.AT_MOST,
            4.9 * noise,  # two-sided 1e-6
            column=column,
            witness=f"{1 / c + deviation:.4g} of the records, {1 / c:.4g} expected",
        )


def check_traced_groups(case: AuditCase) -> Iterator[Finding]:
    """Made again from the receipt: whole groups of c different values, and nothing published
    outside them."""
    if case.trace is None:
        return
    kept = case.trace.numbers("kept").astype(np.bool_)
    for number, (column, operator) in enumerate(_decoys(case)):
        group, code = case.trace.numbers(f"{column} group"), case.trace.numbers(column)
        shown, values = case.trace.numbers(f"{column} published"), operator.values
        inside = group >= 0
        pairs, times = np.unique(group[inside] * values + code[inside], return_counts=True)
        sizes = np.bincount(pairs // values)
        broken = (sizes != operator.groups) | (np.bincount(pairs // values, times) != sizes)
        broken &= sizes > 0
        yield Finding.none(
            catalogue.TRACED_GROUPS,
            int(broken.sum()),
            column=column,
            about=str(operator.groups),
            witness=f"of {int((sizes > 0).sum()):,} groups"
            + (f"; group {int(broken.argmax())}" if broken.any() else ""),
        )
        strays = ~np.isin(group * values + shown, pairs) & kept & inside
        yield Finding.none(catalogue.STRAY_VALUES, int(strays.sum()), column=column)
        spare = ~inside & (kept | (number > 0))
        most = 0 if number == 0 else operator.groups - 1
        yield Finding.limited(
            catalogue.BORROWED_GROUPS, int(spare.sum()), Direction.AT_MOST, most, column=column
        )


def check_personal_sums(case: AuditCase) -> Iterator[Finding]:
    """How wrong small sums are within people who agree in all quasi columns: not promised.

    For a value alone the promise holds; together with a condition the chance of a wrong sum can
    be lower, lowest where everybody in the group has the value (errata S7). Reported, never a
    failure.
    """
    guarantee = case.guarantee
    if not isinstance(guarantee, SmallSum) or not case.table.quasi:
        return
    error, up_to = guarantee.error or USUAL_ERROR, guarantee.up_to or USUAL_UP_TO
    names = ", ".join(quoted(name) for name in case.table.quasi)
    for index, (column, operator) in enumerate(_decoys(case)):
        connection = case.connect()
        rows = connection.execute(
            f"""
            SELECT size, n, v, count(*) FROM (
                SELECT __code_{index} AS v, count(*) AS n,
                       sum(count(*)) OVER (PARTITION BY {names}) AS size
                FROM raw GROUP BY {names}, v)
            WHERE n <= {up_to} GROUP BY ALL ORDER BY size, n DESC, count(*) DESC, v
            LIMIT {_MOST_TAILS}
            """
        ).fetchall()
        counts = case.profile.histograms[column].counts
        tails = [
            (_tail(int(size), int(n), int(counts[v]), case, operator, error), int(size), int(n), v)
            for size, n, v, _ in rows
            if counts[v] * operator.groups < case.profile.rows
        ]
        if not tails:
            continue
        tail, size, n, value = min(tails)
        promised = float(small_sum_privacy(operator.groups, error, up_to))
        alike = sum(int(row[3]) for row in rows if row[0] == size and row[1] == n)
        name = value_text(case.profile.histograms[column].values[value])
        yield Finding.info(
            catalogue.PERSONAL_SUMS,
            tail,
            column=column,
            witness=f"least in groups of {size} of whom {n} have the same value, such as {name}; "
            f"{alike:,} such sums; {promised:.4g} is promised for a value alone",
        )


def _tail(
    matching: int, count: int, held: int, case: AuditCase, operator: Decoy, error: Fraction
) -> float:
    return wrong_condition_sum(
        matching,
        count,
        value_count=held,
        rows=case.profile.rows,
        groups=operator.groups,
        error=error,
    )


def _decoys(case: AuditCase) -> Iterator[tuple[str, Decoy]]:
    if not isinstance(case.guarantee, SmallSum):
        return
    for column, operator in case.release.operators.items():
        if isinstance(operator, Decoy):
            yield column, operator
