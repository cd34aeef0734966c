"""The thesis's alternatives, which it describes and does not run: PG (1.1, 5.4.1), OptRR (5.5)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from papers.metrics import error_by_selectivity
from papers.perturbation.chapter4 import promise
from papers.perturbation.data import DRAWS, Microdata, Setting, profile
from papers.perturbation.generalized import (
    PerturbedGeneralization,
    corrupted_chance,
    random_conditions,
)
from papers.perturbation.optrr import mean_squares, posteriors, right_guesses, search
from papers.steps import Outcome
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms.general import GeneralPerturbation
from sfumato.operators import Uniform
from sfumato.results import Cell, ResultTable

PEOPLE = 20_000
KS = (1, 2, 5, 10)
BOUNDS = (Fraction(2, 5), Fraction(1, 2), Fraction(3, 5))
SEARCHES = 3


def perturbed_generalization(data: Microdata, setting: Setting) -> Outcome:
    """Errors of counts by k, at the retention of uniform perturbation for L = 3."""
    some = data.first(PEOPLE)
    asked = promise(some.histogram, 3)
    operator = Uniform.for_amplification(some.values, asked.gamma)
    conditions = random_conditions(some, setting.conditions, seed=6)
    truth = np.array([_true(some, condition) for condition in conditions])
    rows: list[tuple[Cell, ...]] = []
    for k in KS:
        made = PerturbedGeneralization.of(some, operator, k, DRAWS.child(f"pg {k}"))
        answers = np.array([made.estimates(condition) for condition in conditions])
        errors = [100 * each.error for each in error_by_selectivity(truth, answers, PEOPLE)]
        chance = 100 * corrupted_chance(float(operator.retention), k)
        rows.append((k, len(made.sizes), chance, *errors))
    title = f"Perturbed Generalization, OCC, {PEOPLE:,} records, retention of L = 3: error in %"
    columns = ("k", "records published", "own value, %", "s = 0.1 %", "s = 0.5 %", "s = 1 %")
    note = (
        "'own value': the chance that a published value is the own one of somebody whose group is "
        "known but for them. The example of Section 1.1, retention 1/6 and k = 2: "
        f"{100 * corrupted_chance(1 / 6, 2):.1f} %; the thesis prints 8.5 %."
    )
    return [ResultTable("Perturbed Generalization", title, columns, rows, note=note)], []


def _true(data: Microdata, condition: dict[str, int]) -> np.ndarray:
    inside = np.ones(len(data.sensitive), np.bool_)
    for name, code in condition.items():
        inside &= data.quasi[name] == code
    return np.bincount(data.sensitive[inside], minlength=data.values)


def optrr(data: Microdata, generations: int) -> Outcome:
    """OptRR beside uniform and general perturbation, at the same privacy by its own measure."""
    histogram = data.first(300_000).histogram
    counts, shares = histogram.counts, histogram.counts / histogram.rows
    rows: list[tuple[Cell, ...]] = []
    for bound in BOUNDS:
        asked = RhoPrivacy(Fraction(int(counts.max()), histogram.rows), bound)
        uniform = Uniform.for_amplification(len(counts), asked.gamma).matrix()
        plan = GeneralPerturbation().plan(profile(histogram), asked, DRAWS)
        guessed = float(right_guesses(uniform[None], shares)[0])
        found = []
        for seed in range(SEARCHES):
            front = search(counts, float(bound), generations, seed)
            found.append(front.matrices[front.best_at(guessed)])
        best = min(found, key=lambda m: float(mean_squares(m[None], shares, histogram.rows)[0]))
        for name, matrix in (
            ("uniform", uniform),
            ("general, ours", plan.operators["s"].matrix()),
            ("OptRR", best),
        ):
            error = np.sqrt(mean_squares(matrix[None], shares, histogram.rows)[0]) * len(counts)
            rows.append(
                (
                    float(bound),
                    name,
                    float(posteriors(matrix[None], shares).max()),
                    100 * float(right_guesses(matrix[None], shares)[0]),
                    100 * float(error),
                    float((matrix.max(axis=0) / matrix.min(axis=0)).max()),
                )
            )
    title = f"OptRR, EDU-300k, best of {SEARCHES} searches of {generations} generations"
    columns = ("bound", "operator", "largest posterior", "right guesses, %", "error, %", "gamma")
    note = (
        "Error of an estimated count over the mean count. Gamma: how much one published value can "
        "change the odds of a true one for readers with any prior; OptRR bounds it for one prior "
        "alone."
    )
    return [ResultTable("OptRR", title, columns, rows, note=note)], []
