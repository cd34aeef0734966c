"""What `--quasi-k` loses, beside a Mondrian partition at the same k.

    python -m benchmarks.quasi_k            # k = 5 on adult, 6 quasi columns (generated if absent)

Mondrian: the widest column first, cut at its median, strict; nobody is withheld by either. Both are
measured by the same global certainty penalty; categories have no hierarchy and are ordered by name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.datasets import census, read_adult
from sfumato.table.merging import Axis, certainty_penalty, classes

QUASI = ("age", "workclass", "education", "marital-status", "race", "sex")


def coded(table: pa.Table, names: Sequence[str]) -> tuple[list[Axis], Any, Any]:
    """Axes, distinct combinations and how many people have each."""
    axes, columns = [], []
    for name in names:
        values = table.column(name).combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        domain = values.unique()
        domain = domain.take(pa.compute.sort_indices(domain))
        ordered = pa.types.is_integer(domain.type) or pa.types.is_floating(domain.type)
        positions = domain.cast(pa.float64()).to_numpy() if ordered else None
        axes.append(Axis(len(domain), positions))
        columns.append(pa.compute.index_in(values, value_set=domain).to_numpy())
    places, people = np.unique(np.stack(columns), axis=1, return_counts=True)
    return axes, places.astype(np.int64), people


def mondrian(axes: Sequence[Axis], places: Any, people: Any, k: int) -> Any:
    """Strict Mondrian (LeFevre and others 2006)."""
    found, waiting, number = np.zeros(places.shape[1], np.int64), [np.arange(places.shape[1])], 0
    while waiting:
        members = waiting.pop()
        held = people[members]
        widths = [axis.penalty(own) for axis, own in zip(axes, places[:, members], strict=True)]
        for column in np.argsort(widths)[::-1]:
            own = places[column, members]
            order = np.argsort(own, kind="stable")
            middle = own[order][np.searchsorted(np.cumsum(held[order]), held.sum() / 2)]
            upper = next(
                (
                    u
                    for u in (own > middle, own >= middle)
                    if min(held[u].sum(), held[~u].sum()) >= k
                ),
                None,
            )
            if upper is not None:
                waiting += [members[~upper], members[upper]]
                break
        else:
            found[members], number = number, number + 1
    return found


def people_table() -> tuple[str, pa.Table, Sequence[str]]:
    """`adult`, as it comes; a generated census where it is absent."""
    folder = Path(os.environ.get("SFUMATO_DATA", "../shared/data"))
    files = [folder / "adult.data", folder / "adult.test"]
    if all(file.exists() for file in files):
        table = read_adult(*files)
        return "adult", table, [n for n in table.column_names if n.replace("_", "-") in QUASI]
    table = census(45_000, 1)
    return "census", table, ["age", "gender", "education", "marital", "race", "workclass"]


def main() -> None:
    k = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    label, table, names = people_table()
    axes, places, people = coded(table, names)
    print(
        f"{label}: {people.sum():,} people, {places.shape[1]:,} combinations of {', '.join(names)}"
    )
    for name, cut in (("mondrian", mondrian), ("quasi-k", classes)):
        began = time.process_time()
        found = cut(axes, places, people, k)
        seconds = time.process_time() - began
        smallest = int(np.bincount(found, people).min())
        lost = certainty_penalty(axes, places, people, found)
        print(
            f"{name:10} k = {k}: GCP {lost:.4f}, withheld 0, {found.max() + 1:,} classes, smallest "
            f"{smallest}, {seconds:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
