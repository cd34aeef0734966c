"""How much of what a generalized release shows satisfies a condition on one quasi column.

The condition is asked of every value of the column's domain once; a record then weighs the share of
the people that it spans (`operators.matched`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.columns import Column, Values
from sfumato.draws import BoolArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.matched import MatchedRanges, MatchedSets, read_people
from sfumato.operators.ranges import Reading
from sfumato.queries.dialect import Node
from sfumato.queries.question import Term
from sfumato.queries.session import Session
from sfumato.queries.statements import column, named, over, select
from sfumato.release.marginals import whole_numbers

if TYPE_CHECKING:
    from sfumato.release import GeneralizedRelease, Release

_COMPARISONS: dict[type[Node], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "="}


def overlap(term: Term, release: GeneralizedRelease, session: Session) -> Reading:
    """How much of each published row satisfies a condition on one quasi column."""
    (name,) = term.quasi
    asked, matches = release.column(name), release.spans
    if asked.kind == "categorical":
        return _of_sets(term, asked, release, session)
    low, high = (_numbers(release, part) for part in release.shown_as(asked))
    whole = whole_numbers(asked)
    if whole is not None:
        satisfied = _asked(term, pa.array(whole), session)
        first = int(whole[0])
        matched = session.remembered(
            ("matched", name),
            lambda: MatchedRanges(
                (low - first).astype(np.int64),
                (high - first).astype(np.int64),
                len(whole),
                matches,
                release.marginals.get(name),
            ),
        )
        return matched.reading(satisfied)
    return read_people(low, high, *_ends(term.tree, term), matches)


def _of_sets(term: Term, asked: Column, release: GeneralizedRelease, session: Session) -> Reading:
    if not isinstance(asked.domain, Values):
        raise QueryError(
            f"Column {asked.name!r} has too many values to weigh a condition on it. Ask about "
            "other columns."
        )
    lists = stored(release, asked.name)
    values, starts = lists.flatten(), np.asarray(lists.offsets.to_numpy(), np.int64)
    unique = values.unique()
    codes = np.asarray(pc.index_in(values, value_set=unique).to_numpy(), np.int64)
    satisfied = _asked(term, unique, session)
    matched = session.remembered(
        ("matched", asked.name),
        lambda: MatchedSets(
            codes,
            starts - starts[0],
            len(unique),
            release.spans,
            release.marginal_of(asked, unique),
        ),
    )
    return matched.reading(satisfied)


def _asked(term: Term, values: pa.Array, session: Session) -> BoolArray:
    """Which values satisfy the condition; unknown counts as no, as in WHERE."""
    (name,) = term.quasi
    condition = over(term, {name: column("d", "v")})
    cast = exp.Cast(this=exp.Paren(this=condition), to=exp.DataType(this=exp.DataType.Type.BOOLEAN))
    statement = select([column("d", "place"), named(cast, "yes")], "d")
    table = pa.table({"v": values, "place": np.arange(len(values))})
    found = session.run(statement, {"d": table})
    satisfied = np.zeros(len(values), np.bool_)
    yes = pc.fill_null(found.column("yes"), False).to_numpy()
    satisfied[found.column("place").to_numpy()] = yes
    return satisfied


def stored(release: Release, name: str) -> pa.Array:
    """A column of the records in the order of the files: DuckDB keeps none between questions."""
    import pyarrow.parquet as pq

    tables = [pq.read_table(path, columns=[name]) for path in release.records]
    column = pa.concat_tables(tables).column(0).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbers(release: Release, name: str) -> FloatArray:
    return np.asarray(stored(release, name).cast(pa.float64(), safe=False).to_numpy(), np.float64)


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
