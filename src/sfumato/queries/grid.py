"""Groups that no record falls into: every combination of the keys' domains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.errors import QueryError
from sfumato.queries.question import Question

if TYPE_CHECKING:
    from sfumato.release import Release

MOST_COMBINATIONS = 1_000_000
MOST_IN_RANGE = 100_000


def grid(release: Release, question: Question) -> dict[str, pa.Table]:
    """The domain of every key, as the tables `domain0 …`."""
    combinations, tables = 1, {}
    for index, key in enumerate(question.keys):
        if key.column is None:
            raise QueryError(
                f"The key {key.text} is an expression, so its values cannot be listed. Group by "
                "plain columns, or leave `keys` out."
            )
        domain = _domain(release, key.column)
        combinations *= len(domain)
        tables[f"domain{index}"] = pa.table({"value": domain})
    if combinations > MOST_COMBINATIONS:
        raise QueryError(
            f"The keys have {combinations:,} combinations; at most {MOST_COMBINATIONS:,} are "
            "listed. Group by fewer columns, or leave `keys` out."
        )
    return tables


def _domain(release: Release, name: str) -> pa.Array:
    column = next(column for column in release.columns if column.name == name)
    domain = column.domain
    if isinstance(domain, Values):
        return release.domain(name)
    whole = (
        isinstance(domain, Range)
        and "int" in column.type
        and domain.low is not None
        and domain.high is not None
    )
    if not whole:
        raise QueryError(
            f"The values of column {name!r} are not listed in the release, so empty groups cannot "
            "be shown. Group by another column, or leave `keys` out."
        )
    assert isinstance(domain, Range)
    assert domain.low is not None
    assert domain.high is not None
    low, high = math.ceil(domain.low), math.floor(domain.high)
    if high - low >= MOST_IN_RANGE:
        raise QueryError(
            f"Column {name!r} ranges over {high - low + 1:,} numbers; at most {MOST_IN_RANGE:,} "
            "are listed. Group by another column, or leave `keys` out."
        )
    values = pa.array(np.arange(low, high + 1))
    return pa.concat_arrays([values, pa.nulls(1, values.type)]) if domain.missing else values
