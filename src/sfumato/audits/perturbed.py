"""Does a perturbed release tell no more than its promise allows, and is it what it says?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Finding
from sfumato.columns import value_text, value_to_json
from sfumato.draws import IntArray
from sfumato.guarantees import RhoPrivacy
from sfumato.operators import Operator, operator_from_json

FALSE_ALARM = 1e-6  # the chance that an honest release fails the goodness of fit
_MOST_GROUPS = 32
_LEAST_EXPECTED = 10.0  # published values expected less often are pooled


def operators_of(case: AuditCase) -> dict[str, Operator]:
    """The operators that the manifest states, by column."""
    return {
        column: operator_from_json(described)
        for column, described in case.release.plan["operators"].items()
    }


def check_amplification(case: AuditCase) -> Iterator[Finding]:
    """No published value is likelier under one true value than the promise allows: exactly."""
    if not isinstance(case.guarantee, RhoPrivacy):
        return
    limit = case.guarantee.gamma
    for column, operator in operators_of(case).items():
        if operator.form != "uniform":
            continue
        try:
            worst: Fraction | None = operator.amplification()
        except ZeroDivisionError:
            worst = None
        holds = worst is not None and worst <= limit
        yield Finding(
            f"amplification of {column}",
            holds,
            float("inf") if worst is None else float(worst),
            float(limit),
            None if holds else "a published value tells more than the promise allows",
        )


def check_fit(case: AuditCase) -> Iterator[Finding]:
    """The published values look as if the stated operator had drawn them from the raw ones.

    Records fall into groups by a hash of their quasi columns, the same on both sides. In each
    group the published counts have mean Pᵀn and covariance diag(Pᵀn) − Pᵀdiag(n)P; the squared
    distances add up to chi-square. An honest release fails with a chance of 1e-6.
    """
    from scipy import stats

    for index, (column, operator) in enumerate(operators_of(case).items()):
        if operator.form not in ("uniform",):
            continue
        raw, published = grouped_counts(case, index, column)
        statistic, freedom, worst_group = 0.0, 0, (0.0, 0)
        matrix = operator.matrix()
        for group in range(len(raw)):
            distance, df = fit_distance(raw[group], published[group], matrix)
            statistic, freedom = statistic + distance, freedom + df
            worst_group = max(worst_group, (distance / max(df, 1), group))
        chance = float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0
        difference = published.sum(axis=0) - raw.sum(axis=0) @ matrix
        value = case.profile.histograms[column].values[int(np.argmax(np.abs(difference)))]
        holds = chance >= FALSE_ALARM
        yield Finding(
            f"fit of {column} to its operator",
            holds,
            chance,
            FALSE_ALARM,
            None
            if holds
            else f"chi-square {statistic:.0f} on {freedom} degrees of freedom; largest difference "
            f"at {value_text(value)}",
        )


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
    pools = _pools(expected)
    difference = pools @ (published - expected)
    pooled = pools @ covariance @ pools.T
    inverse = np.linalg.pinv(pooled, rcond=1e-9, hermitian=True)
    freedom = int(np.linalg.matrix_rank(pooled, tol=1e-9 * np.abs(pooled).max(), hermitian=True))
    if freedom == 0:  # nothing is random here, so nothing may differ
        return (0.0 if np.abs(difference).max() < 0.5 else float("inf")), 0
    # a difference outside the covariance's range can not come from the operator at all
    outside = difference - pooled @ (inverse @ difference)
    if np.abs(outside).max() > 0.5:
        return float("inf"), freedom
    return float(difference @ inverse @ difference), freedom


def _pools(expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A 0/1 matrix that sums rare values, so that chi-square is a fair law for the distance."""
    order = np.argsort(-expected, kind="stable")
    pool = np.empty(len(expected), np.int64)
    number, held = 0, 0.0
    for value in order:
        pool[value] = number
        held += expected[value]
        if held >= _LEAST_EXPECTED:
            number, held = number + 1, 0.0
    if held and number:  # what is left joins the last full pool
        pool[pool == number] = number - 1
    count = int(pool.max()) + 1
    matrix = np.zeros((count, len(expected)))
    matrix[pool, np.arange(len(expected))] = 1.0
    return matrix


def grouped_counts(case: AuditCase, index: int, column: str) -> tuple[IntArray, IntArray]:
    """Counts by (hash group of the quasi columns, value), raw and published."""
    values = case.profile.histograms[column].values
    groups = int(np.clip(case.profile.rows // (20 * len(values)), 1, _MOST_GROUPS))
    names = ", ".join(quoted(name) for name in case.table.quasi)
    group = f"(hash({names}) % {groups})::INTEGER" if names and groups > 1 else "0"
    connection = case.connect()
    raw = np.zeros((groups, len(values)), np.int64)
    query = f"SELECT {group} AS g, __code_{index} AS v, count(*) FROM raw GROUP BY ALL"
    for g, code, count in connection.execute(query).fetchall():
        raw[g, code] = count
    published = np.zeros_like(raw)
    codes = {value_to_json(value): code for code, value in enumerate(values)}
    query = f"SELECT {group} AS g, {quoted(column)} AS v, count(*) FROM published GROUP BY ALL"
    for g, value, count in connection.execute(query).fetchall():
        published[g, codes[value_to_json(value)]] += count
    return raw, published
