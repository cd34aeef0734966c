"""The rule of local buckets once more, from the text (methods, section 7), in plain lines.

Nothing here is shared with the program: `law` says which trees of blocks may be public for people
with these quasi-identifiers and values, and with which chance; all else of a plan follows from the
people of its blocks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Any

R = Fraction(11, 10)
REFUSED = 1 / R  # the chance of a refusal, for every exchange
UNIT = 2**32
_EXACT = Context(prec=40)


@cache
def L(n: int) -> int:
    """⌊2³²·n·log₂ n⌋"""
    if n & (n - 1) == 0:
        return UNIT * n * max(n.bit_length() - 1, 0)
    log = _EXACT.divide(_EXACT.ln(Decimal(n)), _EXACT.ln(Decimal(2)))
    return int(_EXACT.multiply(Decimal(n * UNIT), log))


def entropy(bins: Sequence[Hashable]) -> int:
    """n·H"""
    return L(len(bins)) - sum(L(count) for count in Counter(bins).values())


@dataclass(frozen=True)
class Column:
    """A quasi-identifier in bins: `begins` of what has an order, else `named` values."""

    name: str
    bins: tuple[int, ...]  # by person
    begins: tuple[Any, ...] = ()
    named: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Leaf:
    """A block, and with which chance a cut of it was refused, 0 where there was none."""

    refused: Fraction
    people: tuple[int, ...]


Asked = tuple[str, Any, tuple[Any, ...]]  # a column, and an edge or values


@dataclass(frozen=True)
class Candidate:
    asked: Asked
    sides: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Cut:
    asked: Asked
    sides: tuple[Tree, Tree]


Tree = Leaf | Cut


def columns_of(quasi: Mapping[str, Sequence[Any]]) -> list[Column]:
    found = []
    for name, shown in quasi.items():
        count = Counter(shown)
        values = sorted(value for value in count if value is not None)
        if isinstance(values[0], str | bool):
            named = sorted(sorted(values, key=lambda v: (-count[v], v))[:62])
            bins = [named.index(v) if v in named else len(named) for v in shown]
            found.append(Column(name, tuple(bins), named=tuple(named)))
        else:
            keys: list[Any] = [None, *values] if None in count else values
            before = [0, *itertools.accumulate(count[key] for key in keys)][:-1]
            begins = keys[1:]
            if len(keys) > 32:
                wanted = [n * len(shown) // 32 for n in range(1, 32)]
                at = {next((i for i, b in enumerate(before) if b >= w), len(keys)) for w in wanted}
                begins = [keys[i] for i in sorted(at) if 0 < i < len(keys)]
            bins = [0 if v is None else sum(b <= v for b in begins) for v in shown]
            found.append(Column(name, tuple(bins), begins=tuple(begins)))
    return [column for column in found if entropy(column.bins)]


def weights_of(columns: Sequence[Column]) -> list[int]:
    """w_c: Σ I(c; d)/H0(d) over the other columns, over the largest."""
    sums = [0] * len(columns)
    for (c, one), (_, other) in itertools.permutations(enumerate(columns), 2):
        both = entropy(tuple(zip(one.bins, other.bins, strict=True)))
        shared = max(entropy(one.bins) + entropy(other.bins) - both, 0)
        sums[c] += shared * UNIT // entropy(other.bins)
    largest = max(sums, default=0)
    if not largest:
        return [UNIT] * len(columns)
    return [max(one * UNIT // largest, UNIT // 50) for one in sums]


def first_side(column: Column, people: Sequence[int]) -> frozenset[int]:
    """The bins of the first side of a column's cut."""
    count, n = Counter(column.bins[person] for person in people), len(people)
    if column.begins:
        below = [sum(count[b] for b in range(edge)) for edge in range(1, len(column.begins) + 1)]
        best = min(range(len(below)), key=lambda edge: (abs(2 * below[edge] - n), edge))
        return frozenset(range(best + 1))
    inside, many = set[int](), 0
    for value in sorted(range(len(column.named)), key=lambda v: (-count[v], v)):
        if inside and (100 * many >= 45 * n or 100 * (many + count[value]) > 55 * n):
            break
        inside.add(value)
        many += count[value]
    return frozenset(inside)


