"""A table with a Zipf-like sensitive column: shares proportional to i^-exponent.

The law is the one that reproduces the papers' tables (errata T17). The value is drawn first, so
its shares hold exactly; the quasi columns then follow it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.datasets.alias import MOST_VALUES
from sfumato.datasets.network import Column, Network, Parent, shares_of
from sfumato.errors import UsageError

QUASI = ("age", "group", "city")
SENSITIVE = "value"

AGES = range(20, 80)
GROUPS = ("red", "orange", "yellow", "green", "blue", "violet")
CITIES = tuple(f"city {number:02d}" for number in range(1, 21))
_KINDS = 5  # values fall into this many kinds, which is all the quasi columns know of them


@lru_cache(maxsize=8)
def network(values: int, exponent: float) -> Network:
    """The population with `values` sensitive values and shares proportional to i^-exponent."""
    if not 1 <= values <= MOST_VALUES:
        raise UsageError(
            f"The 'values' parameter of zipf must be an integer from 1 to {MOST_VALUES:,}. "
            f"Got {values} instead."
        )
    if not 0 <= exponent <= 20:
        raise UsageError(
            f"The 'exponent' parameter of zipf must be a number from 0 to 20. Got {exponent} "
            "instead."
        )
    ranks = np.arange(1, values + 1)
    digits = len(str(values))
    names = tuple(f"v{rank:0{digits}d}" for rank in ranks)
    # neighbours in rank are of different kinds, so that every kind has frequent and rare values
    by_kind = Parent("value", (ranks - 1) % min(_KINDS, values))
    kinds = by_kind.size
    kind = np.arange(kinds)[:, None]
    age = shares_of(np.exp(-(((np.array(AGES) - 32 - 9 * kind) / 12) ** 2) / 2))
    group = shares_of(1 + 3.0 * (np.arange(len(GROUPS)) == kind))
    # the city follows the group only: it depends on the value at one remove
    at_home = np.arange(len(CITIES)) % len(GROUPS) == np.arange(len(GROUPS))[:, None]
    city = shares_of((1 + 3.0 * at_home) / np.sqrt(np.arange(1, len(CITIES) + 1)))
    columns = (
        Column("value", names, shares_of(ranks.astype(np.float64) ** -exponent)),
        Column("age", tuple(AGES), age, (by_kind,), "int16"),
        Column("group", GROUPS, group, (by_kind,)),
        Column("city", CITIES, city, (Parent("group", np.arange(len(GROUPS))),)),
    )
    return Network("zipf", columns, (*QUASI, SENSITIVE))
