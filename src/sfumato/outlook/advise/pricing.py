"""What promises would cost on a table, told from its counts: nothing is published for it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import TableCounts, with_counts
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import InfeasibleGuarantee, SingularOperator, UsageError, WeakPromiseWarning
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism, Plan
from sfumato.outlook.prediction import error_by_count
from sfumato.outlook.sketch import sketched
from sfumato.profile import Histogram, Holdings, Profile
from sfumato.table import Table

CANNOT = (InfeasibleGuarantee, UsageError, SingularOperator)


@dataclass(eq=False)
class Pricing:
    """Expected relative errors of a count of `count` people, by sensitive column.

    Each is the mean over the values that so many people have, the figure that a preview of the
    promise shows, too. Plans are sketched where planning takes long.
    """

    profile: Profile
    count: int
    progress: Progress = no_progress
    counts: TableCounts | None = None  # of groups of people, for mechanisms that look at them
    _known: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, count: int, progress: Progress) -> Pricing:
        progress("counting", 0, 0)
        counts = TableCounts(table)
        return cls(counts.profile(), count, progress, counts)

    def __post_init__(self) -> None:
        self.columns = tuple(
            name
            for name, histogram in self.profile.histograms.items()
            if histogram.counts.max(initial=0) >= self.count
        )
        if not self.columns:
            raise UsageError(
                f"No sensitive value has {self.count:,} people or more. Choose a smaller "
                "--min-count."
            )

    @property
    def histograms(self) -> Sequence[Histogram]:
        return tuple(self.profile.histograms.values())

    def plan(self, promise: Guarantee, mechanism: Mechanism) -> Plan:
        """The plan that a release would have, but for its draws, or a sketch of it."""
        if not mechanism.keeps(promise):
            raise UsageError(f"'{mechanism}' does not keep '{promise}'.")
        if self.counts is not None:
            self.profile = with_counts(self.profile, [mechanism], self.counts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakPromiseWarning)
            promised = mechanism.promised(promise)
            plan = sketched(self.profile, promised, mechanism)
            return plan or mechanism.plan(self.profile, promised, Draws.from_seed(0))

    def by_size(
        self, promise: Guarantee, mechanism: Mechanism, sizes: Sequence[int]
    ) -> dict[str, list[float]]:
        """Errors by column and size of count; not a number where they cannot be foretold."""
        plan = self.plan(promise, mechanism)
        errors = {}
        for column in self.profile.histograms:
            predictions = error_by_count(plan, self.profile, sizes, column=column)
            by_count = {predicted.count: predicted.error for predicted in predictions}
            errors[column] = [by_count.get(size, math.nan) for size in sizes]
        return errors

    def errors(self, promise: Guarantee, mechanism: Mechanism) -> Mapping[str, float]:
        """By column; infinite where the promise cannot be kept, or a count not be told."""
        key = str(promise), str(mechanism)
        if key not in self._known:
            self.progress(f"predicting {promise}", 0, 0)
            try:
                by_column = self.by_size(promise, mechanism, [self.count])
                means = {column: by_column[column][0] for column in self.columns}
            except CANNOT:
                means = dict.fromkeys(self.columns, math.inf)
            self._known[key] = {c: e if math.isfinite(e) else math.inf for c, e in means.items()}
        return self._known[key]

    def worst(self, promise: Guarantee, mechanism: Mechanism) -> float:
        return max(self.errors(promise, mechanism).values())

    def best(self, promise: Guarantee, mechanisms: Iterable[Mechanism]) -> tuple[float, Mechanism]:
        """The mechanism whose worst column has the smallest error, the first of equals."""
        priced = [(self.worst(promise, mechanism), mechanism) for mechanism in mechanisms]
        return min(priced, key=lambda pair: float(f"{pair[0]:.9g}"))

    def without(self, column: str) -> Pricing:
        """Of the same people, without one of several sensitive columns."""
        profile, holdings = self.profile, self.profile.holdings
        histograms = {name: h for name, h in profile.histograms.items() if name != column}
        if holdings is not None:
            kept = [index for index, view in enumerate(holdings.views) if view.column != column]
            views = tuple(holdings.views[position] for position in kept)
            holdings = _regrouped(holdings, views, holdings.of[:, kept])
        return self._of(histograms, holdings)

    def merged(self, column: str, least: int) -> Pricing:
        """Of the same people, with the values of a column that fewer than so many have as one."""
        profile, holdings = self.profile, self.profile.holdings
        merged, codes = _merged(profile.histograms[column], least)
        histograms = {**profile.histograms, column: merged}
        if holdings is not None:
            index = list(profile.histograms).index(column)
            of = holdings.of.copy()
            of[:, index] = codes[of[:, index]]
            holdings = _regrouped(holdings, tuple(histograms.values()), of)
        return self._of(histograms, holdings)

    def _of(self, histograms: Mapping[str, Histogram], holdings: Holdings | None) -> Pricing:
        several = holdings if len(histograms) > 1 else None
        profile = Profile(self.profile.rows, histograms, holdings=several)
        return Pricing(profile, self.count, self.progress)


def _regrouped(holdings: Holdings, views: tuple[Histogram, ...], of: IntArray) -> Holdings:
    """Combinations that have become equal, as one."""
    combinations, inverse = np.unique(of, axis=0, return_inverse=True)
    counts = np.bincount(inverse.reshape(-1), holdings.counts).astype(np.int64)
    return Holdings(views, combinations, counts)


def _merged(histogram: Histogram, least: int) -> tuple[Histogram, IntArray]:
    """Rare values as one, the last; and the new code of every old one."""
    rare = histogram.counts < least
    codes = np.where(rare, int((~rare).sum()), np.cumsum(~rare) - 1)
    kept = [value for value, merged in zip(histogram.values, rare, strict=True) if not merged]
    counts = np.bincount(codes, histogram.counts).astype(np.int64)
    return Histogram(histogram.column, (*kept, "other"), counts), codes
