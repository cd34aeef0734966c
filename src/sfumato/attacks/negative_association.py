"""Negative association: values that a person's quasi values all but rule out are struck off.

The release itself teaches that people with some quasi value z hardly ever have x (F'-privacy paper,
Section 6): what the buckets of those people list is, on average, a known matrix times their counts,
so undoing it gives counts with an error. x is ruled out by z where, with 95 % confidence, people
with z have it at most `threshold` times as often as everybody. Whoever has z has something else of
their bucket's list. Fakes that resist this are drawn with `optimal(fakes=2, association=0.1)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.attacks.people import People
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, normalised
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.release import BucketedRelease, Release
from sfumato.textform import Parameter

_CONFIDENCE = 1.645  # standard errors: 95 % on one side
_LEAST = 5  # people with z that would have x: of fewer nothing is concluded


@dataclass(frozen=True)
class NegativeAssociation(Attack):
    """Strike off what the person's quasi values rule out, and take the commonest value left."""

    threshold: Fraction = Fraction(1, 10)

    name: ClassVar[str] = "negative-association"
    sentence: ClassVar[str] = (
        "Learns which values the person's quasi values all but rule out, and strikes them off the "
        "list of their bucket."
    )
    knows: ClassVar[Known] = Known.LEARNED
    kinds: ClassVar[tuple[type[Release], ...]] = (BucketedRelease,)

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("threshold", least=0, below=1),)

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        assert isinstance(view, BucketsView)
        _, shares = view.looked_up(targets)
        struck = ruled_out_of(view, targets, float(self.threshold)) & (shares > 0)
        # who would have nothing left was ruled out by mistake somewhere: nothing is struck then
        chances = normalised(np.where(struck, 0.0, shares), shares)
        figures = {"values struck off a list, on average": struck.sum() / max(len(targets), 1)}
        return Guesses.likeliest(self, knowledge, chances, draws, figures)


def ruled_out_of(view: BucketsView, targets: People, threshold: float) -> BoolArray:
    """Targets by values: what one of their quasi values rules out."""
    counted = _counted(view)
    struck = np.zeros((len(targets), view.values), np.bool_)
    for codes, wanted in zip(view.codes, targets.codes, strict=True):
        width = int(max(codes.max(initial=-1), wanted.max(initial=-1))) + 1
        struck |= ruled_out(view, counted, codes, width, threshold)[wanted]
    return struck


def ruled_out(
    view: BucketsView, counted: FloatArray, codes: IntArray, width: int, threshold: float
) -> BoolArray:
    """Quasi values by values: where the estimated count is far below the usual one.

    `counted[g]` is what a record in bucket g adds to the estimated counts. The error is that of a
    sum of so many of everybody's: of a few records their own spread tells nothing.
    """
    from scipy.sparse import csr_array

    ones = np.ones(len(codes))
    where = csr_array((ones, (codes, view.bucket)), shape=(width, len(counted)))
    number = np.bincount(codes, minlength=width)[:, None]
    bucket_shares = np.bincount(view.bucket, minlength=len(counted)) / max(len(view.bucket), 1)
    spread = np.maximum(bucket_shares @ counted**2 - (bucket_shares @ counted) ** 2, 0.0)
    error = np.sqrt(number * spread[None, :])
    usual = number * view.prior[None, :]
    below = where @ counted + _CONFIDENCE * error <= threshold * usual
    return np.asarray((usual >= _LEAST) & below)


def _counted(view: BucketsView) -> FloatArray:
    """Buckets by values: shares with the mixing undone, which add up to unbiased counts."""
    shares = view.shares
    listed_counts = view.shares.multiply(view.listed[:, None]).tocsr()
    total = np.maximum(np.asarray(listed_counts.sum(axis=0)).ravel(), 1e-300)
    mixed = np.asarray((listed_counts.T @ shares).todense()) / total[:, None]
    return np.asarray(shares @ np.linalg.pinv(mixed))
