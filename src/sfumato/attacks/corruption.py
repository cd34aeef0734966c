"""Corruption of a release: the adversary knows q other records of the person's bucket.

Their values are struck off the bucket's list (F'-privacy paper, Section 6; errata F15): what is
left has |g| − q + σ values, σ of them fakes, and the commonest of them is the guess. This works on
any bucketed release, whoever made it.

The advantage is real even where quasi and sensitive columns have nothing to do with each other:
knowing one of ℓ values leaves ℓ − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.people import People, common_keys
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, normalised
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.guarantees.words import Known
from sfumato.release import BucketedRelease, Release
from sfumato.textform import Parameter


@dataclass(frozen=True)
class Corruption(Attack):
    """Know `known` records of the bucket that the person's quasi columns lead to.

    Only people whom their quasi columns single out can be known in this simulation; where a bucket
    has fewer of them, fewer are known. The figure "known records" is the mean.
    """

    known: int = 1

    name: ClassVar[str] = "corruption"
    sentence: ClassVar[str] = (
        "Knows the values of some other people in the person's bucket, and strikes them off "
        "its list."
    )
    knows: ClassVar[Known] = Known.RECORDS
    kinds: ClassVar[tuple[type[Release], ...]] = (BucketedRelease,)

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("known", least=0, whole=True),)

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        assert isinstance(view, BucketsView)
        keys, wanted = common_keys(view.codes, targets.codes)
        bucket, present = _buckets_of(view, keys, wanted, draws)
        left = np.rint(view.shares[bucket].todense() * view.listed[bucket][:, None])
        owner, value = _known_mates(self, knowledge, targets, bucket, draws)
        np.subtract.at(left, (owner, value), 1.0)
        left = np.where(present[:, None], np.maximum(left, 0.0), 0.0)
        shares, total = normalised(left, view.prior), left.sum(axis=1)
        usable = total > 0
        figures = {
            "known records": len(owner) / max(len(targets), 1),
            "values left in the list": float(total[usable].mean()) if usable.any() else 0.0,
        }
        return Guesses.likeliest(self, knowledge, shares, draws, figures)


def _buckets_of(
    view: BucketsView, keys: IntArray, wanted: IntArray, draws: Draws
) -> tuple[IntArray, BoolArray]:
    """A record that looks like the target, drawn where there are several: its bucket."""
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], wanted)
    count = np.searchsorted(keys[order], wanted, side="right") - first
    offset = draws.below("corruption record", Positions(0, len(wanted)), np.maximum(count, 1))
    position = np.minimum(first + offset, len(order) - 1)
    return view.bucket[order[position]], count > 0


def _known_mates(
    attack: Corruption, knowledge: Knowledge, targets: People, bucket: IntArray, draws: Draws
) -> tuple[IntArray, IntArray]:
    """(target, value) of every record that is known, at most `attack.known` per target."""
    view, people = knowledge.view, knowledge.people
    assert isinstance(view, BucketsView)
    mixed = [np.concatenate(pair) for pair in zip(people.codes, targets.codes, strict=True)]
    shown, other = common_keys(view.codes, mixed)
    raw, wanted = other[: len(people)], other[len(people) :]
    size = int(max(shown.max(initial=-1), other.max(initial=-1))) + 1
    single = (np.bincount(raw, minlength=size) == 1) & (np.bincount(shown, minlength=size) == 1)
    truth = np.full(size, -1, np.int64)
    truth[raw] = people.truth
    linked = np.flatnonzero(single[shown])
    words = draws.words("corruption known", Positions(0, len(linked)))
    linked = linked[np.lexsort((words, view.bucket[linked]))]
    starts = np.searchsorted(view.bucket[linked], bucket)
    ends = np.searchsorted(view.bucket[linked], bucket, side="right")
    if not len(linked):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    position = starts[:, None] + np.arange(attack.known + 1)[None, :]
    record = linked[np.minimum(position, len(linked) - 1)]
    usable = (position < ends[:, None]) & (shown[record] != wanted[:, None])
    usable &= np.cumsum(usable, axis=1) <= attack.known
    owner, column = np.nonzero(usable)
    return owner, truth[shown[record[owner, column]]]
