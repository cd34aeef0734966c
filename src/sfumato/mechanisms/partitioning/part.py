"""The operators of sub-tables: as much retention as their promise leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.partitioning.coupling import padded, posterior_odds_of_parts
from sfumato.mechanisms.partitioning.merge import part_gamma
from sfumato.operators import Parts, SubTable, Uniform

Limits = list[Fraction | None]
ROUNDING = 1 + 1e-9  # far above what floats lose in `posterior_odds`
STEPS = 256  # limits between what holds always and what a record's own draw allows
_CELLS = 1 << 16  # operators by values in one array: it stays in the cache


def perturbed_parts(
    quotas: IntArray, protected: BoolArray, rho2: Fraction, *, coupled: bool
) -> tuple[Parts, Limits]:
    """The operator of each part of `quotas[part, value]`, and by how much the odds of each symbol
    (part, value) may rise. `coupled` says that the ceiling ρ₂ is for readers of the whole
    sub-table, not of one record of it."""
    codes = [np.flatnonzero(quota) for quota in quotas]
    counts = [quota[code] for quota, code in zip(quotas, codes, strict=True)]
    covered = [protected[code] for code in codes]
    limits = [_limits(count, cover, rho2) for count, cover in zip(counts, covered, strict=True)]
    common = [min(gamma for gamma in limit if gamma is not None) for limit in limits]

    def uniform(part: int, at: Fraction) -> Uniform:
        return Uniform.for_amplification(len(counts[part]), _between(common[part], at))

    def keep(parts: Sequence[int], operators: Sequence[Uniform]) -> BoolArray:
        """Whether these operators keep the ceiling, each in its part."""
        allowed, symbols = float(rho2 / (1 - rho2)), int(np.count_nonzero(quotas))
        retentions, keeps = [operator.retentions for operator in operators], list[BoolArray]()
        step = max(_CELLS // max(map(len, retentions)), 1)
        for first in range(0, len(parts), step):
            some = parts[first : first + step]
            kept = padded(retentions[first : first + step])
            odds = posterior_odds_of_parts(padded([counts[k] for k in some]), kept, symbols)
            free = padded([covered[k] for k in some]) <= 0
            keeps.append(np.all((odds * ROUNDING <= allowed) | free, axis=1))
        return np.concatenate(keeps)

    every = range(len(counts))
    if coupled:
        operators = last_kept(uniform, every, STEPS, keep)
        assert len(operators) == len(every), "what the others show raises odds by γ at most"
    else:
        operators = {part: uniform(part, Fraction(1)) for part in every}
    parts = tuple(SubTable(tuple(code.tolist()), operators[k]) for k, code in enumerate(codes))
    return Parts(quotas.shape[1], parts), [gamma for limit in limits for gamma in limit]


def _limits(counts: IntArray, covered: BoolArray, rho2: Fraction) -> Limits:
    """How much the odds of each value of a part may rise, None where it is not covered."""
    size, pairs = int(counts.sum()), zip(counts.tolist(), covered.tolist(), strict=True)
    return [part_gamma(count, size, rho2) if is_covered else None for count, is_covered in pairs]


def last_kept(
    operator: Callable[[int, Fraction], Uniform],
    parts: Sequence[int],
    steps: int,
    keep: Callable[[Sequence[int], Sequence[Uniform]], BoolArray],
) -> dict[int, Uniform]:
    """For each part the operator at the last of the steps 0 … `steps` that keeps; none where none
    does. Steps are taken to keep up to some point."""
    low, high = np.full(len(parts), -1), np.full(len(parts), steps + 1)
    kept = dict[int, Uniform]()
    while len(open_ := np.flatnonzero(high - low > 1)):
        middle, some = (low[open_] + high[open_]) // 2, [parts[k] for k in open_.tolist()]
        tried = [
            operator(part, Fraction(step, steps))
            for part, step in zip(some, middle.tolist(), strict=True)
        ]
        keeps = keep(some, tried)
        low[open_[keeps]], high[open_[~keeps]] = middle[keeps], middle[~keeps]
        kept |= {some[k]: tried[k] for k in np.flatnonzero(keeps).tolist()}
    return kept


def _between(gamma: Fraction, at: Fraction) -> Fraction:
    """A limit between a hair below √γ, which keeps the ceiling whatever is shown, and γ.

    >>> float(_between(Fraction(4), Fraction(0))), _between(Fraction(4), Fraction(1))
    (1.99999..., Fraction(4, 1))
    """
    root = Fraction(isqrt((gamma.numerator << 64) // gamma.denominator), 1 << 32)
    always = root - (root - 1) / (1 << 24)
    return always + (gamma - always) * at
