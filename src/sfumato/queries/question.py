"""A question: what an analyst's SQL asks of any release, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from sfumato.queries.dialect import sql_text

if TYPE_CHECKING:
    from sfumato.queries.aggregates import Aggregate

ANSWER = "o"  # the table that HAVING and ORDER BY speak of
ERRORS = ("stderr", "low", "high")  # what stands beside an aggregate
ENDS = ("", *(f"_{error}" for error in ERRORS))  # of the names of its columns
ESTIMATED = (*ENDS, "_untold")  # and, among estimates, 1 where it is missing for want of people


@dataclass(frozen=True, eq=False)
class Term:
    """A scalar expression and the columns it uses.

    Every column stands in `tree` under its exact published name, quoted and unqualified. Trees
    are never changed in place: whoever rewrites one copies it first.
    """

    tree: exp.Expr
    quasi: frozenset[str]
    sensitive: frozenset[str]

    @cached_property
    def text(self) -> str:
        """The expression as DuckDB text; equal texts are equal expressions."""
        return sql_text(self.tree)

    @property
    def column(self) -> str | None:
        """The column's name, where the expression is a column and nothing else."""
        return self.tree.name if isinstance(self.tree, exp.Column) else None

    @property
    def is_mixed(self) -> bool:
        return bool(self.quasi and self.sensitive)


@dataclass(frozen=True)
class Output:
    """A column of the answer: key number `index`, or aggregate number `index` with its errors."""

    name: str
    of: Literal["key", "aggregate"]
    index: int


@dataclass(frozen=True, eq=False)
class Ordering:
    """One ORDER BY term over `o.k0 …` and `o.a0 …` (see `Question`)."""

    tree: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class Question:
    """`SELECT outputs FROM release WHERE … GROUP BY keys HAVING … ORDER BY … LIMIT … OFFSET …`.

    `where` holds the conjuncts. `having` and `order` speak of the answer: `o.k0, o.k1 …` are the
    keys, `o.a0, o.a1 …` the aggregates, `o.a0_stderr`, `o.a0_low`, `o.a0_high` their errors (so
    qualified that an analyst's own `a0` is another thing). Aggregates that only HAVING or ORDER BY
    use are in `aggregates` but not in `outputs`.
    """

    outputs: tuple[Output, ...]
    where: tuple[Term, ...]
    keys: tuple[Term, ...]
    aggregates: tuple[Aggregate, ...]
    having: exp.Expr | None
    order: tuple[Ordering, ...]
    bins: Mapping[int, tuple[str, ...]]  # keys that are binned columns, with their bins in order
    limit: int | None
    offset: int | None

    @property
    def is_plain(self) -> bool:
        """Whether all rows are wanted, by their keys."""
        return self.having is None and not self.order and self.limit is None and self.offset is None

    def terms(self) -> Iterator[Term]:
        """Every scalar expression over the records."""
        yield from self.where
        yield from self.keys
        for aggregate in self.aggregates:
            yield from aggregate.terms()

    @cached_property
    def sensitive(self) -> tuple[str, ...]:
        """The sensitive columns that the question uses, in a fixed order."""
        return tuple(sorted({name for term in self.terms() for name in term.sensitive}))
