"""What blocks of buckets tell of a deviation that they share (methods, section 7).

`BlockTable` has the counts of the blocks and how values meet in their buckets; `Deviations` is what
follows from it for some groups of records: δ along the eigenvectors of P, and the variances of all
that is estimated with it. `operators.listed` says where the formulas come from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import met_often
from sfumato.operators.shrinkage import likeliest_spread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.operators.marks import MarkTable

_TOLD = 1e-7  # of the largest eigenvalue: directions with less tell nothing
# chosen on the first half of occ100k (methods, 10.3)
_DIFFER = 0.3  # of what a value has beyond independence: how far blocks differ in it
_MOST = 30.0
_ROUNDING = 1e-6  # of what single values need


@dataclass(frozen=True, eq=False)
class BlockTable:
    """All blocks of a release: `first` bucket, real records, and by value what is listed and shown
    on average; by bucket the `shares` of the values, and how many values it lists.

    With fake values among the listed ones, D and C are scaled to the real records, and `shown` is
    what the shares of the real ones would show.
    Values may be combinations of several columns, by their `codes`. With `marks` the buckets list
    other columns, too, and `asked` says which of their combinations have a value.
    """

    first: IntArray
    rows: FloatArray  # N_k
    counts: FloatArray  # real records by (block, value)
    listed: FloatArray  # D_k
    shown: FloatArray  # Mᵀ·counts
    shares: csr_array
    sizes: FloatArray
    codes: tuple[IntArray, ...] = ()
    marks: MarkTable | None = None
    asked: csr_array | None = None

    @classmethod
    def of(
        cls,
        shares: csr_array,
        sizes: FloatArray | IntArray,
        first: IntArray,
        counts: FloatArray | None = None,
        codes: tuple[IntArray, ...] = (),
    ) -> BlockTable:
        """From what the buckets list and the first bucket of every block.

        `counts` are those of real records; None where nothing else is listed.

        >>> from scipy.sparse import csr_array
        >>> shares = csr_array(np.array([[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]]))
        >>> table = BlockTable.of(shares, np.array([2.0, 2.0, 4.0]), np.array([0, 2]))
        >>> table.rows.tolist(), table.together.toarray()[1].reshape(3, 3).tolist()
        ([4.0, 4.0], [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
        """
        ends = [*first[1:].tolist(), len(sizes)]
        listed, rows, shown = [], [], []
        for number, (low, high) in enumerate(zip(first.tolist(), ends, strict=True)):
            inside = shares if len(first) == 1 else shares[low:high]
            whole = np.rint(sizes[low:high] @ inside)
            real = whole if counts is None else counts[number]
            scale = float(real.sum()) / max(float(whole.sum()), 1.0)
            # without fakes values are shown as often as they are listed
            met = counts is not None and met_often(inside, sizes[low:high])
            shown.append(whole if counts is None else met @ (real / np.maximum(whole, 1.0)))
            listed.append(whole * scale)
            rows.append(max(float(real.sum()), 1.0))
        every = np.stack(listed) if counts is None else counts
        return cls(
            first,
            np.array(rows),
            every,
            np.stack(listed),
            np.stack(shown),
            shares,
            np.asarray(sizes, np.float64),
            codes,
        )

    @cached_property
    def together(self) -> csr_array:
        """C_k, flat, by block."""
        from scipy.sparse import csr_array, vstack

        flat = []
        ends = [*self.first[1:].tolist(), len(self.sizes)]
        for number, (low, high) in enumerate(zip(self.first.tolist(), ends, strict=True)):
            met = met_often(self.shares[low:high], self.sizes[low:high])
            scale = self.listed[number].sum() / max(float(self.sizes[low:high].sum()), 1.0)
            flat.append(csr_array(met * scale).reshape((1, self.listed.shape[1] ** 2)))
        return csr_array(vstack(flat))

    @cached_property
    def one_block(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the only block: eigenvalues and vectors of Γ, and D − C; each for one matrix."""
        together = self.together.toarray().reshape(1, *2 * self.listed.shape[1:])
        hidden = np.diag(self.listed[0])[None] - together
        eigenvalues, vectors = _eigen(
            (together - self.listed[0][:, None] * self.listed[0] / self.rows)[0]
        )
        return eigenvalues[None], vectors[None], hidden

    def summed(self, weights: Any) -> tuple[FloatArray, FloatArray]:
        """Σ_k weight_k·D_k and Σ_k weight_k·C_k, by row of the weights (rows by blocks)."""
        values = self.listed.shape[1]
        together = (weights @ self.together).toarray()
        return np.asarray(weights @ self.listed), together.reshape(-1, values, values)

    def products(self, weights: Any) -> FloatArray:
        """Σ_k weight_k·D_kD_kᵀ/N_k, by row of the weights."""
        weighed = (weights * (1 / self.rows)).tocsr()
        by_row = []
        for low, high in itertools.pairwise(weighed.indptr.tolist()):
            inside = self.listed[weighed.indices[low:high]]
            by_row.append(inside.T @ (weighed.data[low:high, None] * inside))
        return np.stack(by_row) if by_row else np.zeros((0, *2 * self.listed.shape[1:]))

    def spectra(self, weights: Any, together: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues and vectors of Σ_k weight_k·(C_k − D_kD_kᵀ/N_k), by row of the weights.

        Of `together`, Σ_k weight_k·C_k. Where there are fewer buckets than values, directions
        that the buckets tell nothing of are left out.
        """
        inside = np.diff(np.append(self.first, len(self.sizes)))
        if 2 * ((weights > 0) @ inside).max(initial=0) <= self.listed.shape[1]:
            return self._spectra_of_buckets(weights)
        eigenvalues, vectors = np.linalg.eigh(together - self.products(weights))
        return np.maximum(eigenvalues, 0.0), vectors

    def _spectra_of_buckets(self, weights: Any) -> tuple[FloatArray, FloatArray]:
        """C − DDᵀ/N is Σ_g |g|·(s_g − s)(s_g − s)ᵀ, with s_g the shares of values in bucket g and s
        those in its block. So the vectors follow from a matrix of buckets by buckets."""
        ends, spectra = [*self.first[1:].tolist(), len(self.sizes)], []
        for row in range(weights.shape[0]):
            low, high = weights.indptr[row : row + 2].tolist()
            rises = []
            for block, weight in zip(
                weights.indices[low:high], weights.data[low:high], strict=True
            ):
                buckets = slice(int(self.first[block]), ends[block])
                away = self.shares[buckets].toarray() - self.listed[block] / self.rows[block]
                sizes = self.sizes[buckets]
                people = weight * sizes * (self.rows[block] / max(float(sizes.sum()), 1.0))
                rises.append(np.sqrt(people)[:, None] * away)
            whole = np.concatenate(rises) if rises else np.zeros((0, self.listed.shape[1]))
            eigenvalues, turned = np.linalg.eigh(whole @ whole.T)
            identified = eigenvalues > _TOLD * eigenvalues.max(initial=0.0)
            vectors = whole.T @ (turned[:, identified] / np.sqrt(eigenvalues[identified]))
            spectra.append((eigenvalues[identified], vectors))
        most = max((len(block_values) for block_values, _ in spectra), default=0)
        every = np.zeros((len(spectra), most))
        along = np.zeros((len(spectra), self.listed.shape[1], most))
        for row, (eigenvalues, vectors) in enumerate(spectra):
            every[row, : len(eigenvalues)], along[row, :, : len(eigenvalues)] = eigenvalues, vectors
        return every, along


@dataclass(frozen=True, eq=False)
class Deviations:
    """What groups have of every value beyond what is shown: L·δ + offset, δ along the vectors of P.

    Matrices stand once for all groups of `which`, for a `scale` of 1. The last axis of `shown` and
    `offset` has one place for every weight that is summed; τ² is told by the `reference`.
    """

    carried: FloatArray  # L by (matrix, value, value)
    vectors: FloatArray  # Q by (matrix, value, direction): all, or those that are told anything of
    values: FloatArray  # λ by (matrix, direction)
    chance: FloatArray  # Cov(n | δ, o) by (matrix, value, value)
    shown: FloatArray  # z by (group, direction, weight)
    offset: FloatArray  # by (group, value, weight)
    which: IntArray  # the matrix of every group
    scale: FloatArray  # by group
    reference: IntArray  # by group: a weight

    @classmethod
    def shared(
        cls,
        table: BlockTable,
        loose: Any,
        residual: FloatArray,
        reference: IntArray | None = None,
    ) -> Self:
        """Where all blocks share one δ: groups with these f (groups by blocks, sparse) and r.

        With one block all groups have its matrices, made once.
        """
        groups = loose.shape[0]
        if len(table.rows) == 1:
            eigenvalues, vectors, hidden = table.one_block
            which, scale = np.zeros(groups, np.int64), loose.toarray()[:, 0]
            along = np.swapaxes(residual, 1, 2) @ vectors
        else:
            listed, together = table.summed(loose)
            hidden = np.eye(listed.shape[1]) * listed[:, None] - together
            eigenvalues, vectors = table.spectra(loose, together)
            which, scale = np.arange(groups), np.ones(groups)
            along = np.swapaxes(residual, 1, 2) @ vectors
        offset = np.zeros_like(residual)
        shown = np.swapaxes(along, 1, 2)
        references = np.zeros(groups, np.int64) if reference is None else reference
        return cls(hidden, vectors, eigenvalues, hidden, shown, offset, which, scale, references)

    @classmethod
    def of_blocks(cls, blocks: Sequence[BlocksOfGroup]) -> Self:
        """Where blocks differ: the groups' own blocks, each with its deviation from δ."""
        parts = zip(*(block.deviation() for block in blocks), strict=True)
        carried, vectors, values, chance, shown, offset = (np.stack(part) for part in parts)
        every, scale = np.arange(len(blocks)), np.ones(len(blocks))
        reference = np.array([block.reference for block in blocks], np.int64)
        return cls(carried, vectors, values, chance, shown, offset, every, scale, reference)

    @cached_property
    def known(self) -> FloatArray:
        """λ by (group, direction)."""
        return self.scale[:, None] * self.values[self.which]

    @cached_property
    def spread(self) -> FloatArray:
        """τ² by group."""
        shown = self.shown[np.arange(len(self.reference)), :, self.reference]
        return likeliest(self.known, shown)

    def moved(self) -> dict[str, FloatArray]:
        """L·δ + offset by (group, value, weight), for every estimator by name."""
        by_estimator = {"shown": self.offset}
        for name, gain in (("shrunk", self.left), ("inverse", self.noise)):
            along = gain[:, :, None] * self.shown
            carried = np.empty_like(self.offset)
            for which, groups in _by_matrix(self.which):
                within = self.carried[which] @ (self.vectors[which] @ along[groups])
                carried[groups] = self.scale[groups, None, None] * within
            by_estimator[name] = self.offset + carried
        return by_estimator

    @property
    def left(self) -> FloatArray:
        """The variances of δ that are left, by (group, direction)."""
        return np.asarray(self.spread[:, None] / (1 + self.spread[:, None] * self.known))

    @property
    def told(self) -> BoolArray:
        """Which directions anything is known of."""
        return np.asarray(self.known > _TOLD * self.known.max(axis=1, initial=0.0)[:, None])

    @property
    def noise(self) -> FloatArray:
        """The variances of P⁺z."""
        return np.divide(1.0, self.known, out=np.zeros_like(self.known), where=self.told)

    def products(self, group: IntArray, one: FloatArray, other: FloatArray) -> FloatArray:
        """For two linear forms u, w by (pair, value): uᵀ·Cov(n | δ, o)·w, δ's left, noise and
        prior; and how much of what both need of δ nothing is known of.

        The covariance of estimates is the first, and one of the next three; shape (6, pairs), the
        last being all that both need of δ.
        """
        needed, covariance, size = (np.empty(len(one)) for _ in range(3))
        along, scale = np.empty((len(one), self.values.shape[1])), self.scale[group]
        same = one is other
        for matrix, pairs in _by_matrix(self.which[group]):  # not copied for every pair
            first = one[pairs] @ self.carried[matrix]
            second = first if same else other[pairs] @ self.carried[matrix]
            needed[pairs] = (first * second).sum(axis=1)
            turned = first @ self.vectors[matrix]
            along[pairs] = turned * (turned if same else second @ self.vectors[matrix])
            covariance[pairs] = ((one[pairs] @ self.chance[matrix]) * other[pairs]).sum(axis=1)
            diagonal = np.diagonal(self.carried[matrix]) ** 2
            size[pairs] = np.abs(one[pairs] * other[pairs]) @ diagonal
        size, needed = size * scale**2, needed * scale**2
        along, covariance = along * scale[:, None] ** 2, covariance * scale
        learned = self.spread[:, None] * self.left * self.known  # of directions left out: nothing
        prior = self.spread[group] * needed
        left = prior - (along * learned[group]).sum(axis=1)
        unseen = needed - (along * self.told[group]).sum(axis=1)
        if same:
            left, unseen, covariance = (
                np.maximum(part, 0.0) for part in (left, unseen, covariance)
            )
        noise = (along * self.noise[group]).sum(axis=1)
        return np.stack(
            [covariance, left, noise, prior, unseen, np.maximum(needed, _ROUNDING * size)]
        )


@dataclass(frozen=True, eq=False)
class BlocksOfGroup:
    """The blocks that a group is partly in: f_k, a_k, D_k, C_k and N_k; r_k for every weight."""

    free: FloatArray
    share: FloatArray
    listed: FloatArray
    together: FloatArray
    rows: FloatArray
    residual: FloatArray  # (block, value, weight)
    reference: int = 0

    @cached_property
    def seen(self) -> FloatArray:
        """G_k."""
        products = self.listed[:, :, None] * self.listed[:, None, :] / self.rows[:, None, None]
        return np.asarray(self.free[:, None, None] * (self.together - products))

    @cached_property
    def hidden(self) -> FloatArray:
        """H_k."""
        listed = np.eye(self.listed.shape[1]) * self.listed[:, None]
        return np.asarray(self.free[:, None, None] * (listed - self.together))

    def deviation(self) -> tuple[FloatArray, ...]:
        """L, Q, λ, chance, z and offset (methods, 10.3)."""
        every, residual = self.hidden.sum(axis=0), self.residual.sum(axis=0)
        eigenvalues, vectors = _eigen(self.seen.sum(axis=0))
        if len(self.free) < 2:
            return every, vectors, eigenvalues, every, vectors.T @ residual, np.zeros_like(residual)
        values, differ = len(every), self.differing(eigenvalues, vectors)
        right = np.concatenate([self.seen, self.residual], axis=2)
        solved = np.linalg.solve(np.eye(values) + self.seen * differ, right)
        kept, moved = solved[:, :, :values], solved[:, :, values:]  # A_k·G_k and A_k·r_k
        eigenvalues, vectors = _eigen(kept.sum(axis=0))
        scaled = self.hidden * differ  # H_k·Ω
        carried = every - (scaled @ kept).sum(axis=0)
        own_part = self.hidden - kept @ (differ[:, None] * self.hidden)
        chance, offset = every + (scaled @ own_part).sum(axis=0), (scaled @ moved).sum(axis=0)
        return carried, vectors, eigenvalues, chance, vectors.T @ moved.sum(axis=0), offset

    def differing(self, known: FloatArray, vectors: FloatArray) -> FloatArray:
        """Ω's diagonal: blocks differ the more, the more there is of a value beyond chance."""
        residual = self.residual[:, :, self.reference].sum(axis=0)
        along = vectors.T @ residual
        spread = float(likeliest(known[None], along[None])[0])
        delta = vectors @ (along * spread / (1 + spread * known))
        start = self.share @ self.listed
        shown = start + residual + self.hidden.sum(axis=0) @ delta
        ratio = np.divide(shown, start, out=np.ones_like(start), where=start > 0)
        return np.asarray(_DIFFER * np.clip(ratio, 1.0, _MOST) ** 2)


def _by_matrix(which: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The places of every matrix that is named."""
    order = np.argsort(which, kind="stable")
    distinct, starts = np.unique(which[order], return_index=True)
    return zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


def _eigen(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.maximum(eigenvalues, 0.0), vectors


def likeliest(known: FloatArray, shown: FloatArray) -> FloatArray:
    """τ² by row, from shown ~ N(0, Γ + τ²Γ²)."""
    identified = known > _TOLD * known.max(axis=1, initial=0.0)[:, None]
    return likeliest_spread(np.where(identified, known**2, 0.0), known, shown**2)
