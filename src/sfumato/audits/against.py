"""How far a release keeps small sums hidden that never promised it (SPLU, Section 8).

The promise is about the number f of people with one value, where f is small: the best answer from
the release is to be off by `error` of f or more, with some chance. Buckets and ranges show every
value as often as the table has it, so their answer is never off. Records that were drawn one by one
have the chance of their operator, resampled ones that of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.columns import value_text
from sfumato.errors import UsageError
from sfumato.guarantees import ReconstructionPrivacy, SmallSum, parse_guarantee
from sfumato.guarantees.small_sum import USUAL_ERROR, USUAL_UP_TO
from sfumato.guarantees.small_sum_tails import right_sums, small_sum_privacy
from sfumato.release import (
    BucketedRelease,
    GeneralizedRelease,
    PerturbedRelease,
    Release,
    SyntheticRelease,
)

_MOST_VALUES = 100  # of a column: the rarest are looked at

# the least chance over some sums, and which value and sum it belongs to; None where not computed
Least = tuple[float, str, int] | None
Law = Callable[[AuditCase, str, Fraction, int], Least]


def small_sum_of(text: str) -> SmallSum:
    """The promise that a release of any kind can be held against."""
    promise = parse_guarantee(text)
    if not isinstance(promise, SmallSum):
        raise UsageError(
            f"A release can be held against small-sum, whatever its kind; not against '{promise}'. "
            "Publish with that promise instead."
        )
    return promise


def check_small_sums(case: AuditCase, promise: SmallSum) -> Iterator[Finding]:
    """For every sensitive column the least chance that a small sum is wrong: told, not judged."""
    error, up_to = promise.error or USUAL_ERROR, promise.up_to or USUAL_UP_TO
    asked = promise.probability or small_sum_privacy(promise.size, error, up_to)
    law = next(law for kind, law in LAWS.items() if isinstance(case.release, kind))
    for column in case.table.sensitive:
        least = law(case, column, error, up_to)
        about = f"{float(error):.4g} of itself or more, up to {up_to}"
        if least is None or case.release.manifest.person is not None:
            yield Finding.unseen(
                catalogue.SMALL_SUMS,
                column=column,
                about=about,
                witness="sub-tables, copies of samples and people with several rows are not "
                "computed",
            )
            continue
        chance, value, count = least
        kept = "kept" if chance >= asked else "not kept"
        yield Finding.told(
            catalogue.SMALL_SUMS,
            chance,
            column=column,
            about=about,
            witness=f"least for {value} with {count} people; '{promise}' asks for "
            f"{float(asked):.4g}: {kept}",
        )


def _exact(case: AuditCase, column: str, error: Fraction, up_to: int) -> Least:
    """The release shows every value as often as the table has it."""
    return 0.0, "any value", 1


def _drawn(case: AuditCase, column: str, error: Fraction, up_to: int) -> Least:
    """Each value in turn with each small count, in place of its own."""
    operator = case.release.operators[column]
    histogram = case.profile.histograms[column]
    if operator.values != len(histogram.counts) or isinstance(
        case.guarantee, ReconstructionPrivacy
    ):
        return None
    found = []
    for code in np.argsort(histogram.counts, kind="stable")[:_MOST_VALUES].tolist():
        for count in range(1, up_to + 1):
            counts = histogram.counts.copy()
            counts[code] = count
            found.append((operator.wrong_sum(code, counts, error), code, count))
    chance, code, count = min(found)
    return chance, value_text(histogram.values[code]), count


def _resampled(case: AuditCase, column: str, error: Fraction, up_to: int) -> Least:
    """As many draws from the table's shares as it has records: Binomial(N, f/N)."""
    from scipy import stats

    rows = case.profile.histograms[column].rows
    found = []
    for count in range(1, up_to + 1):
        low, high = right_sums(count, error)
        law = stats.binom(rows, count / rows)
        found.append((float(1 - law.cdf(high) + law.cdf(low - 1)), count))
    chance, count = min(found)
    return chance, "any value", count


LAWS: dict[type[Release], Law] = {
    BucketedRelease: _exact,
    GeneralizedRelease: _exact,
    SyntheticRelease: _resampled,
    PerturbedRelease: _drawn,
}
