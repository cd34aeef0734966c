"""What a reader with a rule P(value | quasi) sees of a release, and believes of each person.

The rule comes from the release itself (`own-record`) or from the raw table (`linked`); what is
published about the very person is weighed with it: the value that the record shows, by the
operator; the list of the bucket, over all ways to deal it; the rows whose ranges hold the person,
of which everybody has one.
"""

from __future__ import annotations

from functools import partial, singledispatch

import numpy as np

from sfumato.attacks.matching import PAIRS, Alike, Rows, distinct
from sfumato.attacks.people import People
from sfumato.attacks.protocol import Knowledge
from sfumato.attacks.views import BucketsView, RangesView, RecordsView, View
from sfumato.draws import Draws, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Design, Evidence, Links, Shown, fit_links, quantile_bins

_CELLS = 1 << 22  # (record, value) chances that are held at once
_SCALINGS = 30  # between "everybody has one row" and "every row is somebody's"
_SCALINGS_QUICK, _SCALINGS_THOROUGH = 10, 100  # of the lists of large buckets
_PILOT = 256  # profiles that tell how many rows a person fits


def learn_links(knowledge: Knowledge, draws: Draws) -> Links:
    """The rule that the release itself teaches."""
    design, evidence = _seen(knowledge.view, knowledge)
    prior = np.asarray(knowledge.view.prior)
    return fit_links(design, evidence, prior, lambda n, k: draws.order("units", n)[:k])


def bins_of(knowledge: Knowledge) -> dict[int, IntArray]:
    """Coarse columns beside the numeric ones, by the reader's register of people."""
    domains, found = knowledge.people.domains, {}
    for column, numeric in enumerate(knowledge.numeric):
        if numeric:
            numbers = np.array([*domains.values[column].to_pylist(), None], np.float64)
            counts = np.bincount(knowledge.people.codes[column], minlength=len(numbers))
            bins = quantile_bins(numbers, counts)
            if bins is not None:
                found[column] = bins
    return found


@singledispatch
def _seen(view: View, knowledge: Knowledge) -> tuple[Design, Evidence]:
    """The release's records by their quasi values, and what each shows of its value."""
    raise TypeError(view)  # answered counts have no records


@_seen.register
def _records(view: RecordsView, knowledge: Knowledge) -> tuple[Design, Evidence]:
    sizes = knowledge.people.domains.sizes
    return Design.of(view.codes, sizes, bins_of(knowledge)), Shown(view.shown, view.likelihood)


@_seen.register
def _buckets(view: BucketsView, knowledge: Knowledge) -> tuple[Design, Evidence]:
    sizes = knowledge.people.domains.sizes
    return Design.of(view.codes, sizes, bins_of(knowledge)), view.dealt


@_seen.register
def _ranges(view: RangesView, knowledge: Knowledge) -> tuple[Design, Evidence]:
    """A row stands for whoever its ranges hold, by what people have in each column."""
    from scipy.sparse import csr_array

    people, blocks = knowledge.people, []
    for holds, codes in zip(view.holds, people.codes, strict=True):
        held = holds * (np.bincount(codes, minlength=holds.shape[1]) + 1e-9)[None, :]
        blocks.append(csr_array(held / np.maximum(held.sum(axis=1, keepdims=True), 1e-300)))
    return Design.joined(blocks, bins_of(knowledge)), Shown(view.shown, np.eye(view.values))


def believe(knowledge: Knowledge, rule: Links, targets: People, draws: Draws) -> FloatArray:
    """The chance of every value for every target: shape (targets, values)."""
    return _believed(knowledge.view, knowledge, rule, targets, draws)


@singledispatch
def _believed(
    view: View, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
) -> FloatArray:
    raise TypeError(view)


