"""Texts that no value of a column equals, most likely misspelt, and literals of another type.

Where a release lists all values of a column, a comparison with any other text holds for nobody, and
its answer would be a confident 0. Databases refuse such a text for an enumerated type as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from sqlglot import exp

from sfumato.columns import Column, Values, list_some, value_text
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.question import Question
from sfumato.queries.recoded import check_recoded

_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_ORDERINGS = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_SHOWN = 12


def check_spelling(question: Question, columns: Sequence[Column]) -> None:
    """Refuse a text that is set equal to a column and is none of its values.

    >>> from sfumato.queries.parse import parse
    >>> domain = Values(("asthma", "flu"))
    >>> columns = [Column("disease", "sensitive", "categorical", "string", domain)]
    >>> sql = "SELECT COUNT(*) FROM release WHERE disease = 'Flue'"
    >>> check_spelling(parse(sql, columns), columns)
    Traceback (most recent call last):
    sfumato.errors.QueryError: Column 'disease' has no value 'Flue'. Did you mean 'flu'? ...
    """
    for term in question.terms():
        check_literals(term.tree, columns)


def check_literals(tree: Node, columns: Sequence[Column]) -> None:
    """The same for one expression, its columns under their exact names."""
    named = {column.name: column for column in columns}
    for name, literal, equal in _compared(tree):
        if name in named:
            _check_type(named[name], literal)
            check_recoded(named[name], literal)
            if equal and literal.is_string:
                _check_value(named[name], literal.name)


def _compared(tree: Node) -> Iterator[tuple[str, exp.Literal, bool]]:
    """Columns with the literals they are compared with, and whether for being equal."""
    for node in tree.walk():
        sides: list[Node] = []
        if isinstance(node, _EQUALITIES + _ORDERINGS):
            sides = [node.left, node.right]
        elif isinstance(node, exp.In):
            sides = [node.this, *node.expressions]
        elif isinstance(node, exp.Between):
            sides = [node.this, node.args["low"], node.args["high"]]
        elif isinstance(node, exp.Case) and node.args.get("this") is not None:
            sides = [node.args["this"], *(branch.this for branch in node.args["ifs"])]
        sides = [unwrap(side) for side in sides]
        equal = not isinstance(node, (*_ORDERINGS, exp.Between))
        for column in sides:
            if isinstance(column, exp.Column):
                for side in sides:
                    if isinstance(side, exp.Literal):
                        yield column.name, side, equal


def _check_type(column: Column, literal: exp.Literal) -> None:
    """A text column is compared with texts, a column of numbers with what reads as a number."""
    if "string" in column.type:
        if not literal.is_string and column.bins is not None:
            raise QueryError(
                f"Column {column.name!r} is published in ranges, as texts; {literal.name} is a "
                f"number. Compare it with one of {_listed(column)}."
            )
        if not literal.is_string:
            raise QueryError(
                f"Column {column.name!r} holds texts; {literal.name} is a number. Put it in single "
                f"quotes: '{literal.name}'."
            )
    elif literal.is_string and column.type.startswith(("int", "uint", "float", "double")):
        try:
            float(literal.name)
        except ValueError:
            raise QueryError(
                f"Column {column.name!r} holds numbers; {value_text(literal.name)} is none. "
                "Compare it with a number, without quotes."
            ) from None


def _check_value(column: Column, text: str) -> None:
    if "string" not in column.type or not isinstance(column.domain, Values):
        return
    if text not in dict.fromkeys(column.domain.values):
        values = [value for value in column.domain.values if isinstance(value, str)]
        near = nearest(text, values)
        recoded = f" The column was recoded: {column.recode[:80]}." if column.recode else ""
        meant = f" Did you mean {value_text(near)}?" if near is not None else ""
        raise QueryError(
            f"Column {column.name!r} has no value {value_text(text)}.{meant} Values there are: "
            f"{_listed(column)}. LIKE takes any text.{recoded}"
        )


def _listed(column: Column) -> str:
    values = column.domain.values if isinstance(column.domain, Values) else ()
    return list_some([value_text(value) for value in values if isinstance(value, str)], _SHOWN)


def nearest(text: str, values: Sequence[str]) -> str | None:
    """The value that was most likely meant: but for case and blanks, by its beginning, or alike.

    >>> nearest(" Male", ["female", "male"]), nearest("4280", ["428", "480"])
    ('male', '428')
    >>> nearest("Causasian", ["Asian", "Caucasian"]), nearest("?", ["female", "male"])
    ('Caucasian', None)
    """
    plain = {_plain(value): value for value in reversed(values)}
    wanted = _plain(text)
    if wanted in plain:
        return plain[wanted]
    # codes are cut or continued at their end: 428.0 for 428
    begun = [value for value in plain if len(value) > 1 and wanted.startswith(value)]
    begun = begun or [value for value in plain if len(wanted) > 1 and value.startswith(wanted)]
    if begun:
        return plain[max(begun, key=len)]
    near = difflib.get_close_matches(wanted, plain, n=1, cutoff=0.5)
    return plain[near[0]] if near else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
