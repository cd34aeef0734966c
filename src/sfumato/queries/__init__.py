"""Questions to a release: SQL in, estimates with error bars out.

`ask` reads the SQL once, into a `Question` that knows nothing of kinds; each kind of release has
an evaluator that answers it. Nothing in here can see a raw table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import QueryError, UsageError
from sfumato.queries.answer import Answer
from sfumato.queries.opened import OpenedRelease, find_engine, open_release

if TYPE_CHECKING:
    from sfumato.queries.evaluate import Wishes
    from sfumato.queries.question import Question
    from sfumato.release import Release


class Evaluator(Protocol):
    """Answers questions to one kind of release."""

    def __call__(self, release: Release, question: Question, wishes: Wishes) -> Answer: ...


def _perturbed() -> Evaluator:
    from sfumato.queries.evaluate import answer_perturbed

    return answer_perturbed


def _synthetic() -> Evaluator:
    from sfumato.queries.synthetic import answer_synthetic

    return answer_synthetic


def _bucketed() -> Evaluator:
    from sfumato.queries.bucketed import answer_bucketed

    return answer_bucketed


def _generalized() -> Evaluator:
    from sfumato.queries.generalized import answer_generalized

    return answer_generalized


# by kind of release; functions that import, because DuckDB and sqlglot are slow to load
EVALUATORS = {
    "synthetic": _synthetic,
    "perturbed": _perturbed,
    "bucketed": _bucketed,
    "generalized": _generalized,
}


def ask(
    release: Release,
    sql: str,
    *,
    confidence: float = 0.95,
    keys: bool = False,
    consistent: bool = False,
    estimator: str | None = None,
    threads: int | None = None,
    engine: Any = None,
) -> Answer:
    """Answer `sql` from a release alone.

    `confidence` is that of the intervals; `keys` shows the empty groups as well; `consistent`
    makes counts non-negative and lets them add up; `estimator` None is the kind's default;
    `engine` is "local", "spark" or a Spark session.
    """
    from sfumato.queries.evaluate import Wishes
    from sfumato.queries.parse import parse
    from sfumato.queries.spelling import check_spelling

    if not 0 < confidence < 1:
        raise UsageError(
            "The 'confidence' parameter must be a number between 0 and 1. "
            f"Got {confidence} instead."
        )
    if threads is not None and threads < 1:
        raise UsageError(
            f"The 'threads' parameter must be a whole number from 1 up. Got {threads} instead."
        )
    if release.kind not in EVALUATORS:
        raise QueryError(
            f"Releases of the kind {release.kind!r} cannot be asked. Kinds that can: "
            f"{', '.join(sorted(EVALUATORS))}."
        )
    question = parse(sql, release.columns)
    check_spelling(question, release.columns)
    wishes = Wishes(confidence, keys, consistent, estimator, threads, find_engine(engine))
    try:
        return EVALUATORS[release.kind]()(release, question, wishes)
    except RecursionError:
        raise QueryError(
            "The question is nested too deeply. Use IN for long lists of values."
        ) from None


open = open_release  # its public name

__all__ = ["EVALUATORS", "Answer", "Evaluator", "OpenedRelease", "ask", "open", "open_release"]
