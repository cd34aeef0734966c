"""Advice in words and as data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism, mechanisms_for
from sfumato.results import Cell, Result, ResultTable
from sfumato.textform import about


@dataclass(frozen=True, eq=False, repr=False)
class Option(Result):
    """A family of promises, solved: the strongest that reaches the target, else the weakest; or a
    mechanism that keeps the promise that was named.

    By sensitive column: `errors` of counts of every size, `ceilings` (the largest posterior of a
    person's own value, on average over the people), the shares of people `without` a promise, and
    `places`, where the ladders stood before each went up its own. `refused` says why no promise of
    the family can be kept here, if so.
    """

    more, kept = ("error", "ceiling"), ("places",)
    family: str
    against: str
    guarantee: Guarantee | None = None
    mechanism: Mechanism | None = None
    errors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)
    without: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)
    reached: bool = False
    refused: str = ""

    @property
    def worst(self) -> list[float]:
        """By size of count: of the column that is worst off; not a number where nothing is told."""
        by_size = zip(*self.errors.values(), strict=True)
        return [max((e for e in told if not math.isnan(e)), default=math.nan) for told in by_size]

    @property
    def error(self) -> float:
        """Of the column that is worst off."""
        return self.worst[-1] if self.errors else math.nan

    @property
    def ceiling(self) -> float:
        """The mean over the columns."""
        return sum(self.ceilings.values()) / len(self.ceilings) if self.ceilings else 1.0

    @property
    def name(self) -> str:
        """The promise; with several columns, which have their own, the family."""
        return str(self.guarantee) if len(self.ceilings) < 2 else self.family

    def parts(self) -> Sequence[str]:
        error = f"median error {self.error:.3g}"
        return [self.refused or f"'{self.guarantee}' by '{self.mechanism}': {error}"]

    def promise(self, column: str) -> str:
        assert self.guarantee is not None
        stated = self.guarantee.stated()
        return stated if isinstance(stated, str) else stated[column]

    def flags(self) -> str:
        """What to say to `publish`; the mechanism where it is not among those that it compares."""
        assert self.guarantee is not None
        stated = self.guarantee.stated()
        texts = [stated] if isinstance(stated, str) else [
            about(column, promise) for column, promise in stated.items()
        ]  # fmt: skip
        flags = [f"--guarantee {shlex.quote(text)}" for text in texts]
        if self.mechanism not in mechanisms_for(self.guarantee):
            flags.append(f"--mechanism {shlex.quote(str(self.mechanism))}")
        return " ".join(flags)


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Result):
    """What can be promised at a wished-for error of counts, or what a promise costs by mechanism:
    then there is no `target_error`. `recommended` is None if nothing reaches the target."""

    more = ("min_count", "why")
    target_error: float | None
    sizes: tuple[int, ...]  # of counts; the last is the one that is asked about
    options: tuple[Option, ...]
    recommended: Option | None

    @property
    def min_count(self) -> int:
        return self.sizes[-1]

    @property
    def why(self) -> str:
        """The recommendation in one or two sentences."""
        chosen = self.recommended
        if chosen is None or chosen.guarantee is None:
            return self._why_not()
        columns = " in the column that is worst off" if len(chosen.errors) > 1 else ""
        text = (
            f"'{chosen.name}' by '{chosen.mechanism}': median error {chosen.error:.3g} for "
            f"counts of {self.min_count:,}{columns}."
        )
        if chosen.ceiling >= 1:
            nothing = f"{text} It limits no posterior ({chosen.against})"
            return f"{nothing}." if self.target_error is None else (
                f"{nothing}; no promise that does reaches the error."
            )  # fmt: skip
        posterior = (
            f"on average over the people, at most {chosen.ceiling:.3g} for a person's own value, "
            f"for {chosen.against}."
        )
        if self.target_error is None:
            return f"{text} The posterior is, {posterior}"
        fewest = " and leave out the fewest people" if any(chosen.without.values()) else ""
        return (
            f"{text} Of the promises that reach {self.target_error:.3g}{fewest} it leaves the "
            f"smallest posterior: {posterior}"
        )

    def _why_not(self) -> str:
        near = [o for o in self.options if o.guarantee and math.isfinite(o.error)]
        best = min(near, key=lambda option: option.error, default=None)
        text = (
            f"No promise reaches an error of {self.target_error:.3g} for counts of "
            f"{self.min_count:,}."
        )
        if best is None:
            return f"{text} None of these guarantees can be kept here; the table says why."
        return (
            f"{text} Nearest: '{best.name}' by '{best.mechanism}', with a median error of "
            f"{best.error:.3g}. Allow a larger error, or ask for larger counts."
        )

    def table(self) -> ResultTable:
        rows: list[tuple[Cell, ...]] = []
        for option in self.options:
            if option.refused:
                name = str(option.mechanism) if option.mechanism else None
                nothing = [None] * (len(self.sizes) + 1)
                rows.append((option.family, name, *nothing, option.refused))
                continue
            ceiling = option.ceiling if option.ceiling < 1 else None
            told = "" if self.target_error is None else "yes" if option.reached else "no"
            rows.append((option.name, str(option.mechanism), *option.worst, ceiling, told))
        several = any(len(option.errors) > 1 for option in self.options)
        title = "what it costs, by mechanism" if self.target_error is None else (
            f"the strongest of each family with an error of at most {self.target_error:.3g} for "
            f"counts of {self.min_count:,}"
        )  # fmt: skip
        worst = "; of the column that is worst off" if several else ""
        note = (
            "Error: the median of |estimate − truth| / truth for a count of that size, over the "
            f"values that so many people have{worst}; – where "
            "it is known only once the release is made (compare makes it). Average "
            "ceiling: the largest posterior of a person's own value, averaged over the people; – "
            "where nothing limits it."
        )
        errors = [f"error at {size:,}" for size in self.sizes]
        reached = "" if self.target_error is None else "reached"
        heads = ("guarantee", "mechanism", *errors, "average ceiling", reached)
        return ResultTable("Promises", title, heads, rows, note=note)

    def parts(self) -> Sequence[ResultTable | str]:
        parts: list[ResultTable | str] = [self.table()]
        chosen = self.recommended
        parts.append(f"Recommended: {self.why}" if chosen is not None else self.why)
        if chosen is not None:
            parts += self.by_column(chosen)
            parts.append(f"Publish it with:\n    {chosen.flags()}")
            able = [o for o in self.options if o.reached]
            if {option.against for option in able} - {chosen.against}:
                lines = [f"    {o.name} by {o.mechanism}: {o.against}" for o in able]
                parts.append("\n".join(["Promises differ in whom they hold against:", *lines]))
        return parts

    def by_column(self, chosen: Option) -> Sequence[ResultTable | str]:
        """Of several columns: the promise, the error and the ceiling of each."""
        if len(chosen.ceilings) < 2:
            return []
        rows: list[tuple[Cell, ...]] = [
            (column, chosen.promise(column), chosen.errors.get(column, (None,))[-1], ceiling)
            for column, ceiling in chosen.ceilings.items()
        ]
        names = ("column", "guarantee", "error", "average ceiling")
        return [ResultTable("Columns", "what each is promised", names, rows)]
