"""Transportation on counts: can these parts take these records, and if not, why not?

For a given setting the question is a maximum flow from values (o_x) to parts (S_j b_j) through
edges of capacity ⌊f'_x S_j⌋ b_j. Where it falls short, the minimum cut is a set of parts whose
records no assignment can provide: the Gale–Hall condition that Example 5 violates (errata F5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.draws import BoolArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_BITS = 30  # scipy's flows are 32-bit with a sign


@dataclass(frozen=True, eq=False)
class Flow:
    """An integral flow; `amounts` is parts by values.

    `short` is how much is missing; where something is, `source_side` and `sink_side` mark the
    parts that lie beyond two minimum cuts (the one nearest the values, the one nearest the parts).
    """

    amounts: IntArray
    short: int
    source_side: BoolArray
    sink_side: BoolArray


def transport(
    supplies: IntArray,
    demands: IntArray,
    capacities: IntArray,
    start: IntArray | None = None,
) -> Flow:
    """A maximum flow from `supplies` (values) to `demands` (parts), grown from `start`.

    Cost: Dinic's algorithm on m·q edges. Totals beyond 32 bits are solved on the high bits first;
    what is then left to route is small.
    """
    amounts = np.zeros_like(capacities) if start is None else start.copy()
    movable = min(int(demands.sum()), int(supplies.sum()))
    while True:
        shift = max(movable.bit_length() - _BITS, 0)
        short, cuts = _augment(supplies, demands, capacities, amounts, movable, shift)
        if shift == 0:
            return Flow(amounts, short, *cuts)
        # no path is left in units of 2**shift: a minimum cut has less than one unit per edge
        edges = capacities.size + len(supplies) + len(demands)
        movable = min(movable, edges << shift)


def _augment(
    supplies: IntArray,
    demands: IntArray,
    capacities: IntArray,
    amounts: IntArray,
    movable: int,
    shift: int,
) -> tuple[int, tuple[BoolArray, BoolArray]]:
    """Add to `amounts` the most that fits in units of 2**shift; returns what stays short.

    No more than `movable` can be added at all.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    parts, values = capacities.shape
    source, sink = values + parts, values + parts + 1
    supply_left = supplies - amounts.sum(axis=0)
    demand_left = demands - amounts.sum(axis=1)
    part_of, value_of = np.nonzero(capacities)
    forward = (capacities - amounts)[part_of, value_of]
    backward = amounts[part_of, value_of]
    tails = [np.full(values, source), values + np.arange(parts), value_of, values + part_of]
    heads = [np.arange(values), np.full(parts, sink), values + part_of, value_of]
    room = np.concatenate([supply_left, demand_left, forward, backward])
    units = (np.minimum(room, max(movable, 1)) >> shift).astype(np.int32)
    graph = csr_array(
        (units, (np.concatenate(tails), np.concatenate(heads))), shape=(sink + 1, sink + 1)
    )
    graph.eliminate_zeros()
    result = maximum_flow(graph, source, sink)
    moved = np.asarray(_dense(result.flow, value_of, values + part_of), np.int64) << shift
    amounts[part_of, value_of] += moved
    residual = graph - result.flow
    residual.data = (residual.data > 0).astype(np.int32)
    residual.eliminate_zeros()
    beyond = np.ones(sink + 1, np.bool_)
    beyond[breadth_first_order(residual, source, return_predecessors=False)] = False
    reaching = np.zeros(sink + 1, np.bool_)
    reaching[breadth_first_order(residual.T.tocsr(), sink, return_predecessors=False)] = True
    short = int(demands.sum()) - int(amounts.sum())
    places = slice(values, values + parts)
    return short, (beyond[places], reaching[places])


def _dense(flow: csr_array[Any], rows: IntArray, columns: IntArray) -> IntArray:
    picked = flow[rows, columns]
    return np.asarray(picked.toarray() if hasattr(picked, "toarray") else picked).reshape(-1)
