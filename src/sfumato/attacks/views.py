"""What an adversary sees of a release, in the codes of the people it is tried on: one class a kind.

A view says what a rule can be learned from, which records may be a person's, and what these and a
rule P(value | quasi) together tell of the person: the value that a record shows, by the operator;
the list of a bucket, over all ways to assign it; the rows whose ranges hold the person, of which
everybody has one (`attacks.range_views`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato.attacks.people import Codes, People, common_keys
from sfumato.draws import Draws, IntArray
from sfumato.errors import SingularOperator
from sfumato.operators import Operator, Parts, Uniform
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import Dealt
from sfumato.operators.links import Design, Links, RecordLikelihoods, ShownSymbols

_CELLS = 1 << 22  # (record, value) chances that are held at once
_SCALINGS_QUICK, _SCALINGS_THOROUGH = 10, 100  # of the lists of large buckets


class View(ABC):
    """What is seen; `values` is how many the sensitive column has."""

    values: int
    prior: Any  # shares of the values, as the release tells them

    @abstractmethod
    def tables(self, sizes: list[int], *, estimated: bool) -> list[FloatArray]:
        """Counts by (quasi value, sensitive value) per quasi-identifier, for naive Bayes."""

    @abstractmethod
    def near(self, targets: People) -> tuple[IntArray, FloatArray]:
        """How many records may be the target's, and the values they make likely."""

    def looked_up(self, targets: People) -> tuple[IntArray, FloatArray]:
        """As `near`, with the release's own shares for whom no record looks like."""
        matches, shares = self.near(targets)
        return matches, np.where(matches[:, None] > 0, shares, self.prior[None, :])

    @abstractmethod
    def evidence(
        self, people: People, bins: Mapping[int, IntArray]
    ) -> tuple[Design, RecordLikelihoods]:
        """The records by their quasi values, and what each shows of its value."""

    @abstractmethod
    def weigh(
        self, rule: Links, targets: People, people: People, thorough: bool, draws: Draws
    ) -> FloatArray:
        """The chance of every value for every target, by rule and record together."""


@dataclass(frozen=True, eq=False)
class Alike:
    """The records that look like each target, by the profile that both have."""

    slot: IntArray  # per record: the number of its profile among those of targets, or −1
    place: IntArray  # per target
    matches: IntArray  # per profile: how many records have it

    @classmethod
    def of(cls, records: Codes, targets: Codes) -> Alike:
        shown, wanted = common_keys(records, targets)
        asked, inverse = np.unique(wanted, return_inverse=True)
        slot = np.full(int(max(shown.max(initial=-1), wanted.max(initial=-1))) + 1, -1, np.int64)
        slot[asked] = np.arange(len(asked))
        slots = slot[shown]
        return cls(slots, inverse, np.bincount(slots[slots >= 0], minlength=len(asked)))

    @property
    def counts(self) -> IntArray:
        """How many records look like each target."""
        return np.asarray(self.matches[self.place])

    def shares(self, of_record: IntArray, posterior: Any) -> FloatArray:
        """The mean over each target's records of the row of `posterior` that a record has."""
        from scipy.sparse import csr_array

        used = self.slot >= 0
        cells = (np.ones(int(used.sum())), (self.slot[used], of_record[used]))
        totals = csr_array(cells, shape=(len(self.matches), posterior.shape[0])) @ posterior
        return np.asarray((_dense(totals) / np.maximum(self.matches[:, None], 1))[self.place])

    def mean(self, total: FloatArray, rule: Links, targets: People) -> FloatArray:
        """Sums by profile as chances; by the rule alone for whom no record looks like."""
        mean = total / np.maximum(self.matches, 1)[:, None]
        otherwise = np.exp(rule.log_chances(targets.codes))
        return np.where(self.counts[:, None] > 0, mean[self.place], otherwise)


