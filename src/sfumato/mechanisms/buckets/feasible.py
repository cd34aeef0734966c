"""Why no setting exists, and what people have where one does."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.columns import value_text
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.conjunction import AllCeilings
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.profile import Histogram, Holdings, Profile

LARGEST_TRIED = 4096
_WEAKENED = 20  # times, until all columns allow a promise


def witness(histogram: Histogram, limits: Limits, max_size: int) -> tuple[int, str]:
    """The value that stands most in the way, and why (errata F2)."""
    present = np.flatnonzero(histogram.counts > 0)
    sizes = np.arange(1, min(max_size, histogram.rows) + 1)
    allowed = limits.table(sizes)
    fractions = np.where(sizes[:, None] > 0, allowed / sizes[:, None], 0.0)
    best = fractions.max(axis=0)
    pressure = histogram.counts[present] / histogram.rows / np.maximum(best[present], 1e-300)
    worst = int(present[np.argmax(pressure)])
    if best[worst] == 0:  # no bucket may hold it at all: the smallest ceiling needs the largest
        worst = min(present.tolist(), key=lambda code: limits.ceilings[code])
    name = value_text(histogram.values[worst])
    ceiling = limits.ceilings[worst]
    if best[worst] == 0:
        needed = -(-ceiling.denominator // ceiling.numerator)
        return worst, (
            f"the value {name} may fill at most {float(ceiling):.4g} of a bucket, so its buckets "
            f"need at least {needed} records"
        )
    tightest = int(np.argmax(fractions[:, worst]))
    share = Fraction(int(allowed[tightest, worst]), int(sizes[tightest]))
    return worst, (
        f"the value {name} has {int(histogram.counts[worst]):,} records and may fill at most "
        f"{share} of any such bucket, and the others leave too little room around it"
    )


def too_large(
    guarantee: Guarantee, mechanism: str, holdings: Holdings, limits: Limits, max_size: int
) -> InfeasibleGuarantee:
    """The error where no buckets of at most this size keep the limits."""
    named, blocking = " and ".join(repr(view.column) for view in holdings.columns), ""
    reason = "each of them has ceilings of its own"
    if len(holdings.views) == 1:
        value, reason = witness(holdings.views[0], limits, max_size)
        blocking = value_text(holdings.views[0].values[value])
    return InfeasibleGuarantee(
        f"'{guarantee}' cannot be kept on {named} with buckets of at most {max_size} records: "
        f"{reason}. Leave max_size out, or raise it.",
        witness=blocking or holdings.views[0].column,
        nearest=mechanism,
    )


def limits_of(holdings: Holdings, guarantee: Guarantee, *, distinct: bool = False) -> Limits:
    """The ceilings of all marks."""
    every = (ceiling for view in holdings.views for ceiling in guarantee.ceilings(view))
    return Limits(tuple(every), distinct)


def holdings_of(
    name: str, profile: Profile, guarantee: Guarantee, most: int | None = None
) -> Holdings:
    """What people have in all sensitive columns, `most` of them, where the guarantee can be kept
    for each."""
    columns = tuple(profile.histograms.values())
    if most is not None and len(columns) > most:
        raise UsageError(
            f"'{name}' hides one sensitive column; this table has {len(columns)} "
            f"({', '.join(profile.histograms)}), and a bucket filled for one may be all alike in "
            "another. Use the mechanism 'optimal', which hides several in the same buckets, or "
            "'local'; or name one as sensitive, and drop the others."
        )
    if len(columns) > 1 and profile.holdings is None:
        raise UsageError(
            f"'{name}' looks at what people have in all sensitive columns: count that first."
        )
    for histogram in columns:
        if histogram.column in ("bucket", "count"):
            raise DataError(
                f"The sensitive column {histogram.column!r} has the name of a column that the "
                "release adds. Rename it."
            )
    holdings = profile.holdings or Holdings.one(columns[0])
    if len(columns) > 1 and isinstance(guarantee, AllCeilings) and guarantee.joint:
        holdings = holdings.jointly()
    require_feasible(guarantee, holdings.views)
    return holdings


def require_feasible(guarantee: Guarantee, views: Sequence[Histogram]) -> None:
    """Raise where a view does not allow it; the nearest that is named is one that all allow."""
    for view in views:
        try:
            guarantee.require_feasible(view)
        except InfeasibleGuarantee as error:
            nearest = _allowed_by_all(guarantee, views)
            if error.nearest is None or nearest is None or nearest == error.nearest:
                raise
            raise error.with_nearest(nearest) from None


def _allowed_by_all(guarantee: Guarantee, views: Sequence[Histogram]) -> str | None:
    """The weakest of the nearest that views name, until all of them allow it."""
    for _ in range(_WEAKENED):
        asked = str(guarantee)
        for view in views:
            try:
                guarantee.require_feasible(view)
            except InfeasibleGuarantee as error:
                if error.nearest is None:
                    return None
                guarantee = parse_guarantee(error.nearest)
        if str(guarantee) == asked:
            return asked
    return None
