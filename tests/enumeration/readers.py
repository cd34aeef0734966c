"""What the reader named in a statement concludes from a release of few people, exactly.

`worst_ratio` is the largest chance that such a reader ends with, over the ceiling that the
statement gives it: above 1 is a breach. All that a release can show is looked at.

- *operators* (`PerturbedPlan`): any belief before of at most the stated chance; the worst puts the
  rest on the value that explains the shown one least.
- *sub-tables* (`PartitionedPlan`): the exact shares, and all records of the sub-table.
- *buckets* (`BucketPlan`): the exact shares and the program. What is listed says c_x(g)/|g|, if
  placing is even; `placed_ratio` asks the program itself, world by world, whether it is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import Guarantee, RhoPrivacy, parse_guarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms import Mechanism, Plan, mechanisms_for
from sfumato.mechanisms.buckets.plan import BucketPlan
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.profile import Histogram, Profile
from tests.enumeration.sub_tables import SubTable

GUARANTEES = (
    "rho-privacy(0.3, 0.6)",
    "rho-privacy(0.4, 0.7)",
    "rho-privacy(0.3, 0.6, reader=shares)",
    "rho-privacy(0.4, 0.7, reader=shares)",
    "rho-privacy(0.26, 0.5, reader=shares)",
    "fine-rho-privacy(theta=1.5)",
    "fine-rho-privacy(theta=2)",
    "fine-rho-privacy(limits=0:0.4:0.7;*:0.3:0.5)",
    "l-diversity(2)",
    "l-diversity(3)",
    "beta-likeness(1)",
    "beta-likeness(2)",
    "enhanced-beta-likeness(2)",
    "f-privacy(theta=1.5)",
    "f-privacy(theta=1, floor=0.2)",
)


def tables(least: int = 4, most: int = 8) -> Iterator[tuple[int, ...]]:
    """Counts of two to four values, up to the names of the values."""
    for people in range(least, most + 1):
        for values in (2, 3, 4):
            for cut in itertools.combinations_with_replacement(range(1, people), values):
                if sum(cut) == people:
                    yield tuple(reversed(cut))


def histogram_of(counts: tuple[int, ...]) -> Histogram:
    return Histogram("s", tuple(str(code) for code in range(len(counts))), np.array(counts))


def planned(
    mechanism: Mechanism, guarantee: Guarantee, counts: tuple[int, ...]
) -> tuple[Guarantee, Plan] | None:
    histogram = histogram_of(counts)
    promised = mechanism.promised(guarantee)
    profile = Profile(histogram.rows, {"s": histogram})
    try:
        return promised, mechanism.plan(profile, promised, Draws.from_seed(1))
    except InfeasibleGuarantee:
        return None


def cases() -> Iterator[tuple[Mechanism, Guarantee]]:
    """What `publish` may choose by itself, for every guarantee that limits belief.

    Blocks of people follow from quasi columns, which there are none of here: `test_local_blocks`.
    """
    for text in GUARANTEES:
        guarantee = parse_guarantee(text)
        for mechanism in mechanisms_for(guarantee):
            if not mechanism.needs_bins:
                yield mechanism, guarantee


def worst_ratio(plan: Plan, guarantee: Guarantee, counts: tuple[int, ...]) -> float:
    histogram = histogram_of(counts)
    ceilings = guarantee.ceilings(histogram)
    if isinstance(plan, PerturbedPlan):
        assert isinstance(guarantee, OddsGuarantee)
        return _operator_ratio(plan, _beliefs(guarantee, histogram), ceilings)
    if isinstance(plan, PartitionedPlan):
        return _sub_table_ratio(plan, ceilings)
    assert isinstance(plan, BucketPlan)
    found = Fraction(0)
    for bucket, listed, counted in plan.listed():
        sizes = np.bincount(bucket, counted).astype(int)
        for place, value, count in zip(bucket, listed, counted, strict=True):
            found = max(found, Fraction(int(count), int(sizes[place])) / ceilings[value])
    return float(found)


def _beliefs(guarantee: OddsGuarantee, histogram: Histogram) -> list[Fraction]:
    """The largest chance before that the statement speaks of, per value."""
    if isinstance(guarantee, RhoPrivacy):
        return [guarantee.rho1] * len(histogram.values)
    limits = getattr(guarantee, "limits", None)
    if limits is None:
        return list(histogram.shares)
    return [row.rho1 or Fraction(0) for row in limits.for_domain(histogram)]


def _operator_ratio(
    plan: PerturbedPlan, beliefs: list[Fraction], ceilings: list[Fraction]
) -> float:
    matrix = plan.operators["s"].matrix()
    found = 0.0
    for x, (before, ceiling) in enumerate(zip(beliefs, ceilings, strict=True)):
        if ceiling < 1:
            others = np.delete(matrix, x, axis=0).min(axis=0)
            odds = float(before / (1 - before)) * matrix[x] / others
            found = max(found, float((odds / (1 + odds)).max()) / float(ceiling))
    return found


def _sub_table_ratio(plan: PartitionedPlan, ceilings: list[Fraction]) -> float:
    cut, found = plan.columns["s"], 0.0
    for quota, part in zip(cut.quotas, cut.operator.parts, strict=True):
        limit = np.array([float(ceilings[code]) for code in part.codes])
        table = SubTable(quota[list(part.codes)].tolist(), part.operator.matrix())
        for _, _, _, posterior in table.posteriors():
            found = max(found, float((posterior / limit)[limit < 1].max(initial=0)))
    return found


def placed_ratio(
    plan: BucketPlan, guarantee: Guarantee, counts: tuple[int, ...], seeds: int
) -> tuple[float, float]:
    """The largest posterior over its ceiling, with the buckets that the plan fills, by sampling.

    Every world (who has which value) is placed with many keys; how often a placing came up says how
    likely the worlds are that it may come from. Also the largest excess in standard errors.
    """
    values = [value for value, count in enumerate(counts) for _ in range(count)]
    worlds = sorted(set(itertools.permutations(values)))
    ceilings = np.array([float(c) for c in guarantee.ceilings(histogram_of(counts))])
    seen: Counter[tuple[tuple[int, ...], int]] = Counter()
    codes = np.array(worlds)
    ranks = np.stack([(codes[:, :i] == codes[:, [i]]).sum(axis=1) for i in range(len(values))], 1)
    for number, seed in itertools.product(range(len(worlds)), range(seeds)):
        draws = Draws.from_seed(number * seeds + seed)  # worlds must not share keys
        keyed = replace(plan, slots=draws.permutation("placed", np.array(counts)))
        seen[tuple(keyed.bucket_of(codes[number], ranks[number]).tolist()), number] += 1
    by_release: dict[tuple[int, ...], np.ndarray] = {}
    for (placed, number), times in seen.items():
        table = by_release.setdefault(placed, np.zeros((len(values), len(counts))))
        table[np.arange(len(values)), codes[number]] += times
    ratio = excess = 0.0
    for table in by_release.values():
        times = table[0].sum()
        chance, limit = table / times, np.where(ceilings < 1, ceilings, np.inf)
        error = np.sqrt(np.maximum(limit * (1 - limit), 0) / times)
        ratio = max(ratio, float((chance / limit).max()))
        excess = max(excess, float(((chance - limit) / error)[:, ceilings < 1].max(initial=0)))
    return ratio, excess
