"""How much of a range or a set satisfies a condition, if its values are equally likely.

A condition on one quasi column is asked of every value of the column's domain once; a row then
weighs the share of its range or set that satisfies it. The paper's estimator (Section 5,
"uniform distribution and proportionality"; for sets errata H18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.columns import Column, Range, Values
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node
from sfumato.queries.question import Term
from sfumato.queries.rewrite import over
from sfumato.queries.session import Session
from sfumato.release.generalized import shown_as

if TYPE_CHECKING:
    from sfumato.release import Release

Weights = npt.NDArray[np.float64]
MOST_WHOLE = 1 << 20  # whole numbers between the ends of a domain that are asked one by one
_COMPARISONS: dict[type[Node], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "="}


def overlap(term: Term, release: Release, session: Session) -> Weights:
    """The share of each published row that satisfies a condition on one quasi column."""
    (name,) = term.quasi
    column = release.column(name)
    if column.kind == "categorical":
        return _of_sets(term, column, release, session)
    low, high = (_numbers(release, part) for part in shown_as(column))
    domain = column.domain
    if (
        column.type.startswith(("int", "uint"))
        and isinstance(domain, Range)
        and isinstance(domain.low, int)
        and isinstance(domain.high, int)
        and domain.high - domain.low < MOST_WHOLE
    ):
        values = pa.array(np.arange(domain.low, domain.high + 1))
        satisfied = np.concatenate([[0], np.cumsum(_asked(term, values, session))])
        first = (low - domain.low).astype(np.int64)
        last = (high - domain.low).astype(np.int64) + 1
        return np.asarray((satisfied[last] - satisfied[first]) / (last - first))
    return _of_interval(low, high, *_interval(term))


def _of_sets(term: Term, column: Column, release: Release, session: Session) -> Weights:
    if not isinstance(column.domain, Values):
        raise QueryError(
            f"Column {column.name!r} has too many values to weigh a condition on it. Ask about "
            "other columns."
        )
    lists = stored(release, column.name)
    values, starts = lists.flatten(), np.asarray(lists.offsets.to_numpy(), np.int64)
    unique = values.unique()
    satisfied = _asked(term, unique, session)
    codes = np.asarray(pc.index_in(values, value_set=unique).to_numpy(), np.int64)
    total = np.concatenate([[0], np.cumsum(satisfied[codes])])
    return np.asarray((total[starts[1:]] - total[starts[:-1]]) / (starts[1:] - starts[:-1]))


def _asked(term: Term, values: pa.Array, session: Session) -> npt.NDArray[np.bool_]:
    """Which values satisfy the condition; unknown counts as no, as in WHERE."""
    (name,) = term.quasi
    place = pa.array(np.arange(len(values)))
    condition = over(term, {name: exp.column("v", table="d", quoted=True)})
    found = session.run(
        f"SELECT coalesce(CAST(({condition}) AS BOOLEAN), false) AS yes FROM asked AS d "
        "ORDER BY d.place",
        {"asked": pa.table({"v": values, "place": place})},
    )
    return np.asarray(found.column("yes").to_numpy(), np.bool_)


def stored(release: Release, name: str) -> pa.Array:
    """A column of the records in the order of the file: DuckDB keeps none between questions."""
    import pyarrow.parquet as pq

    chunks = [pq.read_table(path, columns=[name]).column(0) for path in release.records]
    return pa.concat_arrays([chunk for column in chunks for chunk in column.chunks])


def _numbers(release: Release, name: str) -> Weights:
    return np.asarray(stored(release, name).cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _of_interval(low: Weights, high: Weights, first: float, last: float) -> Weights:
    """The part of [low, high] inside [first, last]; a single number is inside or not."""
    inside = np.minimum(high, last) - np.maximum(low, first)
    width = high - low
    point = (first <= low) & (low <= last)
    shares = np.maximum(inside, 0) / np.where(width > 0, width, 1)
    return np.asarray(np.where(width > 0, shares, point))


def _interval(term: Term) -> tuple[float, float]:
    """The ends of a condition such as `height BETWEEN 1.5 AND 1.8` or `height > 1.5`."""
    return _ends(term.tree, term)


def _ends(tree: Node, term: Term) -> tuple[float, float]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        one, other = _ends(tree.left, term), _ends(tree.right, term)
        return max(one[0], other[0]), min(one[1], other[1])
    symmetric = tree.args.get("symmetric")
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column) and not symmetric:
        return _number(tree.args["low"], term), _number(tree.args["high"], term)
    sign = _COMPARISONS.get(type(tree))
    if sign is not None and isinstance(tree, exp.Binary):
        left, right = tree.left, tree.right
        if isinstance(right, exp.Column):
            left, right, sign = right, left, _MIRRORED[sign]
        if isinstance(left, exp.Column):
            number = _number(right, term)
            return (
                number if sign in (">", ">=", "=") else -np.inf,
                number if sign in ("<", "<=", "=") else np.inf,
            )
    raise _cannot(term)


def _number(node: Node, term: Term) -> float:
    text = node.sql(dialect="duckdb")
    try:
        return float(text.strip("()").replace(" ", ""))
    except ValueError:
        raise _cannot(term) from None


def _cannot(term: Term) -> QueryError:
    return QueryError(
        f"The condition {term.text} cannot be weighed against ranges of numbers that are not "
        "whole. Write it as x > 1, x <= 2 or x BETWEEN 1 AND 2, one condition per column, joined "
        "by AND."
    )
