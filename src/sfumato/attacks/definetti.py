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

from sfumato.attacks.people import People, common_keys, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
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
        shares = _posterior(view, model, targets)
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
    record, cell = _pairs(view)
    value = view.cell_value[cell]
    share = view.cell_count[cell] / view.listed[view.cell_bucket[cell]]
    chance = share.copy()
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
        before, chance = chance, _balanced(view, record, cell, scores)
        moved = bool(np.abs(chance - before).max(initial=0.0) >= _STILL)
    return Model(record, value, chance, done)


def _pairs(view: BucketsView) -> tuple[IntArray, IntArray]:
    """Every record with every cell of its bucket."""
    cells = np.bincount(view.cell_bucket, minlength=len(view.listed))
    starts = np.concatenate([[0], np.cumsum(cells)])[:-1]
    order = np.argsort(view.cell_bucket, kind="stable")
    width = cells[view.bucket]
    record = np.repeat(np.arange(len(view.bucket)), width)
    within = np.arange(len(record)) - np.repeat(np.cumsum(width) - width, width)
    return record, order[starts[view.bucket[record]] + within]


def _balanced(
    view: BucketsView, record: IntArray, cell: IntArray, scores: FloatArray
) -> FloatArray:
    """Chances in proportion to exp(scores), one value per record, each value as it is listed.

    With fakes a bucket lists more values than it has records: the listed counts are scaled.
    """
    records, cells = len(view.bucket), len(view.cell_count)
    held = np.bincount(view.bucket, minlength=len(view.listed))
    wanted = view.cell_count * (held / view.listed)[view.cell_bucket]
    top = np.full(records, -np.inf)
    np.maximum.at(top, record, scores)
    weight = np.exp(scores - top[record]) * wanted[cell]
    for _ in range(_BALANCING):
        weight *= (wanted / np.maximum(np.bincount(cell, weight, minlength=cells), 1e-300))[cell]
        weight /= np.maximum(np.bincount(record, weight, minlength=records), 1e-300)[record]
    return np.asarray(weight)


def _posterior(view: BucketsView, model: Model, targets: People) -> FloatArray:
    """The mean over the records with the target's quasi values; the prior where there are none."""
    found = np.tile(view.prior, (len(targets), 1))
    if not targets.codes or not len(targets):
        return found
    keys, wanted = common_keys(view.codes, targets.codes)
    size = int(max(keys.max(initial=-1), wanted.max())) + 1
    asked, place = np.unique(wanted, return_inverse=True)
    slot = np.full(size, -1, np.int64)
    slot[asked] = np.arange(len(asked))
    inside = slot[keys[model.record]]
    used = inside >= 0
    flat = inside[used] * view.values + model.value[used]
    total = np.bincount(flat, model.chance[used], minlength=len(asked) * view.values)
    chances = total.reshape(len(asked), view.values)
    mass = chances.sum(axis=1, keepdims=True)
    chances = np.where(mass > 0, chances / np.maximum(mass, 1e-300), view.prior[None, :])
    return np.asarray(chances[place])
