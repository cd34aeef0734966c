"""SPLU: a query's closed form against the paper's iteration.

Where both lie inside the simplex they should agree to 1e-6, and the closed form should be at least
1,000 times faster.

python -m benchmarks.splu
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import print_table
from papers.splu.four_states import reconstruct, reconstruct_counting

ROWS, GROUPS, QUERIES = 100_000, 5, 1000


def random_states(queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Published counts by state and the closed form, both inside the simplex."""
    rng = np.random.default_rng(8)
    observed, closed = [], []
    while len(observed) < queries:
        matching, held = rng.integers(200, 40_000), rng.integers(500, 15_000)
        count = rng.integers(0, min(matching, held))
        rate = held * (GROUPS - 1) / (GROUPS * (ROWS - held))
        inside = rng.binomial(count, 1 / GROUPS) + rng.binomial(matching - count, rate)
        outside = rng.binomial(held - count, 1 / GROUPS) + rng.binomial(
            ROWS - matching - held + count, rate
        )
        states = np.array([ROWS - matching - outside, outside, matching - inside, inside])
        whole = closed_form(states[None].astype(float))[0]
        if whole.min() >= 1:
            observed.append(states)
            closed.append(whole)
    return np.array(observed, float), np.array(closed)


def closed_form(states: np.ndarray) -> np.ndarray:
    """All four states from the published ones."""
    shown, matching = states[:, 1] + states[:, 3], states[:, 2] + states[:, 3]
    rows = states.sum(axis=1)
    rate = shown * (GROUPS - 1) / (GROUPS * (rows - shown))
    own = (states[:, 3] - matching * rate) / (1 / GROUPS - rate)
    return np.stack([rows - matching - shown + own, shown - own, matching - own, own], axis=1)


def one_by_one(function: Callable[[np.ndarray], object], states: np.ndarray, queries: int) -> float:
    """Microseconds a query, asked one at a time."""
    start = time.process_time()
    for number in range(queries):
        function(states[number : number + 1])
    return (time.process_time() - start) / queries * 1e6


def main() -> None:
    states, closed = random_states(QUERIES)
    fixed = {"matrix": "exact", "tolerance": 1e-12}
    iterated = reconstruct(states, GROUPS, **fixed, most=20_000, accelerated=True)
    gap = float(np.abs(iterated / closed - 1).max())
    one_by_one(closed_form, states, 100)  # warm
    formula = one_by_one(closed_form, states, QUERIES)
    lines = [("closed form", formula, 1.0, 1.0)]
    ways = {
        "iteration, paper's matrix, 1 % stop": ({}, 50),
        "iteration, exact matrix, to 1e-12": ({**fixed, "most": 200_000}, 2),
        "the same, accelerated": ({**fixed, "most": 20_000, "accelerated": True}, 20),
    }
    for name, (settings, queries) in ways.items():
        spent = one_by_one(lambda s, k=settings: reconstruct(s, GROUPS, **k), states, queries)
        _, rounds = reconstruct_counting(states[:queries], GROUPS, **settings)
        lines.append((name, spent, spent / formula, float(rounds.mean())))
    print_table(
        f"One count from decoys, c = {GROUPS}; the closed form and the fixed point agree to "
        f"{gap:.1e} on {QUERIES:,} states",
        ("what", "µs a query", "× closed form", "mean rounds"),
        lines,
    )


if __name__ == "__main__":
    main()
