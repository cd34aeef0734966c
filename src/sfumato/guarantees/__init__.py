"""The promises: frozen values with a text form, a statement in plain words and ceilings."""

from __future__ import annotations

from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.guarantees.f_privacy import FPrivacy
from sfumato.guarantees.fine_rho import FineRhoPrivacy
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.guarantees.reconstruction import ReconstructionPrivacy
from sfumato.guarantees.rho import RhoPrivacy
from sfumato.guarantees.small_sum import SmallSum
from sfumato.textform import split_call

GUARANTEES: dict[str, type[Guarantee]] = {
    cls.name: cls
    for cls in (
        RhoPrivacy,
        FineRhoPrivacy,
        SmallSum,
        FPrivacy,
        LDiversity,
        BetaLikeness,
        ReconstructionPrivacy,
    )
}


def parse_guarantee(text: str) -> Guarantee:
    """Read a promise from its text form.

    >>> parse_guarantee("rho-privacy(1/13, 1/6)")
    RhoPrivacy(rho1=Fraction(1, 13), rho2=Fraction(1, 6))
    """
    name, positional, keywords = split_call(text, "guarantee")
    if name not in GUARANTEES:
        raise UsageError(
            f"There is no guarantee {name!r}. Choose one of: {', '.join(sorted(GUARANTEES))}."
        )
    return GUARANTEES[name].from_arguments(positional, keywords)


__all__ = [
    "GUARANTEES",
    "BetaLikeness",
    "CeilingGuarantee",
    "FPrivacy",
    "FineRhoPrivacy",
    "Guarantee",
    "LDiversity",
    "ReconstructionPrivacy",
    "RhoPrivacy",
    "SmallSum",
    "parse_guarantee",
]
