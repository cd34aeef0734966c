"""How much of what a generalized release shows satisfies a condition on one quasi column.

The condition is asked of every value of the column's domain once; a record then weighs the share of
the people that it spans (`operators.matched`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Spanned:
    """Ranges or sets of one quasi column, read as the people that they span."""

    name: str
    spans: int
    values: pa.Array | None  # that a condition is asked of; None where ranges end at any number
    matched: MatchedRanges | MatchedSets | None
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, release: GeneralizedRelease, column: Column) -> Spanned:
        nothing = np.zeros(0)
        if column.kind == "categorical":
            lists = stored(release, column.name)
            inside, starts = lists.flatten(), np.asarray(lists.offsets.to_numpy(), np.int64)
            if pa.types.is_dictionary(inside.type):
                inside = inside.dictionary_decode()
            values = inside.unique()
            codes = np.asarray(pc.index_in(inside, value_set=values).to_numpy(), np.int64)
            told = release.marginal_of(column, values)
            sets = MatchedSets(codes, starts - starts[0], len(values), release.spans, told)
            return cls(column.name, release.spans, values, sets, nothing, nothing)
        low, high = (
            np.asarray(stored(release, end).cast(pa.float64(), safe=False).to_numpy(), np.float64)
            for end in release.shown_as(column)
        )
        whole = whole_numbers(column)
        if whole is None:
            return cls(column.name, release.spans, None, None, low, high)
        first, last = ((end - whole[0]).astype(np.int64) for end in (low, high))
        told = release.marginals.get(column.name)
        ranges = MatchedRanges(first, last, len(whole), release.spans, told)
        return cls(column.name, release.spans, pa.array(whole), ranges, nothing, nothing)

    def reading(
        self, holds: Callable[[pa.Array], BoolArray], ends: Callable[[], tuple[float, float]]
    ) -> Reading:
        """How much of each record satisfies a condition: which values do, or its ends."""
        if self.values is None or self.matched is None:
            return read_people(self.low, self.high, *ends(), self.spans)
        return self.matched.reading(holds(self.values))


def overlap(term: Term, release: GeneralizedRelease, session: Session) -> Reading:
    """How much of each published row satisfies a condition on one quasi column."""
    (name,) = term.quasi
    asked = release.column(name)
    if asked.kind == "categorical" and not isinstance(asked.domain, Values):
        raise QueryError(
            f"Column {asked.name!r} has too many values to weigh a condition on it. Ask about "
            "other columns."
        )
    spanned = session.remembered(("spanned", name), lambda: Spanned.of(release, asked))
    return spanned.reading(
        lambda values: _asked(term, values, session), lambda: _ends(term.tree, term)
    )


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
