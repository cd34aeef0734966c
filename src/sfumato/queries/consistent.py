"""Consistent tables: estimates that are never negative and add up to what is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from sfumato.draws import IntArray
from sfumato.errors import QueryError
from sfumato.queries.question import Aggregate, Question, Term
from sfumato.queries.rewrite import over
from sfumato.queries.session import Session
from sfumato.queries.virtual import VirtualTable

MOST_CELLS = 20_000_000
_COUNT = (Aggregate("count", None, ()),)


def consistent_sql(
    question: Question,
    session: Session,
    quantile: float,
    tables: dict[str, pa.Table],
    histogram: Callable[[Question, Session], pa.Table] | None = None,
) -> str:
    """`WITH … estimates` as `VirtualTable.sql`, its values from the projected histogram.

    For each group of the quasi keys the joint histogram of the sensitive columns is estimated
    whole and moved to the nearest point of {n ≥ 0, Σ n = n_A}, n_A being known exactly (methods,
    section 1). Conditions and keys on sensitive columns then read that table. The standard error
    stays that of the unbiased estimate. `histogram` makes the table by another estimator.
    """
    _check(question)
    if not question.sensitive:
        return VirtualTable(question, session, tables).sql(quantile)
    tables["projected"] = (histogram or _projected)(question, session)
    quasi = [place for place, key in enumerate(question.keys) if not key.sensitive]
    cells = {
        column: exp.column(f"x{place}", table="p")
        for place, column in enumerate(question.sensitive)
    }
    keys = [
        f"p.q{quasi.index(place)}" if place in quasi else over(key, cells)
        for place, key in enumerate(question.keys)
    ]
    columns = [f"{sql} AS k{place}" for place, sql in enumerate(keys)]
    for place, aggregate in enumerate(question.aggregates):
        condition = " AND ".join(f"({over(term, cells)})" for term in aggregate.filter)
        chosen = f" FILTER (WHERE {condition})" if condition else ""
        columns.append(f"coalesce(sum(p.n){chosen}, 0e0) AS a{place}")
    where = [f"({over(term, cells)})" for term in question.where if term.sensitive]
    nearest = f"SELECT {', '.join(columns)} FROM projected AS p"
    if where:
        nearest += f" WHERE {' AND '.join(where)}"
    if keys:
        nearest += f" GROUP BY {', '.join(str(number + 1) for number in range(len(keys)))}"
    same = [f"u.k{place} IS NOT DISTINCT FROM v.k{place}" for place in range(len(keys))]
    joined = [f"v.k{place}" for place in range(len(keys))]
    for place in range(len(question.aggregates)):
        a, error = f"v.a{place}", f"u.a{place}_stderr"
        joined += [
            a,
            error,
            f"greatest({a} - {quantile:.17e} * {error}, 0e0) AS a{place}_low",
            f"{a} + {quantile:.17e} * {error} AS a{place}_high",
        ]
    unbiased = VirtualTable(question, session, tables).sql(quantile, name="unbiased")
    return (
        f"{unbiased}, nearest AS ({nearest}), estimates AS (SELECT {', '.join(joined)} "
        f"FROM nearest AS v JOIN unbiased AS u ON {' AND '.join(same) or 'true'})"
    )


def _check(question: Question) -> None:
    for aggregate in question.aggregates:
        if aggregate.function != "count" or aggregate.argument is not None:
            _refuse(f"{aggregate.text}: only COUNT(*) can be made consistent", "Ask for COUNT(*)")
        for term in aggregate.filter:
            if term.quasi or not term.sensitive:
                _refuse(
                    f"the FILTER {term.text}: it has to use sensitive columns alone",
                    "Move it into WHERE",
                )
    for term in question.where:
        if term.is_mixed:
            _refuse(
                f"the condition {term.text}: it mixes quasi and sensitive columns",
                "Join conditions on either by AND",
            )
    for key in question.keys:
        if key.is_mixed:
            _refuse(
                f"the key {key.text}: it mixes quasi and sensitive columns",
                "Group by columns of either",
            )


def _refuse(what: str, instead: str) -> NoReturn:
    raise QueryError(
        f"A consistent answer is not possible for {what}. {instead}, or leave `consistent` out."
    )


def _projected(question: Question, session: Session) -> pa.Table:
    """The nearest consistent histogram: quasi keys `q…`, sensitive values `x…`, count `n`."""
    quasi = tuple(key for key in question.keys if not key.sensitive)
    values = tuple(
        Term(exp.column(column, quoted=True), frozenset(), frozenset({column}))
        for column in question.sensitive
    )
    known = tuple(term for term in question.where if not term.sensitive)
    asked = replace(question, where=known, aggregates=_COUNT, having=None, order=(), outputs=())
    tables: dict[str, pa.Table] = {}
    whole = VirtualTable(replace(asked, keys=quasi + values), session, tables).sql(0.0)
    sizes = VirtualTable(replace(asked, keys=quasi), session, tables).sql(0.0)
    names = [f"e.k{place} AS q{place}" for place in range(len(quasi))]
    names += [f"e.k{len(quasi) + place} AS x{place}" for place in range(len(values))]
    same = [f"e.k{place} IS NOT DISTINCT FROM s.k{place}" for place in range(len(quasi))]
    cells = session.run(
        f"WITH whole AS ({whole} SELECT * FROM estimates), sizes AS (SELECT *, "
        f"row_number() OVER () AS number FROM ({sizes} SELECT * FROM estimates)) "
        f"SELECT {', '.join(names)}, e.a0 AS n, s.a0 AS size, s.number FROM whole AS e "
        f"JOIN sizes AS s ON {' AND '.join(same) or 'true'} LIMIT {MOST_CELLS + 1}",
        tables,
    )
    if cells.num_rows > MOST_CELLS:
        raise QueryError(
            f"A consistent answer would need more than {MOST_CELLS:,} cells. Group by fewer "
            "columns, or leave `consistent` out."
        )
    nearest = project(
        np.asarray(cells.column("n").to_numpy(), dtype=np.float64),
        np.asarray(cells.column("size").to_numpy(), dtype=np.float64),
        np.asarray(cells.column("number").to_numpy(), dtype=np.int64),
    )
    kept = cells.drop_columns(["n", "size", "number"])
    return kept.append_column("n", pa.array(nearest))


def project(
    estimates: npt.NDArray[np.float64], totals: npt.NDArray[np.float64], groups: IntArray
) -> npt.NDArray[np.float64]:
    """The nearest point of {n ≥ 0, Σ n = total}, for each group of cells at once. O(c log c).

    n = max(estimate − θ, 0) with θ the largest of (Σ of the k largest − total) / k; groups come in
    any order, every cell with its group's total.

    >>> project(np.array([5.0, -2.0, 1.0]), np.full(3, 4.0), np.zeros(3, dtype=np.int64))
    array([4., 0., 0.])
    """
    if not len(estimates):
        return estimates
    order = np.lexsort((-estimates, groups))
    sorted_groups, values = groups[order], estimates[order]
    first = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    lengths = np.diff(np.r_[first, len(values)])
    rank = np.arange(len(values)) - np.repeat(first, lengths) + 1
    running = np.cumsum(values)
    before = np.repeat(running[first] - values[first], lengths)
    candidates = (running - before - totals[order]) / rank
    theta = np.repeat(np.maximum.reduceat(candidates, first), lengths)
    nearest = np.empty_like(estimates)
    nearest[order] = np.maximum(values - theta, 0.0)
    return nearest
