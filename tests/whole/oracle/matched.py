"""What `heterogeneous`, classes of `ring` and `burel`, `splu` and `sps` state, on tiny tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb
from random import Random
from typing import Any

import numpy as np

from sfumato.draws import Draws
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.small_sum_tails import large_sum, small_sum_privacy
from sfumato.mechanisms import TablePlan, parse_mechanism
from sfumato.mechanisms.generalized import Generalized
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.mechanisms.splu import DecoyPlan
from sfumato.profile import Cells, Profile
from tests.whole.oracle.drawn import Counts, histogram
from tests.whole.oracle.worlds import Branching, Script, arranged, outcomes

Row = tuple[tuple[int, ...], int]  # who may stand behind it, and the value that it shows


def generalized(way: str, promise: str, world: Sequence[int], draws: Draws) -> Generalized:
    """Of few people with ages of their own, of many with some."""
    codes, people = np.array(world), np.arange(len(world))
    whole = histogram(np.bincount(codes).tolist())
    plan = parse_mechanism(way).plan(
        Profile(whole.rows, {"s": whole}), parse_guarantee(promise), draws
    )
    plan.check()
    assert isinstance(plan, TablePlan)
    ages = min(len(people), 60)
    axes: list[Axis] = [NumericAxis("age", people * 7919 % ages, np.arange(ages), ages - 1)]
    if len(people) > 8:
        axes.append(SetAxis("sex", people // 3 % 2, 2, 1))
    return plan.generalize(axes, codes, draws, lambda *_: None)


def rows_of(made: Generalized, world: Sequence[int]) -> tuple[Row, ...]:
    if made.group is not None:  # whole groups share what they show
        members = defaultdict[int, list[int]](list)
        for group, person in zip(made.group.tolist(), made.source.tolist(), strict=True):
            members[group].append(person)
        behind = [members[group] for group in made.group.tolist()]
    else:
        behind = [row for run in made.matches or () for row in run.tolist()]
    pairs = zip(behind, made.source.tolist(), strict=True)
    return tuple(sorted((tuple(sorted(people)), world[source]) for people, source in pairs))


def values_of(counts: Counts) -> list[int]:
    return [value for value, count in enumerate(counts) for _ in range(count)]


def worst_match(way: str, promise: str, counts: Counts, seed: int) -> Fraction:
    """Of the rows that a person may stand behind, the largest share of a value over its ceiling."""
    world = values_of(counts)
    np.random.default_rng(seed).shuffle(world)
    made = generalized(way, promise, world, Draws.from_seed(seed))
    assert sorted(made.source.tolist()) == list(range(len(world)))  # everybody, once
    shown = defaultdict[int, Counter[int]](Counter)
    for people, value in rows_of(made, world):
        for person in people:
            shown[person][value] += 1
    ceilings = parse_guarantee(promise).ceilings(histogram(counts))
    assert len(shown) == len(world)
    return max(
        Fraction(n, values.total()) / ceilings[value]
        for values in shown.values()
        for value, n in values.items()
    )


def larger(seed: int) -> tuple[str, str, Counts, int]:
    """Ranges for up to some hundred people, at the largest l that they allow, or some beta."""
    rng = Random(seed)
    counts = tuple(rng.randint(1, 40) for _ in range(rng.randint(2, 11)))
    way = rng.choice(("heterogeneous", "heterogeneous", "ring", "burel"))
    number = sum(counts) // max(counts)
    if number < 2 or (way != "ring" and rng.random() < 0.5):
        return (
            "burel" if way == "ring" else way,
            f"beta-likeness({rng.randint(1, 40) / 10})",
            counts,
            seed,
        )
    return way, f"l-diversity({rng.choice((number, rng.randint(2, number)))})", counts, seed


def worst_posterior(promise: str, counts: Counts, seed: int) -> Fraction:
    """`heterogeneous`: the largest posterior over its ceiling, of a reader who knows the program
    and who matches whom, over everything that may be released."""
    ceilings = parse_guarantee(promise).ceilings(histogram(counts))
    by_release = defaultdict[tuple[Row, ...], Counter[tuple[int, ...]]](Counter)
    for world in arranged(values_of(counts)):

        def run(script: Script, world: tuple[int, ...] = world) -> tuple[Row, ...]:
            draws = Branching.seeded(seed, script, "deal", "bucket ", "shift")
            return rows_of(generalized("heterogeneous", promise, world, draws), world)

        for chance, release in outcomes(run):
            by_release[release][world] += chance  # type: ignore[assignment]
    worst = Fraction(0)
    for likelihood in by_release.values():
        mass = Counter[tuple[int, int]]()
        for world, chance in likelihood.items():
            for person, value in enumerate(world):
                mass[person, value] += chance
        whole = Fraction(likelihood.total())
        worst = max(worst, *(m / whole / ceilings[value] for (_, value), m in mass.items()))
    return worst


# -- small sums ----------------------------------------------------------------------------------


def binomial(trials: int, chance: Fraction) -> list[Fraction]:
    return [comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]


def small_sums(counts: Counts, groups: int, seed: int) -> Mapping[int, list[Fraction]]:
    """The exact law of the published count of every value: each of a group's records shows any of
    its values. Raises where a group has one twice."""
    whole = histogram(counts)
    plan = parse_mechanism("splu").plan(
        Profile(whole.rows, {"s": whole}),
        parse_guarantee(f"small-sum({groups})"),
        Draws.from_seed(seed),
    )
    assert isinstance(plan, DecoyPlan)
    (column,) = plan.columns
    column.check()
    listed = [
        zip(*map(np.ndarray.tolist, entries), strict=True) for entries in column.groups.listed()
    ]
    drawn, of_group = Counter[int](), defaultdict[int, list[int]](list)
    for bucket, value, count in (entry for entries in listed for entry in entries):
        assert count == 1, "a group has a value twice"
        of_group[bucket].append(value)
    for values in of_group.values():
        assert len(values) == groups, values
        drawn.update(values * groups)  # every record of the group may show it
    laws = {x: binomial(drawn[x], Fraction(1, groups)) for x in range(len(counts))}
    spare = column.counts - column.grouped
    assert spare.sum() == plan.withheld == sum(counts) % groups
    return laws


def stated_sums(groups: int, error: Fraction, up_to: int, probability: Fraction) -> None:
    """What is said of sums, by the binomial law: at least this, and at most that."""

    def wrong(count: int) -> Fraction:
        law = binomial(groups * count, Fraction(1, groups))
        return sum((p for x, p in enumerate(law) if abs(x - count) >= error * count), Fraction(0))

    assert small_sum_privacy(groups, error, up_to) == min(map(wrong, range(1, up_to + 1)))
    least = large_sum(groups, error, probability)
    assert wrong(least - 1) > probability >= max(map(wrong, range(least, least + 12)))


# -- reconstruction ------------------------------------------------------------------------------


def sampled(cells: Sequence[tuple[int, int, int]], promise: str, merge: str) -> SampledPlan:
    """`sps` for (quasi value, value, count)."""
    keys, values, counts = (np.array(column) for column in zip(*sorted(cells), strict=True))
    whole = histogram(np.bincount(values, counts).astype(int).tolist())
    domain = tuple(f"q{key}" for key in range(int(keys.max()) + 1))
    profile = Profile(whole.rows, {"s": whole}, Cells(("q",), (domain,), keys, values, counts))
    plan = parse_mechanism(f"sps(merge={merge})").plan(
        profile, parse_guarantee(promise), Draws.from_seed(1)
    )
    assert isinstance(plan, SampledPlan)
    return plan


def tails(plan: SampledPlan, group: int) -> dict[int, tuple[Fraction, Fraction]]:
    """Of every value of a published group, the chances that its share is estimated too high, and
    too low, by more than the error: the sample keeps shares but for one record (a fair draw), each
    of its records stays with p or is drawn anew, and copies keep the shares of what is shown."""
    groups, setting = plan.groups, plan.setting
    at = slice(groups.starts[group], groups.starts[group + 1])
    size, n = int(groups.sizes[group]), int(plan.samples[group])
    p = plan.operator.retention
    q = (1 - p) / plan.operator.values
    found: dict[int, tuple[Fraction, Fraction]] = {}
    for value, count in zip(groups.values[at].tolist(), groups.counts[at].tolist(), strict=True):
        share, hits = Fraction(count, size), Fraction(n * count, size)
        low, phase = int(hits), hits - int(hits)
        high = down = Fraction(0)
        for inside, weight in ((low, 1 - phase), (low + 1, phase)):
            if not weight:
                continue
            for a, chance in enumerate(binomial(inside, p + q)):
                for b, other in enumerate(binomial(n - inside, q)):
                    estimate = (Fraction(a + b, n) - q) / p
                    high += weight * chance * other * (estimate > (1 + setting.error) * share)
                    down += weight * chance * other * (estimate < (1 - setting.error) * share)
        found[value] = high, down
    return found


def unkept(plan: SampledPlan) -> list[Any]:
    """Groups for which the statement is false."""
    chance, broken = plan.setting.chance, []
    for group in np.flatnonzero(plan.samples).tolist():
        at = slice(plan.groups.starts[group], plan.groups.starts[group + 1])
        most = int(plan.groups.counts[at].max())
        for value, (high, down) in tails(plan, group).items():
            common = most == int(plan.groups.counts[at][plan.groups.values[at] == value][0])
            kept = min(high, down) >= chance if common else max(high, down) >= chance
            if not kept:
                broken.append((group, value, float(high), float(down)))
    return broken
