"""Advice in words and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.columns import Value, value_text
from sfumato.guarantees import Guarantee
from sfumato.guarantees.value_table import label
from sfumato.mechanisms import Mechanism
from sfumato.results import Cell, Result, ResultTable, number_to_json
from sfumato.workloads import SizeClass


@dataclass(frozen=True, eq=False)
class Option:
    """A family of promises, solved: the strongest that reaches the target, else the weakest.

    `ceiling` is what anybody may at most believe about a person's own value, on average over the
    people; `refused` says why no promise of the family can be kept here, if so.
    """

    family: str
    against: str
    guarantee: Guarantee | None = None
    mechanism: Mechanism | None = None
    error: float = math.nan
    ceiling: float = 1.0
    reached: bool = False
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "guarantee": None if self.guarantee is None else str(self.guarantee),
            "mechanism": None if self.mechanism is None else str(self.mechanism),
            "error": number_to_json(self.error),
            "average_ceiling": self.ceiling,
            "reached": self.reached,
            "keeps_ceilings": not self.refused,
            "refused": self.refused or None,
            "holds_against": self.against,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Result):
    """What can be promised at a wished-for error of counts; `recommended` is None if nothing."""

    target_error: float
    min_count: int
    ceilings: Mapping[Value, Fraction]
    questions: int
    options: tuple[Option, ...]
    recommended: Option | None

    @property
    def why(self) -> str:
        """The recommendation in one or two sentences."""
        chosen = self.recommended
        if chosen is None or chosen.guarantee is None:
            near = [o for o in self.options if o.guarantee and math.isfinite(o.error)]
            best = min(near, key=lambda option: option.error, default=None)
            text = (
                f"No promise reaches an error of {self.target_error:.3g} for counts of "
                f"{self.min_count:,} or more"
                + (" under these ceilings" if self.ceilings else "")
                + "."
            )
            if best is None and self.ceilings:
                return f"{text} Raise the ceilings."
            if best is None:
                return f"{text} None of these guarantees can be kept here; the table says why."
            return (
                f"{text} Nearest: '{best.guarantee}' by '{best.mechanism}', with an expected error "
                f"of {best.error:.3g}. Allow a larger error, or ask for larger counts."
            )
        text = (
            f"'{chosen.guarantee}' by '{chosen.mechanism}': expected error {chosen.error:.3g} for "
            f"counts of {self.min_count:,} or more."
        )
        if chosen.ceiling >= 1:
            return (
                f"{text} It limits no posterior ({chosen.against}); no promise that "
                "does reaches the error."
            )
        return (
            f"{text} Of the promises that reach {self.target_error:.3g} it leaves the smallest "
            f"posterior: on average over the people, at most {chosen.ceiling:.3g} for a person's "
            f"own value, for {chosen.against}."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "target_error": self.target_error,
            "min_count": self.min_count,
            "ceilings": {label(v): float(limit) for v, limit in self.ceilings.items()},
            "questions": self.questions,
            "options": [option.to_json() for option in self.options],
            "recommended": None if self.recommended is None else self.recommended.to_json(),
            "why": self.why,
        }

    def table(self) -> ResultTable:
        rows: list[tuple[Cell, ...]] = []
        for option in self.options:
            if option.refused:
                rows.append((option.family, None, None, None, option.refused))
                continue
            rows.append(
                (
                    str(option.guarantee),
                    str(option.mechanism),
                    option.error,
                    option.ceiling if option.ceiling < 1 else None,
                    "yes" if option.reached else "no",
                )
            )
        return ResultTable(
            "Promises",
            f"the strongest of each family with an error of at most {self.target_error:.3g} for "
            f"counts of {self.min_count:,} or more",
            ("guarantee", "mechanism", "error", "average ceiling", "reached"),
            rows,
            note="Error: expected |estimate − truth| / truth, the mean of "
            f"{self.questions} random conjunctions. Average ceiling: the largest posterior of "
            "a person's own value, averaged over the people; – where nothing limits "
            "it.",
        )

    def parts(self) -> Sequence[ResultTable | str]:
        parts: list[ResultTable | str] = [self.table()]
        if self.ceilings:
            listed = [f"{value_text(v)} {float(c):.4g}" for v, c in self.ceilings.items()]
            parts.append(f"Ceilings that every promise had to keep: {', '.join(listed)}.")
        chosen = self.recommended
        parts.append(f"Recommended: {self.why}" if chosen is not None else self.why)
        if chosen is not None and chosen.guarantee is not None:
            parts.append(
                "Publish it with:\n    --guarantee "
                f"'{chosen.guarantee}' --mechanism '{chosen.mechanism}'"
            )
            others = {o.against for o in self.options if o.reached} - {chosen.against}
            if others:
                parts.append(
                    "Promises differ in whom they hold against:\n"
                    + "\n".join(
                        f"    {o.guarantee}: {o.against}" for o in self.options if o.reached
                    )
                )
        return parts


@dataclass(frozen=True, eq=False)
class Priced:
    """A mechanism and the expected error for each size of count; not a number: not predictable."""

    mechanism: Mechanism
    errors: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cost(Result):
    """What a promise costs on a table, by mechanism, the best first."""

    guarantee: Guarantee
    ceiling: float
    sizes: tuple[SizeClass, ...]
    questions: int
    lines: tuple[Priced, ...]
    refused: tuple[tuple[Mechanism, str], ...] = ()  # mechanisms that cannot here, and why

    def to_json(self) -> dict[str, Any]:
        return {
            "guarantee": str(self.guarantee),
            "refused": [{"mechanism": str(each), "why": why} for each, why in self.refused],
            "average_ceiling": self.ceiling,
            "questions": self.questions,
            "mechanisms": [
                {
                    "mechanism": str(line.mechanism),
                    "errors": [
                        {
                            "least": size.least,
                            "most": size.most if place < len(self.sizes) - 1 else None,
                            "error": number_to_json(error),
                        }
                        for place, (size, error) in enumerate(
                            zip(self.sizes, line.errors, strict=True)
                        )
                    ],
                }
                for line in self.lines
            ],
        }

    def parts(self) -> Sequence[ResultTable | str]:
        return [self.table(), self.belief, *self.refusals]

    @property
    def refusals(self) -> list[str]:
        """Why other mechanisms cannot keep it on this table."""
        return [f"Not by '{mechanism}': {why}" for mechanism, why in self.refused]

    @property
    def belief(self) -> str:
        """The posterior that the promise allows, in a sentence."""
        if self.ceiling >= 1:
            return "It limits no posterior of one person's value."
        weaker = [
            f" '{line.mechanism}' keeps it against fewer: {promised.against()}."
            for line in self.lines
            if (promised := line.mechanism.promised(self.guarantee)).against().strength
            < self.guarantee.against().strength
        ]
        return (
            f"The posterior of a person's own value is at most {self.ceiling:.3g}, on "
            "average over the people."
        ) + "".join(weaker)

    def table(self) -> ResultTable:
        rows: list[tuple[Cell, ...]] = [(str(line.mechanism), *line.errors) for line in self.lines]
        return ResultTable(
            "Cost",
            f"of {self.guarantee}: expected error of counts, by their size",
            ("mechanism", *(f"counts {size.name}" for size in self.sizes)),
            rows,
            note="Error: expected |estimate − truth| / truth, the mean of "
            f"{self.questions} random conjunctions; – where it is known only once the release is "
            "made (compare makes it).",
        )
