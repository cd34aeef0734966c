"""What is compared: guarantees, each kept by a mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import UsageError
from sfumato.guarantees import DEFAULT_PROMISE, GUARANTEES, parse_guarantee
from sfumato.mechanisms import parse_mechanism

BY = " by "


@dataclass(frozen=True)
class Candidate:
    """A guarantee and the mechanism that keeps it; None is the one that `publish` would choose.

    >>> Candidate.parse("l-diversity(5) by optimal")
    Candidate(guarantee='l-diversity(5)', mechanism='optimal')
    >>> print(Candidate.parse("rho-privacy(1/13, 1/6)"))
    rho-privacy(1/13, 1/6)
    """

    guarantee: str
    mechanism: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarantee", str(parse_guarantee(self.guarantee)))
        if self.mechanism is not None:
            object.__setattr__(self, "mechanism", str(parse_mechanism(self.mechanism)))

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """Read `GUARANTEE by MECHANISM`, or a guarantee alone."""
        guarantee, by, mechanism = text.partition(BY)
        if not guarantee.strip() or (by and not mechanism.strip()):
            raise UsageError(
                f"Cannot read the candidate {text!r}. Write 'GUARANTEE by MECHANISM', for example "
                "'l-diversity(5) by optimal'."
            )
        return cls(guarantee.strip(), mechanism.strip() or None)

    def __str__(self) -> str:
        return self.guarantee if self.mechanism is None else f"{self.guarantee}{BY}{self.mechanism}"


def listed(candidates: Sequence[Candidate | str]) -> list[Candidate]:
    """Candidates in either of their forms, each once."""
    return list(dict.fromkeys(Candidate.parse(c) if isinstance(c, str) else c for c in candidates))


def usual_candidates() -> list[Candidate]:
    """The default promise, and three others that say something else.

    >>> len(set(usual_candidates()))
    4
    """
    others = (GUARANTEES[name].usual() for name in ("l-diversity", "beta-likeness", "rho-privacy"))
    return [Candidate(str(promise)) for promise in (DEFAULT_PROMISE, *others)]


def short_names(candidates: Sequence[Candidate]) -> list[str]:
    """The mechanism alone where no other candidate has it, else the whole text.

    >>> short_names([Candidate("l-diversity(5)", "optimal"), Candidate("l-diversity(9)", "ring")])
    ['optimal', 'ring']
    """
    mechanisms = [candidate.mechanism for candidate in candidates]
    return [
        str(c) if c.mechanism is None or mechanisms.count(c.mechanism) > 1 else c.mechanism
        for c in candidates
    ]
