"""Several columns in shared buckets: one mixed model in bucket space (methods, 10.12).

Slots are dealt to *combinations* z of values, so the law of one column is not that of its values
alone. Every value of every column is a *mark*; Z says which marks a combination has. In a group,
combination z deviates by f_k·D_kz·(Σ over its marks of δ + ε_z), with δ ~ N(0, τ_j²) for the marks
of column j and ε_z ~ N(0, ω²), in all blocks the same δ. Of bucket g, that lists c_g of |g|, is
known how many more people it has in the group than its block would lead to expect:

    y_g = n_A(g) − a_k|g|  has the mean f_k(c_g − |g|·D_k/N_k)·Zδ
                           and the variance f_k|g| + ω²f_k² Σ_z c_gz².

Buckets with nearly the same f_k·Σ_z c_gz²/|g| are a *level*, so that what a law is fitted to are
sums over levels: matrices of marks by marks. τ_1 … τ_J and ω are the likeliest on a grid (steps of
√2), under a wide prior on their logarithms. For people who have w(z) of what is asked for,

    n̂ = Σ_z w_z·o_z + L·δ̂,   L = Σ_k f_k[Σ_z w_z·D_kz·Z_z − Σ_g (c_g·w/|g|)·c_g·Z].

The deviation of a column is believed to be normal and is not always: intervals reach to what is
believed with 25τ², too. With one block all groups share their matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import met_often

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_MARKS = 600  # that deviations are learnt for
# chosen on benchmarks.associated of seed 1; with 9 the fewest that held were 90 %, at 2 to 5 times
# what independence would have
_WIDER = 25.0  # τ² of the wider belief
_USUAL, _SPREAD = -1.0, 3.0  # of the logarithms of τ and ω: mean and standard deviation
_LEAST, _LARGEST = 1e-4, 1e2  # τ², ω²
_STRIDES = (6, 2, 1)  # of the search, in doublings of τ²
_PER_DOUBLING = 2  # levels of Σ c²/|g|
_UNSEEN = 1e-7  # of the largest eigenvalue: directions with less tell nothing


@dataclass(frozen=True, eq=False)
class MarkTable:
    """What the buckets list of all columns, and the block of every bucket."""

    combined: csr_array  # counts by (bucket, combination)
    marks_of: csr_array  # Z
    column: IntArray  # of every mark
    block: IntArray
    rows: FloatArray  # N_k

    @cached_property
    def sizes(self) -> FloatArray:
        return np.asarray(self.combined.sum(axis=1), np.float64)

    @cached_property
    def marks(self) -> Any:
        """Counts by (bucket, mark); of no mark, where there are too many to learn of."""
        many = len(self.column) if self.is_learnable else 0
        return (self.combined @ self.marks_of)[:, :many]

    @property
    def is_learnable(self) -> bool:
        return len(self.column) <= MOST_MARKS

    @cached_property
    def in_block(self) -> csr_array:
        """1 by (block, bucket)."""
        from scipy.sparse import csr_array

        places = self.block, np.arange(len(self.block))
        return csr_array((np.ones(len(self.block)), places), (len(self.rows), len(self.block)))

    @cached_property
    def expected(self) -> FloatArray:
        """M_k/N_k by (block, mark)."""
        return np.asarray((self.in_block @ self.marks).toarray() / self.rows[:, None])

    @cached_property
    def crowding(self) -> FloatArray:
        """Σ_z c_gz²/|g| by bucket."""
        return np.asarray(self.combined.power(2).sum(axis=1), np.float64) / self.sizes

    @cached_property
    def one_block(self) -> MarkSystem:
        return MarkSystem(self, np.ones(1))


class MarkSystem:
    """Matrices of marks by marks for the buckets of blocks with these f_k, by level."""

    def __init__(self, table: MarkTable, free: FloatArray) -> None:
        self.table, self.free = table, free[table.block]
        crowding = self.free * table.crowding
        partly = np.flatnonzero(crowding > 0)
        doublings = np.rint(_PER_DOUBLING * np.log2(crowding[partly])).astype(np.int64)
        levels, inverse = np.unique(doublings, return_inverse=True)
        self.crowding = np.exp2(levels / _PER_DOUBLING)
        self.inside = [partly[inverse == level] for level in range(len(levels))]
        self.seen = np.stack(
            [self._seen(level) for level in self.inside] or [np.zeros(2 * table.marks.shape[1:])]
        )[: len(levels)]

    def _seen(self, level: IntArray) -> FloatArray:
        """Σ_g f_k|g|·xxᵀ over the buckets of a level, x = c_g·Z/|g| − M_k/N_k."""
        table, weights = self.table, self.free[level]
        if not table.is_learnable:
            return np.zeros((0, 0))
        marks, expected = table.marks[level], table.expected
        in_block = table.in_block[:, level] * weights
        beside = (in_block @ marks).toarray().T @ expected
        number = np.asarray(in_block @ table.sizes[level])
        met = met_often(marks, weights / table.sizes[level])
        met = met if isinstance(met, np.ndarray) else met.toarray()
        return np.asarray(met - beside - beside.T + (expected.T * number) @ expected)

    @cached_property
    def blind(self) -> tuple[FloatArray, FloatArray]:
        """What makes marks comparable, and the directions that no bucket tells anything of."""
        whole = self.seen.sum(axis=0)
        root = np.sqrt(np.maximum(np.diagonal(whole), 1e-12))
        values, vectors = np.linalg.eigh(whole / root / root[:, None])
        return 1 / root, vectors[:, values <= _UNSEEN * values.max(initial=0.0)]

    def shown(self, beyond: FloatArray) -> FloatArray:
        """Σ_g x·y_g by (level, mark, …), of y by (bucket, …)."""
        table, flat = self.table, beyond.reshape(len(beyond), -1)
        by_level = [
            table.marks[level].T @ (flat[level] / table.sizes[level, None])
            - table.expected.T @ (table.in_block[:, level] @ flat[level])
            for level in self.inside
        ]
        shape = len(self.inside), self.seen.shape[1], *beyond.shape[1:]
        return np.reshape(by_level, shape)

    def squares(self, beyond: FloatArray) -> FloatArray:
        """Σ_g y_g²/(f_k|g|) by (level, …)."""
        by_level = [
            (1 / (self.free[level] * self.table.sizes[level])) @ beyond[level] ** 2
            for level in self.inside
        ]
        return np.reshape(by_level, (len(self.inside), *beyond.shape[1:]))

    def law(self, point: IntArray, asked: Any, shares: Any) -> MarkLaw:
        """With ω² and the τ_j² of a point of the grid."""
        noise, root = self._at(point)
        seen = _summed(1 / noise, self.seen) * root * root[:, None]
        values, vectors = np.linalg.eigh(seen)
        return MarkLaw(
            self, asked, shares, noise, root, vectors, np.maximum(values, 0.0), np.exp2(point[0])
        )

    def _at(self, point: IntArray) -> tuple[FloatArray, FloatArray]:
        """1 + ω²·crowding by level, and τ by mark."""
        columns = self.table.column[: self.seen.shape[1]]
        return 1 + np.exp2(point[0]) * self.crowding, np.sqrt(np.exp2(point[1:])[columns])

    def likely(self, point: IntArray, shown: FloatArray, squares: FloatArray) -> FloatArray:
        """The log likelihood of groups at a point of the grid."""
        from scipy.linalg.lapack import dposv

        noise, root = self._at(point)
        seen = _summed(1 / noise, self.seen) * root * root[:, None]
        seen[np.diag_indices_from(seen)] += 1
        moved = root[:, None] * _summed(1 / noise, shown)
        factor, solved, _ = dposv(seen, moved)
        many = np.array([len(level) for level in self.inside])
        size = many @ np.log(noise) + 2 * np.log(np.diagonal(factor)).sum()
        return np.asarray(((moved * solved).sum(axis=0) - (1 / noise) @ squares - size) / 2)

    def likeliest(self, shown: FloatArray, squares: FloatArray, scale: FloatArray) -> IntArray:
        """By group: the doublings of ω² and of every τ_j², times the group's scale."""
        columns = int(self.table.column.max()) + 1 if self.seen.shape[1] else 0
        groups, axes = len(scale), columns + 1
        offset = np.log2(np.maximum(scale, 1e-300))
        low, high = (np.rint(np.log2(end) + offset) for end in (_LEAST, _LARGEST))
        start = np.rint(2 * _USUAL / np.log(2) + offset).astype(np.int64)
        points = np.repeat(start[:, None], axes, axis=1)
        if not columns:  # nothing is learnt: people deviate by as much as would be much
            return points + 2
        best = self._judged(points, shown, squares, offset)
        steps = np.concatenate([np.eye(axes, dtype=np.int64), -np.eye(axes, dtype=np.int64)])
        for stride in _STRIDES:
            going = np.arange(groups)
            while len(going):
                moved = points[going, None] + stride * steps
                moved = np.clip(moved, low[going, None, None], high[going, None, None])
                moved = moved.astype(np.int64)
                group = np.repeat(going, len(steps))
                judged = self._judged(
                    moved.reshape(-1, axes), shown[..., group], squares[:, group], offset[group]
                ).reshape(len(going), -1)
                chosen = judged.argmax(axis=1)
                better = judged.max(axis=1) > best[going] + 1e-9
                going, moved = going[better], moved[better, chosen[better]]
                points[going], best[going] = moved, judged[better].max(axis=1)
        return points

    def _judged(
        self, points: IntArray, shown: FloatArray, squares: FloatArray, offset: FloatArray
    ) -> FloatArray:
        """Log likelihood and prior of groups, each at a point of its own."""
        logs = (points - offset[:, None]) * (np.log(2) / 2)
        judged = -(((logs - _USUAL) / _SPREAD) ** 2).sum(axis=1) / 2
        for groups, point in _alike(points):
            judged[groups] += self.likely(point, shown[..., groups], squares[:, groups])
        return np.asarray(judged)


