"""What differs by the kind of a release: what its records show, and which estimator reads it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import list_some, value_text
from sfumato.draws import BoolArray, IntArray
from sfumato.errors import (
    BundleError,
    QueryError,
    SingularOperator,
    WeakPromiseWarning,
)
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy_estimates import DecoyEstimator
from sfumato.operators.estimator import Estimator, Forms, Moments, Totals
from sfumato.operators.inverse import Inverse
from sfumato.operators.joint import JointEstimator
from sfumato.operators.structured import Composition, DrawnEstimator
from sfumato.queries.statements import RecordSums, count, named
from sfumato.release import PerturbedRelease, Release

if TYPE_CHECKING:
    from sfumato.queries.question import Question
    from sfumato.queries.question_plan import QuestionPlan, Weight
    from sfumato.queries.session import Session


@dataclass(frozen=True)
class Request:
    """How a question is to be answered."""

    confidence: float = 0.95
    keys: bool = False
    estimator: str | None = None
    threads: int | None = None

    @property
    def quantile(self) -> float:
        """How many standard errors the interval reaches to each side."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)


@dataclass(frozen=True, eq=False)
class Shown:
    """What the lines show: a number for each sensitive column, and how often a draw was copied."""

    symbols: tuple[IntArray, ...]
    kept: BoolArray  # lines that show something the estimator knows
    copies: FloatArray | None = None
    sampled: BoolArray | None = None

    def moments(self, classes: int, of: IntArray, sums: dict[Any, FloatArray]) -> Moments:
        found = Moments(classes, of, self.symbols, sums, self.copies, self.sampled)
        return found if self.kept.all() else found.only(self.kept)


class Source(ABC):
    """A release as the evaluator sees it."""

    title: ClassVar[str]
    estimators: ClassVar[tuple[str, ...]]  # the default first
    deals_together: ClassVar[bool] = False  # whether several sensitive columns show one number
    counts_exactly: ClassVar[bool] = True  # whether sums without a sensitive column are counted

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
    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        """What lines (or records) show of sensitive columns, as numbers."""

    @abstractmethod
    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        """The estimator for these columns together."""

    def counted(self, weights: Sequence[Weight], moments: Moments, forms: Forms) -> Totals:
        """Sums that no sensitive column touches, by row."""
        return Totals.exact([(each, each.number) for each in weights], moments, forms)

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """Look at a whole answer before it is given."""
        return answer

    def uncompletable(self) -> str | None:
        """Why no likely sensitive values can be drawn for the records, if so."""
        return "its sensitive values stand as they are"

    def untestable(self) -> str | None:
        """Why what is shown of sensitive columns is not dealt anew with their values, if so."""
        return "this kind of release does not show what a test could be made from"

    def scores(self, column: str, asked: FloatArray) -> Any:
        """What each symbol of a column counts towards the keys of values: (symbols, keys).

        `asked` says by (key, value) which values have a key.
        """
        return asked.T

    def mixed_within(self, symbols: IntArray) -> IntArray | None:
        """The block within which a record's symbol was dealt; None where among all records."""
        return None


class ColumnSource(Source):
    """Records that show a value of every sensitive column."""

    def shown(self, columns: Sequence[str]) -> list[str]:
        return list(columns)

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        symbols = [self._codes(name, shown) for name in columns]
        kept = np.all([each >= 0 for each in symbols], axis=0)
        return Shown(tuple(symbols), kept)

    def _codes(self, name: str, shown: Mapping[str, pa.ChunkedArray]) -> IntArray:
        return codes_of(shown[name], self.release.domain(name))

    def published_counts(self, column: str) -> IntArray:
        """How many records show each value."""
        values = named(self.session.record_columns()[column], "value")
        counted = self.session.sums(RecordSums([values], [named(count(), "n")], []))
        domain = self.release.domain(column)
        codes = codes_of(counted.column("value"), domain)
        counts = np.asarray(counted.column("n").to_numpy(), np.float64)
        return np.bincount(codes[codes >= 0], counts[codes >= 0], len(domain)).astype(np.int64)


