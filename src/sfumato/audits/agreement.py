"""Do published values agree with the true ones as often as the operator lets them, and no oftener?

Totals by group cannot tell a release that shows the truth from one that was drawn: the truth has
the right totals. People whom their quasi columns single out can be followed; people who look alike
count together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding, number_text
from sfumato.audits.parts import quotas_of
from sfumato.audits.perturbed import ENTRYWISE, FALSE_ALARM
from sfumato.operators import Decoy, Parts
from sfumato.operators.base import FloatArray
from sfumato.release import SyntheticRelease

_MOST_ROWS = 2_000_000  # people looked at, chosen by a hash of their quasi columns
_COPIED = "reconstruction-privacy"  # copies are no independent draws: that family has its own fit


def check_agreement(case: AuditCase) -> Iterator[Finding]:
    """A = Σ over classes and values of n(x)·o(x)/|class|, raw times published counts.

    In a class of one person this is 1 if the published value is the true one. With P the
    operator, E[A] = Σ n(x) P[x, y] n(y)/|class|, and A is a sum of independent terms in [0, 1] with
    a variance of at most Σ n(x) P[x, y] (n(y)/|class|)², so Bernstein's inequality gives a limit
    that an honest release crosses with a chance of at most 1e-6, however small the table.

    The decoy operator is exact for a record's own value only, so there people alone in their class
    are looked at, and nobody else.
    """
    if case.guarantee.name == _COPIED or not case.table.quasi:
        return
    for index, column in enumerate(case.table.sensitive):
        matrix = _matrix(case, column)
        if matrix is None:
            continue
        decoys = isinstance(case.release.operators.get(column), Decoy)
        agreed, mean, variance = _agreement(case, index, column, matrix, alone=decoys)
        rest = math.log(2 / FALSE_ALARM)
        limit = rest / 3 + math.sqrt(rest**2 / 9 + 2 * rest * variance)
        limit += case.release.manifest.withheld
        yield agreement_finding(column, agreed, mean, limit)


def agreement_finding(column: str, agreed: float, mean: float, limit: float) -> Finding:
    """How far the agreement is from what the operator lets expect."""
    return Finding.limited(
        catalogue.AGREEMENT,
        abs(agreed - mean),
        Direction.AT_MOST,
        limit,
        column=column,
        witness=f"{number_text(agreed)} agree, the operator lets expect {number_text(mean)}",
    )


def _matrix(case: AuditCase, column: str) -> FloatArray | None:
    """P from true to published values; None where another check has to speak first."""
    counts = case.profile.histograms[column].counts
    if isinstance(case.release, SyntheticRelease) and column in case.release.resampled:
        return np.tile(counts / max(int(counts.sum()), 1), (len(counts), 1))
    operator = case.release.operators.get(column)
    if operator is None:
        return None
    if isinstance(operator, Decoy):
        return operator.observed(counts).matrix()
    if isinstance(operator, Parts):
        quotas = quotas_of(case, column, operator)
        if quotas is None:
            return None
        matrix = np.zeros((operator.domain, operator.domain))
        for number, part in enumerate(operator.parts):
            codes = np.array(part.codes)
            share = quotas[number, codes] / np.maximum(counts[codes], 1)
            matrix[np.ix_(codes, codes)] += share[:, None] * part.operator.matrix()
        return matrix
    return operator.matrix() if operator.form in ENTRYWISE else None


def _agreement(
    case: AuditCase, index: int, column: str, matrix: FloatArray, alone: bool
) -> tuple[float, float, float]:
    """A, its mean and a bound on its variance."""
    import pyarrow as pa

    connection = case.connect()
    domain = case.release.domain(column)
    numbers = pa.array(range(len(domain)), pa.int64())
    connection.register("domain", pa.table({"value": domain, "code": numbers}))
    names = ", ".join(quoted(name) for name in case.table.quasi)
    every = -(-case.profile.rows // _MOST_ROWS)
    connection.execute(
        f"CREATE TABLE true_cells AS SELECT hash({names}) AS h, __code_{index} AS x, "
        f"count(*)::DOUBLE AS n FROM raw WHERE hash({names}) % {every} = 0 GROUP BY ALL"
    )
    connection.execute(
        f"CREATE TABLE shown_cells AS SELECT hash({names}) AS h, d.code AS x, count(*)::DOUBLE AS "
        f"n FROM published AS p JOIN domain AS d ON d.value IS NOT DISTINCT FROM "
        f"p.{quoted(column)} WHERE hash({names}) % {every} = 0 GROUP BY ALL"
    )
    connection.execute(
        "CREATE TABLE classes AS SELECT h, sum(n) AS size FROM true_cells GROUP BY h"
        + (" HAVING sum(n) = 1" if alone else "")
    )
    agreed = connection.execute(
        "SELECT coalesce(sum(t.n * s.n / c.size), 0) FROM true_cells AS t JOIN shown_cells AS s "
        "USING (h, x) JOIN classes AS c USING (h)"
    ).fetchall()[0][0]
    pairs = connection.sql(
        "SELECT a.x AS x, b.x AS y, sum(a.n * b.n / c.size) AS weight, "
        "sum(a.n * b.n * b.n / c.size / c.size) AS square "
        "FROM true_cells AS a JOIN true_cells AS b USING (h) JOIN classes AS c USING (h) "
        "GROUP BY a.x, b.x"
    ).to_arrow_table()
    chances = matrix[pairs["x"].to_numpy(), pairs["y"].to_numpy()]
    mean = float((chances * pairs["weight"].to_numpy()).sum())
    variance = float((chances * pairs["square"].to_numpy()).sum())
    return float(agreed), mean, variance
