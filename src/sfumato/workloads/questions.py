"""Count questions and workloads of them, kept as SQL that anybody can ask again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.columns import Value
from sfumato.errors import DataError
from sfumato.workloads.conditions import Between, Condition, OneOf

_HEADER = "-- sfumato workload: "
_SENSITIVE = "-- sensitive: "


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """How many records satisfy the conditions on quasi columns and have one of `values`.

    >>> CountQuestion({"age": Between(30, 39)}, "disease", ("flu",)).sql()
    'SELECT COUNT(*) FROM release WHERE "age" BETWEEN 30 AND 39 AND "disease" = \\'flu\\''
    """

    conditions: Mapping[str, Condition]
    column: str
    values: tuple[Value, ...]

    @property
    def value(self) -> Value:
        """The value asked for; the first where there are several."""
        return self.values[0]

    @property
    def key(self) -> tuple[tuple[str, Condition], ...]:
        """The conditions on quasi columns: questions with equal keys ask about the same records."""
        return tuple(sorted(self.conditions.items(), key=lambda item: item[0]))

    def sql(self) -> str:
        asked = [condition.sql(name) for name, condition in self.conditions.items()]
        asked.append(OneOf(self.values).sql(self.column))
        return f"SELECT COUNT(*) FROM release WHERE {' AND '.join(asked)}"


@dataclass(frozen=True, eq=False)
class Workload:
    """Questions about one sensitive column, and the text form that makes them again."""

    questions: tuple[CountQuestion, ...]
    source: str

    def __len__(self) -> int:
        return len(self.questions)

    def chosen(self, places: Sequence[int]) -> Workload:
        """Some of the questions."""
        return Workload(tuple(self.questions[index] for index in places), self.source)

    def save(self, path: str | Path) -> None:
        """One statement per line; the first lines are comments."""
        columns = sorted({question.column for question in self.questions})
        lines = [f"{_HEADER}{self.source}", *(f"{_SENSITIVE}{name}" for name in columns)]
        lines += [f"{question.sql()};" for question in self.questions]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")

    def by_conditions(self) -> dict[tuple[tuple[str, Condition], ...], list[int]]:
        """The places of the questions that ask about the same records."""
        found: dict[tuple[tuple[str, Condition], ...], list[int]] = {}
        for index, question in enumerate(self.questions):
            found.setdefault(question.key, []).append(index)
        return found


def load_workload(path: str | Path) -> Workload:
    """Read what `Workload.save` wrote."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read the workload {str(path)!r}: {error}.") from None
    source, sensitive = "", set[str]()
    questions = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(_HEADER):
            source = line.removeprefix(_HEADER)
        elif line.startswith(_SENSITIVE):
            sensitive.add(line.removeprefix(_SENSITIVE))
        elif line.strip() and not line.startswith("--"):
            try:
                questions.append(_question(line, sensitive))
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f"Line {number} of the workload {str(path)!r} is not a count question as "
                    f"sfumato writes them: {line[:80]!r}. Use a file that Workload.save wrote."
                ) from None
    return Workload(tuple(questions), source)


def _question(sql: str, sensitive: set[str]) -> CountQuestion:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError:
        raise ValueError(sql) from None
    where = tree.args.get("where")
    if where is None:
        raise ValueError(sql)
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    conditions: dict[str, Condition] = {}
    for part in parts:
        name, condition = _condition(part)
        conditions[name] = condition
    (column,) = sensitive & set(conditions)
    asked = conditions.pop(column)
    if isinstance(asked, Between):
        asked = OneOf((asked.low,))
    question = CountQuestion(conditions, column, asked.values)
    if f"{question.sql()};" != sql.strip():  # nothing may be read otherwise than it is asked
        raise ValueError(sql)
    return question


def _condition(node: Any) -> tuple[str, Condition]:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, exp.Or):
        name, some = _condition(node.left)
        _, missing = _condition(node.right)
        if isinstance(some, Between) or isinstance(missing, Between):
            raise ValueError(str(node))
        return name, OneOf((*some.values, *missing.values))
    if isinstance(node, exp.Between):
        return node.this.name, Between(_value(node.args["low"]), _value(node.args["high"]))
    if isinstance(node, exp.EQ):
        return node.this.name, OneOf((_value(node.expression),))
    if isinstance(node, exp.Is):
        return node.this.name, OneOf((None,))
    if isinstance(node, exp.In):
        return node.this.name, OneOf(tuple(_value(expression) for expression in node.expressions))
    raise ValueError(str(node))


def _value(node: Any) -> Value:
    import datetime

    from sqlglot import exp

    if isinstance(node, exp.Neg):
        return -_value(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast):
        read: dict[str, Callable[[str], Value]] = {
            "DATE": datetime.date.fromisoformat,
            "TIME": datetime.time.fromisoformat,
            "TIMESTAMP": datetime.datetime.fromisoformat,
            "DOUBLE": float,
        }
        return read[node.to.sql(dialect="duckdb")](node.this.name)
    if not isinstance(node, exp.Literal):
        raise ValueError(str(node))
    if node.is_string:
        return node.name
    return float(node.name) if set(node.name) & set(".eEn") else int(node.name)
