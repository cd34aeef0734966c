"""P(value | quasi) fitted to a release, twice, and how wrong it is (methods, section 8).

The rule is softmax on the quasi values and on pairs of coarse ones (`links`), fitted through what
the release shows. It is fitted on either half of the units (records, or whole buckets), so that the
half that a rule has not seen can tell its error: the difference D between the unbiased estimate of
a count n there and what the rule foresees has

    E[D²] = V + s + v + τ²·n² + κ·V,

V being the noise of the unbiased estimate, s what people scatter by around any rule, v what the
rule itself scatters by (the two rules' difference tells) and the rest its squared bias: τ relative
to counts of this size, and κ for a rule that is stiff because little is seen. τ² and κ are fitted
to many conditions. Answers use the mean of the two rules; it scatters by h·(V + s), h being the
*leverage* of a condition. Its covariance with the unbiased estimate is c·(V + s): a rule that a
ridge holds back by the factor λ follows c = λ of the noise, but scatters by h = λ² of it only. The
halves tell c too: half the product of their rules' difference and their estimates' difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Chances, Links, log_normal
from sfumato.operators.rules import Reading, RuleShape, Sample, with_pairs

# chosen on the first 50,000 rows of CENSUS (occ100k), under l-diversity(5) and rho-privacy(.08, ⅓)
_STIFF = 0.25  # of the noise that rules do not follow at some size, what is taken for squared bias
_CONDITIONS = (150, 600)  # at least and at most
_COUNTS = 20_000  # that the conditions are to have together
KNOTS = np.log(2.0 ** np.arange(-1, 22, 2))  # sizes of counts between which τ² is interpolated
_AT_ONCE = 1 << 24  # (condition, record) pairs that are held at the same time
_FEWEST = 50  # counts near a knot
_NEVER = 1e-12  # chance of a value in a sub-table that does not hold it
_MOST = 0.95  # of the noise that rules are taken to follow
_LEAST = 1e-300

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Model:
    """Two rules of the same shape, one from each half, and what is known of their error."""

    rules: tuple[Links, Links]
    coarse: tuple[IntArray, ...]  # by column: the coarse code of every code
    pairs: IntArray  # (pairs, 2): columns that are also looked at together
    parts: tuple[FloatArray, FloatArray] | None  # by half: `Reading.parts`
    variances: FloatArray  # `Reading.variances`
    bias: FloatArray  # τ² at counts of the sizes `KNOTS`, of the sample
    stiffness: float  # κ
    leverage: float  # h of a typical condition
    following: FloatArray  # h of counts of the sizes `KNOTS`, over their condition's
    shared: FloatArray  # c of counts of the sizes `KNOTS`
    share: float  # of the release's records that the rules were fitted to

    def chances(
        self, codes: Sequence[IntArray], part: IntArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """P(value | quasi and sub-table) by either rule, (records, values)."""
        features = with_pairs(codes, self.coarse, self.pairs)
        found = []
        for half, rule in enumerate(self.rules):
            scores = rule.scores(features)
            if self.parts is not None:
                scores += np.log(np.maximum(self.parts[half], _NEVER))[part]
            found.append(np.exp(log_normal(scores)))
        return found[0], found[1]

    def squared_bias(
        self, size: FloatArray, scatter: FloatArray, noise: FloatArray, leverage: FloatArray
    ) -> FloatArray:
        """Of sums over counts of this size, which scatter by so much around the rules.

        `leverage` is that of their condition: where the rules follow less, they are stiff.
        """
        stiff = self.stiffness + _STIFF * np.maximum(leverage - self.followed(leverage, size), 0.0)
        return np.asarray(self._at(size, self.bias) * size * scatter + stiff * noise)

    def _at(self, size: FloatArray, by_knot: FloatArray) -> FloatArray:
        return np.interp(np.log(np.maximum(size * self.share, _LEAST)), KNOTS, by_knot)

    def followed(self, leverage: FloatArray, size: FloatArray) -> FloatArray:
        """h of counts of this size, from their condition's."""
        return np.asarray(leverage * self._at(size, self.following))

    def covariance(self, size: FloatArray) -> FloatArray:
        """c of counts of this size, as far as the release's records were fitted."""
        return np.asarray(self.share * self._at(size, self.shared))

    def leverages(
        self, differences: FloatArray, means: FloatArray, sizes: FloatArray
    ) -> FloatArray:
        """h of conditions, from all their values: the rules' difference, mean and scatter by value.

        A few typical values are added, for conditions that hardly anything is known of.
        """
        noise = means @ self.variances + sizes
        typical = 3 * noise.mean(axis=-1)
        found = (differences**2).sum(axis=-1) / 4 + self.leverage * typical
        return np.asarray(found / np.maximum(noise.sum(axis=-1) + typical, _LEAST))


