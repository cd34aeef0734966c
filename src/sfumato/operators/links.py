"""Links: how a sensitive value hangs together with the quasi columns, P(value | quasi).

A rule has the shape log P(x | q) = a_x + Σ_j T_j[q_j, x] − log Z(q), its tables being fitted by
softmax regression on the quasi values with a ridge (`attacks.links` counts some). It is fitted to
what a reader sees of each record, a likelihood of every value: a true value (the raw table), a
published one (through the release's operator), or the list of its bucket. The gradient is in every
case (chance given what is seen) − (chance by the rule), summed by quasi value (methods, section 8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

Chances = npt.NDArray[Any]  # single precision while fitting, double elsewhere

CELLS = 1 << 20  # (records, values) that softmax is fitted to at most
RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0)  # from the stiffest; the one that foresees best is kept
HELD_OUT = 5  # every fifth unit is kept back to choose by
_STEPS = 60  # of the quasi-Newton search, at most
STILL = 1e-5  # the relative gain in likelihood at which it stops
_TOLD = 0.2  # of what a true value would tell, by a shown one; it only sets the search's scale
_LEAST = 1e-30  # the smallest likelihood of a record, so that its logarithm is finite


@dataclass(frozen=True, eq=False)
class Links:
    """A rule P(value | quasi); `tables[j]` has a row for every code of quasi column j.

    >>> rule = Links("by hand", np.zeros(2), (np.log([[3.0, 1.0], [1.0, 1.0]]),))
    >>> np.exp(rule.log_chances([np.array([0, 1])])).round(2).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """

    name: str
    start: FloatArray
    tables: tuple[FloatArray, ...]
    ridge: float | None = None  # how stiff softmax was found to be best

    @property
    def values(self) -> int:
        return len(self.start)

    def scores(self, codes: Sequence[IntArray], rows: IntArray | None = None) -> FloatArray:
        """Log chances up to a constant per record: shape (records, values)."""
        count = len(rows) if rows is not None else len(codes[0]) if len(codes) else 0
        scores = np.tile(self.start, (count, 1))
        for table, column in zip(self.tables, codes, strict=True):
            scores += table[column if rows is None else column[rows]]
        return scores

    def log_chances(self, codes: Sequence[IntArray], rows: IntArray | None = None) -> FloatArray:
        from scipy.special import log_softmax

        return np.asarray(log_softmax(self.scores(codes, rows), axis=1))

    def pair_scores(
        self, codes: Sequence[IntArray], record: IntArray, value: IntArray
    ) -> FloatArray:
        """Scores of single (record, value) pairs, without the whole table of them."""
        scores = self.start[value]
        for table, column in zip(self.tables, codes, strict=True):
            scores = scores + table[column[record], value]
        return scores


class RecordLikelihoods(ABC):
    """What is seen of records: how likely, for each value that a record might have."""

    units: int  # what is independent of each other: records, or buckets

    @abstractmethod
    def of(self, chosen: IntArray) -> tuple[IntArray, RecordLikelihoods]:
        """The records of the chosen units, and what is seen of those alone."""

    @abstractmethod
    def weigh(self, chances: Chances) -> tuple[float, Chances]:
        """The log likelihood of all that is seen under the chances of a rule, and the chances
        given what is seen: both (records, values)."""


@dataclass(frozen=True, eq=False)
class ShownSymbols(RecordLikelihoods):
    """Record r shows symbol `shown[r]`; `likelihood` has its likelihood by value in a row."""

    shown: IntArray
    likelihood: FloatArray  # (symbols, values)

    @property
    def units(self) -> int:  # type: ignore[override]
        return len(self.shown)

    def of(self, chosen: IntArray) -> tuple[IntArray, ShownSymbols]:
        return chosen, ShownSymbols(self.shown[chosen], self.likelihood)

    def weigh(self, chances: Chances) -> tuple[float, Chances]:
        joint = chances * self.likelihood.astype(chances.dtype)[self.shown]
        mass = np.maximum(joint.sum(axis=1, keepdims=True), _LEAST)
        joint /= mass
        return float(np.log(mass).sum(dtype=np.float64)), joint


def seen_truth(truth: IntArray, values: int) -> ShownSymbols:
    """The raw table: everybody's value is seen."""
    return ShownSymbols(truth, np.eye(values))


