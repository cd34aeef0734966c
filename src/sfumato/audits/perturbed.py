"""Does a perturbed release tell no more than its promise allows, and is it what it says?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.catalogue import Check, Disclosure
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import value_text, value_to_json
from sfumato.draws import IntArray
from sfumato.guarantees import OddsGuarantee, ReconstructionPrivacy
from sfumato.mechanisms.perturbed import within
from sfumato.operators import Operator
from sfumato.release.values import in_utc

ENTRYWISE = ("uniform", "fine-grain", "general")  # one matrix over the column's values
FALSE_ALARM = 1e-6  # the chance that an honest release fails the goodness of fit
_MOST_GROUPS = 32
_MOST_VALUES, _RUNS = 1000, 128  # columns with more values are compared by runs of values
_LEAST_VARIANCE = 10.0  # published values that vary less are pooled


def check_amplification(case: AuditCase) -> Iterator[Finding]:
    """No published value raises the odds of a true one beyond its limit: exactly, value by value.

    A value whose limit is infinite, or that is not covered, may rise as it will (thesis,
    Theorem 7). Sub-tables have a check of their own.
    """
    guarantee = case.guarantee
    if not isinstance(guarantee, OddsGuarantee):
        return
    for column, operator in case.release.operators.items():
        if operator.form not in ENTRYWISE:
            continue
        if case.rows_per_person > 1 or case.release.manifest.joint:
            yield _of_person(case, guarantee, column, operator)
            continue
        limits = guarantee.odds_limits(case.profile.histograms[column])
        if all(limit is None for limit in limits):
            continue
        values = case.profile.histograms[column].values
        gains = operator.odds_gains()
        # a value beyond its limit, or else the one that comes closest
        codes = [code for code, limit in enumerate(limits) if limit is not None]
        beyond = [code for code in codes if not within(gains[code], limits[code])]
        code = max(beyond or codes, key=lambda code: _used(gains[code], limits[code]))
        gain, limit = gains[code], limits[code]
        assert limit is not None
        told = f"{value_text(values[code])}: a published value tells more than the promise allows"
        yield Finding.limited(
            catalogue.AMPLIFICATION,
            math.inf if gain is None else gain,
            Direction.AT_MOST,
            limit,
            column=column,
            witness=told if beyond else None,
            # a limit that does not follow from shares is a number of the promise
            disclosure=None if guarantee.limits_follow_shares else Disclosure.PUBLIC,
        )


def _of_person(
    case: AuditCase, guarantee: OddsGuarantee, column: str, operator: Operator
) -> Finding:
    """The draws about a person together raise the odds of nothing beyond the smallest limit."""
    rows, joint = case.rows_per_person, case.release.manifest.joint
    drawn = list(case.release.operators.values()) if joint else [operator]
    try:
        together: Fraction | float = math.prod(each.amplification() for each in drawn) ** rows
    except ZeroDivisionError:
        together = math.inf
    limit = guarantee.common_limit(column, case.profile.histograms[column].values)
    parts = [f"{rows} rows"] if rows > 1 else []
    what = " and ".join([*parts, "all columns"] if joint else parts)
    told = f"{what} of a person together tell more than the promise allows"
    return Finding.limited(
        catalogue.AMPLIFICATION,
        together,
        Direction.AT_MOST,
        limit,
        column=column,
        witness=told if together > limit else f"{what} of a person together",
        disclosure=Disclosure.PUBLIC,
    )


def _used(gain: Fraction | None, limit: Fraction | None) -> float:
    """How much of its limit a gain uses: for choosing a witness, not for judging."""
    return float("inf") if gain is None or limit is None else float(gain / limit)


def check_fit(case: AuditCase) -> Iterator[Finding]:
    """The published values look as if the stated operator had drawn them from the raw ones."""
    if isinstance(case.guarantee, ReconstructionPrivacy):
        return  # copies are no independent draws; that family has a fit of its own
    for index, (column, operator) in enumerate(case.release.operators.items()):
        if operator.form in ENTRYWISE:
            raw, published = grouped_counts(case, index, column)
            if operator.values <= _MOST_VALUES:
                matrix = operator.matrix()
            else:
                # by what is expected: runs chosen by what was drawn would not be fair
                together = _together(operator.push(raw.sum(axis=0).astype(np.float64)))
                matrix, published = operator.pull(together).T, published @ together.T.astype(int)
            yield fit_finding(case, column, raw, published, matrix)


def _together(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Indicators of runs of values, common ones first, where an m × m matrix would be too large."""
    run = np.empty(len(counts), np.int64)
    run[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) * _RUNS // len(counts)
    indicators = np.zeros((_RUNS, len(counts)))
    indicators[run, np.arange(len(counts))] = 1.0
    return indicators


def fit_finding(
    case: AuditCase,
    column: str,
    raw: IntArray,
    published: IntArray,
    matrix: npt.NDArray[np.float64],
    check: Check = catalogue.FIT,
) -> Finding:
    """Chi-square of published against raw counts by group.

    Records fall into groups by a hash of their quasi columns, the same on both sides. In each
    group the published counts have mean Pᵀn and covariance diag(Pᵀn) − Pᵀdiag(n)P; the squared
    distances add up to chi-square. An honest release fails with a chance of 1e-6.
    """
    from scipy import stats

    statistic, freedom = _total_distance(raw, published, matrix)
    chance = float(stats.chi2.sf(statistic, freedom)) if freedom else float(statistic == 0.0)
    if not freedom and chance:
        chance = _bounded_chance(raw.sum(axis=0), published.sum(axis=0), matrix)
    witness = f"chi-square {statistic:.0f} on {freedom} degrees of freedom"
    values = case.profile.histograms[column].values
    if matrix.shape == (len(values), len(values)):
        difference = np.abs(published.sum(axis=0) - raw.sum(axis=0) @ matrix)
        witness += f"; largest difference at {value_text(values[int(difference.argmax())])}"
    return Finding.limited(
        check,
        chance,
        Direction.AT_LEAST,
        FALSE_ALARM,
        column=column,
        witness=witness if chance < FALSE_ALARM else None,
    )


