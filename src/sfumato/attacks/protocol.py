"""The shape of every attack: what it applies to, how it guesses, and how the guesses are judged.

An attack sees a release and the quasi columns of some people, and names a sensitive value for each.
What it reaches is judged beside two baselines: the best guess without any release, and the same
attack on a release of a fresh table without those people.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import numpy as np

from sfumato.attacks.intervals import calibrated, paired_difference, wilson
from sfumato.attacks.people import People, pick
from sfumato.attacks.views import View
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.guarantees.words import Known, Reader, Standing
from sfumato.operators.base import FloatArray
from sfumato.release import Release
from sfumato.results import Interval, Result, ResultTable, cell_text
from sfumato.textform import TextForm

EXPOSED = 10  # people that an outcome names
FRESH = "the same attack without the person"
STANDINGS: Mapping[Standing, str] = {
    "inside": "inside the promise",
    "partly": "inside the promise for whom it gives no value more than rho1 beforehand",
    "outside": "outside the promise, which does not speak of such a reader",
}


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A release as the adversary sees it, and the raw records behind it.

    The records are there for attacks whose adversary knows some of them, and for nothing else.
    """

    view: View
    people: People
    numeric: tuple[bool, ...] = ()  # which quasi columns are numeric
    ceilings: FloatArray | None = None  # per value, what the promise allows at most
    reader: Reader | None = None  # whom the promise holds against
    thorough: bool = False  # whether everything is learned from, however long it takes

    @property
    def ceiling(self) -> float | None:
        """The largest ceiling among the values that the promise covers."""
        if self.ceilings is None:
            return None
        covered = self.ceilings[self.ceilings < 1]
        return float(covered.max()) if len(covered) else None


@dataclass(frozen=True, eq=False)
class Guesses:
    """A value per person, and how sure the adversary is of it; further figures of the attack.

    The confidence need only rank people: the judge corrects it by how often it is right.
    """

    values: IntArray
    confidence: FloatArray
    figures: Mapping[str, float] = field(default_factory=dict)
    besides: Mapping[str, IntArray] = field(default_factory=dict)  # guesses to compare with

    @classmethod
    def likeliest(
        cls,
        attack: Attack,
        knowledge: Knowledge,
        chances: FloatArray,
        draws: Draws,
        figures: Mapping[str, float] | None = None,
        besides: Mapping[str, IntArray] | None = None,
    ) -> Guesses:
        """The value with the largest chance, by target; shape (targets, values)."""
        values = pick(chances, knowledge.view.prior, draws, f"{attack.name} ties")
        sure = np.asarray(chances[np.arange(len(chances)), values], np.float64)
        return cls(values, sure, figures or {}, besides or {})


class Attack(TextForm, ABC):
    """A simulated adversary. Frozen dataclass; parameters have a text form."""

    what: ClassVar[str] = "attack"
    sentence: ClassVar[str]  # who it is, for a steward
    knows: ClassVar[Known]  # besides the release and the person's quasi columns
    kinds: ClassVar[tuple[type[Release], ...]] = (Release,)  # the kinds that it applies to

    @classmethod
    def forms(cls) -> list[Self]:
        """The forms of this attack that `all` runs."""
        return [cls()]

    @abstractmethod
    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        """Name a value for each target, from the knowledge and the targets' quasi columns alone.

        `targets.truth` is there for the judge; an attack that reads it cheats.
        """


def share_text(share: Interval) -> str:
    """
    >>> share_text(Interval(0.123, 0.1, 0.15))
    '12.3 % (95 %: 10.0 … 15.0)'
    """
    return f"{100 * share.value:.1f} % (95 %: {100 * share.low:.1f} … {100 * share.high:.1f})"


@dataclass(frozen=True)
class ExposedRow:
    """A row of the raw table, and how sure the adversary could be, as it turned out."""

    row: int
    confidence: float


@dataclass(frozen=True, repr=False)
class Outcome(Result):
    """What an attack reached.

    `advantage` is over the same attack without the person where that could be had, else over the
    prior. A learned rule that holds for everybody raises `over_prior` and not `over_fresh`; what
    the release tells about the very person raises both.
    """

    attack: str
    column: str
    targets: int
    success: Interval
    prior: float
    fresh: Interval | None
    over_prior: Interval
    over_fresh: Interval | None
    exposed: tuple[ExposedRow, ...]  # guessed right
    figures: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None
    besides: Mapping[str, Interval] = field(default_factory=dict)  # right guesses in other ways
    singled_out: Interval | None = None  # of people whose quasi columns nobody shares
    sentence: str = ""  # who the adversary is
    standing: Standing | None = None  # whether the promise speaks of such a reader
    ceiling: float | None = None  # the largest that the promise allows, among values it covers

    more: ClassVar[tuple[str, ...]] = ("advantage",)

    @property
    def advantage(self) -> Interval:
        return self.over_prior if self.over_fresh is None else self.over_fresh

    @property
    def over(self) -> str:
        """What the advantage is over."""
        return "the best guess without a release" if self.over_fresh is None else FRESH

    def rows(self) -> list[tuple[str, str]]:
        lines = [("right guesses", share_text(self.success))]
        if self.singled_out is not None:
            lines.append(("right for people singled out", share_text(self.singled_out)))
        lines += [(name, share_text(share)) for name, share in self.besides.items()]
        lines.append(("best guess without any release", f"{100 * self.prior:.1f} %"))
        if self.fresh is not None and self.over_fresh is not None:
            lines.append(("the same attack without the person", share_text(self.fresh)))
            lines.append(("advantage from the person's own record", share_text(self.over_fresh)))
        lines.append(("advantage over no release", share_text(self.over_prior)))
        if self.ceiling is not None:
            lines.append(("highest ceiling promised", f"{100 * self.ceiling:.1f} %"))
        if self.standing is not None:
            lines.append(("this adversary", STANDINGS[self.standing]))
        lines += [(name, cell_text(figure)) for name, figure in self.figures.items()]
        if self.exposed:
            people = ", ".join(f"{one.row:,} ({one.confidence:.0%})" for one in self.exposed)
            lines.append(("most exposed rows, and how sure", people))
        if self.note:
            lines.append(("note", self.note))
        return lines

    def parts(self) -> Sequence[ResultTable | str]:
        name = f"{self.attack} on {self.column!r}"
        return [ResultTable(name, f"{self.targets:,} people", ("figure", "is"), self.rows())]