@dataclass(frozen=True, eq=False)
class Design:
    """Records as rows over all quasi values, column after column, and over bins of some columns.

    What is learned for a bin is added to the values in it, so bins never leave this module: they
    let neighbouring numbers learn from each other.
    """

    matrix: Any  # sparse (records, quasi values and bins)
    sizes: Sequence[int]
    bins: Mapping[int, IntArray]

    @classmethod
    def of(
        cls, codes: Sequence[IntArray], sizes: Sequence[int], bins: Mapping[int, IntArray]
    ) -> Self:
        """Every record has one value of every column."""
        from scipy.sparse import csr_array

        records = len(codes[0])
        blocks = [
            csr_array(
                (np.ones(records, np.float32), column, np.arange(records + 1)),
                shape=(records, size),
            )
            for column, size in zip(codes, sizes, strict=True)
        ]
        return cls.joined(blocks, bins)

    @classmethod
    def joined(cls, blocks: Sequence[Any], bins: Mapping[int, IntArray]) -> Self:
        """One sparse block (records, values) per column, whose rows sum to 1."""
        from scipy.sparse import csr_array, hstack

        sizes = [block.shape[1] for block in blocks]
        coarse = []
        for column, bin_of in bins.items():
            cells = (np.arange(len(bin_of)), bin_of)
            inside = csr_array((np.ones(len(bin_of), np.float32), cells))
            coarse.append(blocks[column] @ inside)
        return cls(hstack([*blocks, *coarse], format="csr", dtype=np.float32), sizes, bins)

    def tables(self, slopes: FloatArray) -> tuple[FloatArray, ...]:
        """The rule's tables: what was learned for a value, and for its bin."""
        ends = np.cumsum([*self.sizes, *(int(bin_of.max()) + 1 for bin_of in self.bins.values())])
        parts = np.split(slopes, ends[:-1])
        for (column, bin_of), learned in zip(
            self.bins.items(), parts[len(self.sizes) :], strict=True
        ):
            parts[column] = parts[column] + learned[bin_of]
        return tuple(parts[: len(self.sizes)])


def fit_links(
    design: Design,
    evidence: RecordLikelihoods,
    prior: FloatArray,
    pick: Callable[[int, int], IntArray],
    ridges: Sequence[float] = RIDGES,
    cells: int = CELLS,
    still: float = STILL,
    centre: FloatArray | None = None,
) -> Links:
    """Softmax regression on quasi values, fitted to what is seen of the records.

    The ridge is the one under which units that were kept back are likeliest. `pick(n, k)` draws k
    of n units in random order; so many are used that the fit stays within `cells`. `centre` is what
    the ridge draws the slopes to, 0 if left out.
    """
    share = min(1.0, cells / max(design.matrix.shape[0] * len(prior), 1))
    units = pick(evidence.units, max(int(evidence.units * share), min(evidence.units, 2)))
    start = np.log(np.maximum(prior, _LEAST))
    slopes = np.zeros((design.matrix.shape[1], len(prior)))
    kept = np.arange(len(units)) % HELD_OUT == 0
    ridge = float(ridges[0])
    if len(ridges) > 1 and not kept.all():
        fit = SoftmaxFit.of(design, evidence, units[~kept])
        test = SoftmaxFit.of(design, evidence, units[kept])
        tried, best = slopes, -np.inf
        for candidate in ridges:
            tried = fit.climb(start, tried, candidate, still, centre)
            likelihood = test.likelihood(start, tried)
            if likelihood <= best:
                break
            best, ridge, slopes = likelihood, float(candidate), tried
    slopes = SoftmaxFit.of(design, evidence, units).climb(start, slopes, ridge, still, centre)
    return Links("softmax", start, design.tables(slopes), ridge)


@dataclass(frozen=True, eq=False)
class SoftmaxFit:
    """Softmax regression through what is seen of records; as precise as the design's numbers."""

    design: Any  # sparse (records, features)
    evidence: RecordLikelihoods

    @classmethod
    def of(cls, design: Design, evidence: RecordLikelihoods, units: IntArray) -> Self:
        rows, seen = evidence.of(np.sort(units))
        return cls(design.matrix[rows], seen)

    def likelihood(self, start: FloatArray, slopes: FloatArray) -> float:
        return self.evidence.weigh(self.chances(start, slopes))[0]

    def chances(self, start: FloatArray, slopes: FloatArray) -> Chances:
        scores = self.design @ slopes.astype(self.design.dtype)
        scores += start.astype(scores.dtype)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return np.asarray(scores)

    def climb(
        self,
        start: FloatArray,
        slopes: FloatArray,
        ridge: float | FloatArray,
        still: float = STILL,
        centre: FloatArray | None = None,
    ) -> FloatArray:
        """The slopes that maximize the log likelihood less ridge · |slopes − centre|² / 2.

        Every feature may have a ridge of its own, as a column.
        """
        from scipy.optimize import minimize

        transposed = self.design.T.tocsr()
        # in units in which every slope is about as uncertain, the search needs few steps
        records = np.asarray(self.design.power(2).sum(axis=0), np.float64)
        unit = 1 / np.sqrt(np.maximum(ridge + _TOLD * np.outer(records, np.exp(start)), _LEAST))

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            table = flat.reshape(slopes.shape) * unit
            chances = self.chances(start, table)
            likelihood, weights = self.evidence.weigh(chances)
            away = table if centre is None else table - centre
            gradient = (ridge * away - transposed @ (weights - chances)) * unit
            return 0.5 * float((ridge * away**2).sum()) - likelihood, gradient.ravel()

        options: dict[str, Any] = {"maxiter": _STEPS, "maxcor": 8, "ftol": still}
        optimum = minimize(
            loss,
            (slopes / unit).ravel(),
            jac=True,
            method="L-BFGS-B",
            options=options,  # type: ignore[call-overload]
        )
        return np.asarray(optimum.x.reshape(slopes.shape) * unit)
