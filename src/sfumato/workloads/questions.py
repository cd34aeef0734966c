"""Count questions and workloads of them, saved as SQL that anybody can ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.columns import Value
from sfumato.workloads.conditions import Condition, OneOf


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """How many records satisfy the conditions on quasi columns and have one of `values`.

    >>> from sfumato.workloads.conditions import Between
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
        """One statement per line; the first line is a comment."""
        lines = [f"-- sfumato workload: {self.source}"]
        lines += [f"{question.sql()};" for question in self.questions]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")

    def by_conditions(self) -> dict[tuple[tuple[str, Condition], ...], list[int]]:
        """The places of the questions that ask about the same records."""
        found: dict[tuple[tuple[str, Condition], ...], list[int]] = {}
        for index, question in enumerate(self.questions):
            found.setdefault(question.key, []).append(index)
        return found