def fit_model(sample: Sample, draws: Draws, progress: Progress) -> Model:
    """Fit two rules to the halves of a sample, and estimate their error across."""
    halves = model_halves(sample.units, draws)
    readings = [sample.reading(half) for half in halves]
    return _judged(_fitted(sample, halves, readings, progress), sample, halves, readings, draws)


def fit_rules(sample: Sample, draws: Draws, progress: Progress) -> Model:
    """Two rules alone, where nothing is asked about their error."""
    halves = model_halves(sample.units, draws)
    return _fitted(sample, halves, [sample.reading(half) for half in halves], progress)


def model_halves(units: int, draws: Draws) -> tuple[IntArray, IntArray]:
    """The units that each of the rules is fitted to."""
    order = draws.order("halves of a model", units)
    return np.sort(order[::2]), np.sort(order[1::2])


def _fitted(
    sample: Sample, halves: Sequence[IntArray], readings: Sequence[Reading], progress: Progress
) -> Model:
    whole = sample.reading(np.arange(sample.units))
    shape = RuleShape.of(sample, whole)
    rules = []
    for place, (half, reading) in enumerate(zip(halves, readings, strict=True)):
        progress("fitting the model", place, len(halves))
        rules.append(shape.fit(reading, half))
    progress("fitting the model", len(halves), len(halves))
    one, other = (reading.parts for reading in readings)
    return Model(
        (rules[0], rules[1]),
        shape.coarse,
        shape.pairs,
        None if one is None or other is None else (one, other),
        whole.variances(),
        np.zeros(len(KNOTS)),
        0.0,
        0.0,
        np.ones(len(KNOTS)),
        np.zeros(len(KNOTS)),
        sample.share,
    )


