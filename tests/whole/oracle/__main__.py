"""All of it: `python -m tests.whole.oracle [tables of each family]`; fails where a posterior is
above its ceiling, or odds above their limit."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.errors import SfumatoError
from tests.whole.oracle import buckets


@dataclass
class Family:
    """What was looked at, and the worst of it."""

    name: str
    tables: int = 0
    releases: int = 0
    worlds: int = 0
    both: int = 0  # tables with a release in which a cut was made and one was refused
    refused: int = 0  # promises that cannot be kept
    worst: Fraction = Fraction(0)
    broken: list[Any] = field(default_factory=list)

    def see(self, ratio: Fraction, whose: Any) -> None:
        self.worst = max(self.worst, ratio)
        if ratio > 1:
            self.broken.append((ratio, whose))

    def line(self) -> str:
        return (
            f"{self.name:<16} tables {self.tables:>5}  releases {self.releases:>6}  worlds "
            f"{self.worlds:>8}  made and refused {self.both:>5}  worst {float(self.worst):.6f}"
            f"  above {len(self.broken)}"
        )


def of_buckets(name: str, cases: Iterable[buckets.Case], most: int = 3000) -> Family:
    family = Family(name)
    for case in cases:
        try:
            looked = buckets.look(case, most)
        except SfumatoError:
            family.refused += 1
            continue
        family.tables += bool(looked)
        family.releases += len(looked)
        family.worlds += sum(one.worlds for one in looked)
        family.both += any(one.made and one.refused for one in looked)
        for one in looked:
            family.see(one.ratio, (case, one.whose))
    return family


def families(tables: int) -> Iterator[Callable[[], Family]]:
    yield lambda: of_buckets("people alone", map(buckets.lone, range(tables // 40)), 64)
    yield lambda: of_buckets("buckets", (buckets.small(n, buckets.BUCKETS) for n in range(tables)))


def main(tables: int = 1000) -> int:
    warnings.simplefilter("ignore")
    broken, began = 0, time.perf_counter()
    for look in families(tables):
        family = look()
        broken += len(family.broken)
        sys.stdout.write(f"{time.perf_counter() - began:6.1f} s  {family.line()}\n")
        for ratio, (case, (person, (_, value))) in family.broken[:3]:
            said = f"person {person} has {value!r}: {ratio} of the ceiling"
            sys.stdout.write(f"         {case.way}, {case.promises}, table {case.seed}, {said}\n")
        sys.stdout.flush()
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
