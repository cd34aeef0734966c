"""Count questions, as SQL that anybody can ask, and as one join that counts for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.columns import Value
from sfumato.operators.base import FloatArray
from sfumato.queries.dialect import sql_text
from sfumato.queries.statements import literal, quoted


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """How many records have these values of quasi columns and this one of `column`.

    >>> CountQuestion({"age": 30, "sex": None}, "disease", "flu").sql()
    'SELECT COUNT(*) FROM release WHERE "age" = 30 AND "sex" IS NULL AND "disease" = \\'flu\\''
    """

    conditions: Mapping[str, Value]
    column: str
    value: Value

    def sql(self) -> str:
        return f"SELECT COUNT(*) FROM release WHERE {self.condition}"

    @property
    def condition(self) -> str:
        asked = [*self.conditions.items(), (self.column, self.value)]
        texts = [
            f"{quoted(name)} IS NULL" if v is None else f"{quoted(name)} = {sql_text(literal(v))}"
            for name, v in asked
        ]
        return " AND ".join(texts)


@dataclass(frozen=True, eq=False)
class Workload:
    """Questions, and the text form that makes them again."""

    questions: tuple[CountQuestion, ...]
    source: str

    def __len__(self) -> int:
        return len(self.questions)

    def save(self, path: str | Path) -> None:
        """One statement per line; the first line is a comment."""
        lines = [f"-- sfumato workload: {self.source}"]
        lines += [f"{question.sql()};" for question in self.questions]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


@dataclass(frozen=True, eq=False)
class Conditions:
    """What records have to show to be counted: by question, values of some columns."""

    by_question: Sequence[Mapping[str, Value]]
    types: Mapping[str, pa.DataType]
    weights: FloatArray  # what a record that satisfies a question's counts for it

    def joined(
        self,
        shown: Mapping[str, str],
        run: Callable[[str, pa.Table], pa.Table],
        names: Mapping[str, str],
    ) -> pa.Table:
        """By question `q` and by what records show: how many satisfy it, as `n`.

        `run` runs SQL over `records` and a table `asked`; `names` are those of columns there, and
        `shown` says under which new name a column comes back. Cost: a pass for every set of columns
        that questions are about.
        """
        by_columns: dict[tuple[str, ...], list[int]] = {}
        for number, asked in enumerate(self.by_question):
            by_columns.setdefault(tuple(sorted(asked)), []).append(number)
        parts = []
        for columns, numbers in by_columns.items():
            wanted: dict[str, pa.Array] = {"q": pa.array(numbers, pa.int64())}
            wanted["w"] = pa.array(self.weights[np.array(numbers, np.int64)])
            equal = ["TRUE"]
            for place, name in enumerate(columns):
                values = [self.by_question[number][name] for number in numbers]
                wanted[f"c{place}"] = pa.array(values, self.types[name])
                equal.append(f"r.{quoted(names[name])} IS NOT DISTINCT FROM c{place}")
            back = ", ".join(f"r.{quoted(names[name])} AS {new}" for name, new in shown.items())
            text = (
                f"SELECT q, {back}, any_value(w) * count(*) AS n FROM records AS r JOIN asked "
                f"ON {' AND '.join(equal)} GROUP BY ALL"
            )
            parts.append(run(text, pa.table(wanted)))
        return pa.concat_tables(parts)
