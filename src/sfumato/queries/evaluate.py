"""Answers from perturbed releases: the inverse operator, unbiased, with its error bars."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.errors import QueryError
from sfumato.queries.answer import Answer
from sfumato.queries.consistent import consistent_sql
from sfumato.queries.decoys import refuse_stuck
from sfumato.queries.dialect import sql_text
from sfumato.queries.grid import grid
from sfumato.queries.likely_cells import likely_cells
from sfumato.queries.paper_decoys import paper_cells
from sfumato.queries.question import ANSWER, Question
from sfumato.queries.rewrite import over
from sfumato.queries.select import ERRORS
from sfumato.queries.session import Session, quoted, session_of
from sfumato.queries.virtual import VirtualTable

if TYPE_CHECKING:
    from sfumato.release import Release

ESTIMATORS = ("inverse", "em", "consistent", "paper")
_NUMBERS = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")


@dataclass(frozen=True)
class Wishes:
    """How a question is to be answered."""

    confidence: float = 0.95
    keys: bool = False
    consistent: bool = False
    estimator: str | None = None
    threads: int | None = None
    engine: Any = None

    @property
    def quantile(self) -> float:
        """How many standard errors the interval reaches to each side."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)


def answer_perturbed(release: Release, question: Question, wishes: Wishes) -> Answer:
    """Answer from a release of the kind `perturbed`."""
    if wishes.estimator not in (None, *ESTIMATORS):
        raise QueryError(
            f"A perturbed release has no estimator {wishes.estimator!r}. Estimators there are: "
            f"{', '.join(ESTIMATORS)}."
        )
    session = session_of(release, wishes.threads, wishes.engine)
    _check_numbers(question, session)
    tables: dict[str, pa.Table] = {}
    if wishes.estimator in ("paper", "em"):
        cells = partial(paper_cells if wishes.estimator == "paper" else likely_cells, release)
        sql = consistent_sql(question, session, wishes.quantile, tables, cells)
    elif wishes.consistent or wishes.estimator == "consistent":
        sql = consistent_sql(question, session, wishes.quantile, tables)
    else:
        sql = VirtualTable(question, session, tables).sql(wishes.quantile)
    table = finish(release, question, session, sql, tables, keys=wishes.keys)
    for column in question.sensitive:
        refuse_stuck(table, column, session.weights(column)[1].decoys)
    aggregates = [output.name for output in question.outputs if output.of == "aggregate"]
    return Answer(table, tuple(aggregates), wishes.confidence)


def finish(
    release: Release,
    question: Question,
    session: Session,
    estimates: str,
    tables: dict[str, pa.Table],
    *,
    keys: bool,
) -> pa.Table:
    """HAVING, ORDER BY, LIMIT and the names of the answer, over `WITH … estimates AS (…)`."""
    source = "estimates"
    if keys:
        estimates += f", filled AS ({grid(release, question, tables)})"
        source = "filled"
    columns: list[str] = []
    for output in question.outputs:
        letter = "k" if output.of == "key" else "a"
        for suffix in ["", *(f"_{error}" for error in ERRORS if output.of == "aggregate")]:
            named = quoted(output.name + suffix)
            columns.append(f"{ANSWER}.{letter}{output.index}{suffix} AS {named}")
    sql = f"{estimates} SELECT {', '.join(columns)} FROM {source} AS {ANSWER}"
    if question.having is not None:
        sql += f" WHERE {sql_text(question.having)}"
    order = [
        f"{sql_text(each.tree)} {'DESC' if each.descending else 'ASC'} "
        f"NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in question.order
    ]
    # the same question has the same answer in the same order, whatever the threads do
    order += [f"{ANSWER}.k{place} NULLS LAST" for place in range(len(question.keys))]
    if order:
        sql += f" ORDER BY {', '.join(order)}"
    if question.limit is not None:
        sql += f" LIMIT {question.limit}"
    if question.offset is not None:
        sql += f" OFFSET {question.offset}"
    return session.run(sql, tables)


def _check_numbers(question: Question, session: Session) -> None:
    """SUM and AVG need numbers; DuckDB knows the type of every expression."""
    arguments = {
        aggregate.argument.text: (aggregate.function, aggregate.argument)
        for aggregate in question.aggregates
        if aggregate.argument is not None and aggregate.function != "count"
    }
    if not arguments:
        return
    records = session.record_columns()
    kinds = session.types([over(argument, records) for _, argument in arguments.values()])
    for (text, (function, _)), kind in zip(arguments.items(), kinds, strict=True):
        if _NUMBERS.fullmatch(kind) is None:
            raise QueryError(
                f"{function.upper()} needs a number; {text} is {kind}. CAST it to double if its "
                "texts are numbers, or use COUNT."
            )
