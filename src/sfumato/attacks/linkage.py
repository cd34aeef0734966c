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

from sfumato.attacks.matching import Alike, Rows
from sfumato.attacks.people import People, common_keys, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, CountsView, RangesView, RecordsView
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray


@dataclass(frozen=True)
class Linkage(Attack):
    """Guess the value that the matching records make likeliest; without a match, the commonest."""

    name: ClassVar[str] = "linkage"
    sentence: ClassVar[str] = (
        "Finds the records that look like the person, and takes the value that they make likeliest."
    )
    knows: ClassVar[Known] = Known.NOTHING

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        assert not isinstance(view, CountsView)  # it has no records to link with
        matches, shares = matching_shares(view, targets)
        prior = view.prior
        shares = np.where(matches[:, None] > 0, shares, prior[None, :])
        values = pick(shares, prior, draws, "linkage ties")
        sure = shares[np.arange(len(shares)), values]
        return Guesses(values, sure, _risks(knowledge, targets, matches))


def matching_shares(
    view: RecordsView | BucketsView | RangesView, targets: People
) -> tuple[IntArray, FloatArray]:
    """How many records may be the target's, and the values they make likely."""
    if isinstance(view, RangesView):
        return _in_ranges(view, targets)
    return linked_shares(view, targets)


def linked_shares(view: RecordsView | BucketsView, targets: People) -> tuple[IntArray, FloatArray]:
    """How many records have the target's quasi values, and the values they make likely."""
    from scipy.sparse import csr_array

    alike = Alike.of(view, targets)
    if isinstance(view, BucketsView):
        place, width, posterior = view.bucket, len(view.listed), view.shares
    else:
        place, width, posterior = view.shown, view.symbols, view.posterior
    used = alike.slot >= 0
    cells = (np.ones(int(used.sum())), (alike.slot[used], place[used]))
    found = csr_array(cells, shape=(len(alike.matches), width)) @ posterior
    dense = np.asarray(found.todense() if hasattr(found, "todense") else found, np.float64)
    dense /= np.maximum(alike.matches[:, None], 1)
    return alike.counts, dense[alike.place]


def _in_ranges(view: RangesView, targets: People) -> tuple[IntArray, FloatArray]:
    """Records whose ranges and sets hold all of the target's values."""
    rows = Rows.of(view)
    value = view.shown[rows.first]
    found = np.zeros((len(targets), view.values))
    for person, row in rows.fits(view, targets.codes):
        np.add.at(found, (person, value[row]), rows.count[row])
    matches = found.sum(axis=1)
    return matches.astype(np.int64), found / np.maximum(matches[:, None], 1)


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
