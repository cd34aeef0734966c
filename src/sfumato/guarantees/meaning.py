"""What a promise means for one person of a table, in one sentence with an example."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.columns import value_text
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.guarantees.words import amount
from sfumato.profile import Histogram

_COMMON, _HALF = 0.1, 0.5  # a value that neither few nor most have says most


def meaning_for_a_person(
    guarantee: Guarantee, histogram: Histogram, quasi: Sequence[str] = ()
) -> str:
    """The sentence, '' where the promise limits no belief. It tells shares: for the steward.

    >>> import numpy as np
    >>> from sfumato.guarantees import BetaLikeness
    >>> column = Histogram("ill", ("flu", "HIV", "cold"), np.array([60, 7, 33]))
    >>> print(meaning_for_a_person(BetaLikeness(2), column, ["age", "sex"]))
    Someone who knows a person's age and sex, but not how they are associated with ill, gives
    ill 'HIV' a chance of at most 21 %, instead of 7 %.
    """
    if not guarantee.limits_belief:
        return ""
    ceilings, shares = guarantee.ceilings(histogram), histogram.shares
    limited = [code for code in range(len(shares)) if shares[code] > 0 and ceilings[code] < 1]
    if not limited:
        return f"Nothing is promised about {histogram.column!r}."
    named = [code for code in limited if histogram.values[code] is not None]
    usual = [code for code in named if shares[code] <= _COMMON]
    code = max(
        usual or [code for code in named if shares[code] < _HALF] or limited, key=shares.__getitem__
    )
    knows = f"knows a person's {' and '.join(quasi[:2])}"
    if not quasi:
        knows = "knows that a person is in the table"
    elif isinstance(guarantee, CeilingGuarantee):
        knows += f", but not how they are associated with {histogram.column},"
    if not isinstance(guarantee, CeilingGuarantee):
        knows += f", and of {histogram.column} the shares of the whole table,"
    most, before = (f"{amount(100 * share, 3)} %" for share in (ceilings[code], shares[code]))
    return (
        f"Someone who {knows} gives {histogram.column} "
        f"{value_text(histogram.values[code])} a chance of at most {most}, instead of {before}."
    )
