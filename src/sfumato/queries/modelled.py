"""The estimator `model`: any source, with the quasi columns of its records and a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws
from sfumato.errors import WeakPromiseWarning
from sfumato.operators import Parts
from sfumato.operators.composite import CompositeEstimator
from sfumato.operators.estimator import Estimator
from sfumato.operators.foreseen import Foreseen
from sfumato.operators.leaning import DealtCells, LeaningEstimator
from sfumato.operators.model import Model, fit_model, fit_rules
from sfumato.queries.bucket_table import bucket_table_of
from sfumato.queries.bucketed import BucketedSource
from sfumato.queries.model_sample import dealt_cells, drawn_sample, listed_sample
from sfumato.queries.model_store import keep_model, kept_model, place_of
from sfumato.queries.quasi_codes import QuasiCode, codes_of_columns
from sfumato.queries.sources import PerturbedSource, Request, Shown, Source

if TYPE_CHECKING:
    from sfumato.queries.question import Question

MOST_PAIRS = 1 << 25  # (person, value) pairs of local buckets whose chances are kept
FEWEST = 200  # records, below which nothing can be learnt from a half


class ModelledSource(Source):
    """A source whose lines are also told apart by the codes of quasi columns."""

    def __init__(self, inner: PerturbedSource | BucketedSource, request: Request) -> None:
        super().__init__(inner.release, inner.session)
        self.inner, self._request = inner, request
        self.title, self.estimators = inner.title, inner.estimators  # type: ignore[misc]
        self._quasi = [column.name for column in inner.release.quasi]

    def domains(self, columns: Sequence[str]) -> list[pa.Array]:
        return self.inner.domains(columns)

    def shown(self, columns: Sequence[str]) -> list[str]:
        found = self.inner.shown(columns)
        return [*found, *self._quasi] if columns else found

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        coded, _ = self._model(columns[0])
        codes = codes_of_columns([shown[name] for name in self._quasi], coded)
        part = self.release.part_column(columns[0])
        if part is not None:
            codes = (*codes, np.asarray(shown[part].to_numpy(), np.int64))
        return replace(self.inner.read(columns, shown), quasi=codes)

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        default = self.inner.estimator(columns, self.inner.estimators[0])
        if self._in_blocks:
            dealt = self.session.remembered(("dealt", columns[0]), lambda: self._dealt(columns[0]))
            return LeaningEstimator(default, dealt, len(self.release.domain(columns[0])))
        foreseen = self.session.remembered(
            ("foreseen", columns[0]), lambda: Foreseen(self._model(columns[0])[1])
        )
        return CompositeEstimator(default, foreseen)

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        return self.inner.finish(question, answer, aggregates)

    def _model(self, column: str) -> tuple[list[QuasiCode], Model]:
        return self.session.remembered(("model", column), lambda: self._fitted(column))

    def _fitted(self, column: str) -> tuple[list[QuasiCode], Model]:
        place = place_of(self.release, column)
        values = len(self.release.domain(column))
        known = kept_model(place, len(self._quasi), values, self._parts(column))
        if known is not None:
            return known
        draws = Draws.from_seed(0)  # the same release has the same model
        if isinstance(self.inner, PerturbedSource):
            coded, sample = drawn_sample(self.release, column, self.inner.operator(column))
        else:
            listed = bucket_table_of(self.inner.release, [column])
            coded, sample = listed_sample(self.release, listed, draws)
        fit = fit_rules if self._in_blocks else fit_model
        model = fit(sample, draws, self._request.progress)
        keep_model(place, coded, model)
        return coded, model

    @property
    def _in_blocks(self) -> bool:
        return isinstance(self.inner, BucketedSource) and self.inner.release.tree is not None

    def _dealt(self, column: str) -> DealtCells:
        """Everybody's chances, each bucket's by the rule that was fitted without it."""
        assert isinstance(self.inner, BucketedSource)
        coded, model = self._model(column)
        listed = bucket_table_of(self.inner.release, [column])
        return dealt_cells(self.release, listed, coded, model, Draws.from_seed(0))

    def _parts(self, column: str) -> int:
        operator = self.release.operators.get(column)
        return len(operator.parts) if isinstance(operator, Parts) else 0


def with_model(source: Source, question: Question, request: Request) -> Source | None:
    """The source with a model, or None, with a warning, where a model cannot help."""
    reason = hindrance(source)
    if len(question.sensitive) != 1:
        reason = "it knows one sensitive column at a time"
    if reason is None:
        assert isinstance(source, PerturbedSource | BucketedSource)
        return ModelledSource(source, request)
    if question.sensitive:
        warnings.warn(
            f"The estimator 'model' cannot help here: {reason}. The answer is that of the "
            f"estimator {source.estimators[0]!r}.",
            WeakPromiseWarning,
            stacklevel=4,
        )
    return None


def hindrance(source: Source, *, kept: bool = True) -> str | None:
    """Why no model of this release can help, if none can; `kept` says that the chances of all
    people of local buckets are kept."""
    release = source.release
    if not release.quasi:
        return "the release has no quasi columns to learn from"
    if release.rows < FEWEST:
        return f"{release.rows:,} records are too few to learn from"
    if release.scales is not None:
        return "records of this release are copies of samples"
    if isinstance(source, BucketedSource) and source.release.fakes:
        return "the buckets of this release list fakes"
    if isinstance(source, BucketedSource) and source.release.tells_people_apart:
        return "the rows of a person stand in one bucket, which a model does not know"
    if isinstance(source, BucketedSource) and source.release.tree is not None and kept:
        pairs = sum(size * size * number for size, number in source.release.sizes)
        if pairs > MOST_PAIRS:
            return f"dealing the values of its buckets to {release.rows:,} people takes too much"
    return None
