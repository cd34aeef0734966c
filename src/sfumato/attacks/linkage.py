"""Linkage: find the records that look like the person, and take the value that they show.

The chance to pick the right record is the prosecutor's risk (the adversary knows that the person
is in the release: one over the number of records that match), the journalist's (he does not: one
over the number of people who look alike in the table that stands for the population), and the
marketer's (the share of people a whole linkage would get right).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.people import People, common_keys, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, CountsView, RangesView, RecordsView
from sfumato.draws import Draws, IntArray
from sfumato.operators.base import FloatArray

_PAIRS = 1 << 26  # targets × records that are compared at once


@dataclass(frozen=True)
class Linkage(Attack):
    """Guess the value that the matching records make likeliest; without a match, the commonest."""

    name: ClassVar[str] = "linkage"

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        assert not isinstance(view, CountsView)  # it has no records to link with
        if isinstance(view, RangesView):
            matches, shares = _in_ranges(view, targets)
        else:
            matches, shares = _alike(view, targets)
        prior = view.prior
        shares = np.where(matches[:, None] > 0, shares, prior[None, :])
        values = pick(shares, prior, draws, "linkage ties")
        sure = shares[np.arange(len(shares)), values]
        return Guesses(values, sure, _risks(knowledge, targets, matches))


def _alike(view: RecordsView | BucketsView, targets: People) -> tuple[IntArray, FloatArray]:
    """How many records have the target's quasi values, and the values they make likely."""
    from scipy.sparse import csr_array

    if not targets.codes:
        matches = np.full(len(targets), 1, np.int64)
        return matches, np.tile(view.prior, (len(targets), 1))
    records, wanted = common_keys(view.codes, targets.codes)
    keys = int(max(records.max(initial=-1), wanted.max(initial=-1))) + 1
    matches = np.bincount(records, minlength=keys)
    if isinstance(view, BucketsView):
        place, width, posterior = view.bucket, len(view.listed), view.shares
    else:
        place, width, posterior = view.shown, view.symbols, view.posterior
    asked = np.unique(wanted)
    standing = csr_array((np.ones(len(records)), (records, place)), shape=(keys, width))[asked]
    found = standing @ posterior
    dense = np.asarray(found.todense() if hasattr(found, "todense") else found, np.float64)
    dense /= np.maximum(matches[asked][:, None], 1)
    return matches[wanted], dense[np.searchsorted(asked, wanted)]


def _in_ranges(view: RangesView, targets: People) -> tuple[IntArray, FloatArray]:
    """Records whose ranges and sets hold all of the target's values, target by target."""
    records = len(view.shown)
    single = np.zeros((records, view.values), np.float32)
    single[np.arange(records), view.shown] = 1.0
    matches = np.zeros(len(targets), np.int64)
    shares = np.zeros((len(targets), view.values))
    step = max(1, _PAIRS // max(records, 1))
    columns = [np.ascontiguousarray(holds.T) for holds in view.holds]
    for start in range(0, len(targets), step):
        fits = np.ones((len(targets.rows[start : start + step]), records), np.bool_)
        for holds, codes in zip(columns, targets.codes, strict=True):
            fits &= holds[codes[start : start + step]]
        count = fits.sum(axis=1)
        matches[start : start + step] = count
        shares[start : start + step] = fits.astype(np.float32) @ single
    return matches, shares / np.maximum(matches[:, None], 1)


def _risks(knowledge: Knowledge, targets: People, matches: IntArray) -> dict[str, float]:
    if not len(targets) or not targets.codes:
        return {}
    inside, wanted = common_keys(knowledge.people.codes, targets.codes)
    alike = np.bincount(inside, minlength=int(wanted.max()) + 1)[wanted]
    found = matches > 0
    one = np.where(found, 1 / np.maximum(matches, 1), 0.0)
    population = np.where(alike > 0, 1 / np.maximum(alike, 1), 0.0)
    return {
        "prosecutor risk, highest": float(one.max()),
        "people with one matching record": float((matches == 1).mean()),
        "people with at most 5 matching records": float((found & (matches <= 5)).mean()),
        "journalist risk, highest": float(np.where(found, population, 0.0).max()),
        "marketer risk": float(one.mean()),
    }
