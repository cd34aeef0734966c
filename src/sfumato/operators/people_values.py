"""Values of people with several rows in buckets: rows come together, and so does what is unknown.

All rows of a person stand in one bucket, so a condition on what a person *is* (age, sex) takes all
of them or none. Write h_p for the rows of person p by value, r_p for their number and c(g) for what
bucket g lists; D = diag(o), C = Σ_g c·cᵀ/|g| as for records, and P = Σ_p h_p·h_pᵀ/r_p, which the
sensitive table tells. Where the chance that a condition takes a person is linear in what they
hold, with slopes a, it shows C·a and counts P·a; where it takes rows by what each holds itself, it
counts D·a. So n̂ = E·C⁻¹·o with E = P for a condition on people; for any other the truth may lie
anywhere between, E is the middle, and half the way to either end is in the error. With C', P' the
sums weighed by r once more, and conditions that have nothing to do with values,

    Cov(n̂ − n) ∝ E·C⁻¹·C'·C⁻¹·E − E·C⁻¹·C' − C'·C⁻¹·E + P' .

With one row a person E = P = P' = D and C' = C: D·C⁻¹·D − D, as in `buckets`. A release tells which
conditions are on people: in buckets of people with r rows they meet a multiple of r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucket_estimates import NOTHING, tied
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.other_columns import ColumnsFit
from sfumato.operators.pool_matrices import WholeMatrices
from sfumato.operators.pools import PooledFit, PoolFit

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_DEVIATIONS = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 24)])  # τ² that are weighed


@dataclass(frozen=True, eq=False)
class PeopleListed:
    """What the sensitive table tells of people: rows by value, and how many each has."""

    held: csr_array  # people by values
    rows: IntArray  # of every person
    bucket: IntArray  # of every person
    bucket_rows: IntArray  # rows of each of its people, by bucket
    bucket_sizes: IntArray  # rows of all of them

    @classmethod
    def of(
        cls, buckets: IntArray, holders: IntArray, codes: IntArray, counts: IntArray, values: int
    ) -> PeopleListed:
        """From the lines of the sensitive table; holders are numbered within their bucket."""
        from scipy.sparse import csr_array

        width = int(holders.max(initial=0)) + 1
        people, person = np.unique(buckets * width + holders, return_inverse=True)
        shape = (len(people), values)
        held = csr_array((counts.astype(np.float64), (person.reshape(-1), codes)), shape=shape)
        rows = np.asarray(held.sum(axis=1)).astype(np.int64)
        bucket = people // width
        many = np.bincount(bucket)
        sizes = np.bincount(bucket, rows).astype(np.int64)
        return cls(held, rows, bucket, sizes // np.maximum(many, 1), sizes)

    def together(self, power: int) -> FloatArray:
        """Σ_p h·hᵀ·r^power."""
        weighed = self.held * (self.rows.astype(np.float64) ** power)[:, None]
        return np.asarray((self.held.T @ weighed).toarray())


class PeopleValues(PooledFit):
    """The law of the module's docstring, with the prior of `Shrunk`."""

    def __init__(self, operator: BucketOperator, listed: PeopleListed, shares: csr_array) -> None:
        super().__init__(operator, operator.counts)
        self.cost = len(self.counts) ** 2
        self.per_person = listed.bucket_rows
        self._within, self._within_often = listed.together(-1), listed.together(0)
        often = shares * (listed.bucket_sizes * listed.bucket_rows).astype(np.float64)[:, None]
        self._met_often = np.asarray((shares.T @ often).toarray())

    @cached_property
    def _inverse(self) -> FloatArray:
        """C⁻¹; what no bucket tells is stretched by 10⁹."""
        root = np.sqrt(np.maximum(self.counts, 1.0))
        return np.asarray(self.operator.undoing / root / root[:, None])

    @cached_property
    def _ways(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """C⁻¹E and the covariance, of conditions on rows and on people."""
        middle = (self._within + np.diag(self.counts)) / 2
        return tuple((self._inverse @ way, self._spread(way)) for way in (middle, self._within))

    def _spread(self, way: FloatArray) -> FloatArray:
        undone = way @ self._inverse
        crossed = undone @ self._met_often
        found = crossed @ undone.T - crossed - crossed.T + self._within_often
        return np.asarray((found + found.T) / 2 / max(self.rows, 1.0))

    @cached_property
    def _half_way(self) -> FloatArray:
        """C⁻¹·(D − P)/2: how far from the middle the truth may lie."""
        return np.asarray(self._inverse @ (np.diag(self.counts) - self._within) / 2)

    def fit(self, records: FloatArray, beside: FloatArray) -> PoolFit:
        return self.fit_people(records, beside, np.zeros(len(records), np.bool_))

    def fit_people(self, records: FloatArray, beside: FloatArray, whole: BoolArray) -> PoolFit:
        _, residual = self.residual(records, beside)
        free = records - records**2 / max(self.rows, 1.0)
        values = len(self.counts)
        posterior, prior, noise, gain, undoing = np.zeros((5, len(records), values, values))
        for pool, number in enumerate(records):
            undoing[pool], spread = self._ways[int(whole[pool])]
            known = not free[pool] > NOTHING * number
            if not whole[pool] and not known:
                away = residual[pool] @ self._half_way
                spread = spread + np.outer(away, away) / free[pool]
            found = residual[pool] @ undoing[pool] / np.sqrt(1.0 if known else free[pool])
            believed = self._believed(0 * found if known else found, spread, float(number))
            own = believed @ np.linalg.pinv(believed + spread, hermitian=True)
            gain[pool] = undoing[pool] @ own.T
            posterior[pool] = believed - own @ believed
            prior[pool], noise[pool] = believed, spread
        first, second, third = (
            (WholeMatrices(each), WholeMatrices(each / max(self.rows, 1.0)))
            for each in (posterior, prior, noise)
        )
        return ColumnsFit(first, second, third, gain, undoing)

    def _believed(self, found: FloatArray, spread: FloatArray, number: float) -> FloatArray:
        """How far counts are believed to lie from independence (see `Shrunk`), value by value."""
        slope, fixed = number * self.shares**2, self.shares + np.maximum(np.diagonal(spread), 0.0)
        present = self.shares > 0
        whole = (_DEVIATIONS[:, None] * slope + fixed)[:, present]
        likely = -0.5 * (np.log(whole) + found[present] ** 2 / whole).sum(axis=1)
        weights = np.exp(likely - likely.max())
        deviation = float(weights @ _DEVIATIONS / weights.sum())
        return np.asarray(tied((deviation * slope + self.shares)[None, :])[0])