@dataclass(frozen=True, eq=False)
class MarkLaw:
    """Fitted: what a system tells of a table's values, for a scale of 1."""

    system: MarkSystem
    asked: csr_array  # by (combination, value)
    shares: csr_array  # of the values by bucket
    noise: FloatArray  # by level
    root: FloatArray  # τ by mark
    vectors: FloatArray  # of the information on δ/τ
    values: FloatArray
    apart: float  # ω²

    @cached_property
    def people(self) -> FloatArray:
        """Σ_k f_k·D_k by combination."""
        return np.asarray(self.system.free @ self.system.table.combined)

    @cached_property
    def carried(self) -> FloatArray:
        """L by (value, mark)."""
        table, many = self.system.table, self.system.seen.shape[1]
        together = self.asked.T @ (table.marks_of[:, :many] * self.people[:, None])
        return np.asarray(
            (together - (self.shares * self.system.free[:, None]).T @ table.marks).toarray()
        )

    def along(self, shown: FloatArray) -> FloatArray:
        """What is shown of δ/τ, by (direction, …)."""
        moved = _summed(1 / self.noise, shown)
        return np.asarray(np.tensordot(self.vectors.T, (moved.T * self.root).T, axes=1))

    def left(self, along: FloatArray, wider: float = 1.0) -> FloatArray:
        """Of squares of linear forms of δ/τ, by (pair, direction): the variance that is left."""
        return np.asarray(along @ (wider / (1 + wider * self.values)))

    def chance(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """uᵀ·Cov(n | δ, o)·w, of linear forms u and w by (pair, value)."""
        table, free, parts = self.system.table, self.system.free, []
        for form in (one, other):
            shown = np.asarray((self.shares @ form.T).T)
            apart = np.asarray((self.asked @ form.T).T) * self.people
            apart -= np.asarray((table.combined.T @ (shown * free).T).T)
            parts.append((shown, apart))
        (first, apart), (second, beside) = parts
        listed = (one * other) @ (self.asked.T @ self.people)
        covariance = listed - (first * second) @ (free * table.sizes)
        return np.asarray(covariance + self.apart * (apart * beside).sum(axis=1))


@dataclass(frozen=True, eq=False)
class MarkDeviations:
    """What groups have of every value beyond what is shown, as `Deviations` has it."""

    laws: Sequence[MarkLaw]
    which: IntArray  # the law of every group
    scale: FloatArray  # by group
    shown: FloatArray  # along the directions of its law, by (group, direction, weight)

    @classmethod
    def of(
        cls,
        system: MarkSystem,
        beyond: FloatArray,
        scale: FloatArray,
        reference: IntArray,
        asked: Any,
        shares: Any,
    ) -> MarkDeviations:
        """Groups that share a system, with y by (bucket, group, weight)."""
        shown, groups = system.shown(beyond), np.arange(len(scale))
        told = np.maximum(scale, 1e-300)
        points = system.likeliest(
            shown[:, :, groups, reference] / np.sqrt(told),
            system.squares(beyond[:, groups, reference]) / told,
            scale,
        )
        laws: list[MarkLaw] = []
        which = np.zeros(len(scale), np.int64)
        along = np.zeros((len(scale), system.seen.shape[1], beyond.shape[2]))
        for chosen, point in _alike(points):
            which[chosen] = len(laws)
            laws.append(system.law(point, asked, shares))
            along[chosen] = np.moveaxis(laws[-1].along(shown[:, :, chosen]), 1, 0)
        return cls(laws, which, scale, along)

    @classmethod
    def joined(cls, parts: Sequence[MarkDeviations]) -> MarkDeviations:
        """One group after the other, each with a law of its own."""
        return cls(
            [part.laws[0] for part in parts],
            np.arange(len(parts)),
            np.concatenate([part.scale for part in parts]),
            np.concatenate([part.shown for part in parts]),
        )

    def moved(self) -> dict[str, FloatArray]:
        """L·δ̂ by (group, value, weight): as believed, and with the wider belief."""
        values = self.laws[0].asked.shape[1] if self.laws else 0
        shape = len(self.which), values, self.shown.shape[2]
        by_estimator = {name: np.zeros(shape) for name in ("shrunk", "inverse", "shown")}
        for number, law in enumerate(self.laws):
            groups = np.flatnonzero(self.which == number)
            for name, wider in (("shrunk", 1.0), ("inverse", _WIDER)):
                gain = wider / (1 + wider * law.values)
                along = law.vectors @ (gain[:, None] * self.shown[groups])
                by_estimator[name][groups] = law.carried @ (law.root[:, None] * along)
        return by_estimator

    def products(self, group: IntArray, one: FloatArray, other: FloatArray) -> FloatArray:
        """As `Deviations.products`; the noise is what the wider belief leaves open."""
        by_pair = np.zeros((6, len(one)))
        for number, law in enumerate(self.laws):
            pairs = np.flatnonzero(self.which[group] == number)
            if not len(pairs):
                continue
            scale = self.scale[group[pairs]]
            forms = [one[pairs]] if one is other else [one[pairs], other[pairs]]
            carried = [form @ law.carried for form in forms]
            along = [(form * law.root) @ law.vectors for form in carried]
            both = along[0] * along[-1]
            comparable, blind = law.system.blind
            needed = [form * comparable for form in carried]
            unseen = [form @ blind for form in needed]
            by_pair[:, pairs] = [
                scale * law.chance(forms[0], forms[-1]),
                scale * law.left(both),
                scale * law.left(both, _WIDER),
                scale * both.sum(axis=1),
                (unseen[0] * unseen[-1]).sum(axis=1),
                (needed[0] * needed[-1]).sum(axis=1),
            ]
            if not law.system.table.is_learnable:
                by_pair[4:, pairs] = 1.0
        return by_pair


def _summed(weights: FloatArray, by_level: FloatArray) -> FloatArray:
    """Sums over levels."""
    shape = by_level.shape[1:]  # of no level, where blocks are wholly inside
    return np.asarray((weights @ by_level.reshape(len(weights), math.prod(shape))).reshape(shape))


def _alike(points: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Groups with the same point, and the point."""
    distinct, inverse = np.unique(points, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    starts = np.searchsorted(inverse.reshape(-1)[order], np.arange(1, len(distinct)))
    return zip(np.split(order, starts), distinct, strict=True)
