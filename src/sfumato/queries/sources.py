"""What differs by the kind of a release: what its records show, and which estimator reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.draws import BoolArray, IntArray
from sfumato.errors import QueryError, UsageError
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimator, Forms, Moments, Totals
from sfumato.release import Release

if TYPE_CHECKING:
    from sfumato.queries.question import Question
    from sfumato.queries.question_plan import QuestionPlan, Weight
    from sfumato.queries.session import Session

UNBIASED = "inverse"


@dataclass(frozen=True)
class Request:
    """How a question is to be answered.

    `confidence` is that of the intervals; `estimator` None is the kind's default.
    """

    confidence: float = 0.95
    estimator: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(
                "The 'confidence' parameter must be a number between 0 and 1. "
                f"Got {self.confidence} instead."
            )
        if self.threads is not None and self.threads < 1:
            raise UsageError(
                "The 'threads' parameter must be a whole number from 1 up. "
                f"Got {self.threads} instead."
            )

    @property
    def quantile(self) -> float:
        """How many standard errors the interval reaches to each side."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)


@dataclass(frozen=True, eq=False)
class ShownLines:
    """What the lines show: a number for each sensitive column, and how often a draw was copied."""

    symbols: tuple[IntArray, ...]
    kept: BoolArray  # lines that show something the estimator knows
    copies: FloatArray | None = None

    def moments(self, classes: int, of: IntArray, sums: dict[Any, FloatArray]) -> Moments:
        all_moments = Moments(classes, of, self.symbols, sums, self.copies)
        return all_moments if self.kept.all() else all_moments.only(self.kept)


class QuestionSource(ABC):
    """A release as the evaluator sees it."""

    title: ClassVar[str]
    estimators: ClassVar[tuple[str, ...]]  # the default first
    deals_together: ClassVar[bool] = False  # whether several sensitive columns show one number
    counts_exactly: ClassVar[bool] = True  # whether sums without a sensitive column are counted
    holds_largest: bool = True  # whether the interval of the largest row of many holds as often

    def __init__(self, release: Release, session: Session) -> None:
        self.release, self.session = release, session

    def check(self, question: Question, request: Request) -> None:
        """Refuse, by name, what this kind cannot answer."""
        if request.estimator not in (None, *self.estimators):
            raise QueryError(
                f"{self.title} has no estimator {request.estimator!r}. Estimators there are: "
                f"{', '.join(self.estimators)}."
            )

    def domains(self, columns: Sequence[str]) -> list[pa.Array]:
        return [self.release.domain(name) for name in columns]

    @abstractmethod
    def shown(self, columns: Sequence[str]) -> list[str]:
        """The columns of the records that the estimator has to see."""

    def lines(self, plan: QuestionPlan) -> pa.Table:
        """The records, summed."""
        return self.session.sums(plan.record_sums())

    @abstractmethod
    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> ShownLines:
        """What lines (or records) show of sensitive columns, as numbers."""

    @abstractmethod
    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        """The estimator for these columns together."""

    def counted(self, weights: Sequence[Weight], moments: Moments, forms: Forms) -> Totals:
        """Sums that no sensitive column touches, by row."""
        return Totals.exact([(weight, weight.number) for weight in weights], moments, forms)

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """Look at a whole answer before it is given."""
        return answer

    def uncompletable(self) -> str | None:
        """Why no likely sensitive values can be drawn for the records, if so."""
        return "its sensitive values stand as they are"


class ColumnSource(QuestionSource):
    """Records that show a value of every sensitive column."""

    def shown(self, columns: Sequence[str]) -> list[str]:
        return list(columns)

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> ShownLines:
        records = pa.table(dict(shown))
        symbols = [self.release.shown_codes(records, name) for name in columns]
        kept = np.all([symbol >= 0 for symbol in symbols], axis=0)
        return ShownLines(tuple(symbols), kept)


def integers(values: pa.ChunkedArray) -> IntArray:
    return np.asarray(values.to_numpy(), np.int64)
