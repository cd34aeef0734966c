"""Every promise in a formula, with its own numbers in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.guarantees import (
    BetaLikeness,
    FineRhoPrivacy,
    FPrivacy,
    Guarantee,
    LDiversity,
    ReconstructionPrivacy,
    RhoPrivacy,
    SmallSum,
)
from sfumato.textform import decimal_text

_BUCKETS = "in every group g and for every value x:  count of x in g / size of g ≤ "


def formula(guarantee: Guarantee) -> str:
    """The promise as its page in the documents writes it.

    >>> print(formula(RhoPrivacy("1/13", "1/6")))
    Pr(X = x) ≤ 1/13  implies  Pr(X = x | Y = y) ≤ 1/6
    kept where  P[x, y] / P[x', y] ≤ γ = ρ₂(1 − ρ₁) / (ρ₁(1 − ρ₂)) = 2.4
    """
    return FORMULAS[type(guarantee)](guarantee)


def _rho(promise: RhoPrivacy) -> str:
    before, after = decimal_text(promise.rho1), decimal_text(promise.rho2)
    return (
        f"Pr(X = x) ≤ {before}  implies  Pr(X = x | Y = y) ≤ {after}\n"
        "kept where  P[x, y] / P[x', y] ≤ γ = ρ₂(1 − ρ₁) / (ρ₁(1 − ρ₂)) = "
        f"{float(promise.gamma):.4g}"
    )


def _fine_rho(promise: FineRhoPrivacy) -> str:
    if promise.theta is not None:
        theta = decimal_text(promise.theta)
        before, after = "fₓ", f"{theta}·fₓ"
        gamma = f"{theta}(1 − fₓ) / (1 − {theta}·fₓ)"
    else:
        before, after, gamma = "ρ₁ₓ", "ρ₂ₓ", "ρ₂ₓ(1 − ρ₁ₓ) / (ρ₁ₓ(1 − ρ₂ₓ))"
    return (
        f"Pr(X = x) ≤ {before}  implies  Pr(X = x | Y = y) ≤ {after}\n"
        f"kept where  P[x, y] / P[x', y] ≤ γₓ = {gamma}"
    )


def _small_sum(promise: SmallSum) -> str:
    return (
        f"groups of c = {promise.size} records with c different values, each showing one of them\n"
        "published count F of a value that f people have ~ Binomial(c·f, 1/c):\n"
        "mean f, variance f(1 − 1/c)"
    )


def _f_privacy(promise: FPrivacy) -> str:
    if promise.theta is None:
        return f"{_BUCKETS}f'ₓ, as stated for each value"
    floor = f" + {decimal_text(promise.floor)}" if promise.floor else ""
    return f"{_BUCKETS}f'ₓ = min(1, {decimal_text(promise.theta)}·fₓ{floor})"


def _l_diversity(promise: LDiversity) -> str:
    return f"{_BUCKETS}1/{promise.l}"


def _beta(promise: BetaLikeness) -> str:
    return f"{_BUCKETS}(1 + {decimal_text(promise.beta)})·fₓ"


def _reconstruction(promise: ReconstructionPrivacy) -> str:
    error, chance = decimal_text(promise.error), decimal_text(promise.chance)
    return (
        "for everybody who shares the published quasi values, f the share of their commonest "
        "value and F' its estimate:\n"
        f"Pr(F' > (1 + {error})·f) ≥ {chance}  and  Pr(F' < (1 − {error})·f) ≥ {chance}"
    )


FORMULAS: dict[type[Guarantee], Callable[[Any], str]] = {
    RhoPrivacy: _rho,
    FineRhoPrivacy: _fine_rho,
    SmallSum: _small_sum,
    FPrivacy: _f_privacy,
    LDiversity: _l_diversity,
    BetaLikeness: _beta,
    ReconstructionPrivacy: _reconstruction,
}
