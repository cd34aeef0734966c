"""Answers from generalized releases: every row counts with the share that satisfies the question.

Values inside a range or a set are taken as equally likely and columns as independent, so a
conjunction weighs the product. How far that is from the truth the release cannot know: answers
that use quasi columns have no error bar.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.queries.answer import Answer
from sfumato.queries.evaluate import Wishes, finish
from sfumato.queries.overlap import Weights, overlap, stored
from sfumato.queries.question import Aggregate, Question, Term
from sfumato.queries.rewrite import over
from sfumato.queries.session import Session, session_of

if TYPE_CHECKING:
    from sfumato.release import Release

_PLACE = "_sfumato_place"


def answer_generalized(release: Release, question: Question, wishes: Wishes) -> Answer:
    """Answer from a release of the kind `generalized`; refuses by name what it cannot weigh."""
    if wishes.estimator not in (None, "uniform"):
        raise QueryError(
            f"A generalized release has no estimator {wishes.estimator!r}. Estimators there are: "
            "uniform."
        )
    if wishes.engine is not None:
        raise QueryError(
            "A generalized release is answered on this machine, row by row. Leave the engine out."
        )
    session = session_of(release, wishes.threads)
    _check(question)
    weights: dict[str, Weights] = {}
    for aggregate in question.aggregates:
        for term in _by_column((*question.where, *aggregate.filter)):
            if term.text not in weights:
                weights[term.text] = overlap(term, release, session)
    if weights:
        warnings.warn(
            "Ranges and sets are taken as evenly filled: answers about quasi columns have no error "
            "bar.",
            WeakPromiseWarning,
            stacklevel=3,
        )
    weighed = _weighed(release, question, session, weights)
    columns = [f"k{place}" for place in range(len(question.keys))]
    error = "CAST(NULL AS DOUBLE)" if weights else "0.0"
    for place, aggregate in enumerate(question.aggregates):
        value = _aggregated(place, aggregate)
        bound = "CAST(NULL AS DOUBLE)" if weights else value
        columns += [
            f"{value} AS a{place}",
            f"{error} AS a{place}_stderr",
            f"{bound} AS a{place}_low",
            f"{bound} AS a{place}_high",
        ]
    estimates = f"WITH estimates AS (SELECT {', '.join(columns)} FROM weighed"
    if question.keys:
        estimates += " GROUP BY " + ", ".join(f"k{place}" for place in range(len(question.keys)))
    table = finish(
        release, question, session, estimates + ")", {"weighed": weighed}, keys=wishes.keys
    )
    aggregates = [output.name for output in question.outputs if output.of == "aggregate"]
    return Answer(table, tuple(aggregates), wishes.confidence)


def _aggregated(place: int, aggregate: Aggregate) -> str:
    count, total = f"coalesce(sum(w{place}), 0.0)", f"sum(w{place} * x{place})"
    if aggregate.function == "count":
        return count
    return total if aggregate.function == "sum" else f"{total} / nullif({count}, 0.0)"


def _weighed(
    release: Release, question: Question, session: Session, weights: dict[str, Weights]
) -> pa.Table:
    """Per published row: the keys, and for each aggregate its weight w and its argument x."""
    records = session.record_columns()

    def exact(terms: tuple[Term, ...]) -> str:
        conditions = [f"coalesce(({over(t, records)}), false)" for t in terms if not t.quasi]
        return " AND ".join(conditions) or "true"

    columns = [f"({over(key, records)}) AS k{place}" for place, key in enumerate(question.keys)]
    for place, aggregate in enumerate(question.aggregates):
        condition = exact((*question.where, *aggregate.filter))
        if aggregate.argument is not None:
            argument = over(aggregate.argument, records)
            condition += f" AND ({argument}) IS NOT NULL"
            if aggregate.function != "count":
                columns.append(f"CAST(coalesce({argument}, 0) AS DOUBLE) AS x{place}")
        columns.append(f"CAST(CAST(({condition}) AS INT) AS DOUBLE) AS w{place}")
    names = [column.name for column in release.columns if column.role == "sensitive"]
    stand_in = {session.names[name]: stored(release, name) for name in names}
    stand_in[_PLACE] = pa.array(np.arange(release.rows))
    table = session.run(
        f"SELECT {', '.join(columns)} FROM stored AS records ORDER BY records.{_PLACE}",
        {"stored": pa.table(stand_in)},
    )
    for place, aggregate in enumerate(question.aggregates):
        index = table.column_names.index(f"w{place}")
        weight = np.asarray(table.column(index).to_numpy(), np.float64).copy()
        for term in _by_column((*question.where, *aggregate.filter)):
            weight *= weights[term.text]
        table = table.set_column(index, f"w{place}", pa.array(weight))
    return table


def _by_column(terms: tuple[Term, ...]) -> list[Term]:
    """One condition per quasi column: `age > 30 AND age < 40` is weighed as a whole."""
    by_column: dict[frozenset[str], list[Term]] = {}
    for term in terms:
        if term.quasi:
            by_column.setdefault(term.quasi, []).append(term)
    return [
        found[0]
        if len(found) == 1
        else Term(exp.and_(*(term.tree.copy() for term in found)), quasi, frozenset())
        for quasi, found in by_column.items()
    ]


def _check(question: Question) -> None:
    """Only conditions on one quasi column, or on sensitive columns alone, can be weighed."""
    conditions = list(question.where)
    for aggregate in question.aggregates:
        conditions += aggregate.filter
        if aggregate.argument is not None and aggregate.argument.quasi:
            raise QueryError(
                f"{aggregate.text} cannot be estimated: the release shows ranges and sets of "
                f"{', '.join(sorted(aggregate.argument.quasi))}. Ask COUNT(*) with conditions on "
                "them."
            )
    for key in question.keys:
        if key.quasi:
            raise QueryError(
                f"GROUP BY {key.text} cannot be estimated: the release shows ranges and sets of "
                f"{', '.join(sorted(key.quasi))}. Ask once per value with WHERE, or group by the "
                "sensitive column."
            )
    for term in conditions:
        if term.is_mixed or len(term.quasi) > 1:
            raise QueryError(
                f"The condition {term.text} ties several columns together, and ranges and sets "
                "cannot be weighed against it. Write one condition per column, joined by AND."
            )
