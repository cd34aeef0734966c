"""Section 6.2.1: counts of 5 to 8 % of the records, with age in intervals of about 8 % each.

No value of CENSUS has more than 7.5 % of the records, so an interval and a single value hold far
less than 5 %. How the paper came to such counts it does not say. Two readings: one value over many
neighbouring intervals, and one interval with many values.
"""

from __future__ import annotations

import numpy as np

from papers.coded import People
from papers.splu import methods
from sfumato.draws import Draws, IntArray
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray
from sfumato.results import Cell, ResultTable

LOW, HIGH = 0.05, 0.08
INTERVALS = 12  # of about 8 % each
PRINTED = 0.01
SETS = 40  # drawn sets of values, by interval


def section_6_2_1(people: People, groups: int, runs: int) -> ResultTable:
    """Mean relative error by reading, over several publications."""
    edges = np.quantile(people.quasi["age"], np.arange(1, INTERVALS) / INTERVALS, method="higher")
    ages = np.searchsorted(edges, people.quasi["age"], side="right")
    truth = _joint(ages, people.sensitive, people.values)
    questions = {
        "one value, neighbouring intervals": _stretches(truth),
        "one interval, many values": _value_sets(truth),
    }
    errors: dict[str, list[float]] = {name: [] for name in questions}
    for run in range(runs):
        kept, codes = methods.published(people, groups, Draws.from_seed(run).child("ages"))
        shown = _joint(ages[kept], codes, people.values)
        rate = Decoy(people.values, groups).observed(shown.sum(axis=0)).decoy_rates
        estimates = (shown - shown.sum(axis=1, keepdims=True) * rate) / (1 / groups - rate)
        for name, masks in questions.items():
            true = np.einsum("qav,av->q", masks, truth)
            found = np.einsum("qav,av->q", masks, estimates)
            errors[name].append(float(np.mean(np.abs(found - true) / true)))
    rows: list[tuple[Cell, ...]] = [
        (name, len(masks), float(np.mean(errors[name])), PRINTED)
        for name, masks in questions.items()
    ]
    title = f"counts of {LOW:.0%} to {HIGH:.0%}, ages in {INTERVALS} intervals, c = {groups}"
    columns = ("reading", "queries", "mean error", "paper")
    return ResultTable("Section 6.2.1", title, columns, rows, paper=("paper",))


def _joint(ages: IntArray, codes: IntArray, values: int) -> FloatArray:
    flat = np.bincount(ages * values + codes, minlength=INTERVALS * values)
    return flat.reshape(INTERVALS, values).astype(np.float64)


def _stretches(truth: FloatArray) -> FloatArray:
    """All stretches of intervals and values whose count is asked for, as masks."""
    total, stretches = truth.sum(), []
    for first in range(INTERVALS):
        for last in range(first, INTERVALS):
            for value in np.flatnonzero(_asked(truth[first : last + 1].sum(axis=0) / total)):
                mask = np.zeros(truth.shape)
                mask[first : last + 1, value] = 1
                stretches.append(mask)
    return np.array(stretches).reshape(-1, *truth.shape)


def _value_sets(truth: FloatArray) -> FloatArray:
    """Random sets of values within each interval, whose count is asked for, as masks."""
    rng = np.random.default_rng(5)  # questions, not protection
    total, value_sets = truth.sum(), []
    for age in range(INTERVALS):
        for _ in range(SETS):
            values = rng.random(truth.shape[1]) < rng.uniform(0.5, 1)
            if _asked(truth[age, values].sum() / total):
                mask = np.zeros(truth.shape)
                mask[age, values] = 1
                value_sets.append(mask)
    return np.array(value_sets).reshape(-1, *truth.shape)


def _asked(share: FloatArray | float) -> np.ndarray:
    return np.asarray((share >= LOW) & (share < HIGH))
