"""All of it: `python -m tests.whole.oracle [tables of each family]`; fails where a posterior is
above its ceiling, or odds above their limit."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms.partitioned import cut_table
from tests.whole.oracle import buckets, drawn, grown, matched


@dataclass
class Family:
    """What was looked at, and the worst of it."""

    name: str
    tables: int = 0
    releases: int = 0
    worlds: int = 0
    both: int = 0  # tables with a release in which a cut was made and one was refused
    unkept: int = 0  # promises that were refused
    worst: Fraction | int = 0
    factor: Fraction = Fraction(1)  # that odds are above what buckets list, at most
    broken: list[Any] = field(default_factory=list)

    def see(self, ratio: Fraction | int, whose: Any, kept: bool = True) -> None:
        self.worst = max(self.worst, ratio)
        if ratio > 1 or not kept:
            self.broken.append((ratio, whose))

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.tables, self.both, self.worlds

    def __str__(self) -> str:
        return (
            f"{self.name:<16} tables {self.tables:>5}  releases {self.releases:>6}  worlds "
            f"{self.worlds:>8}  made and refused {self.both:>5}  worst {float(self.worst):.6f}"
            f"  factor {self.factor!s:<7}  above {len(self.broken)}"
        )


def of_buckets(name: str, cases: Iterable[buckets.Case], most: int = 1500) -> Family:
    family = Family(name)
    for case in cases:
        try:
            looked = buckets.look(case, most)
        except SfumatoError:
            family.unkept += 1
            continue
        family.tables += bool(looked)
        family.releases += len(looked)
        family.worlds += sum(one.worlds for one in looked)
        family.both += any(one.made and one.refused for one in looked)
        for one in looked:
            family.see(one.ratio, f"{case.way}, {case.promises}, {case.seed}: {one}", one.kept)
            family.factor = max(family.factor, one.factor)
    return family


def of_ratios(name: str, asked: Iterable[tuple[Any, ...]], ratio: Callable[..., Any]) -> Family:
    """One worst ratio for each table."""
    family = Family(name)
    for given in asked:
        try:
            family.see(ratio(*given), given)
        except SfumatoError:
            family.unkept += 1
            continue
        family.tables += 1
    return family


def sub_tables(shares: tuple[Fraction, Fraction], counts: drawn.Counts) -> Fraction:
    (before, after), histogram = shares, drawn.histogram(counts)
    promise = RhoPrivacy(before, after, reader="shares")
    promise.require_feasible(histogram)
    ceilings = [Fraction(1) if share > before else after for share in histogram.shares]
    return drawn.worst_posterior(cut_table(histogram, promise), ceilings)


def sampled(seed: int) -> int:
    """2 where an estimate of some group errs less often than is said."""
    many = np.random.default_rng(seed).integers(0, 60, (3, 3))
    cells = [(q, x, int(n)) for (q, x), n in np.ndenumerate(many) if n]
    merge = ("components", "complete", "none")[seed % 3]
    return 1 + bool(
        matched.unkept(matched.sampled(cells, "reconstruction-privacy(0.3, 0.2)", merge))
    )


def small_sums(groups: int, counts: drawn.Counts) -> int:
    """2 where a value's published count has another law than is said."""
    laws = matched.small_sums(counts, groups, sum(counts))
    told = [len(laws[x]) == groups * count + 1 for x, count in enumerate(counts)]
    return 1 + (sum(counts) % groups == 0 and not all(told))


def same_tree(seed: int) -> int:
    ours, theirs = grown.trees_of(seed)
    return 1 + (ours != theirs)


RANGES = (
    *((way, f"l-diversity({n})") for way in ("heterogeneous", "ring", "burel") for n in (2, 3)),
    *((way, f"beta-likeness({n})") for way in ("heterogeneous", "burel") for n in (1, 2)),
)
TINY = (
    ("l-diversity(2)", (2, 2)), ("l-diversity(2)", (2, 1, 1)), ("l-diversity(2)", (1, 1, 1, 1)),
    ("l-diversity(3)", (1, 1, 1, 1)), ("l-diversity(4)", (1, 1, 1, 1)),
    ("beta-likeness(1)", (1, 1, 1)), ("beta-likeness(1)", (2, 1, 1)),
    ("beta-likeness(2)", (2, 1, 1)), ("beta-likeness(1)", (2, 2)),
)  # fmt: skip


def families(tables: int) -> dict[str, Callable[[str], Family]]:
    """What is looked at, `tables` of each sort or as many as there are."""
    small, every = buckets.small, list(drawn.tables(4, 8))[: max(tables, 1)]
    local = ("local(min=1)", "local(min=2)", "local(min=3)")
    return {
        "people alone": lambda name: of_buckets(name, map(buckets.lone, range(tables // 25)), 64),
        "made and refused": lambda name: of_buckets(name, map(buckets.cut, range(tables))),
        "local": lambda name: of_buckets(name, (small(n, local, 5) for n in range(tables))),
        "publish's choice": lambda name: of_buckets(
            name, map(grown.crowd, range(tables // 25)), 64
        ),
        "buckets": lambda name: of_buckets(
            name, (small(n, buckets.BUCKETS) for n in range(tables))
        ),
        "operators": lambda name: of_ratios(
            name, product(every, drawn.LIMITS, drawn.OPERATORS), drawn.worst_gain
        ),
        "sub-tables": lambda name: of_ratios(name, product(drawn.SHARES, every), sub_tables),
        "matches": lambda name: of_ratios(
            name, ((*way, counts, 1) for way in RANGES for counts in every), matched.worst_match
        ),
        "ranges": lambda name: of_ratios(
            name, map(matched.larger, range(tables)), matched.worst_match
        ),
        "heterogeneous": lambda name: of_ratios(
            name, ((*tiny, seed) for tiny in TINY for seed in (1, 2)), matched.worst_posterior
        ),
        "splu": lambda name: of_ratios(name, product((2, 3), every), small_sums),
        "sps": lambda name: of_ratios(name, product(range(tables // 10)), sampled),
        "trees": lambda name: of_ratios(name, product(range(2 * tables)), same_tree),
    }


def main(tables: int = 1000, *named: str) -> int:
    warnings.simplefilter("ignore")
    broken, began, seen = 0, time.process_time(), [0, 0, 0]
    for name, look in families(tables).items():
        if named and name not in named:
            continue
        family = look(name)
        broken += len(family.broken)
        seen = [n + more for n, more in zip(seen, family.counted, strict=True)]
        lines = [f"{time.process_time() - began:6.0f} s  {family}"]
        lines += [f"         {ratio} of the ceiling: {whose}" for ratio, whose in family.broken[:3]]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    told = f"tables {seen[0]:,}, with a made and a refused cut {seen[1]:,}, worlds {seen[2]:,}"
    sys.stdout.write(f"{told}, above {broken}\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2]), *sys.argv[2:]))
