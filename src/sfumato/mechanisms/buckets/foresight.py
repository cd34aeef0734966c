"""How much better counts are in blocks than in buckets over the whole table, before any is filled.

`publish` compares mechanisms by predicted errors. Those of buckets over the whole table follow from
their sizes (`accuracy`). What blocks change is told by conditions on one quasi column, every bin of
every column: of a condition that n_x of a block's D_x people satisfy, the share a,

    Σ_k τ·(n − a·D) is shown of the deviation,  G = Σ_k f·τ·D tells of it,  f = a(1 − a),
    H = Σ_k f·D·(1 − D/N − τ) stays hidden,     and slots add the noise Σ_k f·D·τ·(1 − τ/(1 − D/N)).

A cut makes f and the deviation smaller, and τ smaller too where a value comes near its ceiling. It
is the law of `operators.block_law`, taken for each value by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import likeliest
from sfumato.profile import BinnedCounts

_SMALLEST = 5.0  # people: smaller counts are noise whatever is done
_SIZES = np.log(4)  # counts up to four times as large are of one size
_NUMBERS = 1 << 24  # counts by (block, condition, value) that are held


@dataclass(frozen=True, eq=False)
class UsualConditions:
    """Bins of quasi columns, one condition each: people by (block, condition, value)."""

    inside: FloatArray

    @classmethod
    def of(
        cls, binned: BinnedCounts, block: IntArray, value: IntArray, values: int
    ) -> UsualConditions:
        """For the block and the value of every cell; of many numbers, every so manieth bin."""
        blocks, conditions = int(block.max(initial=0)) + 1, []
        every = sum(bins.number for bins in binned.columns)
        step = max(1, -(-every * blocks * values // _NUMBERS))
        for bins, codes in zip(binned.columns, binned.codes, strict=True):
            at = (block * bins.number + codes) * values + value
            size = blocks * bins.number * values
            table = np.bincount(at, binned.counts, minlength=size)
            conditions.append(table.reshape(blocks, bins.number, values)[:, ::step])
        return cls(
            np.concatenate(conditions, axis=1) if conditions else np.zeros((blocks, 0, values))
        )

    def errors(self, held: FloatArray, told: FloatArray) -> FloatArray:
        """By (condition, value), in blocks with so many people by value, told by τ."""
        inside = self.inside if len(held) > 1 else self.inside.sum(axis=0)[None, :, :]
        people = np.maximum(held.sum(axis=1), 1.0)
        share = inside.sum(axis=2) / people[:, None]
        away = inside - share[:, :, None] * held[:, None, :]
        rest = 1 - held / people[:, None]
        kept = 1 - np.divide(told, rest, out=np.ones_like(told), where=rest > 0)
        free = share * (1 - share)
        pulled = np.einsum("kv,kcv->cv", told, away)
        identified = free.T @ (told * held)
        hidden = free.T @ (held * np.maximum(rest - told, 0.0))
        noise = free.T @ (held * told * np.maximum(kept, 0.0))
        spread = likeliest(identified, np.sqrt(pulled**2 + noise))[:, None]
        gain = 1 + hidden * spread / (1 + spread * identified)
        return expected_absolute(gain * pulled - away.sum(axis=0), gain**2 * noise)

    def saved(
        self, blocks: tuple[FloatArray, FloatArray], whole: tuple[FloatArray, FloatArray]
    ) -> float:
        """The errors in blocks over those without, counts of every size weighing alike."""
        now, before = self.errors(*blocks).reshape(-1), self.errors(*whole).reshape(-1)
        counts = self.inside.sum(axis=0).reshape(-1)
        asked = (counts >= _SMALLEST) & (before > 0)
        if not asked.any():
            return 1.0
        now, before, counts = now[asked], before[asked], counts[asked]
        size = (np.log(counts / _SMALLEST) / _SIZES).astype(np.int64)
        relative = 1 / np.sqrt(counts)
        totals = np.bincount(size, relative * before)
        return float((np.bincount(size, relative * now)[totals > 0] / totals[totals > 0]).mean())
