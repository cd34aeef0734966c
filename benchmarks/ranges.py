"""Ranges and sets: information loss beside the authors' figures.

python -m benchmarks.ranges [--slices 9] [--only 'l-diversity(10)'] [--write]

GCP (the mean normalized certainty penalty) of the first 10,000 people of `occ100k`, where the
authors' program printed its figures for the same quasi-identifiers; of slices of 10,000 people that
no choice in the code was made on; and of 50 generated values whose shares are as rank^-theta.
CPU against one bare matching of the same size by scipy. Needs SFUMATO_DATA.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import CENSUS_QUASI, census, report
from sfumato.errors import InfeasibleGuarantee
from sfumato.evidence.penalty import release_penalty

PEOPLE = 10_000
STEPS = dict(zip(CENSUS_QUASI, (78, 1, 16, 5, 8, 9, 82), strict=True))
AUTHORS = {  # on the first 10,000 people, and with generated values
    ("l-diversity(10)", "heterogeneous", "first"): 0.1077,
    ("l-diversity(5)", "heterogeneous", "first"): 0.0800,
    ("beta-likeness(3)", "heterogeneous", "first"): 0.4039,
    ("l-diversity(5)", "ring", "first"): 0.0765,
    ("l-diversity(10)", "ring", "first"): 0.356,
    ("beta-likeness(3)", "burel", "first"): 0.497,
    ("beta-likeness(3)", "burel", "zipf 0.5"): 0.277,
    ("beta-likeness(3)", "burel", "zipf 0.8"): 0.297,
    ("beta-likeness(3)", "burel", "uniform"): 0.223,
}
# mean of nine slices
AT_MOST = {("l-diversity(10)", "heterogeneous"): 0.092, ("l-diversity(5)", "heterogeneous"): 0.039}


def declared(table: pa.Table, sensitive: str) -> sf.Table:
    lows = {name: int(census()[name].to_numpy().min()) for name in STEPS}
    return sf.read(
        table,
        quasi=list(STEPS),
        sensitive=sensitive,
        categorical=[name for name in STEPS if name not in ("age", "education")],
        domain={name: f"{lows[name]}..{lows[name] + steps}" for name, steps in STEPS.items()},
    )


def people(name: str) -> sf.Table:
    """The first people, a slice (`30000`), or the first with generated values (`zipf 0.5`)."""
    if name == "first" or name.isdigit():
        first = 0 if name == "first" else int(name)
        return declared(census(first=first, rows=PEOPLE), "occupation")
    exponent = float(name.removeprefix("zipf ")) if name.startswith("zipf") else 0.0
    weights = 1 / np.arange(1, 51) ** exponent
    drawn = np.random.default_rng(4).choice(50, PEOPLE, p=weights / weights.sum())
    records = census(rows=PEOPLE).select(list(STEPS)).append_column("value", pa.array(drawn))
    return declared(records, "value")


@cache
def bare_matching() -> float:
    """CPU seconds of scipy's assignment on random costs, 1,000 people at a time."""
    from scipy.optimize import linear_sum_assignment

    cost = np.random.default_rng(1).random((1000, 1000))
    began = time.process_time()
    linear_sum_assignment(cost)
    return (time.process_time() - began) * PEOPLE / 1000


def measured(table: sf.Table, guarantee: str, mechanism: str) -> tuple[float, float]:
    """GCP and CPU seconds of one publication."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        made = sf.publish(table, guarantee, to=Path(folder, "r"), mechanism=mechanism, seed=1)
        seconds = time.process_time() - began
        return release_penalty(made.release).whole, seconds


def lines(slices: int, only: str) -> Iterator[list[object]]:
    for guarantee, mechanism in dict.fromkeys((key[0], key[1]) for key in AUTHORS):
        if only not in f"{guarantee} {mechanism}":
            continue
        for (stated, way, name), theirs in AUTHORS.items():
            if (stated, way) == (guarantee, mechanism):
                gcp, seconds = measured(people(name), guarantee, mechanism)
                yield [guarantee, mechanism, name, f"{gcp:.4f}", f"{theirs:.4f}",
                       gcp / theirs, seconds / bare_matching(), ""]  # fmt: skip
        if mechanism != "heterogeneous":
            continue
        try:
            found = [
                measured(people(str(PEOPLE * (k + 1))), guarantee, mechanism) for k in range(slices)
            ]
        except InfeasibleGuarantee:
            continue
        gcp, most = mean(each for each, _ in found), AT_MOST.get((guarantee, mechanism))
        held = "" if most is None else f"at most {most}: {'ok' if gcp <= most else 'over'}"
        seconds = mean(each for _, each in found)
        yield [guarantee, mechanism, f"{slices} slices", f"{gcp:.4f}", "", "",
               seconds / bare_matching(), held]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slices", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = list(lines(options.slices, options.only))
    note = "GCP of 10,000 people of CENSUS; CPU over that of scipy's bare matching."
    heads = ("guarantee", "mechanism", "people", "GCP", "authors", "of theirs",
             "× bare matching", "")  # fmt: skip
    report("Ranges beside the authors' figures", note, heads, rows, options.write)


if __name__ == "__main__":
    main()
