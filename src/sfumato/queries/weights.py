"""The small tables of signed weights that turn published records into the virtual table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.errors import QueryError
from sfumato.operators import operator_from_json

if TYPE_CHECKING:
    from sfumato.release import Release

PublishedCounts = Callable[[str, pa.Array], IntArray]


@dataclass(frozen=True, eq=False)
class WeightTable:
    """A record that shows `keys` counts `weight` towards the value `original`.

    `keys` maps a column of the records to the column of `table` that it has to equal (missing
    equals missing): the published column alone for one operator, and `part` as well where every
    sub-table has an operator of its own. Zero weights are left out.
    """

    keys: dict[str, str]
    table: pa.Table


def weight_table(release: Release, column: str, published_counts: PublishedCounts) -> WeightTable:
    """The weights W = P⁻¹ of a sensitive column (methods, section 1). O(m²).

    `published_counts` counts the release's own records by value of the domain, for operators that
    are complete only together with what was published.
    """
    described = release.plan.get("operators", {}).get(column)
    if described is None:
        raise QueryError(
            f"The release holds no operator for column {column!r}, so nothing can be estimated "
            "from it. Ask about the quasi columns alone."
        )
    domain = release.domain(column)
    operator = operator_from_json(described)
    if operator.needs_counts:
        operator = operator.observed(published_counts(column, domain))
    return WeightTable({column: "published"}, long_form(domain, operator.weights()))


def long_form(domain: pa.Array, weights: np.typing.NDArray[np.float64]) -> pa.Table:
    """A matrix W[y, x] as rows (published, original, weight).

    >>> long_form(pa.array(["flu", "HIV"]), np.eye(2)).to_pylist()
    [{'published': 'flu', 'original': 'flu', 'weight': 1.0},
     {'published': 'HIV', 'original': 'HIV', 'weight': 1.0}]
    """
    published, original = np.nonzero(weights)
    return pa.table(
        {
            "published": domain.take(pa.array(published)),
            "original": domain.take(pa.array(original)),
            "weight": pa.array(weights[published, original]),
        }
    )
