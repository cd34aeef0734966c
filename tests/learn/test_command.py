"""`sfumato learn`: coefficients and a score, or a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.learn import learn
from sfumato.errors import DataError, UsageError

from .conftest import people


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("command")
    table = people(1500).drop_columns(["cost"])
    quasi = ["age", "sex", "smoker"]
    sf.publish(table, "rho-privacy(0.4, 0.7)", to=place / "release", quasi=quasi, sensitive="ill")
    pq.write_table(people(300, seed=2), place / "test.parquet")
    people(300, seed=2).to_pandas().to_csv(place / "test.csv", index=False)
    return place


def test_it_tells_coefficients_and_score(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(folder / "release", "ill", features="age,sex", test=folder / "test.csv", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["features"] == ["age", "sex"]
    assert told["coefficients"][1]["name"] == "age"
    assert told["coefficients"][1]["stderr"] > 0
    assert 0.2 < told["score"] < 0.7
    learn(folder / "release", "ill", model="naive-bayes", test=folder / "test.parquet")
    assert "predicted right" in capsys.readouterr().out
    learn(folder / "release", "age", model="linear", features="ill,sex")
    assert "ill=" in capsys.readouterr().out


def test_it_refuses_in_a_sentence(folder: Path) -> None:
    with pytest.raises(UsageError, match="no model 'oracle'"):
        learn(folder / "release", "ill", model="oracle")
    with pytest.raises(UsageError, match="one correction only"):
        learn(folder / "release", "age", model="linear", correction="backward")
    with pytest.raises(DataError, match="no file"):
        learn(folder / "release", "ill", test=folder / "none.csv")
