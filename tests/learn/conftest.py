"""Generated people whose illness hangs together with age and sex in a known way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.queries import OpenedRelease

VALUES = np.array(["asthma", "cold", "flu", "gout"])
# log odds against asthma: constant, age − 50, male, smoker
TRUE = np.array([[0.3, -0.2, 0.0], [0.03, -0.02, 0.01], [-0.8, 0.6, 0.2], [0.4, 0.9, -0.6]])

Publish = Callable[..., OpenedRelease]


def people(rows: int, seed: int = 1) -> pa.Table:
    draw = np.random.default_rng(seed)
    age, male, smoker = (
        draw.integers(20, 80, rows),
        draw.random(rows) < 0.4,
        draw.random(rows) < 0.3,
    )
    scores = np.column_stack([np.ones(rows), age - 50, male, smoker]) @ TRUE
    chances = np.exp(np.column_stack([np.zeros(rows), scores]))
    chances /= chances.sum(axis=1, keepdims=True)
    ill = (chances.cumsum(axis=1) < draw.random(rows)[:, None]).sum(axis=1)
    cost = 10 * ill + draw.integers(0, 3, rows) * 10
    return pa.table(
        {
            "age": age,
            "sex": np.where(male, "M", "F"),
            "smoker": np.where(smoker, "yes", "no"),
            "ill": VALUES[ill],
            "cost": cost,
        }
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Publish:
    """Publish a table and open the release."""

    def make(table: pa.Table, guarantee: str, sensitive: str, **more: Any) -> OpenedRelease:
        place: Path = tmp_path_factory.mktemp("learn") / "release"
        quasi = more.pop("quasi", None) or [n for n in table.column_names if n != sensitive]
        table = table.select([*quasi, sensitive])
        sf.publish(table, guarantee, to=place, quasi=quasi, sensitive=sensitive, **more)
        return sf.open(place)

    return make
