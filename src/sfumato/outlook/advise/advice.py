"""Advice in words and as data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.columns import Value, value_text
from sfumato.guarantees import Guarantee
from sfumato.guarantees.value_table import label
from sfumato.mechanisms import Mechanism, mechanisms_for
from sfumato.results import Cell, Result, ResultTable, number_to_json


@dataclass(frozen=True, eq=False)
class Option:
    """A family of promises, solved: the strongest that reaches the target, else the weakest.

    By sensitive column: `errors`, `ceilings` (the largest posterior of a person's own value, on
    average over the people) and `places`, where the ladders stood before each went up its own.
    `refused` says why no promise of the family can be kept here, if so.
    """

    family: str
    against: str
    guarantee: Guarantee | None = None
    mechanism: Mechanism | None = None
    errors: Mapping[str, float] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)
    reached: bool = False
    refused: str = ""

    @property
    def error(self) -> float:
        """Of the column that is worst off."""
        return max(self.errors.values(), default=math.nan)

    @property
    def ceiling(self) -> float:
        """The mean over the columns."""
        return sum(self.ceilings.values()) / len(self.ceilings) if self.ceilings else 1.0

    @property
    def name(self) -> str:
        """The promise; with several columns, which have their own, the family."""
        return str(self.guarantee) if len(self.ceilings) < 2 else self.family

    def to_json(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "guarantee": None if self.guarantee is None else self.guarantee.stated(),
            "mechanism": None if self.mechanism is None else str(self.mechanism),
            "error": number_to_json(self.error),
            "errors": {column: number_to_json(error) for column, error in self.errors.items()},
            "average_ceiling": self.ceiling,
            "average_ceilings": dict(self.ceilings),
            "reached": self.reached,
            "keeps_ceilings": not self.refused,
            "refused": self.refused or None,
            "holds_against": self.against,
        }

    def flags(self) -> str:
        """What to say to `publish`; the mechanism where it is not among those that it compares."""
        assert self.guarantee is not None
        stated = self.guarantee.stated()
        texts = (
            [stated]
            if isinstance(stated, str)
            else [f"{_name(column)}: {promise}" for column, promise in stated.items()]
        )
        flags = [f"--guarantee {shlex.quote(text)}" for text in texts]
        if self.mechanism not in mechanisms_for(self.guarantee):
            flags.append(f"--mechanism {shlex.quote(str(self.mechanism))}")
        return " ".join(flags)


@dataclass(frozen=True)
class Spared:
    """One of several sensitive columns: the worst error of the others, the same `without` it, and
    with its `rare` values, each with fewer than `least` people, put together."""

    column: str
    others: float
    without: float
    rare: int
    least: int
    merged: float


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Result):
    """What can be promised at a wished-for error of counts; `recommended` is None if nothing."""

    target_error: float
    min_count: int
    ceilings: Mapping[Value, Fraction]
    options: tuple[Option, ...]
    recommended: Option | None
    spared: tuple[Spared, ...] = ()  # what each of several columns costs the others

    @property
    def why(self) -> str:
        """The recommendation in one or two sentences."""
        chosen = self.recommended
        if chosen is None or chosen.guarantee is None:
            near = [o for o in self.options if o.guarantee and math.isfinite(o.error)]
            best = min(near, key=lambda option: option.error, default=None)
            text = (
                f"No promise reaches an error of {self.target_error:.3g} for counts of "
                f"{self.min_count:,}" + (" under these ceilings" if self.ceilings else "") + "."
            )
            if best is None and self.ceilings:
                return f"{text} Raise the ceilings."
            if best is None:
                return f"{text} None of these guarantees can be kept here; the table says why."
            return (
                f"{text} Nearest: '{best.name}' by '{best.mechanism}', with an expected error "
                f"of {best.error:.3g}. Allow a larger error, or ask for larger counts."
            )
        columns = " in the column that is worst off" if len(chosen.errors) > 1 else ""
        text = (
            f"'{chosen.name}' by '{chosen.mechanism}': expected error {chosen.error:.3g} for "
            f"counts of {self.min_count:,}{columns}."
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
            "options": [option.to_json() for option in self.options],
            "recommended": None if self.recommended is None else self.recommended.to_json(),
            "columns": [
                {name: number_to_json(v) if isinstance(v, float) else v for name, v in row.items()}
                for row in map(vars, self.spared)
            ],
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
                    option.name,
                    str(option.mechanism),
                    option.error,
                    option.ceiling if option.ceiling < 1 else None,
                    "yes" if option.reached else "no",
                )
            )
        several = any(len(option.errors) > 1 for option in self.options)
        return ResultTable(
            "Promises",
            f"the strongest of each family with an error of at most {self.target_error:.3g} for "
            f"counts of {self.min_count:,}",
            ("guarantee", "mechanism", "error", "average ceiling", "reached"),
            rows,
            note=f"Error: expected |estimate − truth| / truth of a count of {self.min_count:,}, "
            "the mean over the values that so many people have"
            + ("; of the column that is worst off. " if several else ". ")
            + "Average ceiling: the largest posterior of a person's own value, averaged over the "
            "people; – where nothing limits it.",
        )

    def parts(self) -> Sequence[ResultTable | str]:
        parts: list[ResultTable | str] = [self.table()]
        if self.ceilings:
            listed = [f"{value_text(v)} {float(c):.4g}" for v, c in self.ceilings.items()]
            parts.append(f"Ceilings that every promise had to keep: {', '.join(listed)}.")
        chosen = self.recommended
        parts.append(f"Recommended: {self.why}" if chosen is not None else self.why)
        if chosen is not None and chosen.guarantee is not None:
            parts += self.by_column(chosen)
            parts.append(f"Publish it with:\n    {chosen.flags()}")
            others = {o.against for o in self.options if o.reached} - {chosen.against}
            if others:
                parts.append(
                    "Promises differ in whom they hold against:\n"
                    + "\n".join(f"    {o.name}: {o.against}" for o in self.options if o.reached)
                )
        return parts

    def by_column(self, chosen: Option) -> Sequence[ResultTable | str]:
        """Of several columns: the promise, the error and the ceiling of each, and which costs."""
        if len(chosen.ceilings) < 2:
            return []
        assert chosen.guarantee is not None
        stated = chosen.guarantee.stated()
        rows: list[tuple[Cell, ...]] = [
            (
                column,
                stated if isinstance(stated, str) else stated[column],
                chosen.errors.get(column),
                ceiling,
            )
            for column, ceiling in chosen.ceilings.items()
        ]
        names = ("column", "guarantee", "error", "average ceiling")
        table = ResultTable("Columns", "what each is promised", names, rows)
        return [table, *([cost] if (cost := costliest(self.spared)) else [])]


def costliest(spared: Sequence[Spared]) -> str:
    """Which column costs the others most, and what to do about it; '' where there is one only."""
    gains = [one for one in spared if math.isfinite(one.without) and math.isfinite(one.others)]
    if not gains:
        return ""
    most = max(gains, key=lambda one: one.others - one.without)
    if most.without > 0.95 * most.others:
        return (
            "No column costs the others much: without any of them errors would be about the same."
        )
    text = (
        f"{most.column!r} costs most: without it counts of the others would be off by "
        f"{most.without:.1%} at most, instead of {most.others:.1%}."
    )
    if math.isfinite(most.merged) and most.merged < 0.95 * most.others:
        text += (
            f" With its {most.rare:,} values of fewer than {most.least:,} people put together "
            f"(rare({most.least})) no count would be off by more than {most.merged:.1%}."
        )
    return text.replace("%", " %")


def _name(column: str) -> str:
    """A column before the colon of a promise."""
    return column if column.replace("_", "a").isalnum() else "'" + column.replace("'", "''") + "'"


@dataclass(frozen=True, eq=False)
class Priced:
    """A mechanism and, of a sensitive column, the expected error for each size of count; not a
    number: not predictable."""

    mechanism: Mechanism
    column: str
    errors: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cost(Result):
    """What a promise costs on a table, by mechanism and column, the best mechanism first."""

    guarantee: Guarantee
    ceilings: Mapping[str, float]
    sizes: tuple[int, ...]
    lines: tuple[Priced, ...]
    refused: tuple[tuple[Mechanism, str], ...] = ()  # mechanisms that cannot here, and why

    @property
    def ceiling(self) -> float:
        return sum(self.ceilings.values()) / len(self.ceilings)

    def to_json(self) -> dict[str, Any]:
        return {
            "guarantee": self.guarantee.stated(),
            "refused": [{"mechanism": str(one), "why": why} for one, why in self.refused],
            "average_ceiling": self.ceiling,
            "average_ceilings": dict(self.ceilings),
            "mechanisms": [
                {
                    "mechanism": str(line.mechanism),
                    "column": line.column,
                    "errors": [
                        {"count": size, "error": number_to_json(error)}
                        for size, error in zip(self.sizes, line.errors, strict=True)
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
        mechanisms = dict.fromkeys(line.mechanism for line in self.lines)
        weaker = [
            f" '{mechanism}' keeps it against fewer: {promised.against()}."
            for mechanism in mechanisms
            if (promised := mechanism.promised(self.guarantee)).against().strength
            < self.guarantee.against().strength
        ]
        return (
            f"The posterior of a person's own value is at most {self.ceiling:.3g}, on "
            "average over the people."
        ) + "".join(weaker)

    def table(self) -> ResultTable:
        several = len(self.ceilings) > 1
        rows: list[tuple[Cell, ...]] = [
            (str(line.mechanism), *([line.column] if several else []), *line.errors)
            for line in self.lines
        ]
        names = ("mechanism", *(["column"] if several else []))
        return ResultTable(
            "Cost",
            f"of {self.guarantee}: expected error of counts, by their size",
            (*names, *(f"counts of {size:,}" for size in self.sizes)),
            rows,
            note="Error: expected |estimate − truth| / truth, the mean over the values that so "
            "many people have; – where no value has so many, or where it is known only once the "
            "release is made (compare makes it).",
        )