class Reached(Protocol):
    """What is told of an attack, to the steward or, coarser, to everybody."""

    @property
    def attack(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def success(self) -> Interval: ...
    @property
    def prior(self) -> float: ...
    @property
    def advantage(self) -> Interval: ...
    @property
    def over(self) -> str: ...
    @property
    def standing(self) -> Standing | None: ...
    @property
    def ceiling(self) -> float | None: ...


def verdict(reached: Sequence[Reached]) -> list[str]:
    """What all attacks come to, in three lines.

    >>> half = Interval(0.5, 0.4, 0.6)
    >>> outcome = Outcome("linkage", "ill", 100, half, 0.3, None, Interval(0.2, 0.1, 0.3), None, (),
    ...                   standing="inside", ceiling=0.55)
    >>> for line in verdict([outcome]):
    ...     print(line)
    The strongest attack, linkage on 'ill', is right for 50.0 % (95 %: 40.0 … 60.0); the best guess without any release for 30.0 %.
    Of readers that the promise speaks of, linkage on 'ill' is the strongest: 50.0 % (95 %: 40.0 … 60.0); the promise allows at most 55.0 %.
    Over the best guess without a release, linkage on 'ill' gains most: 20.0 % (95 %: 10.0 … 30.0).
    """  # noqa: E501
    if not reached:
        return []

    def named(one: Reached) -> str:
        return f"{one.attack} on {one.column!r}"

    def gain(one: Reached) -> float:
        return one.success.value - one.prior

    best = max(reached, key=gain)
    lines = [
        f"The strongest attack, {named(best)}, is right for {share_text(best.success)}; the best "
        f"guess without any release for {100 * best.prior:.1f} %."
    ]
    if inside := [one for one in reached if one.standing == "inside"]:
        best = max(inside, key=gain)
        allowed = (
            "the promise sets no ceiling"
            if best.ceiling is None
            else f"the promise allows at most {100 * best.ceiling:.1f} %"
        )
        lines.append(
            f"Of readers that the promise speaks of, {named(best)} is the strongest: "
            f"{share_text(best.success)}; {allowed}."
        )
    best = max(reached, key=lambda one: one.advantage.value)
    lines.append(f"Over {best.over}, {named(best)} gains most: {share_text(best.advantage)}.")
    return lines


def judge(
    attack: Attack,
    targets: People,
    prior: float,
    guesses: Guesses,
    fresh: BoolArray | None,
    note: str | None = None,
    single: BoolArray | None = None,
    knowledge: Knowledge | None = None,
) -> Outcome:
    """Compare guesses with the truth; `fresh` says for whom the attack without them was right,
    `single` whom their quasi columns single out. `knowledge` has what is promised.

    The intervals take the targets as drawn from a population: their truths are independent, the
    rules that guess them are given. How a rule learned from one more release would differ, because
    other noise was drawn, is not in them: a difference between two noisy releases can be real and
    still say nothing about the person. Publish again to see.
    """
    right = guesses.values == targets.truth
    count, trials = int(right.sum()), len(targets)
    sure = calibrated(guesses.confidence, right)
    order = np.lexsort((targets.rows, -guesses.confidence, -sure))
    top = [k for k in order.tolist() if right[k]][:EXPOSED]
    return Outcome(
        attack=str(attack),
        column=targets.column,
        targets=trials,
        success=wilson(count, trials),
        prior=prior,
        fresh=None if fresh is None else wilson(int(fresh.sum()), trials),
        over_prior=wilson(count, trials, prior),
        over_fresh=None if fresh is None else paired_difference(right, fresh),
        exposed=tuple(ExposedRow(int(targets.rows[k]), float(sure[k])) for k in top),
        figures=guesses.figures,
        note=note,
        besides={
            name: wilson(int((values == targets.truth).sum()), trials)
            for name, values in guesses.besides.items()
        },
        singled_out=wilson(int(right[single].sum()), int(single.sum()))
        if single is not None and single.any()
        else None,
        sentence=attack.sentence,
        standing=None
        if knowledge is None or knowledge.reader is None
        else knowledge.reader.standing(attack.knows),
        ceiling=None if knowledge is None else knowledge.ceiling,
    )
