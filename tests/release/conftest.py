"""Releases of 900 generated people, one of each kind and mechanism, published once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import sfumato as sf

PEOPLE = Path(__file__).parent / "people.parquet"
PROMISES = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "two columns": "rho-privacy(0.2, 0.5)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "l-diversity(4)",
    "optimal(fakes=1)": "l-diversity(3)",
    "heterogeneous": "l-diversity(4)",
}

Published = Callable[[str], Path]


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("published")

    @cache
    def publish(name: str) -> Path:
        several = name == "two columns"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sf.publish(
                PEOPLE,
                PROMISES[name],
                mechanism="uniform" if several else name,
                quasi="age,gender,education",
                sensitive="occupation,marital" if several else "occupation",
                drop_rest=True,
                seed=3,
                to=folder / name,
            )
        return folder / name

    return publish
