"""The clauses of a question: its conditions, what is a key and what an aggregate, and names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.columns import Column, list_some
from sfumato.errors import QueryError
from sfumato.queries.aggregates import COUNT, DIFFERENT, SUM, TOTAL, Aggregate, Call, Rule
from sfumato.queries.dialect import (
    AGGREGATES,
    PARTS,
    SCALARS,
    Node,
    as_written,
    check_nodes,
    filled,
    is_aggregate,
    refuse,
    refuse_node,
    unwrap,
)
from sfumato.queries.formulas import formula_of
from sfumato.queries.question import ANSWER, ENDS, Output, Term
from sfumato.queries.recoded import Lumps, as_lumps
from sfumato.queries.resolved import unknown


class Clauses:
    """Reads the SELECT list once, and then every clause that refers to it."""

    def __init__(
        self, columns: Sequence[Column], lumps: Mapping[str, Lumps], items: Sequence[Node]
    ) -> None:
        self._roles = {column.name: column.role for column in columns}
        self._lumps = lumps
        self._items = [unwrap(item.this if isinstance(item, exp.Alias) else item) for item in items]
        self._aliases = [item.alias if isinstance(item, exp.Alias) else "" for item in items]
        self.keys: dict[str, Term] = {}  # by text, as aggregates are
        self.aggregates: dict[str, Aggregate] = {}
        self.outputs: list[Output] = []

    def _column(self, node: exp.Column) -> str:
        """The column that a node means; `QueryError` where sqlglot found none."""
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            refuse(
                f"the name {node.sql(dialect='duckdb', comments=False)!r}",
                "Write the column's name alone.",
            )
        if not node.table:
            raise unknown(node.name, list(self._roles))
        return node.name

    def _term(self, node: Node, clause: str) -> Term:
        """A scalar expression with its columns; aggregates do not belong in one."""
        inner = unwrap(node)
        check_nodes(inner, SCALARS | PARTS, clause)
        used: set[str] = set()

        def plain(part: Node) -> Node:
            if isinstance(part, exp.Column):
                name = self._column(part)
                used.add(name)
                return exp.column(name, quoted=True)
            return part

        tree = as_lumps(inner.transform(plain), self._lumps)
        quasi = frozenset(name for name in used if self._roles[name] == "quasi")
        return Term(tree, quasi, frozenset(used) - quasi)

    def conjuncts(self, node: Node, clause: str) -> tuple[Term, ...]:
        """The terms of a condition that all have to hold."""
        inner = unwrap(node)
        if isinstance(inner, exp.And):
            return self.conjuncts(inner.left, clause) + self.conjuncts(inner.right, clause)
        return (self._term(inner, clause),)

    def group(self, nodes: Sequence[Node]) -> None:
        """Take the GROUP BY keys, then settle what each SELECT item is."""
        for node in nodes:
            key = self._term(node, "GROUP BY")
            self.keys.setdefault(key.text, key)
        indices = [self._settle(item) for item in self._items]
        if not any(of == "aggregate" for of, _ in indices):
            raise QueryError(
                "The question selects no aggregate, so there is nothing to estimate. Add COUNT(*), "
                "SUM(x) or AVG(x) to the SELECT."
            )
        self._name_outputs(indices)

    def _settle(self, item: Node) -> tuple[str, int]:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star):
            refuse("SELECT *", "Name the keys and aggregates: SELECT a, COUNT(*) … GROUP BY a.")
        if is_aggregate(item):
            return "aggregate", self._aggregate(item)
        if any(is_aggregate(part) for part in item.walk()):
            return "aggregate", self._add(formula_of(item, self._call))
        term = self._term(item, "SELECT")
        if term.text in self.keys:
            return "key", list(self.keys).index(term.text)
        shown = as_written(item)
        raise QueryError(
            f"{shown!r} in SELECT is neither a GROUP BY key nor an aggregate. Add it to GROUP BY, "
            "or select COUNT(*), SUM or AVG."
        )

    def _aggregate(self, node: Node) -> int:
        """The number of an aggregate, which is added where it is new."""
        return self._add(Aggregate.of(self._call(node)))

    def _add(self, found: Aggregate) -> int:
        self.aggregates.setdefault(found.text, found)
        return list(self.aggregates).index(found.text)

    def _call(self, node: Node) -> Call:
        condition: tuple[Term, ...] = ()
        call = node
        if isinstance(node, exp.Filter):
            call = node.this
            condition = self.conjuncts(node.expression.this, "FILTER")
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
        if set(filled(call)) - {"this", "expression", "big_int"} or len(arguments) != 1:
            refuse(f"{name} with several arguments", f"Write {rule.usage[-1]}.")
        rule, arguments, guard = self._guarded(rule, arguments[0])
        condition += guard
        inside = tuple(self._term(argument, f"{name}(…)") for argument in arguments)
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
        guard = self.conjuncts(plain.this, "CASE")
        if rule is SUM and isinstance(shown, exp.Literal) and shown.name == "1" and is_zero:
            return COUNT, [], guard
        return TOTAL if is_zero else rule, [unwrap(shown)], guard

    def _different(self, node: exp.Distinct, condition: tuple[Term, ...]) -> Call:
        if len(node.expressions) != 1:
            refuse("COUNT(DISTINCT a, b)", "Write COUNT(DISTINCT x) with one expression.")
        inside = self._term(node.expressions[0], "COUNT(DISTINCT …)")
        return Call(DIFFERENT, (inside,), condition)

    def _quantile(self, rule: Rule, call: Node, condition: tuple[Term, ...]) -> Call:
        share = call.args.get("expression") or call.args.get("quantile")
        number = float(share.name) if isinstance(share, exp.Literal) and share.is_number else -1.0
        if not 0 <= number <= 1:
            refuse(
                f"{rule.name.upper()} without a share between 0 and 1", f"Write {rule.usage[0]}."
            )
        inside = self._term(call.this, f"{rule.name.upper()}(…)")
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

        def meant(part: Node) -> Node:
            if is_aggregate(part):
                return exp.column(f"a{self._aggregate(part)}", table=ANSWER)
            named = self._by_name(part)
            if named is not None and aliases_first:
                return named
            if (key := self._matching_key(part)) is not None:
                return exp.column(f"k{key}", table=ANSWER)
            if isinstance(part, exp.Column):
                if named is not None:
                    return named
                raise QueryError(
                    f"Column {self._column(part)!r} in HAVING or ORDER BY is neither a GROUP BY "
                    "key nor inside an aggregate. Keys there are: "
                    f"{list_some(list(self.keys)) or 'none'}."
                )
            return part

        rewritten = node.transform(meant)
        check_nodes(rewritten, SCALARS | PARTS)
        return rewritten

    def _matching_key(self, node: Node) -> int | None:
        inner = unwrap(node)
        columns = list(inner.find_all(exp.Column))
        known = columns and all(column.table for column in columns)
        if not known or any(is_aggregate(part) for part in inner.walk()):
            return None
        text = self._term(inner, "HAVING").text
        return list(self.keys).index(text) if text in self.keys else None

    def _by_name(self, node: Node) -> Node | None:
        """The answer's column of that name; errors of an aggregate have names too."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        wanted = node.name.lower()
        for output in self.outputs:
            for end in ENDS if output.of == "aggregate" else ("",):
                if wanted == f"{output.name}{end}".lower():
                    return exp.column(f"{output.of[0]}{output.index}{end}", table=ANSWER)
        return None


