"""Attacks see the raw table as a release with merged values names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.attacks import attack
from sfumato.attacks.people import merged_table
from sfumato.engines.publishing import publish
from sfumato.release import Release


def people(rows: int = 3000) -> pa.Table:
    generator = np.random.default_rng(5)
    sex = generator.choice(["F", "M"], rows)
    age = generator.integers(20, 30, rows)
    ill = np.where(generator.random(rows) < np.where(sex == "F", 0.7, 0.3), "yes", "no")
    return pa.table({"sex": sex, "age": pa.array(age).cast(pa.int8()), "ill": ill})


def test_merged_values_carry_their_labels(tmp_path: Path) -> None:
    table = sf.read(people(), quasi=["sex", "age"], sensitive="ill")
    publish(table, "reconstruction-privacy(0.3, 0.3)", to=tmp_path / "r", seed=1)
    release = Release(tmp_path / "r")
    assert set(release.plan.merges) == {"age"}
    seen = merged_table(table, release)
    labels = {value for batch in seen.batches(["age"]) for value in batch.column(0).to_pylist()}
    assert labels == set(pq.read_table(release.records[0])["age"].to_pylist())
    assert seen.type_of("age") == pa.string()
    (outcome,) = attack(people(), release, attacks="naive-bayes", targets=200)
    assert outcome.fresh is not None  # published again without merging