@dataclass(frozen=True)
class Rule:
    """What trees are grown with: columns, weights, the least people of a side; f'' by mark."""

    columns: Sequence[Column]
    weights: Sequence[int]
    least: int
    ceilings: Mapping[Any, Fraction]
    known: dict[tuple[int, ...], Candidate | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        quasi: Mapping[str, Sequence[Any]],
        least: int | None,
        f: Mapping[Any, Fraction],
        marks: Sequence[Sequence[Any]],
    ) -> Rule:
        columns, n = columns_of(quasi), len(marks)
        if least is None:
            needed = Counter[Any]()
            for mark, count in Counter(mark for held in marks for mark in held).items():
                needed[mark[0]] += Fraction(count, n) / f[mark]
            least = max(100, -(-n // 1000), *(ceil(10 * column) for column in needed.values()))
        inside = {mark: one / (one + R * (1 - one)) for mark, one in f.items()}
        return cls(columns, weights_of(columns), least, inside)

    def tests(self, marks: Sequence[Sequence[Any]], part: Fraction = Fraction(1)) -> bool:
        """Whether no value has more than this part of f'' in the whole table."""
        whole = Counter(mark for held in marks for mark in held)
        return all(n <= part * self.ceilings[mark] * len(marks) for mark, n in whole.items())

    def unrefused(self, people: tuple[int, ...]) -> int:
        """The blocks of the tree in which no cut is refused."""
        found = self.candidate(people)
        return 1 if found is None else sum(map(self.unrefused, found.sides))

    def serves(self, marks: Sequence[Sequence[Any]]) -> bool:
        """Whether `publish` takes local buckets."""
        return self.tests(marks, Fraction(3, 4)) and self.unrefused(tuple(range(len(marks)))) >= 8

    def candidate(self, people: tuple[int, ...]) -> Candidate | None:
        """The only cut of a node that is tested: quasi-identifiers decide."""
        if people not in self.known:
            self.known[people] = self._candidate(people)
        return self.known[people]

    def _candidate(self, people: tuple[int, ...]) -> Candidate | None:
        best, found, n = -1, None, len(people)
        for column, weight in zip(self.columns, self.weights, strict=True):
            first = first_side(column, people)
            many = sum(column.bins[person] in first for person in people)
            if min(many, n - many) < self.least:
                continue
            whole, here = entropy(column.bins), entropy([column.bins[p] for p in people])
            spread = here * len(column.bins) * UNIT // (n * whole)
            score = weight * spread * ((L(n) - L(many) - L(n - many)) // n)
            if score > best:
                best, found = score, (column, first)
        if found is None:
            return None
        column, first = found
        inside = tuple(person for person in people if column.bins[person] in first)
        others = tuple(person for person in people if column.bins[person] not in first)
        edge = column.begins[len(first) - 1] if column.begins else None
        return Candidate(
            (column.name, edge, tuple(column.named[b] for b in sorted(first) if column.named)),
            (inside, others),
        )

    def refusal(self, found: Candidate, marks: Sequence[Sequence[Any]]) -> Fraction:
        """The chance that it is refused."""
        s = self.exchanges(found.sides, marks)
        return Fraction(0) if s is None else REFUSED ** max(s, 0)

    def exchanges(
        self, sides: Sequence[Sequence[int]], marks: Sequence[Sequence[Any]]
    ) -> int | None:
        """s: the fewest exchanges after which a side breaks a ceiling; None where none can."""
        held = [Counter(mark for person in side for mark in marks[person]) for side in sides]
        found = []
        for side, here, other in ((sides[0], *held), (sides[1], *held[::-1])):
            for mark, f in self.ceilings.items():
                t = int(f * len(side))
                if min(here[mark] + other[mark], len(side)) > t:
                    found.append(t - here[mark] + 1)
        return min(found, default=None)


def law(rule: Rule, marks: Sequence[Sequence[Any]]) -> list[tuple[Fraction, Tree]]:
    """Every tree that may be public, with its chance; `marks` are what each person has."""

    def grown(people: tuple[int, ...]) -> Iterator[tuple[Fraction, Tree]]:
        found = rule.candidate(people)
        if found is None:
            yield Fraction(1), Leaf(Fraction(0), people)
            return
        refused = rule.refusal(found, marks)
        if refused:
            yield refused, Leaf(refused, people)
        if refused == 1:
            return
        for (p, one), (q, other) in itertools.product(*map(grown, found.sides)):
            yield (1 - refused) * p * q, Cut(found.asked, (one, other))

    everybody = tuple(range(len(marks)))
    if not rule.tests(marks):
        return [(Fraction(1), Leaf(Fraction(0), everybody))]
    return list(grown(everybody))


def chance_of(
    rule: Rule, marks: Sequence[Sequence[Any]], shown: Sequence[Asked | None]
) -> tuple[Fraction, bool]:
    """The chance of a tree, and whether a cut was refused in it."""
    nodes, refused = iter(shown), False

    def of(people: tuple[int, ...]) -> Fraction:
        nonlocal refused
        asked, found = next(nodes), rule.candidate(people)
        if found is None or not tested:
            return Fraction(asked is None)
        chance = rule.refusal(found, marks)
        if asked is None:
            refused = True
            return chance
        below = of(found.sides[0]) * of(found.sides[1])
        return (1 - chance) * below if asked == found.asked else Fraction(0)

    tested = rule.tests(marks)
    return of(tuple(range(len(marks)))), refused


def leaves(tree: Tree) -> list[Leaf]:
    return (
        [tree] if isinstance(tree, Leaf) else [leaf for side in tree.sides for leaf in leaves(side)]
    )


def cuts(tree: Tree) -> tuple[Asked | None, ...]:
    """As manifests list them: first sides before second ones."""
    if isinstance(tree, Leaf):
        return (None,)
    return (tree.asked, *(cut for side in tree.sides for cut in cuts(side)))
