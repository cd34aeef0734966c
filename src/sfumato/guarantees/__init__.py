"""The promises: frozen values with a text form, words of their own, a formula and ceilings."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.errors import UsageError
from sfumato.guarantees.base import Ceilings, Guarantee
from sfumato.guarantees.ceilings import (
    BetaLikeness,
    CeilingGuarantee,
    EnhancedBetaLikeness,
    LDiversity,
)
from sfumato.guarantees.conjunction import conjunction, jointly
from sfumato.guarantees.f_privacy import DEFAULT_PROMISE, FPrivacy
from sfumato.guarantees.fine_rho import FineRhoPrivacy
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
from sfumato.guarantees.rho import RhoPrivacy
from sfumato.guarantees.signposts import signpost
from sfumato.guarantees.small_sum import SmallSum
from sfumato.guarantees.words import Reader
from sfumato.textform import Parameter, members, split_call, unquoted

# in the order in which they are shown
GUARANTEES: dict[str, type[Guarantee]] = {
    cls.name: cls
    for cls in (
        LDiversity,
        BetaLikeness,
        EnhancedBetaLikeness,
        FPrivacy,
        RhoPrivacy,
        FineRhoPrivacy,
        SmallSum,
        ReconstructionPrivacy,
    )
}


def parse_guarantee(text: str | Mapping[str, str | Guarantee] | Guarantee) -> Guarantee:
    """Read a guarantee from its text form; one that is read already stays as it is. One that begins
    with a column and a colon is about that column alone, with "and" before the next column's; a
    mapping has the promises by column.

    >>> parse_guarantee("rho-privacy(1/13, 1/6)")
    RhoPrivacy(rho1=Fraction(1, 13), rho2=Fraction(1, 6), reader='anybody')
    >>> str(parse_guarantee({"ill": "l-diversity(3)", "job": "beta-likeness(2)"}))
    'ill: l-diversity(3) and job: beta-likeness(2)'
    """
    if isinstance(text, Guarantee):
        return text
    if isinstance(text, str):
        stated = members(text)
    else:
        stated = [
            (column, one)
            for column, column_text in text.items()
            for _, one in members(str(column_text))
        ]
    return conjunction([_read(one) for _, one in stated], [column for column, _ in stated])


def _read(text: str) -> Guarantee:
    name, positional, keywords = split_call(text, "guarantee")
    if name not in GUARANTEES:
        raise UsageError(
            signpost(name)
            or f"There is no guarantee {name!r}. Choose one of: {', '.join(sorted(GUARANTEES))}."
        )
    if positional and unquoted(positional[0]).startswith("@") and "limits" not in keywords:
        keywords["limits"] = positional.pop(0)  # name(@limits.csv)
    return GUARANTEES[name].from_arguments(positional, keywords)


__all__ = [
    "DEFAULT_PROMISE",
    "GUARANTEES",
    "BetaLikeness",
    "CeilingGuarantee",
    "Ceilings",
    "EnhancedBetaLikeness",
    "FPrivacy",
    "FineRhoPrivacy",
    "Guarantee",
    "LDiversity",
    "OddsGuarantee",
    "Parameter",
    "Reader",
    "ReconstructionPrivacy",
    "RhoPrivacy",
    "SmallSum",
    "conjunction",
    "jointly",
    "parse_guarantee",
]
