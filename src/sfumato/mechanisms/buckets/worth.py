"""What a tree of cuts is worth: the error of counts in usual conditions, before buckets are filled.

The law is that of `operators.block_law`, taken for each value by itself. In a block with D_x of N
people values are told apart by τ_x, which follows from its best ladder (`accuracy`); where all have
the same ceiling t it is t − D_x/N, less what is lost because b buckets tell at most b values apart.
Of a condition that n_x of these people satisfy, the share a,

    Σ_k τ·(n − a·D) is shown of the deviation,  G = Σ_k f·τ·D tells of it,  f = a(1 − a),
    H = Σ_k f·D·(1 − D/N − τ) stays hidden,     and slots add the noise Σ_k f·D·τ·(1 − τ/(1 − D/N)).

A cut makes f and the deviation smaller, and τ smaller too where a value comes near its ceiling. All
of these are sums over blocks, so that a tree is pruned by adding and taking away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.branches import Branches
from sfumato.mechanisms.buckets.tree import Node
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import likeliest

_SMALLEST = 5.0  # people: smaller counts are noise whatever is done
_SIZES = np.log(4)  # counts up to four times as large are of one size


def over_whole(errors: FloatArray, whole: FloatArray, counts: FloatArray) -> float:
    """What errors are of those of the whole table's buckets, counts of every size weighing alike.

    >>> counts = np.array([9.0, 9.0, 900.0])
    >>> round(over_whole(np.array([1.0, 2.0, 9.0]), np.array([2.0, 2.0, 3.0]), counts), 9)
    1.875
    """
    return float(errors.reshape(-1) @ weights_by_size(whole, counts))


def weights_by_size(whole: FloatArray, counts: FloatArray) -> FloatArray:
    """Of every error, so that those of each size of count add up to a share of the `whole` ones."""
    held, errors = counts.reshape(-1), whole.reshape(-1)
    asked = (held >= _SMALLEST) & (errors > 0)
    size = np.where(asked, np.log(np.maximum(held, _SMALLEST) / _SMALLEST) / _SIZES, 0).astype(int)
    each = np.where(asked, 1 / np.sqrt(np.maximum(held, 1.0)), 0.0)
    totals = np.bincount(size, each * errors)
    return np.asarray(each / np.maximum(totals, 1e-300)[size] / max(int((totals > 0).sum()), 1))


class Worth:
    """For the branches of one table; `asked` are the people of its usual conditions, by value."""

    def __init__(self, branches: Branches, asked: FloatArray) -> None:
        self._branches = branches
        self._ceilings = np.minimum([float(each) for each in branches.limits.ceilings], 1.0)
        whole = self._errors(self.sums(branches.histogram.counts, asked))
        self._weights = weights_by_size(whole, asked).reshape(asked.shape)

    def told(self, counts: IntArray) -> FloatArray:
        """τ of a block with these counts; nothing where its people cannot fill the buckets."""
        people, present = max(float(counts.sum()), 1.0), counts > 0
        ceilings, found = self._ceilings[present], np.zeros(len(counts))
        least, most = float(ceilings.min(initial=1.0)), float(ceilings.max(initial=0.0))
        if least < most:
            branch = self._branches.of(counts)
            if len(branch.told):
                found[branch.codes] = branch.told
        elif least * people > present.sum():
            left = 1 - present.sum() / (least * people)
            found[present] = np.maximum(ceilings - counts[present] / people, 0.0) * left
        return np.minimum(found, 1 - counts / people)

    def sums(self, counts: IntArray, inside: FloatArray) -> FloatArray:
        """What a block adds: shown, G, H, noise and deviation by (condition, value)."""
        held, told = counts.astype(np.float64), self.told(counts)
        people = max(float(held.sum()), 1.0)
        share = inside.sum(axis=1)[:, None] / people
        away = inside - share * held
        free = np.maximum(share * (1 - share), 0.0) * held
        rest = 1 - held / people
        kept = 1 - np.divide(told, rest, out=np.ones_like(told), where=rest > 0)
        hidden = free * np.maximum(rest - told, 0.0)
        return np.stack(
            [told * away, free * told, hidden, free * told * np.maximum(kept, 0.0), away]
        )

    def error(self, sums: FloatArray) -> float:
        """The error of counts, given the sums over all blocks; that of the whole table is 1."""
        return float((self._weights * self._errors(sums)).sum())

    @staticmethod
    def _errors(sums: FloatArray) -> FloatArray:
        """By (condition, value)."""
        pulled, known, hidden, noise, away = sums
        # what is taken away again may leave a little less than nothing
        known, noise = np.maximum(known, 0.0), np.maximum(noise, 0.0)
        spread = likeliest(known, np.sqrt(pulled**2 + noise))[:, None]
        gain = 1 + hidden * spread / (1 + spread * known)
        return expected_absolute(gain * pulled - away, gain**2 * noise)

    def of_blocks(self, counts: IntArray, inside: FloatArray) -> tuple[float, FloatArray]:
        """The error with these blocks, and the sums over them."""
        sums = np.zeros((5, *self._weights.shape))
        for own, people in zip(counts, inside, strict=True):
            sums += self.sums(own, people)
        return self.error(sums), sums


def pruned(root: Node, inside: FloatArray, worth: Worth) -> tuple[Node, float]:
    """The tree without the cuts that make counts no better, and its error.

    `inside` are the people by (block, condition, value). Cuts are looked at from below, each with
    the rest of the tree as it then is.
    """
    counts = np.stack([node.counts for node in root.blocks()])
    error, sums = worth.of_blocks(counts, inside)
    return _Pruning(worth, iter(inside), error, sums).whole(root)


@dataclasses.dataclass(eq=False)
class _Pruning:
    worth: Worth
    blocks: Iterator[FloatArray]
    error: float  # of the tree as it is now, and its sums
    sums: FloatArray

    def whole(self, root: Node) -> tuple[Node, float]:
        node, _, _ = self._branch(root)
        return node, self.error

    def _branch(self, node: Node) -> tuple[Node, FloatArray, FloatArray]:
        """What is left of a branch, the people inside conditions, and the sums of its blocks."""
        if node.sides is None:
            inside = next(self.blocks)
            return node, inside, self.worth.sums(node.counts, inside)
        (one, first, before), (other, second, after) = (self._branch(side) for side in node.sides)
        inside, below = first + second, before + after
        alone = self.worth.sums(node.counts, inside)
        without = self.sums - below + alone
        error = self.worth.error(without)
        if error <= self.error:
            self.error, self.sums = error, without
            return node.uncut(), inside, alone
        return dataclasses.replace(node, sides=(one, other)), inside, below
