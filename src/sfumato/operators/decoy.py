"""The decoy operator of SPLU-Gen: a value drawn from the different values of a hidden group."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from sfumato.columns import Count, Counts
from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import SingularOperator, WeakPromiseWarning
from sfumato.operators.base import FloatArray, Operator
from sfumato.operators.inverse import Inverse

NEAR = 0.9  # c·o_x/N from which the error bars are more than ten times as wide: warn
_ROUNDS = 200  # of fitting how often values meet
_LEAST = 1e-9  # of a divisor
_DEVIATIONS = 2  # published counts this close to the limit cannot be told from it


@dataclass(frozen=True, eq=False)
class DecoySums:
    """A sum over the records of a condition: all of them, and those with the value asked for."""

    all: FloatArray  # G = Σ g
    own: FloatArray  # T = Σ g over the records that have x, or its estimate

    @property
    def others(self) -> FloatArray:
        return self.all - self.own


class Decoy(Operator, frozen=True, tag="decoy"):
    """Groups of `groups` records with different values: each publishes one of them, with chance
    1/c. What that makes of others follows from the published counts: `observed`."""

    values: Count
    groups: Count  # c, the records and the different values in a group

    needs_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 2 <= self.groups <= self.values:
            raise ValueError(
                "A decoy operator needs groups of at least 2 and at most as many records as there "
                f"are values; got groups of {self.groups} and {self.values} values"
            )

    def observed(self, counts: IntArray) -> ObservedDecoy:
        return ObservedDecoy(self.values, self.groups, tuple(counts.tolist()))

    def matrix(self) -> FloatArray:
        raise TypeError("a decoy operator is complete only with the published counts")

    def inverse(self) -> Inverse:
        raise TypeError("a decoy operator is complete only with the published counts")

    def odds_gains(self) -> list[Fraction | None]:
        """No bound: two values that never share a group tell each other apart for certain."""
        return [None] * self.values

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        raise TypeError("decoys are drawn by a plan, which knows the groups")


class ObservedDecoy(Decoy, frozen=True, tag="observed-decoy"):
    """Between "x" and "not x": 1/c if true x, r_x = o_x(c−1)/(c(N−o_x)) if not (errata S2).

    Of the N records, o_x(c−1) of the N−o_x without x share a group with x, well mixed, and each
    publishes it with chance 1/c. The published count of x has mean o_x, so the operator is
    completed by the release itself. That is an average over the rest; between all values, P has
    how often two of them meet in a group (errata S5), and rows that sum to 1.

    >>> whole = Decoy(values=3, groups=2).observed(np.array([40, 30, 30]))
    >>> whole.decoy_rates.round(4).tolist()
    [0.3333, 0.2143, 0.2143]
    >>> whole.matrix().round(2).tolist()
    [[0.5, 0.25, 0.25], [0.33, 0.5, 0.17], [0.33, 0.17, 0.5]]
    """

    counts: Counts  # published counts by value

    @property
    def shares(self) -> FloatArray:
        """o_x / N."""
        return np.array(self.counts, np.float64) / max(sum(self.counts), 1)

    @property
    def decoy_rates(self) -> FloatArray:
        """r_x: how often a record without x publishes x."""
        share = self.shares
        # a column with one published value only has nobody without it
        rest = np.where(share < 1, 1 - share, 1.0)
        return np.asarray(share * (self.groups - 1) / (self.groups * rest))

    def matrix(self) -> FloatArray:
        """P[x, y] = C[x, y]/(c·o_x), where values meet as evenly as they can: its rows sum to 1."""
        (d, u), a = self._shape, self.meetings
        return np.asarray(np.diag(d) + np.outer(u, a))

    def at_the_limit(self) -> IntArray:
        """Values that stand in every group as far as the release can tell: nothing about who has
        them can be estimated (errata S3)."""
        share, rows = self.shares, max(sum(self.counts), 1)
        noise = self.groups * np.sqrt(share * (1 - 1 / self.groups) / rows)
        return np.flatnonzero(1 - self.groups * share <= _DEVIATIONS * noise)

    def weights(self) -> FloatArray:
        """W; raises `SingularOperator` where a value cannot be told from the eligibility limit."""
        stuck = self.at_the_limit()
        if stuck.size:
            raise SingularOperator(
                f"About 1/{self.groups} of the published records show value number "
                f"{', '.join(str(code) for code in stuck[:5])} of the domain (counted from 0): "
                "it stands in every group, so nothing tells who has it. Publish with smaller "
                "groups."
            )
        near = self.near_the_limit()
        if near.size:
            warnings.warn(
                f"Value number {int(near[0])} of the domain has {self.shares[near[0]]:.3g} of the "
                f"records, close to the limit of 1/{self.groups}: its counts, within a condition, "
                "have error bars more than ten times as wide as they could have with smaller "
                "groups.",
                WeakPromiseWarning,
                stacklevel=2,
            )
        return super().weights()

    @cached_property
    def meetings(self) -> FloatArray:
        """a with C[x, y] = a_x·a_y for how many groups hold both x and y, as even as can be.

        x stands in o_x groups, each with c − 1 others: a_x·(Σa − a_x) = (c − 1)·o_x.
        """
        people = np.array(self.counts, np.float64)
        wanted = (self.groups - 1) * people
        scaling = wanted / np.sqrt(max(float(wanted.sum()), 1e-300))
        for _ in range(_ROUNDS):
            rest = np.maximum(scaling.sum() - scaling, 1e-300)
            scaling = (scaling + wanted / rest) / 2
        return np.asarray(scaling)

    def inverse(self) -> Inverse:
        """Of P = diag(d) + u·aᵀ with u_x = a_x/(c·o_x), d_x = 1/c − u_x·a_x, so that estimates add
        up; weights of a value at the limit are not numbers.

        For one value it is (1{y=x} − r_x)/(1/c − r_x) up to the squares of the shares.
        """
        a, (d, u) = self.meetings, self._shape
        diagonal, right = 1 / d, a / d
        left = -u / d / (1 + float((a * u / d).sum()))
        stuck = self.at_the_limit()
        diagonal[stuck], right[stuck] = np.nan, np.nan
        return Inverse.of_values(diagonal, left, right)

    @cached_property
    def _shape(self) -> tuple[FloatArray, FloatArray]:
        """d and u of P = diag(d) + u·aᵀ."""
        a, people = self.meetings, np.maximum(np.array(self.counts, np.float64), 1.0)
        u = a / (self.groups * people)
        d = 1 / self.groups - u * a  # negative for common values: P is undone all the same
        return np.where(np.abs(d) < _LEAST, _LEAST, d), u

    def near_the_limit(self) -> IntArray:
        """Values whose counts within a condition have error bars ten times as wide as others'."""
        near = np.flatnonzero(self.groups * self.shares > NEAR)
        return np.setdiff1d(near, self.at_the_limit())

    def variances(self, counts: FloatArray) -> FloatArray:
        """Var(n̂_x) for true counts n_x within a condition, with the structure of the groups."""
        return self.variances_within(np.arange(self.values), counts, float(np.sum(counts)))

    def variances_within(
        self, values: IntArray, counts: FloatArray, matching: FloatArray | float
    ) -> FloatArray:
        """Var(n̂_x) of `values` with true `counts` within conditions of n_A = `matching` records.

        n̂ = (y − n_A·r)/(1/c − r) with r from the published count o = y + (the rest). Given the
        groups, every record that has x in its group publishes it by a draw of its own. Of the
        n_A − n_x others in the condition a hypergeometric number do (o_x(c−1) of N − o_x records
        are spread at random), and r moves with o: a draw inside the condition counts 1 − t, one
        outside −t, t = (dr/do)(n_A − n̂). Records taken as independent, Σz² − ΣΣWg², miss both
        and give intervals that cover nearly always for large conditions; for a condition that
        everybody satisfies, this is o(1 − 1/c), the variance of a binomial.
        """
        rows, variances = sum(self.counts), np.maximum(counts, 0.0)
        without = np.maximum(rows * (1 - self.shares[values]), 1.0)
        sums = DecoySums(variances + np.clip(matching - variances, 0.0, without), variances)
        variance = np.maximum(self.covariance(values, sums, sums, sums), 0.0)
        seen = np.broadcast_to(1 / self.groups - self.decoy_rates[values], variance.shape)
        # at the eligibility limit nothing can be told
        return np.where(seen == 0, np.inf, variance)

    def covariance(
        self, values: IntArray, square: DecoySums, first: DecoySums, second: DecoySums
    ) -> FloatArray:
        """Cov of two estimated sums over the records with one value; equal arguments: variance.

        With k = 1/(1/c − r), p = c·r, t = (dr/do)(G − T), Y = (T + (G − T)p)/c:
        k²·(T₂(c−1)/c² + (G₂−T₂)·r(1−r) − (1−1/c)(t_a·Y_b + t_b·Y_a − t_a·t_b·o)
            − p(1−p)(G_a−T_a)(G_b−T_b)/(c²(N−o))),
        `square` holding G₂ and T₂, the sums of the products.
        """
        c, rows = self.groups, sum(self.counts)
        expected, rate = rows * self.shares[values], self.decoy_rates[values]
        without = np.maximum(rows - expected, 1.0)
        slope = (c - 1) * rows / (c * without**2)  # dr/do
        tilts = [slope * sums.others for sums in (first, second)]
        shown = [sums.own / c + sums.others * rate for sums in (first, second)]
        drawn = square.own * (c - 1) / c**2 + square.others * rate * (1 - rate)
        moved = tilts[0] * shown[1] + tilts[1] * shown[0] - tilts[0] * tilts[1] * expected
        spread = rate * (1 / c - rate) * first.others * second.others / without
        with np.errstate(divide="ignore", invalid="ignore"):
            whole = (drawn - moved * (1 - 1 / c) - spread) / (1 / c - rate) ** 2
        return np.asarray(whole)
