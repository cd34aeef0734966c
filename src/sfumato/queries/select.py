"""The SELECT list, GROUP BY, HAVING and ORDER BY: what is a key, what is an aggregate."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.columns import list_some
from sfumato.errors import QueryError
from sfumato.queries.aggregates import COUNT, DIFFERENT, SUM, TOTAL, Aggregate, Call, Rule
from sfumato.queries.dialect import (
    AGGREGATES,
    Node,
    as_written,
    filled,
    is_aggregate,
    refuse,
    refuse_node,
    scalar_parts,
    unwrap,
)
from sfumato.queries.formulas import formula_of
from sfumato.queries.names import Names, output_names
from sfumato.queries.question import ANSWER, ERRORS, Output, Term


class Selection:
    """Reads the SELECT list once, and then every clause that refers to it."""

    def __init__(self, names: Names, items: Sequence[Node]) -> None:
        self._names = names
        self._items = [unwrap(item.this if isinstance(item, exp.Alias) else item) for item in items]
        self._aliases = [item.alias if isinstance(item, exp.Alias) else "" for item in items]
        self.keys: list[Term] = []
        self.aggregates: list[Aggregate] = []
        self.outputs: list[Output] = []

    def group(self, nodes: Sequence[Node]) -> None:
        """Take the GROUP BY keys, then settle what each SELECT item is."""
        for node in nodes:
            key = self._names.term(node, "GROUP BY")
            if key.text not in self._key_texts():
                self.keys.append(key)
        indices = [self._settle(item) for item in self._items]
        if not any(of == "aggregate" for of, _ in indices):
            raise QueryError(
                "The question selects no aggregate, so there is nothing to estimate. Add COUNT(*), "
                "SUM(x) or AVG(x) to the SELECT."
            )
        self._name_outputs(indices)

    def _key_texts(self) -> list[str]:
        return [key.text for key in self.keys]

    def _settle(self, item: Node) -> tuple[str, int]:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star):
            refuse("SELECT *", "Name the keys and aggregates: SELECT a, COUNT(*) … GROUP BY a.")
        if is_aggregate(item):
            return "aggregate", self._aggregate(item)
        if any(is_aggregate(part) for part in item.walk()):
            return "aggregate", self._add(formula_of(item, self._call))
        term = self._names.term(item, "SELECT")
        if term.text in self._key_texts():
            return "key", self._key_texts().index(term.text)
        shown = as_written(item)
        raise QueryError(
            f"{shown!r} in SELECT is neither a GROUP BY key nor an aggregate. Add it to GROUP BY, "
            "or select COUNT(*), SUM or AVG."
        )

    def _aggregate(self, node: Node) -> int:
        """The number of an aggregate, which is added where it is new."""
        return self._add(Aggregate.of(self._call(node)))

    def _add(self, found: Aggregate) -> int:
        texts = [aggregate.text for aggregate in self.aggregates]
        if found.text in texts:
            return texts.index(found.text)
        self.aggregates.append(found)
        return len(texts)

    def _call(self, node: Node) -> Call:
        condition: tuple[Term, ...] = ()
        call = node
        if isinstance(node, exp.Filter):
            call = node.this
            condition = self._names.conjuncts(node.expression.this, "FILTER")
        if type(call) not in AGGREGATES:
            refuse_node(call)
        rule = AGGREGATES[type(call)]
        if isinstance(call.this, exp.Distinct) and rule is COUNT:
            return self._different(call.this, condition)
        name = rule.name.upper()
        if rule.order in ("cont", "disc") and rule.share is None:
            return self._quantile(rule, call, condition)
        arguments = [
            unwrap(argument) for argument in (call.this, call.args.get("expression")) if argument
        ]
        for argument in arguments:
            if isinstance(argument, exp.Distinct):
                refuse_node(argument)
        starred = not arguments or isinstance(arguments[0], exp.Star)
        if starred:
            if not rule.takes_star or (arguments and filled(arguments[0])):
                refuse(f"{name}(*)", "Only COUNT(*) may use *; name the column.")
            return Call(rule, (), condition)
        if set(filled(call)) - {"this", "expression", "big_int"} or len(arguments) != rule.takes:
            refuse(f"{name} with several arguments", f"Write {rule.usage[-1]}.")
        if len(arguments) == 1:
            rule, arguments, guard = self._guarded(rule, arguments[0])
            condition += guard
        inside = tuple(self._names.term(argument, f"{name}(…)") for argument in arguments)
        return Call(rule, inside, condition)

    def _guarded(self, rule: Rule, argument: Node) -> tuple[Rule, list[Node], tuple[Term, ...]]:
        """`CASE WHEN c THEN x END`, in a sum also with ELSE 0, is x where c holds.

        Asked in either way, it is answered alike. A function stays behind its condition.
        """
        plain = argument
        if isinstance(argument, exp.Case) and not argument.this and len(argument.args["ifs"]) == 1:
            plain = argument.args["ifs"][0]
        shown, otherwise = plain.args.get("true"), argument.args.get("default")
        otherwise = otherwise or argument.args.get("false")
        is_zero = isinstance(otherwise, exp.Literal) and otherwise.to_py() == 0
        nothing = otherwise is None or (rule is SUM and is_zero)
        if not isinstance(plain, exp.If) or shown is None or shown.find(exp.Func) or not nothing:
            return rule, [argument], ()
        guard = self._names.conjuncts(plain.this, "CASE")
        if rule is SUM and isinstance(shown, exp.Literal) and shown.name == "1" and is_zero:
            return COUNT, [], guard
        return TOTAL if is_zero else rule, [unwrap(shown)], guard

    def _different(self, node: exp.Distinct, condition: tuple[Term, ...]) -> Call:
        if len(node.expressions) != 1:
            refuse("COUNT(DISTINCT a, b)", "Write COUNT(DISTINCT x) with one expression.")
        inside = self._names.term(node.expressions[0], "COUNT(DISTINCT …)")
        return Call(DIFFERENT, (inside,), condition)

    def _quantile(self, rule: Rule, call: Node, condition: tuple[Term, ...]) -> Call:
        share = call.args.get("expression") or call.args.get("quantile")
        number = float(share.name) if isinstance(share, exp.Literal) and share.is_number else -1.0
        if not 0 <= number <= 1:
            refuse(
                f"{rule.name.upper()} without a share between 0 and 1", f"Write {rule.usage[0]}."
            )
        inside = self._names.term(call.this, f"{rule.name.upper()}(…)")
        return Call(rule, (inside,), condition, number)

    def _name_outputs(self, indices: Sequence[tuple[str, int]]) -> None:
        named = [
            (alias or (item.name if isinstance(item, exp.Column) else ""), item, of == "aggregate")
            for alias, item, (of, _) in zip(self._aliases, self._items, indices, strict=True)
        ]
        for name, (of, index) in zip(output_names(named), indices, strict=True):
            self.outputs.append(Output(name, of, index))  # type: ignore[arg-type]

    def over_answer(self, node: Node, *, aliases_first: bool) -> Node:
        """Rewrite a HAVING or ORDER BY expression to the answer's columns `k0 … a0 …`."""
        if is_aggregate(node):
            return exp.column(f"a{self._aggregate(node)}", table=ANSWER)
        if aliases_first and (output := self._by_name(node)):
            return output
        if (key := self._matching_key(node)) is not None:
            return exp.column(f"k{key}", table=ANSWER)
        if isinstance(node, exp.Column):
            if output := self._by_name(node):
                return output
            name = self._names.column(node)
            raise QueryError(
                f"Column {name!r} in HAVING or ORDER BY is neither a GROUP BY key nor inside an "
                f"aggregate. Keys there are: {list_some(self._key_texts()) or 'none'}."
            )
        rewritten = node.copy()
        for argument, parts in scalar_parts(node).items():
            over = [self.over_answer(part, aliases_first=aliases_first) for part in parts]
            rewritten.set(argument, over if isinstance(node.args[argument], list) else over[0])
        return rewritten

    def _matching_key(self, node: Node) -> int | None:
        inner = unwrap(node)
        if isinstance(inner, exp.Literal | exp.Null | exp.Boolean):
            return None
        if any(is_aggregate(part) for part in inner.walk()):
            return None
        columns = list(inner.find_all(exp.Column))
        if not columns or not all(column.table for column in columns):
            return None
        text = self._names.term(inner, "HAVING").text
        return self._key_texts().index(text) if text in self._key_texts() else None

    def _by_name(self, node: Node) -> Node | None:
        """The answer's column of that name; errors of an aggregate have names too."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        wanted = node.name.lower()
        for output in self.outputs:
            if wanted == output.name.lower():
                return self._answer_column(output, "")
            for error in ERRORS if output.of == "aggregate" else ():
                if wanted == f"{output.name}_{error}".lower():
                    return self._answer_column(output, f"_{error}")
        return None

    @staticmethod
    def _answer_column(output: Output, suffix: str) -> Node:
        letter = "k" if output.of == "key" else "a"
        return exp.column(f"{letter}{output.index}{suffix}", table=ANSWER)
