"""Perturbed releases as the evaluator sees them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import list_some, value_text
from sfumato.draws import IntArray
from sfumato.errors import BundleError, QueryError, SingularOperator, WeakPromiseWarning
from sfumato.operators import ObservedDecoy, Operator
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy_estimates import DecoyEstimated
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Estimator
from sfumato.operators.weighing import Composition
from sfumato.queries.sources import ColumnSource, ShownLines, integers
from sfumato.queries.statements import RecordSums, count, named
from sfumato.release import PerturbedRelease
from sfumato.release.values import codes_of

if TYPE_CHECKING:
    from sfumato.queries.question import Question


class PerturbedSource(ColumnSource):
    """A record shows what an operator made of its value."""

    title = "A perturbed release"
    release: PerturbedRelease

    estimators = ("shrunk", "inverse")

    @property
    def holds_largest(self) -> bool:  # type: ignore[override]
        """Of parts with few values each it was seen to hold in 87 of 100 cases."""
        return not any(self.release.part_column(column.name) for column in self.release.sensitive)

    def shown(self, columns: Sequence[str]) -> list[str]:
        parts = [self.release.part_column(name) for name in columns]
        needed = [*columns, *(name for name in parts if name is not None)]
        if self.release.scales is not None and columns:
            needed.append("part")
        lacking = sorted(set(needed) - set(self.session.names))
        if lacking:
            raise BundleError(
                f"The records lack {list_some(lacking)}, which the operators of "
                f"{list_some(columns)} need. Fetch the release again."
            )
        return list(dict.fromkeys(needed))

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> ShownLines:
        lines = super().read(columns, shown)
        if self.release.scales is None:
            return lines
        part = integers(shown["part"])
        return ShownLines(lines.symbols, lines.kept, np.array(self.release.scales)[part])

    def published_counts(self, column: str) -> IntArray:
        """How many records show each value."""
        values = named(self.session.record_columns()[column], "value")
        counted = self.session.sums(RecordSums([values], [named(count(), "n")], []))
        domain = self.release.domain(column)
        codes = codes_of(counted.column("value"), domain)
        counts = np.asarray(counted.column("n").to_numpy(), np.float64)
        return np.bincount(codes[codes >= 0], counts[codes >= 0], len(domain)).astype(np.int64)

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
        completed = operator.observed(self.published_counts(column))
        if isinstance(completed, ObservedDecoy):
            warn_near_the_limit(completed, self.release.domain(column), column)
        return completed

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        shrunk = name == "shrunk"
        operators = [self.operator(column) for column in columns]
        if len(operators) == 1 and isinstance(operators[0], ObservedDecoy):
            return partial(DecoyEstimated, operator=operators[0], shrunk=shrunk)
        return self.session.remembered(
            ("estimator", shrunk, *columns),
            lambda: self._of_columns(columns, operators, shrunk),
        )

    def _of_columns(
        self, columns: Sequence[str], operators: Sequence[Operator], shrunk: bool
    ) -> Estimator:
        """One column with structure by itself, anything else jointly."""
        inverses = [operator.inverse() for operator in operators]
        alone = len(inverses) == 1
        wholes = [
            Composition.of(inverse, *self._shown_counts([name], len(inverse.codes)), blocks=alone)
            for name, inverse in zip(columns, inverses, strict=True)
        ]
        return partial(DrawnEstimated, inverses=inverses, wholes=wholes, shrunk=shrunk)

    def _shown_counts(
        self, columns: Sequence[str], symbols: int
    ) -> tuple[FloatArray, FloatArray | None]:
        """How many records of the release show each symbol, and, where draws were copied, how many
        if each counts as often as its draw was."""
        names, records = self.shown(columns), self.session.record_columns()
        keys = [named(records[name], f"r{index}") for index, name in enumerate(names)]
        lines = self.session.sums(RecordSums(keys, [named(count(), "n")], []))
        shown = self.read(columns, {n: lines.column(f"r{k}") for k, n in enumerate(names)})
        (at,) = shown.symbols
        counts = np.where(shown.kept, lines.column("n").to_numpy(), 0.0)
        by_symbol = np.bincount(np.maximum(at, 0), counts, symbols).astype(np.float64)
        if shown.copies is None:
            return by_symbol, None
        noise = np.bincount(np.maximum(at, 0), counts * shown.copies, symbols)
        return by_symbol, noise.astype(np.float64)

    def uncompletable(self) -> str | None:
        return None

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """Refuse an answer about a decoy value at the eligibility limit (errata S3)."""
        for column in question.sensitive:
            operator = self.operator(column)
            if not isinstance(operator, ObservedDecoy) or not len(operator.at_the_limit()):
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


def names_of(places: IntArray, domain: pa.Array) -> list[str]:
    return [value_text(domain[int(code)].as_py()) for code in places]


def warn_near_the_limit(operator: ObservedDecoy, domain: pa.Array, column: str) -> None:
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