def _total_distance(
    raw: IntArray, published: IntArray, matrix: npt.NDArray[np.float64]
) -> tuple[float, int]:
    """Distances added up over the groups; groups in which too little varies are joined."""
    pairs = [fit_distance(*group, matrix) for group in zip(raw, published, strict=True)]
    statistic, freedom = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if len(raw) == 1 or freedom >= len(raw) or statistic == float("inf"):
        return statistic, freedom
    starts = np.arange(0, len(raw), 2)  # every group with its neighbour
    return _total_distance(np.add.reduceat(raw, starts), np.add.reduceat(published, starts), matrix)


def _bounded_chance(raw: IntArray, published: IntArray, matrix: npt.NDArray[np.float64]) -> float:
    """At most this chance have counts so far from their means, where too little varies for a law.

    Bernstein's inequality for each value, and Bonferroni's for all of them.
    """
    expected = raw @ matrix
    variances = np.maximum(expected - raw @ matrix**2, 0.0)
    gaps = np.maximum(np.abs(published - expected) - 1e-6, 0.0)
    exponents = gaps**2 / (2 * (variances + gaps / 3) + 1e-12)
    return float(min(1.0, 2 * len(gaps) * np.exp(-exponents.max())))


def fit_distance(
    raw: IntArray, published: IntArray, matrix: npt.NDArray[np.float64]
) -> tuple[float, int]:
    """Squared Mahalanobis distance of published counts from their mean, with its freedom.

    >>> fit_distance(np.array([50, 50]), np.array([50, 50]), np.full((2, 2), 0.5))
    (0.0, 1)
    """
    expected = raw @ matrix
    if raw.sum() == 0:
        return float(published.sum()), 0
    covariance = np.diag(expected) - matrix.T @ (raw[:, None] * matrix)
    variances = np.diag(covariance)
    fixed = variances <= 1e-9 * raw.sum()
    if np.abs((published - expected)[fixed]).max(initial=0.0) > 0.5:
        return float("inf"), 0  # nothing is random here, so nothing may differ
    pools = _pools(variances)
    difference = pools @ (published - expected)
    pooled = pools @ covariance @ pools.T
    inverse = np.linalg.pinv(pooled, rcond=1e-9, hermitian=True)
    freedom = int(np.linalg.matrix_rank(pooled, tol=1e-9 * raw.sum(), hermitian=True))
    if freedom == 0:
        return (0.0 if np.abs(difference).max() < 0.5 else float("inf")), 0
    # a difference outside the covariance's range can not come from the operator at all
    outside = difference - pooled @ (inverse @ difference)
    if np.abs(outside).max() > 0.5:
        return float("inf"), freedom
    return float(difference @ inverse @ difference), freedom


def _pools(variances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A 0/1 matrix that sums values, so that chi-square is a fair law for the distance.

    What counts is how much varies, not how much is expected: with a retention near 1 even a common
    value gains or loses a record seldom, and far from normally.
    """
    order = np.argsort(-variances, kind="stable")
    pool = np.empty(len(variances), np.int64)
    number, held = 0, 0.0
    for value in order:
        pool[value] = number
        held += variances[value]
        if held >= _LEAST_VARIANCE:
            number, held = number + 1, 0.0
    if held and number:  # what is left joins the last full pool
        pool[pool == number] = number - 1
    count = int(pool.max()) + 1
    matrix = np.zeros((count, len(variances)))
    matrix[pool, np.arange(len(variances))] = 1.0
    return matrix


def group_expression(case: AuditCase, values: int) -> tuple[str, int]:
    """SQL for a hash group of the quasi columns, and how many groups there are."""
    groups = int(np.clip(case.profile.rows // (20 * values), 1, _MOST_GROUPS))
    names = ", ".join(quoted(name) for name in case.table.quasi)
    if not names or groups == 1:
        return "0", 1
    return f"(hash({names}) % {groups})::INTEGER", groups


def grouped_counts(case: AuditCase, index: int, column: str) -> tuple[IntArray, IntArray]:
    """Counts by (hash group of the quasi columns, value), raw and published."""
    values = case.profile.histograms[column].values
    group, groups = group_expression(case, len(values))
    connection = case.connect(complete=True)
    raw = np.zeros((groups, len(values)), np.int64)
    query = f"SELECT {group} AS g, __code_{index} AS v, count(*) FROM raw GROUP BY ALL"
    for g, code, count in connection.execute(query).fetchall():
        raw[g, code] = count
    published = np.zeros_like(raw)
    codes = {value_to_json(value): code for code, value in enumerate(values)}
    query = f"SELECT {group} AS g, {quoted(column)} AS v, count(*) AS n FROM published GROUP BY ALL"
    # through Arrow: DuckDB's own rows need another package for instants, and tell them in a zone
    found = connection.sql(query).to_arrow_table()
    shown = in_utc(found.column("v")).to_pylist()
    groups_of, counts = found.column("g").to_pylist(), found.column("n").to_pylist()
    for g, value, count in zip(groups_of, shown, counts, strict=True):
        published[g, codes[value_to_json(value)]] += count
    return raw, published