class ListedView(View):
    """Records with quasi-identifiers as they are, and a symbol each: a shown value, or a bucket."""

    codes: Codes

    @property
    @abstractmethod
    def symbol(self) -> IntArray:
        """The symbol of every record."""

    @property
    @abstractmethod
    def posterior(self) -> Any:
        """Chances of the values for a record with each symbol: a matrix (symbols, values)."""

    @property
    @abstractmethod
    def likelihoods(self) -> RecordLikelihoods:
        """What each record shows of its value."""

    def weights(self, estimated: bool) -> Any:
        """What a record with a symbol counts for, by value."""
        return self.posterior

    def alike(self, targets: People) -> Alike:
        return Alike.of(self.codes, targets.codes)

    def tables(self, sizes: list[int], *, estimated: bool) -> list[FloatArray]:
        from scipy.sparse import csr_array

        by_column, weights = [], self.weights(estimated)
        for codes, size in zip(self.codes, sizes, strict=True):
            cells = (np.ones(len(codes)), (codes, self.symbol))
            table = csr_array(cells, shape=(size, weights.shape[0])) @ weights
            by_column.append(np.maximum(_dense(table), 0.0))
        return by_column

    def near(self, targets: People) -> tuple[IntArray, FloatArray]:
        alike = self.alike(targets)
        return alike.counts, alike.shares(self.symbol, self.posterior)

    def evidence(
        self, people: People, bins: Mapping[int, IntArray]
    ) -> tuple[Design, RecordLikelihoods]:
        return Design.of(self.codes, people.domains.sizes, bins), self.likelihoods


