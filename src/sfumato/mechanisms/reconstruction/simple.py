"""Simple random samples: the law of what is published where a group has several columns.

Controlled rounding makes the sample of every value as even as it can be, but of one column only. So
of several columns any n of a group's N records are drawn, all alike. Each keeps its combination of
values with chance p, or else shows any combination; it is copied ⌊N/n⌋ times, and N mod n records,
any of them alike, once more. For a value of one column, or a combination of some, that c records
have and that a redrawn record shows with chance q, that is

    H ~ Hypergeometric(N, c, n),      O | H ~ Binomial(H, p + q) + Binomial(n − H, q),
    T | O = ⌊N/n⌋·O + Hypergeometric(n, O, N mod n):

one law for every column and every combination, so that all promises are held to one formula.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.mechanisms.reconstruction.drawing import Drawn
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.tails import FloatArray, Setting, sum_at_least
from sfumato.operators import Uniform

MOST_SAMPLED = 512  # records of a group's sample: the law is worked out for every number of hits
_CASES = 1 << 20  # (case, number of hits) at once


def reach_simply(
    setting: Setting, size: IntArray, sample: IntArray, count: IntArray, least: IntArray
) -> FloatArray:
    """Pr(T ≥ least). Whole groups are perturbed record by record, and copied once."""
    found = np.empty(len(size))
    whole = sample == size
    found[whole] = sum_at_least(setting, sample[whole], count[whole], least[whole])
    for number in np.unique(sample[~whole]).tolist():
        chosen = np.flatnonzero((sample == number) & ~whole)
        shown = _shown_given(setting, number)
        step = max(_CASES // (number + 1), 1)
        for start in range(0, len(chosen), step):
            some = chosen[start : start + step]
            law = hits_in_sample(size[some], count[some], number) @ shown
            enough = _copied_at_least(size[some], number, least[some])
            found[some] = np.minimum((law * enough).sum(axis=1), 1.0)
    return found


def hits_in_sample(size: IntArray, count: IntArray, number: int) -> FloatArray:
    """The law of H by (case, hits), from ratios of neighbours: exact to the last digits.

    >>> hits_in_sample(np.array([4]), np.array([2]), 2).round(4).tolist()
    [[0.1667, 0.6667, 0.1667]]
    """
    hits = np.arange(number)[None, :]
    size, count = size[:, None], count[:, None]
    fewest, most = np.maximum(number - (size - count), 0), np.minimum(number, count)
    inside = (hits >= fewest) & (hits < most)
    above = np.where(inside, (count - hits) * (number - hits), 1)
    below = np.where(inside, (hits + 1) * (size - count - number + hits + 1), 1)
    steps = np.log(above / below)
    logs = np.concatenate([np.zeros((len(size), 1)), np.cumsum(steps, axis=1)], axis=1)
    places = np.arange(number + 1)[None, :]
    logs = np.where((places >= fewest) & (places <= most), logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@lru_cache(maxsize=64)
def _shown_given(setting: Setting, number: int) -> FloatArray:
    """Pr(O | H) by (hits, shown)."""
    from scipy import stats

    q = float(setting.background)
    kept = float(setting.retention + setting.background)
    places = np.arange(number + 1)
    return np.stack(
        [
            np.convolve(
                stats.binom.pmf(places[: hits + 1], hits, kept),
                stats.binom.pmf(places[: number - hits + 1], number - hits, q),
            )
            for hits in range(number + 1)
        ]
    )


def _copied_at_least(size: IntArray, number: int, least: IntArray) -> FloatArray:
    """Pr(T ≥ least | O) by (case, shown)."""
    copies, more = np.divmod(size, number)
    shown = np.arange(number + 1)[None, :]
    lacking = np.asarray(least[:, None] - copies[:, None] * shown, np.int64)
    found = (lacking <= 0).astype(np.float64)
    case, of = np.nonzero((lacking > 0) & (lacking <= np.minimum(shown, more[:, None])))
    if len(case):
        found[case, of] = _drawn_at_least(number, of, more[case], lacking[case, of])
    return found


def _drawn_at_least(number: int, marked: IntArray, drawn: IntArray, least: IntArray) -> FloatArray:
    """Pr(Hypergeometric(number, marked, drawn) ≥ least), term by term."""
    from scipy.special import gammaln

    logs = gammaln(np.arange(number + 2) + 1.0)

    def choose(many: IntArray, some: IntArray) -> FloatArray:
        return np.asarray(logs[many] - logs[some] - logs[many - some])

    most = np.minimum(marked, drawn)
    fewest = np.maximum(least, drawn - (number - marked))
    width = np.maximum(most - fewest + 1, 0)
    case = np.repeat(np.arange(len(marked)), width)
    hit = np.arange(len(case)) - np.repeat(np.cumsum(width) - width, width) + fewest[case]
    m, d = marked[case], drawn[case]
    terms = np.exp(
        choose(m, hit) + choose(number - m, d - hit) - choose(np.full_like(d, number), d)
    )
    return np.minimum(np.bincount(case, terms, minlength=len(marked)), 1.0)


def simply_private(setting: Setting, samples: IntArray, shares: FloatArray) -> BoolArray:
    """Whether both tails of the commonest value reach δ in a large group; (sample, share).

    Of a large group H is Binomial(n, f), so O is Binomial(n, p f + q), and T/N is O/n.
    """
    from scipy import stats

    p, q, error = (float(each) for each in (setting.retention, setting.background, setting.error))
    n, share = samples[:, None], shares[None, :]
    chance = p * share + q
    above = stats.binom.sf(np.floor(n * (chance + error * p * share)), n, chance)
    below = stats.binom.cdf(np.ceil(n * (chance - error * p * share)) - 1, n, chance)
    return np.asarray(np.minimum(above, below) >= float(setting.chance))


def simple_moments(
    groups: PersonalGroups, samples: IntArray, setting: Setting
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each value's published count over all groups, exactly.

    Var O = n f a(1−a) + n (1−f) q(1−q) + p² n f(1−f)(N−n)/(N−1) with a = p + q; T scales O by N/n,
    and its copies add Var(T | O) = r (O/n)(1 − O/n)(n−r)/(n−1), r = N mod n, in the mean.
    """
    p, q = float(setting.retention), float(setting.background)
    kept = samples > 0
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    cells = kept[owner]
    which, values, counts = owner[cells], groups.values[cells], groups.counts[cells]
    nobody = simple_variance(groups.sizes[kept], samples[kept], np.zeros(int(kept.sum())), p, q)
    base = np.zeros(len(groups))
    base[kept] = nobody
    own = simple_variance(groups.sizes[which], samples[which], counts.astype(np.float64), p, q)
    more = np.bincount(values, own - base[which], minlength=setting.values)
    mean = np.bincount(values, counts, minlength=setting.values) * p
    return np.asarray(mean + float(groups.sizes[kept].sum()) * q), np.asarray(more + nobody.sum())