def output_names(items: Sequence[tuple[str, Node, bool]]) -> list[str]:
    """From what an item was called, the item, and whether it has errors beside it: what has no name
    is called after what it is, with a number where that is taken."""
    taken: set[str] = set()
    names: dict[int, str] = {}
    for position, (given, item, errors) in sorted(enumerate(items), key=lambda one: not one[1][0]):
        base = name = given or _title(item)
        number = 1
        while taken & (wanted := _all_names(name, errors)):
            if given:
                raise QueryError(
                    f"Two columns of the answer would be called {name!r} (an aggregate c also "
                    "brings c_stderr, c_low and c_high). Rename one with AS."
                )
            number += 1
            name = f"{base}_{number}"
        taken |= wanted
        names[position] = name
    return [names[position] for position in range(len(items))]


def _all_names(name: str, errors: bool) -> set[str]:
    return {f"{name}{end}".lower() for end in (ENDS if errors else ("",))}


def _title(item: Node) -> str:
    call = unwrap(item.this) if isinstance(item, exp.Filter) else item
    if not isinstance(call, exp.AggFunc):
        return call.name if isinstance(call, exp.Column) else as_written(item)
    rule = AGGREGATES.get(type(call))
    name = rule.name if rule else call.sql_name().lower()
    inside = [unwrap(part) for part in (call.this, call.args.get("expression")) if part]
    if isinstance(call.this, exp.Distinct):
        name, inside = f"{name}_distinct", call.this.expressions
    inside = [part for part in inside if not isinstance(part, exp.Literal)]
    columns = all(isinstance(part, exp.Column) for part in inside)
    return "_".join([name, *(part.name for part in inside)]) if columns else name
