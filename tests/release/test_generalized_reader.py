"""Generalized releases that nobody vouches for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.engines.publishing import publish
from sfumato.errors import BundleError
from sfumato.release import Release
from sfumato.table import read


def replaced(name: str, change: Callable[[pa.ChunkedArray], Any]) -> Callable[..., pa.Table]:
    def apply(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, name, change(table.column(name)))

    return apply


MUTATIONS: dict[str, tuple[Callable[..., pa.Table], str]] = {
    "range upside down": (
        replaced("age_low", lambda c: pc.add(c, 200)),
        "end before they begin",
    ),
    "outside the domain": (
        replaced("age_high", lambda c: pc.add(c, 1000)),
        "outside the domain",
    ),
    "empty set": (
        replaced("sex", lambda c: pa.array([[]] * len(c), pa.list_(pa.string()))),
        "empty or name a value twice",
    ),
    "value twice": (
        replaced("sex", lambda c: pa.array([["F", "F"]] * len(c))),
        "empty or name a value twice",
    ),
    "foreign value": (
        replaced("sex", lambda c: pa.array([["X"]] * len(c))),
        "1 values outside the domain",
    ),
    "no list": (replaced("sex", lambda c: pa.array(["F"] * len(c))), "not a list"),
    "wrong type": (replaced("age_low", lambda c: pc.cast(c, pa.float64())), "has type double"),
    "column gone": (lambda table: table.drop_columns(["age_low"]), "lacks age_low"),
    "stranger": (lambda table: table.append_column("id", table.column("age_low")), "id besides"),
}


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_mutated_releases_are_refused(
    people: Callable[..., pa.Table], mutate: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    table = read(people(120), quasi="age,sex,region", sensitive="disease")
    publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="ring")
    change, message = MUTATIONS[name]
    broken = mutate(tmp_path / "r", tmp_path / "broken", records=change)
    with pytest.raises(BundleError, match=message):
        Release(broken)
