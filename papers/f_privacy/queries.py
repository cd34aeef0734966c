"""The paper's pool of count queries (Section 7.2.2), on small integer codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from papers.coded import People
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.stream import ranks_in_value
from sfumato.mechanisms.buckets import BucketPlan
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlockTable, Deviations

SELECTIVITY = 0.01


@dataclass(frozen=True, eq=False)
class Published:
    """The bucket of each record, and the shares of the values in each bucket."""

    bucket: IntArray
    shares: FloatArray

    @classmethod
    def of(cls, people: People, plan: BucketPlan) -> Published:
        """Where the records stand, in the order of the table."""
        ranks = ranks_in_value(people.sensitive, np.zeros(people.values, np.int64))
        buckets = plan.bucket_of(people.sensitive, ranks)
        sizes = np.bincount(buckets, minlength=plan.buckets)
        cells = np.bincount(
            buckets * people.values + people.sensitive, minlength=plan.buckets * people.values
        )
        return cls(buckets, cells.reshape(-1, people.values) / sizes[:, None])


@dataclass(frozen=True, eq=False)
class CountQueries:
    """Conditions `A IN (…)` on some quasi columns, with the values asked for and true answers."""

    masks: list[BoolArray]
    forms: list[FloatArray]
    truths: list[float]

    @classmethod
    def draw(cls, people: People, number: int, seed: int) -> CountQueries:
        """b = |A|·s^(1/(d+1)) values at random of each of d columns; none with answer 0 (F16)."""
        rng = np.random.default_rng(seed)
        masks: list[BoolArray] = []
        forms: list[FloatArray] = []
        truths: list[float] = []
        names = list(people.quasi)
        while len(masks) < number:
            width = int(rng.integers(1, len(names) + 1))
            side = SELECTIVITY ** (1 / (width + 1))
            mask = np.ones(people.rows, np.bool_)
            for name in rng.choice(names, width, replace=False):
                mask &= _some(int(people.quasi[name].max()) + 1, side, rng)[people.quasi[name]]
            form = _some(people.values, side, rng).astype(np.float64)
            true = float(form @ np.bincount(people.sensitive[mask], minlength=people.values))
            if true > 0:
                masks.append(mask)
                forms.append(form)
                truths.append(true)
        return cls(masks, forms, truths)

    def errors(self, published: Published, table: BlockTable) -> tuple[float, float]:
        """The mean relative error of what the buckets show (uniform), and of our estimator."""
        from scipy.sparse import csr_array

        buckets = len(published.shares)
        beside = [np.bincount(published.bucket[mask], minlength=buckets) for mask in self.masks]
        shown = np.stack([each @ published.shares for each in beside])
        number = np.array([float(mask.sum()) for mask in self.masks])
        share = number[:, None] / table.rows
        residual = shown - share * table.shown
        loose = csr_array(share * (1 - share))
        moved = Deviations.shared(table, loose, residual[:, :, None]).moved()["shrunk"]
        mean = share * table.counts + residual + moved[:, :, 0]
        return self._off(shown), self._off(mean)

    def _off(self, counts: FloatArray) -> float:
        truths = np.array(self.truths)
        answers = (np.stack(self.forms) * counts).sum(axis=1)
        return float((np.abs(answers - truths) / truths).mean())


def _some(domain: int, side: float, rng: np.random.Generator) -> BoolArray:
    chosen = np.zeros(domain, np.bool_)
    chosen[rng.choice(domain, max(1, round(domain * side)), replace=False)] = True
    return chosen
