"""The setting of least loss with any number of sizes, and how far it may be from the best.

Only the numbers of buckets b_S need to be integers: who goes where is a transportation problem
(errata F12). So the search runs over the b_S alone, at most `max_size` of them however many values
there are. For a set T of sizes and a set X of values, whatever fills the buckets of T must come
from X entirely or through the room that T has for the others (Gale–Hall, errata F5):

    Σ_{S∈T} (S − Σ_{x∉X} ⌊f'_x S⌋) b_S  ≤  Σ_{x∈X} o_x .

These cuts describe the valid settings exactly. They are found on demand, by maximum flow: first
for the linear program (whose optimum is the bound), then for its rounding to integers, until a
setting passes the exact flow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.settings import Choice, Limits, loss, setting_of
from sfumato.mechanisms.buckets.transport import Flow, transport
from sfumato.mechanisms.solver import mixed_integer
from sfumato.operators.base import FloatArray

_UNITS = 1e6  # the linear program sees at most this many records
_EXACT = 1e-9  # of the linear optimum, which is as exact as its solver: no proof
_NODES = 200  # of branch and bound per rounding: nodes, not seconds, so that plans repeat
_GAP = 5e-5  # of the loss: a rounding this close to the linear optimum is good enough
_REACH = (8, 1024, 1 << 40)  # buckets around the linear optimum: small numbers keep HiGHS exact


def optimal_setting(counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
    """The best valid setting with sizes up to `max_size`; None where there is none.

    >>> from fractions import Fraction as F
    >>> best = optimal_setting(np.array([4, 4, 3, 2, 1]), Limits((F(1, 3),) * 5), 5)
    >>> best.setting, best.bound <= loss(best.setting)
    ((SizedBuckets(size=3, buckets=2), SizedBuckets(size=4, buckets=2)), True)
    """
    if int(counts.sum()) == 0:
        return Choice((), np.zeros((0, len(counts)), np.int64), Fraction(0))
    sizes = limits.usable_sizes(counts, max_size)
    search = _CutSearch(counts, sizes, limits.table(sizes))
    near = search.linear() if len(sizes) else None
    if near is None:
        return None
    # losses are integers
    bound = Fraction(math.ceil(float(near @ search.losses) * (1 - _EXACT)))
    whole = (search.rounded(near, reach) for reach in _REACH)
    buckets = next((numbers for numbers in whole if numbers is not None), None)
    heuristic = recursive_multi_size(counts, limits, max_size)
    if buckets is None or (heuristic and loss(heuristic.setting) < int(buckets @ search.losses)):
        return heuristic and Choice(heuristic.setting, heuristic.shares, bound)
    shares = search.flow(buckets).amounts[buckets > 0]
    return Choice(setting_of(sizes, buckets), shares, bound)


@dataclass(eq=False)
class _CutSearch:
    """The cuts found so far, for one table and its usable sizes."""

    counts: IntArray
    sizes: IntArray
    allowed: IntArray
    cuts: dict[bytes, tuple[IntArray, int]] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return int(self.counts.sum())

    @property
    def losses(self) -> IntArray:
        return (self.sizes - 1) ** 2

    def flow(self, buckets: IntArray, scale: int = 1) -> Flow:
        """Fill `buckets` with `scale` times the records."""
        capacities = np.minimum(self.allowed * buckets[:, None], (self.counts * scale)[None, :])
        return transport(self.counts * scale, self.sizes * buckets, capacities)

    def cut_off(self, flow: Flow, buckets: IntArray, scale: int = 1) -> bool:
        """Add the cuts that a failed flow shows, tightest at `buckets`; False where they are known
        already."""
        before = len(self.cuts)
        for chosen in (flow.source_side, flow.sink_side):
            through = buckets[chosen] @ self.allowed[chosen]
            supplied = self.counts * scale < through  # X: its records fit into the chosen sizes
            row = np.where(chosen, self.sizes - self.allowed[:, ~supplied].sum(axis=1), 0)
            limit = int(self.counts[supplied].sum())
            self.cuts[row.tobytes() + str(limit).encode()] = row, limit
        return len(self.cuts) > before

    def linear(self) -> FloatArray | None:
        """The b_S of the linear program; None if infeasible."""
        # buckets become integers by scaling: cuts are valid wherever they are taken from
        scale = max(1, (1 << 30) // self.records)
        rounding = int(self.sizes.sum())  # what that may shift, in scaled records
        unit = max(self.records / _UNITS, 1.0)  # the solver's tolerances are absolute
        while True:
            solved = self._solved(0 * self.sizes, np.full(len(self.sizes), np.inf), unit, 0, {})
            if solved is None:
                return None
            buckets = np.rint(solved * scale).astype(np.int64)
            flow = self.flow(buckets, scale)
            if flow.short <= rounding or not self.cut_off(flow, buckets, scale):
                return solved

    def rounded(self, near: FloatArray, reach: int) -> IntArray | None:
        """Integers b_S not far from the linear optimum: the best under the cuts, cut again by the
        exact flow until it passes."""
        floor = np.floor(near + 1e-6).astype(np.int64)
        base = np.maximum(floor - reach, 0)
        width = np.minimum(floor + reach + 1, self.records // self.sizes + 1) - base
        above = float(self.losses @ (near - base))  # the linear optimum's cost beyond the base
        gap = _GAP * float(self.losses @ near) / above if above > 0 else 0.0
        options = {"mip_rel_gap": min(gap, 0.5), "node_limit": _NODES, "presolve": False}
        while True:
            solved = self._solved(base, width, 1.0, 1, options)
            if solved is None:
                return None
            buckets = base + np.rint(solved).astype(np.int64)
            if int(buckets @ self.sizes) != self.records:
                return None
            flow = self.flow(buckets)
            if flow.short == 0:
                return buckets
            if not self.cut_off(flow, buckets):
                return None

    def _solved(
        self,
        base: IntArray,
        width: IntArray | FloatArray,
        unit: float,
        integral: int,
        options: Mapping[str, object],
    ) -> FloatArray | None:
        """The least loss under the cuts, of buckets beyond a base, records counted in a unit."""
        from scipy.optimize import Bounds, LinearConstraint

        left = (self.records - int(base @ self.sizes)) / unit
        constraints = [LinearConstraint(self.sizes[None, :].astype(np.float64), left, left)]
        if self.cuts:
            rows, limits = map(np.array, zip(*self.cuts.values(), strict=True))
            room = (limits - rows @ base) / unit
            constraints.append(LinearConstraint(rows.astype(np.float64), -np.inf, room))
        solved = mixed_integer(
            self.losses.astype(np.float64),
            constraints=constraints,
            integrality=np.full(len(base), integral),
            bounds=Bounds(0, width),
            options=options,
        )
        return None if solved.x is None else np.asarray(solved.x) * unit
