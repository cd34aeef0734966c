"""Fine-grain (rho1, rho2)-privacy: every value has its own limits (thesis, Definition 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import Value, label, list_some, value_text
from sfumato.errors import UsageError
from sfumato.guarantees.base import Ceilings, refused, require_two_values
from sfumato.guarantees.ladders import COARSE, factors, just_above, largest_other, up_to_one
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.guarantees.value_table import EVERY_OTHER, ChanceLimits, Limit
from sfumato.guarantees.words import CONCLUSIONS, FRESH_DRAWS, IN_TABLE, amount, rarest_share
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text


@dataclass(frozen=True)
class FineRhoPrivacy(OddsGuarantee):
    """Every value x has its own rho1 and rho2: given by `limits`, or share and `theta` × share.

    With `theta`, a value that a person had with a chance of at most its share f has a chance of at
    most theta·f afterwards; nothing is promised where theta·f ≥ 1 (errata T13). Promised as "at
    most" and for raised chances of single values (errata T1, T18). A value of the domain that
    nobody has gets the limit of gamma as f goes to 0, which is theta (errata T17).

    >>> promise = FineRhoPrivacy(theta=3)
    >>> str(promise)
    'fine-rho-privacy(theta=3)'
    >>> import numpy as np
    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> [str(gamma) for gamma in promise.odds_limits(counts)]
    ['15', '15', '33/5', '9/2', '39/11']
    """

    theta: Fraction | None = None
    limits: ChanceLimits | None = field(default=None)

    name: ClassVar[str] = "fine-rho-privacy"
    title: ClassVar[str] = "Every value at most theta times as likely"
    sentence: ClassVar[str] = (
        "Whoever gives a person's sensitive value a chance of at most its share in the table gives "
        "it at most theta times that share after seeing the person's own record."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "theta",
            above=1,
            title="theta: how many times its share",
            default="5",
            slider=(1.01, 100),
            less="A smaller theta protects more; counts become less accurate.",
            more="A larger theta protects less, and common values not at all; counts become more "
            "accurate.",
        ),
        Parameter("limits", form=ChanceLimits.of),
    )
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "values without a limit of their own: the statement says which",
        "an adversary whose own knowledge already gives a value more than its rho1",
        "learning that a value became less likely, or groups of values together: the limits speak "
        "of one value becoming likelier",
        IN_TABLE,
        CONCLUSIONS,
        FRESH_DRAWS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.theta is None) == (self.limits is None):
            raise UsageError(
                f"{self.name} needs either theta or limits. Write {self.name}(theta=20) or "
                f"{self.name}(@limits.csv), a file with the columns value, rho1 and rho2."
            )

    def odds_limits(self, histogram: Histogram) -> list[Fraction | None]:
        if self.limits is not None:
            return [row.gamma for row in self.limits.for_domain(histogram)]
        assert self.theta is not None
        # Equation 66 with rho1 = f and rho2 = θf is θ(1−f)/(1−θf): good for f = 0 too
        above, below, rows = self.theta.numerator, self.theta.denominator, histogram.rows
        gammas: list[Fraction | None] = []
        for count in histogram.counts.tolist():
            room = below * rows - above * count
            gammas.append(Fraction(above * (rows - count), room) if room > 0 else None)
        return gammas

    def common_limit(self, column: str, values: Sequence[Value]) -> Fraction:
        if self.limits is None:
            assert self.theta is not None
            return self.theta  # θ(1−f)/(1−θf) grows with f, from θ at f = 0
        gammas = [row.gamma for row in self.limits.for_values(values)]
        return min(gamma for gamma in gammas if gamma is not None)

    def stated_limits(self, histogram: Histogram) -> list[Fraction | None]:
        alike = self.limits is None
        return super().stated_limits(histogram) if alike else self.odds_limits(histogram)

    @property
    def limits_follow_shares(self) -> bool:
        return self.theta is not None

    def planning_shares(self, column: str, values: Sequence[Value]) -> list[Fraction] | None:
        """With limits, every value is taken to be as common as its rho1 says, in proportion.

        Values without limits share what the others leave, or are as common as those on average.
        """
        if self.limits is None:
            return None
        stated = [row.rho1 for row in self.limits.for_values(values)]
        known = [share for share in stated if share is not None]
        total, others = sum(known, Fraction(0)), len(stated) - len(known)
        other = (1 - total) / others if total < 1 and others else total / max(len(known), 1)
        shares = [other if share is None else share for share in stated]
        return [share / sum(shares, Fraction(0)) for share in shares]

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        if self.limits is None:
            assert self.theta is not None
            return [min(Fraction(1), self.theta * share) for share in histogram.shares]
        rows: list[Limit] = self.limits.for_domain(histogram)
        return [
            row.rho2 if row.rho2 and share <= (row.rho1 or 0) else Fraction(1)
            for row, share in zip(rows, histogram.shares, strict=True)
        ]

    def require_feasible(self, histogram: Histogram) -> None:
        require_two_values(histogram)
        if any(gamma is not None for gamma in self.odds_limits(histogram)):
            return
        rarest = int(histogram.counts.argmin())
        share, nearest = histogram.shares[rarest], None
        if self.theta is not None and 0 < share < Fraction(1, 2):
            nearest = FineRhoPrivacy(theta=factors(float(1 / share + 1) / 2, COARSE)[-1])
        raise refused(
            f"'{self}' would protect nobody: it sets no limit for any value of column "
            f"{histogram.column!r}; the rarest, {value_text(histogram.values[rarest])}, has a "
            f"share of {float(share):.4g}.",
            histogram,
            rarest,
            nearest,
            can="that protects something",
            otherwise="Set limits.",
        )

    def statement(self, histogram: Histogram) -> str:
        if self.limits is None:
            assert self.theta is not None
            return (
                f"Column {histogram.column!r}: whoever, from anything but a person's own record "
                "(that this table was published included), gives some value of the person a "
                "chance of at most that value's share in the table still gives it at most "
                f"{amount(self.theta)} times that share after seeing that record. Where that is 1 "
                "or more, nothing is promised."
            )
        rows = list(zip(histogram.values, self.limits.for_domain(histogram), strict=True))
        stated = [
            f"{value_text(value)} {float(row.rho1):.4g} → {float(row.rho2):.4g}"
            for value, row in rows
            if row.rho1 is not None and row.rho2 is not None
        ]
        unlimited = [value_text(value) for value, row in rows if row.rho1 is None]
        text = (
            f"Column {histogram.column!r}: every value has its own limits. Whoever, from "
            "anything but a person's own record (that this table was published included), gives "
            "the value a chance of at most rho1 still gives it at most rho2 after seeing that "
            f"record. The limits, rho1 → rho2: {list_some(stated, most=50)}. A value that a larger "
            "share of the people have than its rho1 is not covered: nothing is promised about it."
        )
        if unlimited:
            text += f" Nor is anything promised about: {list_some(unlimited, most=50)}."
        return text

    def formula(self) -> str:
        if self.theta is not None:
            theta = decimal_text(self.theta)
            before, after = "fₓ", f"{theta}·fₓ"
            gamma = f"{theta}(1 − fₓ) / (1 − {theta}·fₓ)"
        else:
            before, after, gamma = "ρ₁ₓ", "ρ₂ₓ", "ρ₂ₓ(1 − ρ₁ₓ) / (ρ₁ₓ(1 − ρ₂ₓ))"
        return (
            f"Pr(X = x) ≤ {before}  implies  Pr(X = x | Y = y) ≤ {after}\n"
            f"kept where  P[x, y] / P[x', y] ≤ γₓ = {gamma}"
        )

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        if not ceilings:
            return [cls(theta=theta) for theta in factors(float(1 / rarest_share(histogram)))]
        limits = [
            Limit(label(value), _between(histogram, value, limit), limit)
            for value, limit in ceilings.items()
        ]
        rho1 = just_above(largest_other(histogram, ceilings))
        rest = [Limit(EVERY_OTHER, rho1, rho2) for rho2 in up_to_one(rho1)]
        rest.append(Limit(EVERY_OTHER, None, None))
        return [cls(limits=ChanceLimits((*limits, row))) for row in rest]


def _between(histogram: Histogram, value: Value, limit: Fraction) -> Fraction:
    """A short decimal from the value's share up, below its limit."""
    share = histogram.shares[histogram.values.index(value)]
    return next(
        (rho1 for digits in range(3, 9) if (rho1 := just_above(share, digits)) < limit),
        (share + limit) / 2,
    )
