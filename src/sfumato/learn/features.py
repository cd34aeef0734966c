"""Features of records, fitted once, as a design for slopes.

A number is a slope of its own, in standard deviations from its mean; a category has a slope for
every value but the most frequent one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import Column, bin_labels
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray
from sfumato.queries.quasi_codes import numbers_in, texts_in
from sfumato.release import Release

MOST_SLOPES = 100  # of a category; the rest counts as its commonest value


@dataclass(frozen=True)
class Origin:
    """How a raw value is written in a release: in bins, or merged with others."""

    bins: tuple[float, ...] | None = None
    merged: Mapping[str, str] | None = None

    @classmethod
    def of(cls, release: Release, column: Column) -> Origin:
        merged = {
            str(value): merged.label
            for merged in release.merges.get(column.name, ())
            for value in merged.values
        }
        return cls(column.bins, merged or None)

    def published(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Raw values as they would be published; what is published already stays."""
        kind = values.type
        if self.bins is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            labels = pa.array(bin_labels(self.bins))
            numbers = np.asarray(values.cast(pa.float64()).to_numpy(), np.float64)
            bin_of = np.searchsorted(np.array(self.bins), numbers, side="right") - 1
            bin_of[numbers == self.bins[-1]] = len(labels) - 1
            outside = ~((bin_of >= 0) & (bin_of < len(labels)))
            return pa.chunked_array([labels.take(pa.array(bin_of, mask=outside))])
        if self.merged is not None:
            texts = values.cast(pa.string()).to_pylist()
            return pa.chunked_array([pa.array([self.merged.get(str(t), t) for t in texts])])
        return values


@dataclass(frozen=True, eq=False)
class Feature:
    """One column: a number with `mean` and `scale`, or a category, whose commonest value has no
    slope and is not `kept`."""

    name: str
    origin: Origin
    is_number: bool
    mean: float = 0.0
    scale: float = 1.0
    has_missing: bool = False  # a number's
    kept: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, name: str, values: pa.ChunkedArray, is_number: bool, origin: Origin) -> Feature:
        if is_number:
            numbers = numbers_of(name, values)
            finite = numbers[np.isfinite(numbers)]
            mean, scale = (float(finite.mean()), float(finite.std())) if len(finite) else (0.0, 1.0)
            return cls(name, origin, True, mean, scale or 1.0, len(finite) < len(numbers))
        counted = Counter(texts_in(values).to_pylist())
        order = sorted(counted, key=lambda text: (-counted[text], text is None, text or ""))
        kept = sorted(order[1 : MOST_SLOPES + 1], key=lambda text: (text is None, text or ""))
        return cls(name, origin, False, kept=tuple(kept))

    def read(self, table: pa.Table) -> pa.ChunkedArray:
        """The column of a frame or a release, as it would be published."""
        if self.name not in table.column_names:
            raise UsageError(f"The frame has no column {self.name!r}, which the learner needs.")
        values = self.origin.published(table.column(self.name))
        return values if self.is_number else texts_in(values)

    @property
    def labels(self) -> list[str]:
        """What the slopes are called."""
        if self.is_number:
            return [self.name, *([f"{self.name} is missing"] if self.has_missing else [])]
        return [f"{self.name}={'(missing)' if text is None else text}" for text in self.kept]

    def columns(self, table: pa.Table) -> list[FloatArray]:
        """The columns of the design; a value that is not known counts as the commonest."""
        values = self.read(table)
        if not self.is_number:
            coded = values.combine_chunks().dictionary_encode(null_encoding="encode")
            index_of = {text: code for code, text in enumerate(coded.dictionary.to_pylist())}
            codes = coded.indices.to_numpy(zero_copy_only=False)
            return [(codes == index_of.get(text, -1)).astype(np.float64) for text in self.kept]
        numbers = numbers_of(self.name, values)
        there = np.isfinite(numbers)
        found = [np.where(there, (numbers - self.mean) / self.scale, 0.0)]
        return [*found, (~there).astype(np.float64)] if self.has_missing else found


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a learner."""

    each: tuple[Feature, ...]

    @classmethod
    def of(
        cls, table: pa.Table, numbers: Mapping[str, bool], origins: Mapping[str, Origin]
    ) -> Features:
        features = []
        for name, is_number in numbers.items():
            origin = origins.get(name, Origin())
            features.append(Feature.of(name, table.column(name), is_number, origin))
        return cls(tuple(features))

    @property
    def names(self) -> list[str]:
        return [feature.name for feature in self.each]

    @property
    def labels(self) -> list[str]:
        return [label for feature in self.each for label in feature.labels]

    def design(self, table: pa.Table) -> Any:
        """Sparse (records, 1 + slopes): a column of ones, then the slopes of every feature."""
        from scipy.sparse import csr_array

        columns = [
            np.ones(len(table)),
            *(c for feature in self.each for c in feature.columns(table)),
        ]
        return csr_array(np.column_stack(columns))

    def unscaled(self) -> FloatArray:
        """The matrix that turns slopes of the design into slopes by unit, the constant first."""
        scales, means = [1.0], [0.0]
        for feature in self.each:
            more = len(feature.labels) - feature.is_number
            scales += [feature.scale] * feature.is_number + [1.0] * more
            means += [feature.mean] * feature.is_number + [0.0] * more
        unscale = np.diag(1 / np.array(scales))
        unscale[0, 1:] = -np.array(means[1:]) / np.array(scales[1:])
        return unscale


def numbers_of(name: str, values: pa.ChunkedArray) -> FloatArray:
    try:
        return numbers_in(values)
    except pa.ArrowException:
        raise UsageError(
            f"Column {name!r} holds numbers in what was learned from, and {values.type} in this "
            "frame."
        ) from None
