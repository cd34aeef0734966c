"""What the reader whom a statement names concludes from a release of buckets, exactly.

A *world* says who has what; worlds of one histogram are equally likely before. `likelihoods` weighs
those that fit a release by the chance that the program, its plan included, makes that release of
them. The reader knows the quasi-identifiers, the histogram, the program, and all draws but those
that place people in slots and those that refuse cuts: whoever knows less is within the same
ceilings, as the mean over what else may have been drawn.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import factorial, prod
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.columns import in_json
from sfumato.draws import IntArray
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.words import Facts
from sfumato.guarantees import jointly, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan, parse_mechanism
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.profile import BinnedCounts, Holdings, Profile
from tests.whole.oracle.tree import Asked, Cut, R, Rule, chance_of, cuts, law, leaves
from tests.whole.oracle.worlds import Branching, Held, Script, World, arranged, fitting, outcomes

REFUSALS = "refuse"  # in the purpose of their draws
FEW = 20  # people, of whom every refusal is looked at
CHECKED = 5  # worlds of a release whose plans are compared with the rule's

# every ceiling once more, by formulas of the papers
CEILINGS: dict[str, Callable[[Fraction], Fraction]] = {
    "l-diversity(2)": lambda share: Fraction(1, 2),
    "l-diversity(3)": lambda share: Fraction(1, 3),
    "beta-likeness(1)": lambda share: min(2 * share, Fraction(1)),
    "beta-likeness(2)": lambda share: min(3 * share, Fraction(1)),
    "f-privacy(theta=1.5)": lambda share: min(3 * share / 2, Fraction(1)),
    "f-privacy(theta=2, floor=0.05)": lambda share: min(2 * share + Fraction(1, 20), Fraction(1)),
    "f-privacy(theta=1, floor=0.2)": lambda share: min(share + Fraction(1, 5), Fraction(1)),
    "f-privacy(theta=2, floor=0.05, doubt=1/4)": lambda share: min(
        2 * share + Fraction(1, 20), 1 - (1 - share) / 4
    ),
}


@dataclass(frozen=True)
class Case:
    """A table, what is promised (by column), and how it is kept; None lets `publish` choose."""

    quasi: Mapping[str, Sequence[Any]]
    held: World
    promises: tuple[str, ...]
    way: str | None
    seed: int = 0
    joint: bool = False
    alone: tuple[int, ...] = ()  # people who are looked at first

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple("abc"[: len(self.promises)])

    @property
    def promise(self) -> str | dict[str, str]:
        if len(set(self.promises)) == 1:
            return self.promises[0]
        return dict(zip(self.columns, self.promises, strict=True))

    def table(self, world: World) -> sf.Table:
        held = dict(zip(self.columns, map(list, zip(*world, strict=True)), strict=True))
        return sf.read(
            pa.table({**self.quasi, **held}),
            quasi=list(self.quasi),
            sensitive=list(self.columns),
            domain={name: sorted(set(values)) for name, values in held.items()},
        )

    @property
    def branched(self) -> tuple[str, ...]:
        """What comes out every way; of many people as the key says."""
        return (REFUSALS,) if len(self.held) <= FEW else ()

    def marks(self, held: Held) -> list[tuple[int, Any]]:
        """What has a ceiling."""
        return [*enumerate(held), *([(-1, held)] if self.joint else [])]

    @cached_property
    def ceilings(self) -> dict[tuple[int, Any], Fraction]:
        """By (column, value); of the joint promise by (−1, all values)."""
        found, people = {}, len(self.held)
        for column, promise in enumerate(self.promises):
            for value, count in Counter(held[column] for held in self.held).items():
                found[column, value] = CEILINGS[promise](Fraction(count, people))
        if self.joint:
            for held, count in Counter(self.held).items():
                found[-1, held] = CEILINGS[self.promises[0]](Fraction(count, people))
        return found


class Planner:
    """The program's plans of all worlds of one table, which have its quasi-identifiers and its
    histogram: counted by the program once, then counted again for each world."""

    def __init__(self, case: Case) -> None:
        self.case, self.table = case, case.table(case.held)
        self.guarantee = parse_guarantee(case.promise).for_columns(self.table.sensitive)
        self.way: Mechanism | None = case.way and parse_mechanism(case.way)
        self.profile = profile_for(self.table, self.guarantee, self.way)
        if case.joint:
            self.guarantee = jointly(self.guarantee, self.profile.histograms)
        self._known: dict[Any, list[tuple[Fraction, Planned]]] = {}
        self.cells = list[int]()  # of everybody
        if self.profile.binned is not None:
            cells, quasi = self.profile.binned.cells, pa.table(dict(case.quasi))
            number = {bins: n for n, bins in enumerate(zip(*cells.codes, strict=True))}
            codes = [bins.of(quasi[bins.column]).tolist() for bins in cells.columns]
            rows = zip(*codes, strict=True) if codes else [()] * len(case.held)
            self.cells = [number.get(bins, 0) for bins in rows]
            counted = self.counted(case.held).binned
            for name in ("cell", "values", "counts"):
                found = getattr(counted, name), getattr(self.profile.binned, name)
                assert np.array_equal(*found), name

    def codes(self, world: World) -> dict[str, IntArray]:
        found = {}
        for name, values in zip(self.case.columns, zip(*world, strict=True), strict=True):
            of = {value: code for code, value in enumerate(self.profile.histograms[name].values)}
            found[name] = np.array([of[value] for value in values])
        return found

    def counted(self, world: World) -> Profile:
        if self.profile.binned is None:
            return self.profile
        holdings = self.profile.holdings or Holdings.one(*self.profile.histograms.values())
        held = holdings.numbers(self.codes(world)).tolist()
        entries = sorted(Counter(zip(self.cells, held, strict=True)).items())
        cell, values, counts = np.array([(*at, n) for at, n in entries]).T
        return replace(
            self.profile, binned=BinnedCounts(self.profile.binned.cells, cell, values, counts)
        )

    def plans(self, world: World, *branched: str) -> list[tuple[Fraction, Planned]]:
        """What is planned of a world, with the chances of what is `branched`."""
        profile = self.counted(world)
        binned = profile.binned
        counts = binned and tuple(map(bytes, [binned.cell, binned.values, binned.counts]))
        if (counts, branched) in self._known:  # as many people of every cell
            return self._known[counts, branched]

        def run(script: Script) -> Planned:
            draws = Branching.seeded(self.case.seed, script, *branched)
            return self._planned(*choose_plan(profile, self.guarantee, self.way, draws))

        return self._known.setdefault((counts, branched), list(outcomes(run)))

    def _planned(self, way: Mechanism, plan: Plan) -> Planned:
        assert isinstance(plan, BucketPlan), plan
        facts = Facts.of_plan(way, self.guarantee, plan, self.profile.histograms)
        shown, contents = entries_of(plan.listed()), entries_of(plan.filling.listed())
        said = (
            str(way),
            json.dumps(in_json(dict(facts.plan)), sort_keys=True),
            *facts.statement(),
            *facts.caveats(),
        )
        return Planned(plan, (*said, str(shown)), contents)

    @cached_property
    def rule(self) -> Rule | None:
        """What trees are grown by, where there may be any."""
        case, marks = self.case, list(map(self.case.marks, self.case.held))
        if self.profile.binned is None:
            return None
        least = None if self.way is None else getattr(self.way, "min", None)
        rule = Rule.of(case.quasi, least, case.ceilings, marks)
        return rule if self.way is not None or rule.serves(marks) else None

    def law(self, world: World) -> dict[tuple[Asked | None, ...], Fraction]:
        """The chance of every tree that may be public."""
        assert self.rule is not None
        found = law(self.rule, list(map(self.case.marks, world)))
        return {cuts(tree): chance for chance, tree in found}

    def chance(self, world: World, planned: Planned) -> tuple[Fraction, bool]:
        """The chance of this tree, and whether a cut was refused in it."""
        if self.rule is None:
            return Fraction(1), False
        return chance_of(self.rule, list(map(self.case.marks, world)), planned.cuts)

    def buckets(self, planned: Planned, world: World) -> list[int]:
        """Where the plan puts everybody."""
        plan = planned.plan
        block = plan.tree and plan.tree.numbers(pa.table(dict(self.case.quasi)))
        (keys,) = plan.keys(self.codes(world), block).values()
        ranks = np.array([int((keys[:at] == key).sum()) for at, key in enumerate(keys)])
        return plan.bucket_of(keys, ranks).tolist()


@dataclass(frozen=True)
class Planned:
    """A plan, and what the world sees of it before anybody is placed."""

    plan: BucketPlan
    said: tuple[str, ...]
    contents: tuple[tuple[int, int, int], ...]  # (bucket, combination, count), no fakes

    @property
    def made(self) -> bool:
        return self.plan.tree is not None

    @cached_property
    def cuts(self) -> tuple[Asked | None, ...]:
        """Of its tree, as `tree` has them."""
        return tuple(cut and (cut.column, cut.below, cut.values) for cut in self.plan.cuts.cuts)

    @property
    def public(self) -> tuple[Any, ...]:
        return self.said, self.contents

    @cached_property
    def placing(self) -> Fraction:
        """The chance of each way to place people: uniform permutations of the slots of every
        combination in every block."""
        parts = self.plan.filling.parts
        block = np.repeat(parts.blocks, parts.buckets)
        slots: Counter[tuple[int, int]] = Counter()
        for bucket, combination, count in self.contents:
            slots[int(block[bucket]), combination] += count
        ways = prod(factorial(count) for *_, count in self.contents)
        return Fraction(ways, prod(factorial(count) for count in slots.values()))


def entries_of(listed: Iterator[tuple[IntArray, ...]]) -> tuple[tuple[int, int, int], ...]:
    pieces = (zip(*(one.tolist() for one in entries), strict=True) for entries in listed)
    return tuple(sorted(itertools.chain(*pieces)))


def likelihoods(
    planner: Planner, released: Planned, buckets: Sequence[int], worlds: Iterator[World]
) -> dict[World, Fraction]:
    """The chance of a release by world: that the program plans it so, and places people so."""
    found = {}
    for world in worlds:
        same = (
            chance * planned.placing
            for chance, planned in planner.plans(world, REFUSALS)
            if planned.public == released.public
        )
        found[world] = sum(same, Fraction(0))
    return found


def by_rule(planner: Planner, released: Planned, worlds: Iterator[World]) -> dict[World, Fraction]:
    """The same where blocks may be cut, from the rule as `tree` has it. The program's plans of some
    worlds are compared: it has every tree with that chance, and this release wherever this tree."""
    case, every = planner.case, list(worlds)
    found = {world: planner.chance(world, released)[0] * released.placing for world in every}
    for world in [case.held, *Random(case.seed).sample(every, min(CHECKED, len(every)))]:
        trees = Counter[Any]()
        for chance, planned in planner.plans(world, *case.branched):
            trees[planned.cuts] += chance  # type: ignore[assignment]
            same = planned.public == released.public
            assert same or planned.cuts != released.cuts or world not in found, (case, world)
        assert not case.branched or trees == planner.law(world), (case, world, trees)
    return found


Mark = tuple[int, Any]


def posteriors(
    case: Case, likelihood: Mapping[World, Fraction], people: Sequence[int]
) -> dict[tuple[int, Mark], Fraction]:
    """The chance of every value of these people, by (person, (column, value))."""
    whole, worlds = sum(likelihood.values(), Fraction(0)), defaultdict[Fraction, list[World]](list)
    assert whole > 0, "the release itself is impossible"
    for world, chance in likelihood.items():
        worlds[chance].append(world)
    found = defaultdict[tuple[int, Mark], Fraction](Fraction)
    for chance, alike in worlds.items():
        held = Counter((person, world[person]) for world in alike for person in people)
        for (person, combination), count in held.items():
            for mark in case.marks(combination):
                found[person, mark] += chance * count / whole
    return found


def odds(chance: Fraction) -> Fraction:
    return chance / (1 - chance)


@dataclass(frozen=True)
class Looked:
    """One release of a table: its worst posterior over the ceiling, and the most that odds are
    above what the bucket lists: at most 11/10, and 1 where no cut was refused."""

    worlds: int
    made: bool
    refused: bool
    ratio: Fraction
    factor: Fraction
    whose: Any

    @property
    def kept(self) -> bool:
        return self.ratio <= 1 and self.factor <= (R if self.refused else 1)


def releases(planner: Planner) -> list[tuple[Planned, list[int]]]:
    """Everything that may be public of a table under its key, and where people then stand."""
    world = planner.case.held
    plans = planner.plans(world, *planner.case.branched)
    by_public = {planned.public: planned for _, planned in plans}
    return [(planned, planner.buckets(planned, world)) for planned in by_public.values()]


def look(case: Case, most: int = 3000) -> list[Looked]:
    """Every release of a table, weighed over all worlds that fit it; where these are more than
    `most`, over those of some buckets, everybody else known."""
    planner, found = Planner(case), []
    for planned, buckets in releases(planner):
        order, some, worlds = sorted(set(buckets)), list[int](), 1
        Random(case.seed).shuffle(order)
        order.sort(key=lambda bucket: bucket not in [buckets[person] for person in case.alone])
        for bucket in order:
            inside = [held for held, b in zip(case.held, buckets, strict=True) if b == bucket]
            orders = factorial(len(inside)) // prod(map(factorial, Counter(inside).values()))
            if worlds * orders <= most:
                some, worlds = [*some, bucket], worlds * orders
        if some:
            fits = fitting(case.held, buckets, some)
            if planner.rule is None:
                likelihood = likelihoods(planner, planned, buckets, fits)
            else:
                likelihood = by_rule(planner, planned, fits)
            people = [person for person, bucket in enumerate(buckets) if bucket in some]
            held = [Counter(case.marks(one)) for one in case.held]
            lists = {g: sum((held[p] for p in people if buckets[p] == g), Counter()) for g in some}
            ratio, factor, whose = Fraction(0), Fraction(0), None
            for (person, mark), chance in posteriors(case, likelihood, people).items():
                listed = lists[buckets[person]]
                share = Fraction(listed[mark] * len(case.marks(case.held[0])), listed.total())
                factor = max(factor, odds(chance) / odds(share) if share < 1 else Fraction(1))
                if chance / case.ceilings[mark] > ratio:
                    ratio, whose = chance / case.ceilings[mark], (person, mark, chance)
            refused = planner.chance(case.held, planned)[1]
            cut = planned.made, refused
            found.append(Looked(len(likelihood), *cut, ratio, factor, whose))
    return found


def enumerated(case: Case) -> dict[tuple[Any, ...], dict[World, Fraction]]:
    """The chance of every release by world, over all worlds of the histogram, all refusals and all
    permutations of slots: nothing is taken for granted but the draws of sizes and contents."""
    planner, found = Planner(case), defaultdict[tuple[Any, ...], dict[World, Fraction]](dict)
    for world in arranged(case.held):
        for chance, planned in planner.plans(world, REFUSALS, "slots"):
            release = *planned.public, tuple(planner.buckets(planned, world))
            found[release][world] = found[release].get(world, Fraction(0)) + chance
    return found


BUCKETS = (
    "optimal",
    "optimal(fakes=1)",
    "optimal(fakes=2, association=0.5)",
    "optimal(objective=loss)",
    "optimal(objective=two-size)",
    "optimal(objective=multi-size)",
    None,
)


def _zipf(rng: Random, kinds: int, people: int) -> list[int]:
    """So many people of so many kinds, all of whom occur if they can."""
    weights = [1 / (1 + kind) ** rng.choice([0, 1, 2]) for kind in range(kinds)]
    rest = rng.choices(range(kinds), weights, k=max(0, people - kinds))
    found = [*range(min(kinds, people)), *rest]
    rng.shuffle(found)
    return found


def small(
    seed: int, ways: Sequence[str | None], values: int | None = None, people: int | None = None
) -> Case:
    """Up to eight people: places of one person each, Zipf shapes, one or two sensitive columns."""
    rng = Random(seed)
    several = rng.random() < 0.25
    people, values = people or rng.randint(5, 8), values or rng.randint(2, 4)
    quasi: dict[str, list[Any]] = {
        "town": [f"t{kind}" for kind in _zipf(rng, rng.randint(2, people), people)],
        "age": [rng.randint(20, 20 + rng.choice([2, 5, 40])) for _ in range(people)],
        "rich": [rng.random() < 0.5 for _ in range(people)],
    }
    for name in rng.sample(sorted(quasi), rng.randint(0, 2)):
        del quasi[name]
    drawn = [_zipf(rng, values, people) for _ in range(1 + several)]
    shared = [way for way in ways if way in (None, "optimal") or way.startswith("local")]
    way = rng.choice(shared if several else ways)
    joint = several and rng.random() < 0.3
    promises = rng.choices(list(CEILINGS), k=len(drawn))
    if joint:
        promises = promises[:1] * 2
    return Case(quasi, tuple(zip(*drawn, strict=True)), tuple(promises), way, seed, joint)


def cut(seed: int) -> Case:
    """A small table of which a release shows a cut that was made and one that was refused, in two
    of three by chance."""
    for number in itertools.count():
        rng = Random(f"{seed} {number}")
        people = rng.randint(6, 8)
        way = f"local(min={rng.choice([1, 2, 2, 2, 3])})"
        case = small(rng.randrange(1 << 40), (way,), rng.randint(3, 7), people)
        marks = list(map(case.marks, case.held))
        if any(case.ceilings[mark] < Fraction(n, people) for mark, n in _count(marks).items()):
            continue
        rule = Rule.of(case.quasi, int(way[10:-1]), case.ceilings, marks)
        for _, tree in law(rule, marks):
            if isinstance(tree, Cut):
                refused = {leaf.refused for leaf in leaves(tree)}
                if any(0 < chance < 1 for chance in refused) or (seed % 3 == 0 and 1 in refused):
                    return case
    raise AssertionError


def _count(marks: Sequence[Sequence[Any]]) -> Counter[Any]:
    return Counter(mark for held in marks for mark in held)


def lone(seed: int) -> Case:
    """People alone in their place among some hundred, whose values go with the place."""
    rng, town, held = Random(seed), [], []
    for place, many in [("x", 120), ("y", 120), *((f"alone {n}", 1) for n in range(6))]:
        values = {"x": "aaabbc", "y": "ddeeffg"}.get(place, "abcdefg")
        town += [place] * many
        held += [(rng.choice(values),) for _ in range(many)]
    return Case(
        {"town": town},
        tuple(held),
        ("l-diversity(2)",),
        "local(min=60)",
        seed,
        alone=tuple(range(240, 246)),
    )
