"""Which mechanism a promise gets by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import MOST_IN_BLOCKS, choose_plan, profile_for
from sfumato.guarantees import LDiversity
from sfumato.mechanisms import parse_mechanism


def chosen(values: int, mechanism: str | None = None) -> str:
    rows = 3 * values
    people = pa.table({"age": np.arange(rows) % 70, "ill": np.arange(rows) % values})
    table = sf.read(people, quasi="age", sensitive="ill")
    named = None if mechanism is None else parse_mechanism(mechanism)
    promise = LDiversity(2)
    profile = profile_for(table, promise, named)
    assert (profile.binned is None) == (named is None and values > MOST_IN_BLOCKS)
    return str(choose_plan(profile, promise, named, Draws.from_seed(1))[0])


def test_very_many_values_are_mixed_in_blocks_only_where_that_is_asked_for() -> None:
    """Answers from blocks decompose a matrix of all values: a default is answered quickly."""
    assert chosen(MOST_IN_BLOCKS + 1) == "optimal"
    assert chosen(MOST_IN_BLOCKS + 1, "local") == "local"
    assert chosen(30) in ("optimal", "local")
