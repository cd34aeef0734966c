"""What promises would cost on a table, told from its counts: nothing is published for it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sfumato.draws import Draws
from sfumato.engines.choosing import with_counts
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.errors import InfeasibleGuarantee, SingularOperator, UsageError, WeakPromiseWarning
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism
from sfumato.outlook.prediction import error_by_count
from sfumato.profile import Histogram, Profile
from sfumato.table import Table
from sfumato.table.staging import stage

CANNOT = (InfeasibleGuarantee, UsageError, SingularOperator)


@dataclass(eq=False)
class Pricing:
    """Median relative errors of a count of `count` people, by sensitive column.

    Each is the figure that a preview of the promise shows, too, of the plan that a release would
    have but for its draws.
    """

    profile: Profile
    count: int
    progress: Progress = no_progress
    table: Table | None = None  # of groups of people, for mechanisms that look at them
    _known: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, count: int, progress: Progress) -> Pricing:
        progress("counting", 0, 0)
        table = stage(table)
        return cls(take_profile(table), count, progress, table)

    @property
    def histograms(self) -> Sequence[Histogram]:
        return tuple(self.profile.histograms.values())

    @property
    def columns(self) -> Sequence[str]:
        """Those with a value that so many people have."""
        return [h.column for h in self.histograms if h.counts.max(initial=0) >= self.count]

    def by_size(
        self, promise: Guarantee, mechanism: Mechanism, sizes: Sequence[int]
    ) -> dict[str, list[float]]:
        """Errors by column and size of count; not a number where they cannot be foretold."""
        if not mechanism.keeps(promise):
            raise UsageError(f"'{mechanism}' does not keep '{promise}'.")
        if self.table is not None:
            self.profile = with_counts(self.profile, [mechanism], self.table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakPromiseWarning)
            promised = mechanism.promised(promise)
            plan = mechanism.plan(self.profile, promised, Draws.from_seed(0))
        errors = {}
        for column in self.profile.histograms:
            predicted = error_by_count(plan, self.profile, column, sizes)
            errors[column] = [predicted.get(size, math.nan) for size in sizes]
        return errors

    def errors(self, promise: Guarantee, mechanism: Mechanism) -> Mapping[str, float]:
        """By column; infinite where the promise cannot be kept, or a count not be told."""
        key = str(promise), str(mechanism)
        if key not in self._known:
            self.progress(f"predicting {promise}", 0, 0)
            try:
                by_size = self.by_size(promise, mechanism, [self.count])
            except CANNOT:
                by_size = {}
            means = {column: by_size.get(column, [math.inf])[0] for column in self.columns}
            self._known[key] = {c: e if math.isfinite(e) else math.inf for c, e in means.items()}
        return self._known[key]

    def best(self, promise: Guarantee, mechanisms: Iterable[Mechanism]) -> tuple[float, Mechanism]:
        """The mechanism whose worst column has the smallest error, the first of equals."""
        priced = [(max(self.errors(promise, one).values()), one) for one in mechanisms]
        return min(priced, key=lambda pair: float(f"{pair[0]:.9g}"))
