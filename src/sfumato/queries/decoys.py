"""Error bars of answers from decoys, in SQL (`Decoy.variances` has the derivation)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import list_some, value_text
from sfumato.draws import IntArray
from sfumato.errors import SingularOperator, WeakPromiseWarning
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
    stuck: tuple[str, ...] = ()  # values of which nothing can be told, by name


@dataclass(frozen=True)
class Moments:
    """SQL for a sum over the records of a condition: all of them, and estimated with the value."""

    all: str  # G = Σ g
    own: str  # T = the estimate of Σ g over the records that have x


def completed(operator: Decoy, counts: IntArray, domain: pa.Array, column: str) -> Decoy:
    """The operator with the release's published counts; warns, by name, near the limit."""
    found = operator.observed(counts)
    near = names_of(found.near_the_limit(), domain)
    if near:
        warnings.warn(
            f"{list_some(near)} of column {column!r} have nearly 1/{operator.groups} of the "
            "records, so that they stand in nearly every group: within a condition, their counts "
            "are very uncertain, as their error bars show.",
            WeakPromiseWarning,
            stacklevel=2,
        )
    return found


def names_of(places: IntArray, domain: pa.Array) -> list[str]:
    return [value_text(domain[int(place)].as_py()) for place in places]


def refuse_stuck(answer: pa.Table, column: str, law: DecoyLaw | None) -> None:
    """Raise where an answer is about a value at the eligibility limit (errata S3)."""
    if law is None or not law.stuck:
        return
    for shown in answer.columns:
        if pa.types.is_floating(shown.type) and pc.any(pc.is_nan(shown)).as_py():
            names = list_some(law.stuck)
            raise SingularOperator(
                f"{names} of column {column!r} have as many records as there are groups of "
                f"{law.groups}, as far as the release shows: they stand in every group, so nothing "
                "tells who has them. Leave them out of the question, or ask for a release with "
                "smaller groups."
            )


def with_law(
    weights: WeightTable, operator: Decoy, original: IntArray, domain: pa.Array
) -> WeightTable:
    """The weight table with the columns that `decoy_variance` reads."""
    from sfumato.queries.weights import WeightTable

    counts = np.array(operator.counts, np.float64)
    table = (
        weights.table.append_column("place", pa.array(original))
        .append_column("rate", pa.array(operator.decoy_rates[original]))
        .append_column("held", pa.array(counts[original]))
    )
    stuck = tuple(names_of(operator.at_the_limit(), domain))
    law = DecoyLaw(operator.groups, int(counts.sum()), stuck)
    return WeightTable(weights.keys, table, decoys=law)


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
