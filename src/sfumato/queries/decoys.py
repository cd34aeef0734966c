"""Error bars of answers from decoys, in SQL (`Decoy.variances` has the derivation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.columns import list_some, value_text
from sfumato.draws import IntArray
from sfumato.errors import SingularOperator
from sfumato.operators import Decoy

if TYPE_CHECKING:
    from sfumato.queries.weights import WeightTable


@dataclass(frozen=True)
class DecoyLaw:
    """What the variance needs besides the weight table: group size and published records.

    The weight table then has, for every original value, its `place` in the domain, its decoy
    rate r_x as `rate` and its published count o_x as `held`.
    """

    groups: int
    rows: int


@dataclass(frozen=True)
class Moments:
    """SQL for a sum over the records of a condition: all of them, and estimated with the value."""

    all: str  # G = Σ g
    own: str  # T = the estimate of Σ g over the records that have x


def completed(operator: Decoy, counts: IntArray, domain: pa.Array, column: str) -> Decoy:
    """The operator with the release's published counts; refuses, by name, values at the limit."""
    found = operator.observed(counts)
    stuck = found.at_the_limit()
    if stuck.size:
        names = [value_text(domain[int(place)].as_py()) for place in stuck]
        raise SingularOperator(
            f"{list_some(names)} of column {column!r} have as many records as there are groups of "
            f"{operator.groups}, as far as the release shows: they stand in every group, so "
            "nothing tells who has them. Ask for a release with smaller groups."
        )
    return found


def with_law(weights: WeightTable, operator: Decoy, original: IntArray) -> WeightTable:
    """The weight table with the columns that `decoy_variance` reads."""
    from sfumato.queries.weights import WeightTable

    counts = np.array(operator.counts, np.float64)
    table = (
        weights.table.append_column("place", pa.array(original))
        .append_column("rate", pa.array(operator.decoy_rates[original]))
        .append_column("held", pa.array(counts[original]))
    )
    return WeightTable(weights.keys, table, DecoyLaw(operator.groups, int(counts.sum())))


def decoy_variance(
    law: DecoyLaw, rate: str, held: str, square: Moments, first: Moments, second: Moments
) -> str:
    """Cov of two estimated sums over the records with one value x; equal arguments: variance.

    With k = 1/(1/c − r), p = c·r, t = (dr/do)(G − T), Y = (T + (G − T)p)/c:
    k²·(T₂(c−1)/c² + (G₂−T₂)·r(1−r) − (1−1/c)(t_a·Y_b + t_b·Y_a − t_a·t_b·o)
        − p(1−p)(G_a−T_a)(G_b−T_b)/(c²(N−o))),
    `square` holding G₂ and T₂, the sums of the products.
    """
    c, rows = f"{law.groups}e0", f"{law.rows}e0"
    without = f"({rows} - {held})"
    slope = f"(({c} - 1) * {rows} / ({c} * {without} * {without}))"

    def others(sums: Moments) -> str:
        return f"({sums.all} - {sums.own})"

    def tilt(sums: Moments) -> str:
        return f"({slope} * {others(sums)})"

    def shown(sums: Moments) -> str:
        return f"({sums.own} / {c} + {others(sums)} * {rate})"

    drawn = f"{square.own} * ({c} - 1) / ({c} * {c}) + {others(square)} * {rate} * (1 - {rate})"
    moved = (
        f"({tilt(first)} * {shown(second)} + {tilt(second)} * {shown(first)} "
        f"- {tilt(first)} * {tilt(second)} * {held}) * (1 - 1 / {c})"
    )
    spread = f"{rate} * (1 / {c} - {rate}) * {others(first)} * {others(second)} / {without}"
    return f"(({drawn} - {moved} - {spread}) / ((1 / {c} - {rate}) * (1 / {c} - {rate})))"
