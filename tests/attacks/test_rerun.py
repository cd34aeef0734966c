"""A reader who knows the program and who matches whom: rings are found out, buckets are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.attacks import Outcome
from sfumato.errors import UsageError

ROWS = 1_600


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Nothing but the way in which the release was made tells anything about a value."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": rng.integers(18, 90, ROWS),
            "job": pa.array(rng.choice([f"j{n}" for n in range(9)], ROWS)),
            "ill": pa.array(rng.permutation(np.arange(ROWS) % 20).astype(str)),
        }
    )


def attacked(people: pa.Table, folder: Path, guarantee: str, mechanism: str) -> Outcome:
    sf.publish(
        people, guarantee, to=folder / "r", mechanism=mechanism, quasi="age,job", sensitive="ill",
        trace=folder / "t",
    )  # fmt: skip
    (found,) = sf.attack(people, folder / "r", attacks="rerun", trace=folder / "t")
    return found


def test_rings_are_found_out(people: pa.Table, tmp_path: Path) -> None:
    """Eight tables are possible for every ring; few besides the true one give it again."""
    found = attacked(people, tmp_path, "l-diversity(8)", "ring")
    assert found.success.value > 0.35  # chance: 0.125
    assert found.figures["chance among matches"] == pytest.approx(1 / 8)
    assert found.figures["structure recovered"] > 0.9
    assert "not computed" in (found.note or "")


@pytest.mark.parametrize("way", ["heterogeneous", "heterogeneous(cut=none, block=16)"])
def test_heterogeneous_leaves_such_a_reader_to_chance(
    people: pa.Table, tmp_path: Path, way: str
) -> None:
    """Guesses within a block are right together: five errors of as many guesses as blocks."""
    found = attacked(people, tmp_path, "l-diversity(5)", way)
    assert abs(found.success.value - 0.2) < 5 * np.sqrt(0.16 / 60)


def test_all_attacks_take_it_in_where_there_is_a_trace(people: pa.Table, tmp_path: Path) -> None:
    attacked(people, tmp_path, "l-diversity(8)", "ring")
    asked = {"targets": 60, "fresh": False}
    names = {
        traced: [str(o.attack) for o in sf.attack(people, tmp_path / "r", trace=traced, **asked)]
        for traced in (None, tmp_path / "t")
    }
    assert "rerun" not in names[None]
    assert sorted(names[tmp_path / "t"]) == sorted([*names[None], "rerun"])


def test_what_cannot_be_run_again_is_one_sentence(people: pa.Table, tmp_path: Path) -> None:
    sf.publish(
        people, "beta-likeness(3)", to=tmp_path / "r", mechanism="burel", quasi="age,job",
        sensitive="ill", trace=tmp_path / "t",
    )  # fmt: skip
    with pytest.raises(UsageError, match="needs who matches whom: name the folder"):
        sf.attack(people, tmp_path / "r", attacks="rerun")
    with pytest.raises(UsageError, match="made by burel, whose people share a group"):
        sf.attack(people, tmp_path / "r", attacks="rerun", trace=tmp_path / "t")
    with pytest.raises(UsageError, match="for --attack rerun alone"):
        sf.attack(people, tmp_path / "r", attacks="linkage", trace=tmp_path / "t")


def test_from_the_command_line(people: pa.Table, tmp_path: Path, cli: Any) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    attacked(people, tmp_path, "l-diversity(8)", "ring")
    told = cli(
        "attack", tmp_path / "people.parquet", tmp_path / "r", "--attack", "rerun",
        "--trace", tmp_path / "t", "--require", "success<=0.2",
    )  # fmt: skip
    assert told.code == 4
    assert "chance among matches" in told.out
