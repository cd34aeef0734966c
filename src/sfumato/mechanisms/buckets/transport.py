"""Transportation on counts: can these parts take these records, and if not, why not?

For a given setting the question is a maximum flow from values (o_x) to parts (S_j b_j) through
edges of capacity ⌊f'_x S_j⌋ b_j. Where it falls short, the minimum cut is a set of parts whose
records no assignment can provide: the Gale–Hall condition that Example 5 violates (errata F5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.draws import BoolArray, IntArray

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


def transport(supplies: IntArray, demands: IntArray, capacities: IntArray) -> Flow:
    """A maximum flow from `supplies` (values) to `demands` (parts).

    Cost: Dinic's algorithm on m·q edges. Totals beyond 32 bits are solved on the high bits first;
    what is then left to route is small.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    parts, values = capacities.shape
    source, sink = values + parts, values + parts + 1
    part, value = np.nonzero(capacities)
    tails = np.concatenate(
        [np.full(values, source), values + np.arange(parts), value, values + part]
    )
    heads = np.concatenate([np.arange(values), np.full(parts, sink), values + part, value])
    amounts, movable = np.zeros_like(capacities), min(int(demands.sum()), int(supplies.sum()))
    while True:
        shift = max(movable.bit_length() - _BITS, 0)
        flowing = amounts[part, value]
        room = np.concatenate(
            [
                supplies - amounts.sum(axis=0),
                demands - amounts.sum(axis=1),
                capacities[part, value] - flowing,
                flowing,
            ]
        )
        units = (np.minimum(room, max(movable, 1)) >> shift).astype(np.int32)
        graph = csr_array((units, (tails, heads)), shape=(sink + 1, sink + 1))
        graph.eliminate_zeros()
        moved = maximum_flow(graph, source, sink).flow
        amounts[part, value] += (
            np.asarray(moved[value, values + part], np.int64).reshape(-1) << shift
        )
        if shift == 0:
            break
        # no path is left in units of 2**shift: a minimum cut has less than one unit per edge
        movable = min(movable, (capacities.size + values + parts) << shift)
    left = csr_array(graph - moved)
    left.data = (left.data > 0).astype(np.int32)
    left.eliminate_zeros()
    beyond, reaching = np.ones(sink + 1, np.bool_), np.zeros(sink + 1, np.bool_)
    beyond[breadth_first_order(left, source, return_predecessors=False)] = False
    reaching[breadth_first_order(left.T.tocsr(), sink, return_predecessors=False)] = True
    short = int(demands.sum()) - int(amounts.sum())
    return Flow(amounts, short, beyond[values:source], reaching[values:source])