def simple_variance(
    size: IntArray, sample: IntArray, count: FloatArray, p: float, q: float
) -> FloatArray:
    """Of the published count of a value that `count` records of each group have."""
    big, n = size.astype(np.float64), sample.astype(np.float64)
    share, kept = count / big, p + q
    drawn = n * (share * kept * (1 - kept) + (1 - share) * q * (1 - q))
    drawn += p**2 * n * share * (1 - share) * (big - n) / np.maximum(big - 1, 1)
    mean, rest = n * (p * share + q), big % n
    copied = rest * (n - rest) / np.maximum(n - 1, 1) * (n * mean - drawn - mean**2) / n**2
    return np.asarray((big / n) ** 2 * drawn + np.maximum(copied, 0.0))


def draw_simply(
    groups: PersonalGroups, samples: IntArray, run: slice, operator: Uniform, draws: Draws
) -> Drawn:
    """Sample, perturb and copy the groups of a run. The draws' addresses are records of the whole
    table and of all samples, so that blocks may come in any order."""
    cell_owner, cell_values, counts = groups.block(run)
    sizes, sample = groups.sizes[run], samples[run]
    owner, values = np.repeat(cell_owner, counts), np.repeat(cell_values, counts)
    first = int(groups.sizes[: run.start].sum())
    words = draws.child("sample").words("records", Positions(first, len(owner)))
    order = np.lexsort((words, owner))  # by group, and there at random
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    taken = place < sample[owner]
    trials, place = order[taken], place[taken]
    address = Positions(int(samples[: run.start].sum()), len(trials))
    published = operator.apply(values[trials], "perturb", address, draws)
    copies, more = np.divmod(sizes, np.maximum(sample, 1))
    whose = owner[trials]
    times = copies[whose] + (place < more[whose])  # the order is random: any of them alike
    key, where = np.unique(whose * operator.values + published, return_inverse=True)
    total = np.bincount(where.reshape(-1), times, minlength=len(key)).astype(np.int64)
    return Drawn(key // operator.values + run.start, key % operator.values, total)
