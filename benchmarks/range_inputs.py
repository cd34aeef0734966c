"""Ranges and sets on every input of the bars: GCP with its lower bound, the authors' beside it.

    python -m benchmarks.range_inputs [burel] [l=10] [l=5] [beta=3] [wide]   # all: 9 CPU minutes

Inputs: nine slices of 10,000 people of `occ100k` (from 10,000 to 100,000) and the first, three of
`sal500k`, ADULT with education for sensitive, and the first 10,000 of `occ100k` with 50 generated
values, zipf 0.5 to 0.8 and uniform. `wide` adds unblocked matching and one region of everybody.
Choices in the code were made on the slice from 10,000 and on generated values beside it. The
authors' figures are those that their program printed on the same quasi columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.heterogeneous import DATA, SLICES, STEPS, census, measured
from benchmarks.measure import print_table
from sfumato.datasets import read_adult
from sfumato.errors import InfeasibleGuarantee
from sfumato.table import Table, read

PEOPLE = 10_000
SKEWS = (0.5, 0.6, 0.7, 0.8)
PROMISES = {"l=10": "l-diversity(10)", "l=5": "l-diversity(5)", "beta=3": "beta-likeness(3)"}
FIRST = {"l=10": 0.1077, "l=5": 0.0800, "beta=3": 0.4039}
BUREL = {"first": 0.497, "zipf 0.5": 0.277, "zipf 0.8": 0.297, "uniform": 0.223}
WIDE = ("heterogeneous(block=none)", "heterogeneous(cut=none)")
Inputs = Mapping[str, Callable[[], Table]]


def skewed(theta: float, first: int = 0) -> Table:
    """The quasi columns of CENSUS, with 50 values whose shares are as rank^-theta."""
    weights = 1 / np.arange(1, 51) ** theta
    drawn = np.random.default_rng(4).choice(50, PEOPLE, p=weights / weights.sum())
    table = pq.read_table(DATA / "occ100k.parquet")
    lows = {column: int(table.column(column).to_numpy().min()) for column in STEPS}
    records = table.slice(first, PEOPLE).select(list(STEPS)).append_column("value", pa.array(drawn))
    return read(
        records,
        quasi=list(STEPS),
        sensitive="value",
        categorical=[c for c in STEPS if c not in ("age", "education")],
        domain={c: f"{lows[c]}..{lows[c] + steps}" for c, steps in STEPS.items()},
    )


def adult() -> Table:
    """Education is the commonest for a third of the people: l-diversity goes up to 3."""
    quasi = ["age", "workclass", "marital_status", "race", "sex", "native_country"]
    records = read_adult(DATA / "adult.data").slice(0, PEOPLE).select([*quasi, "education"])
    return read(records, quasi=quasi, sensitive="education")


def slices() -> Inputs:
    return {
        f"occ100k {first:,}": lambda first=first: census(
            "occ100k.parquet", PEOPLE, "occupation", first
        )
        for first in SLICES
    }


def others() -> Inputs:
    salaries = {
        f"sal500k {first:,}": lambda first=first: census(
            "sal500k.parquet", PEOPLE, "salary_class", first
        )
        for first in (0, 200_000, 400_000)
    }
    generated = {f"zipf {theta}": lambda theta=theta: skewed(theta) for theta in SKEWS}
    return {
        "first": lambda: census("occ100k.parquet", PEOPLE, "occupation"),
        **salaries,
        "adult": adult,
        **generated,
        "uniform": lambda: skewed(0),
    }


def lines(
    inputs: Inputs, promise: str, way: str, authors: Mapping[str, float]
) -> Iterator[tuple[str, float | None, tuple[str, ...]]]:
    """The name of each input, its GCP, and the cells of its line."""
    for name, made in inputs.items():
        try:
            found, least, seconds = measured(made(), promise, way)
        except InfeasibleGuarantee:
            yield name, None, (name, "cannot be kept", "", "", "", "")
            continue
        theirs = authors.get(name)
        beside = ("", "") if theirs is None else (f"{theirs:.3f}", f"{found / theirs:.2f}")
        yield name, found, (name, f"{found:.4f}", f"{least:.4f}", *beside, f"{seconds:.1f}")


def section(inputs: Inputs, promise: str, way: str, authors: Mapping[str, float]) -> None:
    found = list(lines(inputs, promise, way, authors))
    kept = {name: gcp for name, gcp, _ in found if gcp is not None}
    nine = [gcp for name, gcp in kept.items() if name.startswith("occ100k")]
    means = [("mean of all", mean(kept.values()))] + ([("nine slices", mean(nine))] if nine else [])
    rows = [cells for _, _, cells in found]
    rows += [(name, f"{value:.4f}", "", "", "", "") for name, value in means]
    heads = ("input", "GCP", "lower bound", "authors", "of theirs", "CPU s")
    print_table(f"{promise}, {way}", heads, rows)


def main(asked: set[str]) -> None:
    every = {**slices(), **others()}
    for name, promise in PROMISES.items():
        if name not in asked:
            continue
        section(every, promise, "heterogeneous", {"first": FIRST[name]})
        if "wide" in asked:
            for way in WIDE:
                section(slices(), promise, way, {})
    if "l=5" in asked or "l=10" in asked:
        section({"adult": adult}, "l-diversity(3)", "heterogeneous", {})
    if "burel" in asked:
        for way in ("burel(classes=curve)", "burel"):
            section(every, "beta-likeness(3)", way, BUREL)


if __name__ == "__main__":
    main(set(sys.argv[1:]) or {*PROMISES, "burel", "wide"})
