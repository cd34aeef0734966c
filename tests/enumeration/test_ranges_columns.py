"""Ranges and sets with several sensitive columns, on small tables, by brute force.

Whoever knows no link takes everybody of a class (or every row that a person matches) as equally
likely. So the chance of a value is the share of the worlds in which the person has it: counted over
all ways to hand the rows of a class to its people, and compared with the ceilings as fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import BetaLikeness, CeilingGuarantee, JointCeilings, LDiversity
from sfumato.mechanisms.burel import Burel
from sfumato.mechanisms.generalized import Generalized, TablePlan
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Histogram, Kinds, Profile


def profile_of(held: IntArray) -> tuple[Profile, IntArray]:
    """The counts of a table with these values by (person, column), and everybody's kind."""
    kinds, codes, counts = np.unique(held, axis=0, return_inverse=True, return_counts=True)
    names = tuple("abc"[: held.shape[1]])
    histograms = {}
    for place, name in enumerate(names):
        own = np.bincount(held[:, place])
        histograms[name] = Histogram(name, tuple(range(len(own))), own)
    known = Kinds(names, kinds, counts)
    return Profile(len(held), histograms, kinds=known), codes.reshape(-1)


def made_of(
    way: Mechanism, promise: CeilingGuarantee, held: IntArray, joint: bool, seed: int
) -> Generalized:
    profile, codes = profile_of(held)
    asked = JointCeilings(promise) if joint else promise
    assert way.keeps(asked)
    plan = way.plan(profile, asked, Draws.from_seed(seed))
    assert isinstance(plan, TablePlan)
    plan.check()
    ages = np.random.default_rng(seed).permutation(len(held))
    axis = NumericAxis("age", ages, np.arange(len(held)), len(held) - 1)
    return plan.generalize([axis], codes, Draws.from_seed(seed), lambda *_: None)


def beyond(
    rows: IntArray, held: IntArray, promise: CeilingGuarantee, joint: bool
) -> tuple[bool, bool]:
    """Whether the rows show a value of a column, or a combination, beyond its ceiling."""
    columns = False
    for place in range(held.shape[1]):
        own = held[:, place]
        histogram = Histogram("x", tuple(range(int(own.max()) + 1)), np.bincount(own))
        for code, ceiling in enumerate(promise.ceilings(histogram)):
            columns |= Fraction(int((own[rows] == code).sum()), len(rows)) > ceiling
    listed, of, counts = np.unique(held, axis=0, return_inverse=True, return_counts=True)
    whole = promise.ceilings(Histogram("all", tuple(range(len(listed))), counts))
    shown = np.bincount(of.reshape(-1)[rows], minlength=len(listed)).tolist()
    tuples = any(Fraction(n, len(rows)) > c for n, c in zip(shown, whole, strict=True))
    return columns, tuples


def random_table(number: int) -> IntArray:
    rng = np.random.default_rng(number)
    columns, people = int(rng.integers(2, 4)), int(rng.integers(4, 40))
    first = rng.integers(0, rng.integers(2, 6), people)
    others = [
        np.where(rng.random(people) < 0.5, first, rng.integers(0, rng.integers(2, 6), people))
        for _ in range(columns - 1)
    ]
    held = np.stack([first, *others], axis=1)
    for place in range(columns):  # codes without gaps, as a profile has them
        held[:, place] = np.unique(held[:, place], return_inverse=True)[1].reshape(-1)
    return held


@pytest.mark.parametrize("joint", [False, True])
def test_every_class_keeps_every_ceiling(joint: bool) -> None:
    """200 random tables of two and three columns."""
    promises: Sequence[CeilingGuarantee] = (BetaLikeness(1), BetaLikeness("1/2"), LDiversity(2))
    kept = cut = combined = 0
    for number in range(200):
        held, promise = random_table(number), promises[number % 3]
        try:
            made = made_of(Burel(), promise, held, joint, number)
        except InfeasibleGuarantee:
            continue
        assert made.group is not None
        assert sorted(made.source.tolist()) == list(range(len(held)))
        kept, cut = kept + 1, cut + (len(np.unique(made.group)) > 1)
        for group in np.unique(made.group):
            columns, tuples = beyond(made.source[made.group == group], held, promise, joint)
            assert not columns
            assert not (joint and tuples)
            combined += tuples
    assert kept > 100  # the others have a value that too many share
    assert cut > 30
    assert (combined > 0) != joint  # a promise about columns does not limit combinations


def test_matches_keep_beta_likeness_of_columns_and_combinations() -> None:
    """Ceilings on combinations add up to those of every column."""
    for number in range(40):
        held = random_table(number)
        made = made_of(
            HeterogeneousGeneralization(), BetaLikeness(1), held, number % 2 == 0, number
        )
        assert made.matches is not None
        pairs: list[list[int]] = [[] for _ in held]
        row = 0
        for run in made.matches:
            for own in run:
                for person in own.tolist():
                    pairs[person].append(int(made.source[row]))
                row += 1
        for rows in pairs:
            assert beyond(np.array(rows), held, BetaLikeness(1), True) == (False, False)


def test_the_chance_of_a_value_is_its_share_in_the_class() -> None:
    """All ways to hand the rows of a class to its people; some classes have five people."""
    held = np.array(
        [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 2], [3, 0], [3, 1], [0, 2], [1, 2]]
    )
    made = made_of(Burel(), LDiversity(2), held, False, 3)
    assert made.group is not None
    sizes = np.bincount(made.group)
    assert sizes.min() > 1
    assert sizes.max() < len(held)
    for group in range(len(sizes)):
        rows = held[made.source[made.group == group]]
        worlds = list(itertools.permutations(range(len(rows))))
        for column in (0, 1):
            for value in np.unique(held[:, column]):
                worlds_with = sum(rows[world[0], column] == value for world in worlds)
                assert Fraction(worlds_with, len(worlds)) <= Fraction(1, 2)
