"""Estimators against their definition, written out: every class, form and record by itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from papers.perturbation.general import DenseInverse
from sfumato.operators import Decoy, FineGrain, Operator, Parts, SubTable, Uniform
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.inverse import Inverse
from sfumato.operators.weighing import Composition, DenseWeights

Floats = npt.NDArray[np.float64]
VALUES, CLASSES, PROFILES = 5, 7, 3
OPERATORS: dict[str, Operator] = {
    "uniform": Uniform(VALUES, Fraction(1, 3)),
    "identity": Uniform(VALUES, Fraction(1)),
    "fine-grain": FineGrain.of([Fraction(n, 9) for n in (2, 9, 4, 5, 9)]),
    "parts": Parts(
        VALUES,
        (
            SubTable((0, 1, 2), Uniform(3, Fraction(1, 2))),
            SubTable((1, 3), FineGrain.of([Fraction(1, 4), Fraction(1)])),
            SubTable((2, 4), Uniform(2, Fraction(1))),
        ),
    ),
    "decoy": Decoy(VALUES, 2).observed(np.array([40_000, 0, 30_000, 20_000, 33_000])),
}


def some_moments(rng: np.random.Generator, symbols: int) -> Moments:
    """Sums of two weights, as of records, with lines missing."""
    there = rng.random((CLASSES, symbols)) < 0.7
    of, shown = np.nonzero(there)
    n, e = rng.integers(1, 9, len(of)) * 1.0, rng.normal(size=len(of))
    return Moments(
        CLASSES,
        of,
        (shown,),
        {
            ("n",): n,
            ("e",): e,
            ("n", "n"): n,
            ("e", "n"): e,
            ("n", "e"): e,
            ("e", "e"): e**2 / n + rng.random(len(of)),
        },
    )


def some_forms(rng: np.random.Generator) -> Forms:
    """Every profile splits the values into up to three forms, and leaves some out."""
    cells, first, number = np.full((PROFILES, VALUES), -1), [0], 0
    for profile in range(PROFILES):
        keys = rng.integers(-1, 3, VALUES)
        for key in sorted(set(keys.tolist()) - {-1}):
            cells[profile, keys == key] = number
            number += 1
        first.append(number)
    return Forms.of(rng.integers(0, PROFILES, CLASSES), cells, np.array(first))


def statistics(rng: np.random.Generator) -> list[Statistic]:
    there = rng.random((PROFILES, VALUES)) < 0.8
    numbers = np.where(there, rng.normal(size=(PROFILES, VALUES)), 0.0)
    flags = there.astype(np.float64)
    return [Statistic("e", "n", flags, there), Statistic("n", "n", numbers, there)]


def by_hand(
    moments: Moments, forms: Forms, weights: Floats, chosen: list[Statistic]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """T̂ and its covariance by pair, and whether a record could have a value of the form."""
    value = np.zeros((len(chosen), forms.pairs))
    covariance = np.zeros((len(chosen), len(chosen), forms.pairs))
    reached = np.zeros(forms.pairs, np.bool_)
    for pair in range(forms.pairs):
        form, own = forms.pair_form[pair], forms.pair_class[pair]
        profile = forms.profile[own]
        inside = forms.cells[profile] == form
        h = [np.where(inside, each.values[profile], 0.0) for each in chosen]
        for line in np.flatnonzero(moments.of == own):
            row = weights[moments.shown[0][line]]
            reached[pair] |= bool((row[inside] != 0).any())
            z = [float(row @ each) for each in h]
            for i, one in enumerate(chosen):
                value[i, pair] += moments.sums[(one.weight,)][line] * z[i]
                for j, other in enumerate(chosen):
                    squares = moments.sums[(one.weight, other.weight)][line]
                    covariance[i, j, pair] += squares * (z[i] * z[j] - row @ (h[i] * h[j]))
    return value, covariance, reached


def unshrunk(moments: Moments, inverse: Inverse) -> DrawnEstimated:
    whole = Composition.of(inverse, np.full(len(inverse.codes), 50.0))
    return DrawnEstimated(moments, [inverse], [whole], shrunk=False)


def both_ways(moments: Moments, inverse: Inverse) -> list[DrawnEstimated]:
    structured, written = (unshrunk(moments, inverse) for _ in range(2))
    written.way = DenseWeights
    return [structured, written]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("seed", range(3))
def test_structured_and_written_out_are_the_definition(name: str, seed: int) -> None:
    operator, rng = OPERATORS[name], np.random.default_rng(seed)
    inverse = operator.inverse()
    assert isinstance(inverse, Inverse)
    weights = inverse.weigh(np.eye(VALUES)).T  # by (symbol, value)
    moments, forms, chosen = some_moments(rng, len(weights)), some_forms(rng), statistics(rng)
    value, covariance, reached = by_hand(moments, forms, weights, chosen)
    ways = both_ways(moments, inverse)
    if len(weights) == VALUES:
        ways.append(unshrunk(moments, DenseInverse(weights)))  # type: ignore[arg-type]
        ways[-1].way = DenseWeights
    gradient = [rng.normal(size=forms.pairs) for _ in chosen]
    expected = np.einsum("ip,jp,ijp->p", gradient, gradient, covariance)
    for way in ways:
        totals = way.read(forms, chosen)
        np.testing.assert_allclose(totals.values, value, atol=1e-9)
        np.testing.assert_allclose(totals.variance(gradient), expected, atol=1e-9)
        np.testing.assert_array_equal(way.reached(forms), reached)


def test_what_is_not_finite_stays_where_it_is() -> None:
    """An infinite sum of one value's records does not touch another value that they cannot have."""
    moments = Moments(1, np.array([0, 0]), (np.array([0, 1]),), {
        ("e",): np.array([2.0, np.inf]), ("n",): np.ones(2),
        ("e", "e"): np.array([4.0, np.nan]), ("n", "n"): np.ones(2),
    })  # fmt: skip
    forms = Forms.of(np.zeros(1, np.int64), np.array([[0, 1, -1, -1, -1]]), np.array([0, 2]))
    there = forms.cells >= 0
    asked = [Statistic("e", "n", there * 1.0, there)]
    inverse = OPERATORS["identity"].inverse()
    assert isinstance(inverse, Inverse)
    for way in both_ways(moments, inverse):
        totals = way.read(forms, asked)
        assert totals.values[0].tolist() == [2.0, np.inf]
        assert totals.variance([1.0])[0] == 0
