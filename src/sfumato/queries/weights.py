"""The small tables of signed weights that turn published records into the virtual table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import IntArray
from sfumato.errors import QueryError
from sfumato.operators import Decoy, Operator, Parts, Uniform, operator_from_json
from sfumato.operators.base import FloatArray
from sfumato.queries.decoys import DecoyLaw, completed, with_law

if TYPE_CHECKING:
    from sfumato.release import Release

MOST_VALUES = 4_000  # of one operator: its weights are written down as m² rows
PublishedCounts = Callable[[str, pa.Array], IntArray]


@dataclass(frozen=True, eq=False)
class WeightTable:
    """A record that shows `keys` counts `weight` towards the value `original`.

    `keys` maps a column of the records to the column of `table` that it has to equal (missing
    equals missing): the published column alone for one operator, and its part as well where every
    sub-table has an operator of its own. Zero weights are left out. Where the operator keeps every
    value with the same probability, `table` also has that probability as `kept` and the number of
    values as `size` (by sub-table; missing where one keeps them with several).

    For a column of very many values, W[y, x] = own_x·1{y = x} + rest_x is written down as O(m)
    rows: `table` then has what a record adds to the value it shows, `rest` (original, weight) what
    it adds to every value, whatever it shows.
    """

    keys: dict[str, str]
    table: pa.Table
    rest: pa.Table | None = None
    decoys: DecoyLaw | None = None  # where error bars follow the law of decoys

    @property
    def largest(self) -> float:
        """The largest weight of all, without its sign."""
        most = float(pc.max(pc.abs(self.table["weight"])).as_py())
        if self.rest is None:
            return most
        return most - float(pc.min(pc.abs(self.rest["weight"])).as_py())


def weight_table(release: Release, column: str, published_counts: PublishedCounts) -> WeightTable:
    """The weights W = P⁻¹ of a sensitive column (methods, section 1). O(m²), O(m) for a large m.

    `published_counts` counts the release's own records by value of the domain, for operators that
    are complete only together with what was published.
    """
    described = release.plan.get("operators", {}).get(column)
    domain = release.domain(column)
    if release.kind == "synthetic":  # a record counts as what it shows
        codes = np.arange(len(domain))
        return WeightTable(
            {column: "published"}, long_form(domain, codes, codes, np.ones(len(domain)))
        )
    if described is None:
        raise QueryError(
            f"The release holds no operator for column {column!r}, so nothing can be estimated "
            "from it. Ask about the quasi columns alone."
        )
    operator = operator_from_json(described)
    if isinstance(operator, Parts):
        shown = release.plan.get("part_columns", {}).get(column, "part")
        parts, published, original, weight = operator.weight_table()
        table = long_form(domain, published, original, weight).append_column(
            "part", pa.array(parts[weight != 0])
        )
        table = _with_retention(table, [part.operator for part in operator.parts])
        return WeightTable({column: "published", shown: "part"}, table)
    large = operator.values > MOST_VALUES
    if large and not isinstance(operator, Uniform | Decoy):
        raise QueryError(
            f"Column {column!r} has {operator.values:,} values; questions about a column of more "
            f"than {MOST_VALUES:,} are not supported for this mechanism. Ask for a release with "
            "coarser values, or of the mechanisms 'uniform' or 'partitioned'."
        )
    if isinstance(operator, Decoy):
        operator = completed(operator, published_counts(column, domain), domain, column)
        if large:
            return _split(operator, column, domain)
    elif large and isinstance(operator, Uniform):
        return _split(operator, column, domain)
    elif operator.needs_counts:
        operator = operator.observed(published_counts(column, domain))
    weights = operator.columns() if isinstance(operator, Decoy) else operator.weights()
    places = np.indices(weights.shape).reshape(2, -1)
    table = WeightTable(
        {column: "published"}, long_form(domain, places[0], places[1], weights.reshape(-1))
    )
    if isinstance(operator, Uniform):
        return replace(table, table=_with_retention(table.table, [operator]))
    if isinstance(operator, Decoy):
        return with_law(table, operator, places[1][weights.reshape(-1) != 0], domain)
    return table


def _split(operator: Uniform | Decoy, column: str, domain: pa.Array) -> WeightTable:
    """The weights as what a record adds to the value it shows, and to every value. O(m)."""
    codes = np.arange(operator.values)
    if isinstance(operator, Uniform):
        if operator.retention == 0:
            operator.weights()  # says that nothing can be estimated
        own = np.full(len(codes), 1 / float(operator.retention))
        rest = -float(operator.off_diagonal) * own
    else:
        seen = 1 / operator.groups - operator.decoy_rates
        seen[operator.at_the_limit()] = np.nan
        own, rest = 1 / seen, -operator.decoy_rates / seen
    table = WeightTable({column: "published"}, long_form(domain, codes, codes, own))
    background = long_form(domain, codes, codes, rest)
    kept = codes[rest != 0]
    if isinstance(operator, Decoy):
        table = with_law(table, operator, codes, domain)
        background = with_law(WeightTable({}, background), operator, kept, domain).table
    else:
        table = replace(table, table=_with_retention(table.table, [operator]))
    return replace(table, rest=background if len(kept) else None)


def _with_retention(table: pa.Table, operators: Sequence[Operator]) -> pa.Table:
    """`kept` and `size` of the operator that each row belongs to."""
    of = (
        table.column("part").to_numpy()
        if "part" in table.column_names
        else np.zeros(len(table), int)
    )
    kept = [float(each.retention) if isinstance(each, Uniform) else None for each in operators]
    size = [each.values for each in operators]
    return table.append_column(
        "kept", pa.array(kept, pa.float64()).take(pa.array(of))
    ).append_column("size", pa.array(size, pa.int64()).take(pa.array(of)))


def long_form(
    domain: pa.Array, published: IntArray, original: IntArray, weight: FloatArray
) -> pa.Table:
    """Rows (published, original, weight) with values for codes, without zero weights.

    >>> codes = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> long_form(pa.array(["flu", "HIV"]), *codes, np.array([1.0, 0.0, -0.5, 1.5])).to_pylist()
    [{'published': 'flu', 'original': 'flu', 'weight': 1.0},
     {'published': 'HIV', 'original': 'flu', 'weight': -0.5},
     {'published': 'HIV', 'original': 'HIV', 'weight': 1.5}]
    """
    kept = weight != 0
    return pa.table(
        {
            "published": domain.take(pa.array(published[kept])),
            "original": domain.take(pa.array(original[kept])),
            "weight": pa.array(weight[kept]),
        }
    )
