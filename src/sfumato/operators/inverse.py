"""The inverse of an operator with structure: what a record adds to every value, in O(m).

A record that shows the symbol y adds W[y, x] to the estimate of value x, W = P⁻¹ (methods, section
1). For every operator W[y, x] = own[y]·1{x is y's value} + left[y]·right[x], inside the
block (sub-table) of y and nothing outside it. So estimates, the sums of squares that their
variances need, and expected variances cost O(m): a column of 20,000 values is like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray


@dataclass(frozen=True, eq=False)
class Inverse:
    """W of one column. A *symbol* is what a record shows: a value, or a value and its block.

    >>> half = Inverse.of_values(own=np.full(2, 2.0), left=np.ones(2), right=np.full(2, -0.5))
    >>> half.weigh(np.eye(2)).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    >>> half.estimate(np.array([30.0, 10.0])).tolist()
    [40.0, 0.0]
    """

    values: int  # of the column
    codes: IntArray  # the value of every symbol
    blocks: IntArray  # its block
    own: FloatArray
    left: FloatArray
    right: FloatArray

    @classmethod
    def of_values(cls, own: FloatArray, left: FloatArray, right: FloatArray) -> Inverse:
        """Where a record shows a value and nothing else."""
        codes = np.arange(len(own))
        return cls(len(own), codes, np.zeros(len(own), np.int64), own, left, right)

    @classmethod
    def nothing_done(cls, values: int) -> Inverse:
        """Where records show the values that count."""
        return cls.of_values(np.ones(values), np.zeros(values), np.zeros(values))

    @classmethod
    def joined(cls, values: int, inside: list[tuple[IntArray, Inverse]]) -> Inverse:
        """Blocks side by side: the codes of the values of each, and its own inverse."""
        return cls(
            values,
            np.concatenate([codes for codes, _ in inside]),
            np.repeat(np.arange(len(inside)), [len(codes) for codes, _ in inside]),
            np.concatenate([inverse.own for _, inverse in inside]),
            np.concatenate([inverse.left for _, inverse in inside]),
            np.concatenate([inverse.right for _, inverse in inside]),
        )

    @property
    def many_blocks(self) -> int:
        return int(self.blocks.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> IntArray:
        """How many values each block has."""
        return np.bincount(self.blocks, minlength=self.many_blocks)

    @cached_property
    def spreads(self) -> BoolArray:
        """Which symbols add to values besides their own."""
        return np.asarray(self.left != 0, np.bool_)

    def _background(self, by_symbol: FloatArray, factors: FloatArray) -> FloatArray:
        """Σ of factors·by_symbol over the block of each symbol, along the last axis."""
        inside = product(by_symbol, factors)
        if self.many_blocks == 1:
            return np.broadcast_to(inside.sum(axis=-1, keepdims=True), inside.shape)
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.add.reduceat(inside, starts, axis=-1)[..., self.blocks]

    def estimate(self, shown: FloatArray) -> FloatArray:
        """n̂ = oW by symbol, along the last axis."""
        return np.asarray(self.own * shown + self.right * self._background(shown, self.left))

    def weigh(self, asked: FloatArray) -> FloatArray:
        """z = W·g along the last axis: what a record adds by what it shows, for a g by value."""
        inside = asked[..., self.codes]
        rest = self._background(inside, self.right)
        return np.asarray(product(self.own, inside) + product(self.left, rest))

    def pattern(self) -> Inverse:
        """Where the weights are not zero: everything that is something as 1."""
        left, right = ((factor != 0).astype(np.float64) for factor in (self.left, self.right))
        return replace(self, own=np.ones(len(self.own)), left=left, right=right)

    def variances(self, counts: FloatArray, shown: FloatArray) -> FloatArray:
        """Var(n̂) by symbol, = Σ_y o_y W[y, x]² − n_x for true counts n that show o on average."""
        alone = self.own * (self.own + 2 * self.left * self.right)
        whole = shown * alone + self.right**2 * self._background(shown, self.left**2) - counts
        return np.asarray(np.maximum(whole, 0.0))


def product(one: FloatArray, other: FloatArray) -> FloatArray:
    """What is not there adds nothing, whatever it would be multiplied with."""
    with np.errstate(invalid="ignore"):
        return np.where((one == 0) | (other == 0), 0.0, one * other)