def normalised(weights: FloatArray, otherwise: FloatArray | float = 0.0) -> FloatArray:
    """Every row as chances that add up to 1; `otherwise` where all are 0.

    >>> normalised(np.array([[1.0, 3.0], [0.0, 0.0]]), 0.5).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights / np.maximum(total, 1e-300), otherwise)


def _dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix, np.float64)


@dataclass(frozen=True, eq=False)
class RecordsView(ListedView):
    """Records with quasi-identifiers as they are and one sensitive value each.

    `operator` is what the values went through; None where they stand as they are (raw and
    synthetic records). `shown` are the operator's symbols, or values.
    """

    codes: Codes
    shown: IntArray
    values: int
    operator: Operator | None = None

    @property
    def symbol(self) -> IntArray:
        return self.shown

    @property
    def likelihoods(self) -> ShownSymbols:
        return ShownSymbols(self.shown, self.likelihood)

    @property
    def law(self) -> Operator:
        return Uniform(self.values, Fraction(1)) if self.operator is None else self.operator

    @cached_property
    def counts(self) -> IntArray:
        return np.bincount(self.shown, minlength=self.law.values)

    @cached_property
    def to_values(self) -> FloatArray:
        """Sums over symbols of the same value: shape (symbols, values)."""
        law, symbols = self.law, np.arange(self.law.values)
        matrix = np.zeros((len(symbols), self.values))
        matrix[symbols, law.symbol_codes if isinstance(law, Parts) else symbols] = 1.0
        return matrix

    @cached_property
    def symbol_prior(self) -> FloatArray:
        """Estimated shares of the true symbols, never negative."""
        complete = self.law.observed(self.counts)
        estimate = np.maximum(complete.estimate(self.counts.astype(np.float64)), 0.0)
        return np.asarray(estimate / max(estimate.sum(), 1e-300))

    @property
    def prior(self) -> FloatArray:
        return np.asarray(self.symbol_prior @ self.to_values)

    @cached_property
    def likelihood(self) -> FloatArray:
        """How likely a record with each value shows a symbol: shape (symbols, values)."""
        matrix = self.law.observed(self.counts).matrix()
        joint = self.symbol_prior[:, None] * self.to_values  # a value may be several true symbols
        joint = np.where(joint.sum(axis=0) > 0, joint, self.to_values)
        return np.asarray(matrix.T @ (joint / np.maximum(joint.sum(axis=0), 1e-300)))

    @cached_property
    def posterior(self) -> FloatArray:
        """Chance of each value for a record that shows a symbol: shape (symbols, values)."""
        matrix = self.law.observed(self.counts).matrix()
        return normalised((self.symbol_prior[:, None] * matrix).T) @ self.to_values

    def weights(self, estimated: bool) -> FloatArray:
        if estimated:
            with suppress(SingularOperator):  # then there is nothing better than what is shown
                return np.asarray(self.law.observed(self.counts).weights() @ self.to_values)
        return self.to_values

    def weigh(
        self, rule: Links, targets: People, people: People, thorough: bool, draws: Draws
    ) -> FloatArray:
        alike = self.alike(targets)
        likelihood = self._trusted(rule, draws) if self.operator is None else self.likelihood
        rows = np.flatnonzero(alike.slot >= 0)
        total = np.zeros((len(alike.matches), rule.values))
        step = max(1, _CELLS // rule.values)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            chances = np.exp(rule.log_chances(self.codes, some))
            np.add.at(
                total,
                alike.slot[some],
                ShownSymbols(self.shown[some], likelihood).weigh(chances)[1],
            )
        return alike.mean(total, rule, targets)

    def _trusted(self, rule: Links, draws: Draws) -> FloatArray:
        """How records that go through no known operator show a value: as it is with a chance κ,
        else as common as it is in the release. κ makes what is shown likeliest under the rule: 1
        for a raw table, 0 where values were drawn without regard to the quasi-identifiers."""
        some = draws.order("trust", len(self.shown))[: max(1, _CELLS // rule.values)]
        own_chances = np.exp(
            rule.log_chances(self.codes, some)[np.arange(len(some)), self.shown[some]]
        )
        common = self.prior[self.shown[some]]
        trust = np.linspace(0.0, 1.0, 101)
        likely = [float(np.log(k * own_chances + (1 - k) * common + 1e-300).sum()) for k in trust]
        best = float(trust[int(np.argmax(likely))])
        return np.asarray(best * np.eye(rule.values) + (1 - best) * self.prior[:, None])


@dataclass(frozen=True, eq=False)
class BucketsView(ListedView):
    """Records with their bucket, and the values that each bucket lists: cells, bucket by bucket."""

    codes: Codes
    bucket: IntArray  # per record, 0 … buckets−1
    cell_bucket: IntArray
    cell_value: IntArray
    cell_count: IntArray
    values: int

    @property
    def symbol(self) -> IntArray:
        return self.bucket

    @property
    def likelihoods(self) -> Dealt:
        return self.dealt

    @property
    def posterior(self) -> Any:
        return self.shares

    @cached_property
    def dealt(self) -> Dealt:
        """The buckets as evidence, their cells bucket by bucket."""
        order = np.argsort(self.cell_bucket, kind="stable")
        cells = (self.cell_bucket[order], self.cell_value[order], self.cell_count[order])
        return Dealt(self.bucket, *cells, self.values)

    @property
    def listed(self) -> IntArray:
        """How many values each bucket lists, fakes included."""
        return self.dealt.listed

    @cached_property
    def shares(self) -> Any:
        """A sparse matrix (buckets, values) of shares."""
        from scipy.sparse import csr_array

        share = self.cell_count / self.listed[self.cell_bucket]
        shape = (len(self.listed), self.values)
        return csr_array((share, (self.cell_bucket, self.cell_value)), shape=shape)

    @cached_property
    def prior(self) -> FloatArray:
        total = np.bincount(self.cell_value, self.cell_count, minlength=self.values)
        return np.asarray(total / total.sum())

    def weigh(
        self, rule: Links, targets: People, people: People, thorough: bool, draws: Draws
    ) -> FloatArray:
        alike = self.alike(targets)
        rows, dealt = self.dealt.of(np.unique(self.bucket[alike.slot >= 0]))
        codes, slot = [column[rows] for column in self.codes], alike.slot[rows]
        total = np.zeros(len(alike.matches) * self.values)
        rounds = _SCALINGS_THOROUGH if thorough else _SCALINGS_QUICK
        for _, assigned in dealt.assigned(partial(rule.pair_scores, codes), rounds):
            inside = slot[assigned.record]
            used = inside >= 0
            flat = inside[used] * self.values + assigned.value[used]
            total += np.bincount(flat, assigned.chance[used], minlength=len(total))
        return alike.mean(total.reshape(-1, self.values), rule, targets)


def raw_view(people: People) -> RecordsView:
    """The raw table itself, as if it had been given out."""
    return RecordsView(people.codes, people.truth, people.values)
