"""Run times: Figures 20, 29 and 30, in seconds of the processor."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction

from papers.perturbation.chapter4 import promise
from papers.perturbation.data import (
    DRAWS,
    Microdata,
    anatomy,
    histogram,
    profile,
    shown_symbols,
    zipf,
)
from papers.steps import Outcome
from papers.tables import Series
from sfumato.draws import IntArray
from sfumato.guarantees import FineRhoPrivacy, RhoPrivacy
from sfumato.mechanisms.partitioned import PartitionedPerturbation
from sfumato.mechanisms.retentions import as_floats, best_top, drawable, uniform_retention
from sfumato.mechanisms.uniform import UniformPerturbation

Lines = dict[str, list[tuple[float, float]]]
SKEWED = RhoPrivacy(Fraction(1, 30), Fraction(1, 10))  # what the thesis asks of EDU
DIVERSITY = {"OCC": 6, "EDU": 10}
THETA = {"OCC": 20, "EDU": 30}


def publishing(tables: Mapping[str, Microdata], sizes: Sequence[int]) -> Outcome:
    """Figure 20: planning and drawing, without files."""
    found = []
    for data, records in tables.items():
        lines: Lines = {}
        for size in sizes:
            some = records.first(size)
            asked = promise(some.histogram, 6) if data == "OCC" else SKEWED
            table = profile(some.histogram)
            for name, mechanism in (
                ("partitioned", PartitionedPerturbation()),
                ("uniform", UniformPerturbation()),
            ):
                began = time.process_time()
                shown_symbols(mechanism.plan(table, asked, DRAWS), some, DRAWS.child(name))
                lines.setdefault(name, []).append((size, time.process_time() - began))
            began = time.process_time()
            anatomy(some, DIVERSITY[data], DRAWS)
            lines.setdefault("Anatomy", []).append((size, time.process_time() - began))
        title = f"Run time by |T|, {data}, planning and drawing, without files."
        found.append(Series("Figure 20", title, "|T|", "seconds", lines))
    return [], found


def planning(tables: Mapping[str, Microdata], sizes: Sequence[int]) -> Outcome:
    """Figures 29 and 30: planning alone, which is what the thesis's linear program takes."""
    found = []
    for data, records in tables.items():
        by_size: Lines = {"fine-grain": [], "uniform": []}
        for size in sizes:
            _time(records.first(size).histogram.counts, THETA[data], size, by_size)
        title = f"Planning time by |T|, {data}."
        found.append(Series("Figure 29", title, "|T|", "seconds", by_size))
    by_m: Lines = {"fine-grain": [], "uniform": []}
    for m in (20, 50, 200, 1000, 5000, 15_000):
        _time(zipf(m, 1.0, rows=3_000_000), 30, m, by_m)
    title = "Planning time by m, ZIP, theta = 30."
    return [], [*found, Series("Figure 30", title, "m", "seconds", by_m)]


def _time(counts: IntArray, theta: int, x: float, lines: Lines) -> None:
    table = histogram(counts)
    began = time.process_time()
    gammas = FineRhoPrivacy(theta=Fraction(theta)).odds_limits(table)
    uniform = uniform_retention(gammas)
    lines["uniform"].append((x, time.process_time() - began))
    top = best_top(as_floats(gammas), counts / counts.sum(), float(uniform / 4))
    drawable(gammas, top, uniform / 4)
    lines["fine-grain"].append((x, time.process_time() - began))
