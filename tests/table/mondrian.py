"""A strict Mondrian partition, for `--quasi-k` to lose less than."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.table.merging import MergedAxis


def coded(table: pa.Table, names: Sequence[str]) -> tuple[list[MergedAxis], Any, Any]:
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
        axes.append(MergedAxis(len(domain), positions))
        columns.append(pa.compute.index_in(values, value_set=domain).to_numpy())
    places, people = np.unique(np.stack(columns), axis=1, return_counts=True)
    return axes, places.astype(np.int64), people


def mondrian(axes: Sequence[MergedAxis], places: Any, people: Any, k: int) -> Any:
    """Strict Mondrian (LeFevre and others 2006)."""
    found, waiting, number = np.zeros(places.shape[1], np.int64), [np.arange(places.shape[1])], 0
    while waiting:
        members = waiting.pop()
        held = people[members]
        widths = [
            axis.penalties(own)[-1] for axis, own in zip(axes, places[:, members], strict=True)
        ]
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
