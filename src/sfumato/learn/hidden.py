"""A feature that is not seen as it is: the sensitive column, of which a release shows something.

Where a quasi column t is predicted from a sensitive one s and the other quasi columns q, a record
shows q, t and what its value s became. It is as likely as

    Σ_s P(s | q) · P(t | s, q) · Pr(shown | s),

so that the rule for t is fitted together with one for s; or records are read as every value that
they may have, by its chance given all that is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.learn.examples import Examples
from sfumato.learn.features import is_number
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Design, fit_links, quantile_bins

_CELLS = 1 << 22  # (records, values) that the rule for the hidden feature is fitted to, at most


def hidden_codes(table: pa.Table, name: str, values: Sequence[Any]) -> IntArray:
    """The true values of a test frame as codes; the last one for what the release does not know."""
    if name not in table.column_names:
        raise UsageError(f"The frame has no column {name!r}, which the learner needs.")
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    place = {value: code for code, value in enumerate(values)}
    return np.array([place.get(value, len(values)) for value in column.to_pylist()], np.int64)


def given_all(examples: Examples, target: Seen) -> FloatArray:
    """The chance of every value of the hidden feature, given what a record shows and its target:
    (records, values)."""
    hidden = examples.hidden
    assert hidden is not None
    features = examples.features
    codes = [*features.codes(examples.table), target.codes]
    sizes = [*features.sizes, len(target.values)]
    bins = {}
    for place, each in enumerate(features.each):
        if each.is_number:
            counts = np.bincount(codes[place], minlength=sizes[place])
            found = quantile_bins(np.arange(sizes[place], dtype=np.float64), counts)
            if found is not None:
                bins[place] = found
    design = Design.of(codes, sizes, bins)
    evidence = hidden.through("forward")
    draws = Draws.from_seed(0)  # the same release has the same rule

    def pick(units: int, many: int) -> IntArray:
        return draws.choose("units of a learner", units, many)

    rule = fit_links(design, evidence, hidden.prior, pick, cells=_CELLS)
    return np.asarray(evidence.weigh(np.exp(rule.log_chances(codes)))[1], np.float64)


class Encoded:
    """Values of a hidden feature as columns of a design: a number, or all but the commonest."""

    def __init__(self, seen: Seen) -> None:
        self.name, self.values = seen.name, seen.values
        kinds = pa.array(list(seen.values)).type
        self.is_number = is_number(kinds) and None not in seen.values
        if self.is_number:
            numbers = np.array([float(value) for value in seen.values])
            self.mean = float(seen.prior @ numbers)
            self.scale = float(np.sqrt(seen.prior @ (numbers - self.mean) ** 2)) or 1.0
            self.matrix = ((numbers - self.mean) / self.scale)[:, None]
            self.labels = [seen.name]
            return
        self.mean, self.scale = 0.0, 1.0
        kept = [code for code in range(len(seen.values)) if code != seen.prior.argmax()]
        self.matrix = np.eye(len(seen.values))[:, kept]
        self.labels = [f"{seen.name}={seen.values[code]}" for code in kept]

    def rows(self, table: pa.Table) -> FloatArray:
        """The columns of a frame with true values; what is not known counts as the commonest."""
        codes = hidden_codes(table, self.name, self.values)
        return np.vstack([self.matrix, np.zeros(self.matrix.shape[1])])[codes]

    def unscaled(self, features: FloatArray) -> FloatArray:
        """`Features.unscaled` with the columns of this one behind."""
        many, more = len(features), len(self.labels)
        found = np.zeros((many + more, many + more))
        found[:many, :many] = features
        found[many:, many:] = np.eye(more) / self.scale
        if self.is_number:
            found[0, many:] = -self.mean / self.scale
        return found
