"""How planning grows with values and records, for every mechanism that `publish` tries by default.

python -m benchmarks.growth [FAMILY …]: CPU seconds and peak megabytes of planning and of what the
manifest tells of the plan, each in a process of its own, on histograms of Zipf's law (exponent
0.7). Then the histograms with one value of half the people that once took minutes. At most 10 CPU
seconds and 1.5 GB each, and 5 seconds for the last three. The table for
`reconstruction-privacy` has cells: ten thousand groups, at most 100 values each. That for `local`
has bins: 256 groups of people, at most 200 values each; `publish` tries it up to `MOST_IN_BLOCKS`
values.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np

from benchmarks.measure import own_cpu, print_table
from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import MOST_IN_BLOCKS
from sfumato.errors import SfumatoError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import Mechanism, mechanisms_for, parse_mechanism
from sfumato.profile import BinnedCounts, Cells, ColumnBins, Histogram, Profile

VALUES = (50, 500, 2_000, 20_000)
RECORDS = (10**4, 10**6, 10**8)
PROMISES = (
    "l-diversity(5)",
    "beta-likeness(3)",
    "f-privacy(theta=4, floor=0.02)",
    "rho-privacy(0.1, 1/3)",
    "fine-rho-privacy(theta=8)",
    "small-sum(groups=5)",
    "reconstruction-privacy(0.3, 0.3)",
)
ONCE_SLOW = (
    ("15 values, one with half", "half", 15, 199_523, "beta-likeness(2)"),
    ("73 values, one with 49 %", "nearly half", 73, 199_523, "beta-likeness(2)"),
    ("19 values, one of one person", "alone", 19, 71_507, "beta-likeness(3)"),
)
MOST = (10.0, 1500.0)
_GROUPS, _INSIDE = 10_000, 100
_BINS, _BINNED = 16, 200


def zipf(values: int, rows: int) -> IntArray:
    shares = 1 / np.arange(1, values + 1) ** 0.7
    counts = np.maximum(np.floor(shares / shares.sum() * rows).astype(np.int64), 1)
    counts[: max(rows - int(counts.sum()), 0) % values] += 1
    return counts


def common(values: int, rows: int, share: float) -> IntArray:
    """One value has this share, the others are from common to two thousand times rarer."""
    shares = np.geomspace(1, 1 / 2000, values - 1)
    counts = np.maximum((shares / shares.sum() * rows * (1 - share)).astype(np.int64), 1)
    return np.append(rows - counts.sum(), counts)


def alone(values: int, rows: int) -> IntArray:
    counts = zipf(values - 1, rows - 1)
    counts[0] += rows - 1 - counts.sum()
    return np.append(counts, 1)


SHAPES = {
    "zipf": zipf,
    "half": partial(common, share=0.5),
    "nearly half": partial(common, share=0.49),
    "alone": alone,
}


def profile_of(counts: IntArray, cells: bool) -> Profile:
    histogram = Histogram("s", tuple(range(len(counts))), counts)
    made = None
    if cells:
        inside = min(_INSIDE, len(counts))
        keys = np.repeat(np.arange(_GROUPS), inside)
        step = max(1, len(counts) // inside)
        values = np.tile(np.arange(inside) * step, _GROUPS)
        many = np.maximum(counts[values] // _GROUPS, 1)
        made = Cells(("q",), (tuple(range(_GROUPS)),), keys, values, many)
        held = np.bincount(values, many, len(counts)).astype(np.int64)
        histogram = Histogram("s", histogram.values, held)
    return Profile(histogram.rows, {"s": histogram}, made)


def binned_of(counts: IntArray) -> Profile:
    """Two columns of sixteen bins; a group has every value, or one in so many that it has 200.

    How many have it is drawn, and a bin has ten numbers. If all groups had equal shares, or blocks
    could be cut to single numbers, counts would be exact and predicted without error.
    """
    groups, many = _BINS**2, len(counts)
    every = max(1, many // _BINNED)
    group, value = np.divmod(np.arange(groups * many), many)
    held = np.random.default_rng(1).poisson(counts[value] * every / groups)
    there = ((value + group) % every == 0) & (held > 0)
    group, value, held = group[there], value[there], held[there]
    columns = tuple(
        ColumnBins(name, edges=tuple(10.0 * edge for edge in range(1, _BINS))) for name in "ab"
    )
    codes = (group // _BINS).astype(np.int16), (group % _BINS).astype(np.int16)
    whole = np.bincount(value, held, many).astype(np.int64)
    histogram = Histogram("s", tuple(range(many)), whole)
    return Profile(
        histogram.rows, {"s": histogram}, binned=BinnedCounts(columns, codes, value, held)
    )


def planned(shape: str, values: int, rows: int, promise: str, way: str) -> None:
    """In a process of its own: plan, and print the cost."""
    import resource

    mechanism: Mechanism = parse_mechanism(way)
    counts = SHAPES[shape](values, rows)
    binned = mechanism.needs_bins
    profile = binned_of(counts) if binned else profile_of(counts, mechanism.needs_cells)
    began = own_cpu()
    try:
        plan = mechanism.plan(profile, parse_guarantee(promise), Draws.from_seed(1))
        plan.public()
        told = f"{plan.predicted_error():.3g}"
    except SfumatoError as error:
        told = type(error).__name__
    used = own_cpu() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([used, megabytes, told]))


def measured(shape: str, values: int, rows: int, promise: str, way: str) -> list[object]:
    command = [sys.executable, "-m", "benchmarks.growth", "--one"]
    command += [shape, str(values), str(rows), promise, way]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        return ["above 900 s", "", "", "no"]
    if done.returncode:
        return ["failed", "", done.stderr.strip().splitlines()[-1][:60], "no"]
    cpu, megabytes, told = json.loads(done.stdout)
    # what is refused was not planned: so little says nothing of what it costs
    held = cpu <= MOST[0] and megabytes <= MOST[1] and told != "UsageError"
    return [cpu, round(megabytes), told, "yes" if held else "no"]


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        shape, values, rows, promise, way = sys.argv[2:]
        planned(shape, int(values), int(rows), promise, way)
        return
    columns = ("guarantee", "mechanism", "values", "records", "CPU s", "MB", "error", "held")
    asked = [p for p in PROMISES if not sys.argv[1:] or p.split("(")[0] in sys.argv[1:]]
    lines: list[list[object]] = []
    for promise in asked:
        for way in mechanisms_for(parse_guarantee(promise)):
            for values in VALUES:
                for rows in RECORDS:
                    if rows >= 5 * values and (not way.needs_bins or values <= MOST_IN_BLOCKS):
                        found = measured("zipf", values, rows, promise, str(way))
                        lines.append([promise, way, f"{values:,}", f"{rows:,}", *found])
                        print(*lines[-1], file=sys.stderr)
    print_table("Planning grows with values and records", columns, lines)
    if len(asked) == len(PROMISES) or "beta-likeness" in sys.argv[1:]:
        slow = [
            [name, *measured(shape, values, rows, promise, "optimal")]
            for name, shape, values, rows, promise in ONCE_SLOW
        ]
        columns = ("histogram", "CPU s", "MB", "error", "held")
        print_table("One value of half the people, or of one", columns, slow)


if __name__ == "__main__":
    main()
