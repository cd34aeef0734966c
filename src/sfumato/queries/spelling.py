"""Texts that no value of a sensitive column equals: most likely misspelt.

The domain of a sensitive column is closed, so a comparison with any other text holds for nobody,
and its answer would be a confident 0. Databases refuse such a text for an enumerated type as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from sqlglot import exp

from sfumato.columns import Column, Values, list_some, value_text
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.question import Question

_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_SHOWN = 12


def check_spelling(question: Question, columns: Sequence[Column]) -> None:
    """Refuse a text that is set equal to a sensitive column and is none of its values.

    >>> from sfumato.queries.parse import parse
    >>> domain = Values(("asthma", "flu"))
    >>> columns = [Column("disease", "sensitive", "categorical", "string", domain)]
    >>> sql = "SELECT COUNT(*) FROM release WHERE disease = 'Flue'"
    >>> check_spelling(parse(sql, columns), columns)
    Traceback (most recent call last):
    sfumato.errors.QueryError: Column 'disease' has no value 'Flue'. Did you mean 'flu'? ...
    """
    domains = {
        column.name: dict.fromkeys(column.domain.values)
        for column in columns
        if column.role == "sensitive" and "string" in column.type
        if isinstance(column.domain, Values)
    }
    for term in question.terms():
        for name, text in _equalities(term.tree):
            if name in domains and text not in domains[name]:
                raise _misspelt(name, text, [v for v in domains[name] if isinstance(v, str)])


def _equalities(tree: Node) -> Iterator[tuple[str, str]]:
    """Columns with the quoted texts that they are compared with."""
    for node in tree.walk():
        sides: list[Node] = []
        if isinstance(node, _EQUALITIES):
            sides = [node.left, node.right]
        elif isinstance(node, exp.In):
            sides = [node.this, *node.expressions]
        elif isinstance(node, exp.Case) and node.args.get("this") is not None:
            sides = [node.args["this"], *(branch.this for branch in node.args["ifs"])]
        sides = [unwrap(side) for side in sides]
        for column in sides:
            if isinstance(column, exp.Column):
                for side in sides:
                    if isinstance(side, exp.Literal) and side.is_string:
                        yield column.name, side.name


def _misspelt(name: str, text: str, values: list[str]) -> QueryError:
    plain = {value.casefold(): value for value in reversed(values)}
    near = difflib.get_close_matches(text.casefold(), plain, n=1, cutoff=0.5)
    meant = f" Did you mean {value_text(plain[near[0]])}?" if near else ""
    return QueryError(
        f"Column {name!r} has no value {value_text(text)}.{meant} Values there are: "
        f"{list_some([value_text(value) for value in values], _SHOWN)}. LIKE takes any text."
    )