def _judged(
    model: Model,
    sample: Sample,
    halves: Sequence[IntArray],
    readings: Sequence[Reading],
    draws: Draws,
) -> Model:
    """The same rules, with what conditions at random tell of their error."""
    least, most = _CONDITIONS
    values = len(model.variances)
    conditions = int(np.clip(_COUNTS // values, least, most))
    first = np.zeros(sample.units, np.bool_)
    first[halves[0]] = True
    rows = first[sample.unit], ~first[sample.unit]
    chances = model.chances(sample.codes, sample.part)
    mean = (chances[0] + chances[1]) / 2
    # what every record adds: to unbiased counts, to either rule's, and to their scatter
    columns = np.hstack([np.empty_like(mean), *chances, mean * (1 - mean)]).astype(np.float32)
    for chosen, reading in zip(rows, readings, strict=True):
        columns[chosen, :values] = reading.weights[sample.shown[chosen]]
    step = max(_AT_ONCE // max(len(mean), 1), 1)
    found = [
        _discrepancies(model, sample, masks, columns, rows)
        for low in range(0, conditions, step)
        for masks in [_conditions(sample, low, min(low + step, conditions), draws)]
    ]
    pieces = [np.concatenate(each) for each in zip(*found, strict=True)]
    leverage = pieces.pop()
    size, noise, squares, difference, product = (each.ravel() for each in pieces)
    kept = size > np.exp(KNOTS[0]) / 4
    near = _near(size[kept])
    known = near.sum(axis=0) > _FEWEST
    if not known.any():
        return replace(
            model, bias=np.ones(len(KNOTS)), leverage=1.0, shared=_MOST * np.ones(len(KNOTS))
        )
    lever = np.repeat(leverage, values)[kept] * (noise + size)[kept]
    following = (near * (difference[kept] / 4)[:, None]).sum(axis=0)
    following /= np.maximum((near * lever[:, None]).sum(axis=0), _LEAST)
    following = np.interp(KNOTS, KNOTS[known], following[known])
    shared = (near * (product[kept] / 2)[:, None]).sum(axis=0)
    shared /= np.maximum((near * (noise + size)[kept, None]).sum(axis=0), _LEAST)
    shared = np.clip(np.interp(KNOTS, KNOTS[known], shared[known]), 0.0, _MOST)
    followed = near @ following
    expected = (noise + size)[kept] / 2 + followed * lever / 2
    unmoved = np.maximum(1 - followed, 0.0) * np.repeat(leverage, values)[kept] * noise[kept]
    expected += _STIFF * unmoved / 4
    bias, stiffness = _bias(near, known, size[kept], noise[kept], expected, squares[kept])
    return replace(
        model,
        bias=bias,
        stiffness=stiffness,
        leverage=float(np.median(leverage)),
        following=following,
        shared=shared,
    )


def _near(size: FloatArray) -> FloatArray:
    """The share of every knot in a size between two: (sizes, knots)."""
    at = np.clip(np.log(size), KNOTS[0], KNOTS[-1])
    return np.asarray(np.maximum(1 - np.abs(at[:, None] - KNOTS) / (KNOTS[1] - KNOTS[0]), 0.0))


def _conditions(sample: Sample, low: int, high: int, draws: Draws) -> Chances:
    """What a random record satisfies of one to three columns, ordered ones half the time as ranges:
    (conditions, records), 1 where a record satisfies it."""
    records, columns = len(sample.shown), len(sample.codes)
    found = np.ones((high - low, records), np.float32)
    for place in range(low, high):
        word = draws.words("conditions of a model", Positions(8 * place, 8)).astype(np.float64)
        part = word / 2.0**64
        person = min(int(part[0] * records), records - 1)
        chosen = np.argsort(draws.words("columns of a model", Positions(place * columns, columns)))[
            : 1 + int(part[1] * min(3, columns))
        ]
        for number, column in enumerate(chosen.tolist()):
            codes = sample.codes[column]
            wide = 0
            if sample.ordered[column] and part[2 + number] < 0.5:
                wide = 1 + int(part[5 + number] * sample.sizes[column] / 6)
            found[place - low] *= np.abs(codes - codes[person]) <= wide
    return found


def _discrepancies(
    model: Model, sample: Sample, masks: Chances, columns: Chances, rows: Sequence[BoolArray]
) -> tuple[FloatArray, ...]:
    """By (condition, value): size, V, a half's D², the rules' squared difference, and its product
    with that of the halves' estimates; h by condition."""
    values = len(model.variances)
    halves = [
        np.asarray(masks[:, chosen] @ columns[chosen], np.float64).reshape(len(masks), 4, values)
        for chosen in rows
    ]
    whole = halves[0] + halves[1]
    mean, size = (whole[:, 1] + whole[:, 2]) / 2, whole[:, 3]
    left = 1 - masks.mean(axis=1, keepdims=True) if sample.placed else 1.0
    noise = np.maximum(mean @ model.variances, _LEAST) * left
    # the rule that was fitted to a half foresees the other
    squares = (
        (halves[0][:, 0] - halves[0][:, 2]) ** 2 + (halves[1][:, 0] - halves[1][:, 1]) ** 2
    ) / 2
    difference = whole[:, 1] - whole[:, 2]
    product = difference * (halves[0][:, 0] - halves[1][:, 0])
    return size, noise, squares, difference**2, product, model.leverages(difference, mean, size)


def _bias(
    near: FloatArray,
    known: BoolArray,
    size: FloatArray,
    noise: FloatArray,
    expected: FloatArray,
    squares: FloatArray,
) -> tuple[FloatArray, float]:
    """τ² at the knots and κ: weighted least squares of what is left of D².

    None is negative, and τ does not grow with the size of counts: small counts tell little of it.
    """
    from scipy.optimize import nnls

    # what the last knots have in common all smaller ones have too
    steps = np.cumsum(near[:, known], axis=1)
    # a half's bias is half of the whole's
    terms = np.column_stack([steps * size[:, None] ** 2, noise]) / 4
    found = np.full(terms.shape[1], 0.05)
    for _ in range(4):
        weight = 1 / (expected + terms @ found)
        scale = np.maximum(np.sqrt(((terms * weight[:, None]) ** 2).sum(axis=0)), _LEAST)
        left = (squares - expected) * weight
        found = nnls(terms * (weight[:, None] / scale), left)[0] / scale
    bias = np.cumsum(found[:-1][::-1])[::-1]
    return np.interp(KNOTS, KNOTS[known], bias), float(found[-1])