class PerturbedSource(ColumnSource):
    """A record shows what an operator made of its value."""

    title = "A perturbed release"
    release: PerturbedRelease

    @property
    def estimators(self) -> tuple[str, ...]:  # type: ignore[override]
        """Shrunk by default, unless an operator's values are not shrunk one by one."""
        shrinks = all(operator.shrinks for operator in self.release.operators.values())
        return ("shrunk", "inverse", "em") if shrinks else ("inverse", "shrunk", "em")

    def shown(self, columns: Sequence[str]) -> list[str]:
        parts = [self.release.part_column(name) for name in columns]
        found = [*columns, *(name for name in parts if name is not None)]
        if self.release.scales is not None and columns:
            found.append("part")
        lacking = sorted(set(found) - set(self.session.names))
        if lacking:
            raise BundleError(
                f"The records lack {list_some(lacking)}, which the operators of "
                f"{list_some(columns)} need. Fetch the release again."
            )
        return list(dict.fromkeys(found))

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        found = super().read(columns, shown)
        if self.release.scales is None:
            return found
        part = integers(shown["part"])
        return Shown(found.symbols, found.kept, np.array(self.release.scales)[part], part > 0)

    def _codes(self, name: str, shown: Mapping[str, pa.ChunkedArray]) -> IntArray:
        codes = super()._codes(name, shown)
        operator, part = self.release.operators.get(name), self.release.part_column(name)
        if not isinstance(operator, Parts) or part is None:
            return codes
        return np.where(codes < 0, -1, operator.lookup[integers(shown[part]), codes])

    def operator(self, column: str) -> Operator:
        """The operator, completed with the release's published counts where it needs them."""
        return self.session.remembered(("operator", column), lambda: self._completed(column))

    def _completed(self, column: str) -> Operator:
        operator = self.release.operators.get(column)
        if operator is None:
            raise QueryError(
                f"The release holds no operator for column {column!r}, so nothing can be estimated "
                "from it. Ask about the quasi-identifiers alone."
            )
        if not operator.needs_counts:
            return operator
        found = operator.observed(self.published_counts(column))
        if isinstance(found, Decoy):
            warn_near_the_limit(found, self.release.domain(column), column)
        return found

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        shrunk = name == "shrunk"
        operators = [self.operator(column) for column in columns]
        if len(operators) == 1 and isinstance(operators[0], Decoy):
            return DecoyEstimator(operators[0], shrunk=shrunk)
        return self.session.remembered(
            ("estimator", shrunk, *columns),
            lambda: self._of_columns(columns, operators, shrunk),
        )

    def _of_columns(
        self, columns: Sequence[str], operators: Sequence[Operator], shrunk: bool
    ) -> Estimator:
        """One column with structure by itself, anything else jointly."""
        inverses = [each.inverse() for each in operators]
        first = inverses[0]
        if len(inverses) == 1 and isinstance(first, Inverse):
            whole = Composition.of(first, *self._shown_counts(columns, len(first.codes)))
            return DrawnEstimator(first, whole, shrunk=shrunk)
        wholes = [
            Composition.of(each, *self._shown_counts([name], len(each.codes)), blocks=False)
            for name, each in zip(columns, inverses, strict=True)
        ]
        return JointEstimator(inverses, wholes, shrunk=shrunk)

    def _shown_counts(
        self, columns: Sequence[str], symbols: int
    ) -> tuple[FloatArray, FloatArray | None]:
        """How many records of the release show each symbol, and, where draws were copied, how many
        if each counts as often as its draw was."""
        names, records = self.shown(columns), self.session.record_columns()
        keys = [named(records[name], f"r{place}") for place, name in enumerate(names)]
        lines = self.session.sums(RecordSums(keys, [named(count(), "n")], []))
        shown = self.read(columns, {n: lines.column(f"r{k}") for k, n in enumerate(names)})
        (at,) = shown.symbols
        counts = np.where(shown.kept, lines.column("n").to_numpy(), 0.0)
        found = np.bincount(np.maximum(at, 0), counts, symbols).astype(np.float64)
        if shown.copies is None:
            return found, None
        noise = np.bincount(np.maximum(at, 0), counts * shown.copies, symbols)
        return found, noise.astype(np.float64)

    def uncompletable(self) -> str | None:
        return None

    def untestable(self) -> str | None:
        if self.release.scales is not None:
            return (
                "its records are copies of samples, so that counts of them are no counts of people"
            )
        return None

    def scores(self, column: str, asked: FloatArray) -> Any:
        operator = self.release.operators[column]
        # decoys are real values of others: a record shows one of them, with no known inverse
        return asked.T if operator.needs_counts else operator.inverse().weigh(asked).T

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """Refuse an answer about a decoy value at the eligibility limit (errata S3)."""
        for column in question.sensitive:
            operator = self.operator(column)
            if not isinstance(operator, Decoy) or not len(operator.at_the_limit()):
                continue
            for name in aggregates:
                if pc.any(pc.is_nan(answer.column(name))).as_py():
                    stuck = names_of(operator.at_the_limit(), self.release.domain(column))
                    raise SingularOperator(
                        f"{list_some(stuck)} of column {column!r} have as many records as there "
                        f"are groups of {operator.groups}, as far as the release shows: they stand "
                        "in every group, so nothing tells who has them. Leave them out of the "
                        "question, or ask for a release with smaller groups."
                    )
        return answer


def codes_of(values: pa.ChunkedArray, domain: pa.Array) -> IntArray:
    """The place of every value in the domain, −1 for a value outside it."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    found = pc.index_in(values, value_set=domain.cast(values.type))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def integers(values: pa.ChunkedArray) -> IntArray:
    return np.asarray(values.to_numpy(), np.int64)


def names_of(places: IntArray, domain: pa.Array) -> list[str]:
    return [value_text(domain[int(place)].as_py()) for place in places]


def warn_near_the_limit(operator: Decoy, domain: pa.Array, column: str) -> None:
    """Warn, by name, of values whose counts within a condition are hardly known."""
    near = names_of(operator.near_the_limit(), domain)
    if near:
        warnings.warn(
            f"{list_some(near)} of column {column!r} have nearly 1/{operator.groups} of the "
            "records, so that they stand in nearly every group: within a condition, their counts "
            "are very uncertain, as their error bars show.",
            WeakPromiseWarning,
            stacklevel=2,
        )