@_believed.register
def _of_records(
    view: RecordsView, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
) -> FloatArray:
    alike, otherwise = Alike.of(view, targets), np.exp(rule.log_chances(targets.codes))
    likelihood = _trusted(view, rule, draws) if view.operator is None else view.likelihood
    rows = np.flatnonzero(alike.slot >= 0)
    total = np.zeros((len(alike.matches), rule.values))
    step = max(1, _CELLS // rule.values)
    for start in range(0, len(rows), step):
        chosen = rows[start : start + step]
        seen = Shown(view.shown[chosen], likelihood)
        np.add.at(
            total, alike.slot[chosen], seen.weigh(np.exp(rule.log_chances(view.codes, chosen)))[1]
        )
    mean = total / np.maximum(alike.matches, 1)[:, None]
    return np.where(alike.counts[:, None] > 0, mean[alike.place], otherwise)


def _trusted(view: RecordsView, rule: Links, draws: Draws) -> FloatArray:
    """How records that go through no known operator show a value: as it is with a chance κ, else as
    common as it is in the release. κ makes what is shown likeliest under the rule: 1 for a raw
    table, 0 where values were drawn without regard to the quasi columns."""
    some = draws.order("trust", len(view.shown))[: max(1, _CELLS // rule.values)]
    own = np.exp(rule.log_chances(view.codes, some)[np.arange(len(some)), view.shown[some]])
    common = view.prior[view.shown[some]]
    trust = np.linspace(0.0, 1.0, 101)
    likely = [float(np.log(k * own + (1 - k) * common + 1e-300).sum()) for k in trust]
    best = float(trust[int(np.argmax(likely))])
    return np.asarray(best * np.eye(rule.values) + (1 - best) * view.prior[:, None])


@_believed.register
def _of_buckets(
    view: BucketsView, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
) -> FloatArray:
    alike = Alike.of(view, targets)
    rows, dealt = view.dealt.of(np.unique(view.bucket[alike.slot >= 0]))
    codes, slot = [column[rows] for column in view.codes], alike.slot[rows]
    total = np.zeros(len(alike.matches) * view.values)
    rounds = _SCALINGS_THOROUGH if knowledge.thorough else _SCALINGS_QUICK
    for _, found in dealt.assigned(partial(rule.pair_scores, codes), rounds):
        inside = slot[found.record]
        used = inside >= 0
        flat = inside[used] * view.values + found.value[used]
        total += np.bincount(flat, found.chance[used], minlength=len(total))
    mean = total.reshape(-1, view.values) / np.maximum(alike.matches, 1)[:, None]
    otherwise = np.exp(rule.log_chances(targets.codes))
    return np.where(alike.counts[:, None] > 0, mean[alike.place], otherwise)


@_believed.register
def _of_ranges(
    view: RangesView, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
) -> FloatArray:
    rows = Rows.of(view)
    value = view.shown[rows.first]
    taken = _taken(view, rows, value, rule, knowledge.people, draws)
    found = np.exp(rule.log_chances(targets.codes))
    for person, row in rows.fits(view, targets.codes):
        chance = found[person, value[row]] * taken[row]
        those, place = np.unique(person, return_inverse=True)
        flat = place * rule.values + value[row]
        total = np.bincount(flat, chance, minlength=len(those) * rule.values)
        chances = total.reshape(-1, rule.values) + 1e-300 * found[those]
        found[those] = chances / chances.sum(axis=1, keepdims=True)
    return np.asarray(found)


def _taken(
    view: RangesView, rows: Rows, value: IntArray, rule: Links, people: People, draws: Draws
) -> FloatArray:
    """How much of a person's weight falls on each row, when everybody has one row and every row
    somebody: the scaling factors of the rows over all people, or over some where that is much."""
    first, _, count = distinct(people.codes)
    order = draws.order("register", len(first))
    fitting, tried = 0, order[:_PILOT]
    for person, _ in rows.fits(view, [codes[first[tried]] for codes in people.codes]):
        fitting += len(person)
    some = order[: max(_PILOT, PAIRS * len(tried) // max(fitting, 1))]
    people_of = count[some].astype(np.float64)
    codes = [column[first[some]] for column in people.codes]
    chance = np.exp(rule.log_chances(codes))
    pieces = list(rows.fits(view, codes))
    person, row = (np.concatenate(part) for part in zip(*pieces, strict=True))
    weight = chance[person, value[row]]
    wanted = rows.count * (people_of.sum() / len(people))
    taken, having = np.ones(len(wanted)), people_of
    for _ in range(_SCALINGS):
        taken = wanted / np.maximum(np.bincount(row, weight * having[person], len(wanted)), 1e-300)
        having = people_of / np.maximum(
            np.bincount(person, weight * taken[row], len(people_of)), 1e-300
        )
    return np.asarray(taken)
