"""deFinetti: learn from the buckets themselves which of its members has which of its values.

Kifer's attack (SIGMOD 2009). Buckets with different values tell how quasi and sensitive columns
hang together; that in turn tells the members of one bucket apart. Records and values of a bucket
are exchangeable at first (every member has every listed value alike); then, until nothing moves,
(1) a naive Bayes model is learned from the members as they are assigned, with Laplace's correction,
and (2) every bucket assigns its values to its members by that model, so that every member has one
value and every value as many members as it is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.matching import Alike
from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.release import BucketedRelease, Release

_STILL = 1e-4  # the largest change of a chance at which the iteration stops
_BALANCING = 10  # alternations between "one value each" and "as often as listed"


@dataclass(frozen=True)
class DeFinetti(Attack):
    """Exchangeable Bayes with iteration, at most `rounds` times.

    >>> str(DeFinetti())
    'definetti'
    """

    rounds: int = 30

    name: ClassVar[str] = "definetti"
    sentence: ClassVar[str] = (
        "Learns from the lists of all buckets which kind of person has which value, and "
        "deals every bucket's values out by it."
    )
    knows: ClassVar[Known] = Known.LEARNED
    kinds: ClassVar[tuple[type[Release], ...]] = (BucketedRelease,)

    def __post_init__(self) -> None:
        if not str(self.rounds).isdecimal() or int(self.rounds) < 1:
            raise UsageError(
                f"The 'rounds' parameter of {self.name} must be a whole number of at least 1. "
                f"Got {str(self.rounds)!r} instead."
            )
        object.__setattr__(self, "rounds", int(self.rounds))

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        assert isinstance(view, BucketsView)
        model = learn(view, knowledge.people.domains.sizes, self.rounds)
        otherwise = np.tile(view.prior, (len(targets), 1))
        alike = Alike.of(view, targets)
        shares = alike.mean(model.record, model.value, model.chance, otherwise)
        values = pick(shares, view.prior, draws, "definetti ties")
        sure = shares[np.arange(len(shares)), values]
        return Guesses(values, sure, {"rounds": float(model.rounds)})


@dataclass(frozen=True, eq=False)
class Model:
    """Chances per pair (record, value of its bucket), and the classifier behind them."""

    record: IntArray
    value: IntArray
    chance: FloatArray
    rounds: int


def learn(view: BucketsView, sizes: list[int], rounds: int) -> Model:
    """Iterate to a model. O(rounds · pairs), a pair being a record and a value of its bucket."""
    dealt = view.dealt
    record, cell = dealt.pairs
    value = dealt.cell_value[cell]
    chance = dealt.cell_count[cell] / dealt.listed[dealt.cell_bucket[cell]]
    done, moved = 0, True
    while moved and done < rounds:
        done += 1
        scores = np.zeros(len(record))
        for codes, size in zip(view.codes, sizes, strict=True):
            flat = codes[record] * view.values + value
            counts = np.bincount(flat, chance, minlength=size * view.values)
            table = counts.reshape(size, view.values)
            rule = np.log((table + 1.0) / (table.sum(axis=0) + size - 1))
            scores += rule.ravel()[flat]
        before, chance = chance, dealt.scaled(record, cell, scores, _BALANCING)
        moved = bool(np.abs(chance - before).max(initial=0.0) >= _STILL)
    return Model(record, value, chance, done)
