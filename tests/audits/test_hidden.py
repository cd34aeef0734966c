"""What a release says besides its records: numbers with marks, keys that were never secret."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError

ROLES: dict[str, Any] = {"quasi": ["dose", "weight"], "sensitive": "ill"}
PROMISE = "rho-privacy(0.4, 0.7)"


def people(rows: int = 300) -> pa.Table:
    """Zeros and missing numbers, in the spellings that a careless program leaves."""
    rng = np.random.default_rng(9)
    dose = rng.integers(0, 4, rows) / 2
    dose[(dose == 0) & (rng.random(rows) < 0.5)] = -0.0
    weight = rng.integers(40, 120, rows).astype(np.float32)
    marks = np.array([0x7FC00000, 0xFFC00001, 0x7FC00123], np.uint32).view(np.float32)
    chosen = rng.random(rows) < 0.1
    weight[chosen] = rng.choice(marks, int(chosen.sum()))
    ill = rng.choice(np.array(["flu", "gout", "ulcer"]), rows)
    return pa.table({"dose": dose, "weight": weight, "ill": ill})


def failing(table: pa.Table, release: Path) -> set[str]:
    return {f.check.name for f in sf.audit(table, release).findings if f.holds is False}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "frame"])
def test_releases_hold_usual_numbers(tmp_path: Path, suffix: str) -> None:
    table = people()
    origin: Any = table
    if suffix == "parquet":
        origin = tmp_path / "people.parquet"
        pq.write_table(table, origin)
    elif suffix == "arrow":
        origin = tmp_path / "people.arrow"
        with pa.ipc.new_file(str(origin), table.schema) as file:
            file.write_table(table)
    made = sf.publish(origin, PROMISE, to=tmp_path / "r", mechanism="uniform", **ROLES)
    records = pq.read_table(made.release / "records")
    dose, weight = records["dose"].to_numpy(), records["weight"].to_numpy()
    assert not np.signbit(dose).any()
    assert set(weight[np.isnan(weight)].view(np.uint32).tolist()) == {0x7FC00000}
    assert not failing(table, made.release)


@pytest.mark.parametrize(
    ("column", "marked"), [("dose", -0.0), ("weight", np.uint32(0x7FC00001).view(np.float32))]
)
def test_marked_numbers_are_noticed(
    tmp_path: Path, mutate: Any, column: str, marked: float
) -> None:
    """Nobody sees it in a table: everybody with the flu has a minus before their zero."""
    table = people()
    made = sf.publish(table, PROMISE, to=tmp_path / "r", mechanism="uniform", **ROLES)

    def mark(records: pa.Table) -> pa.Table:
        values = records[column].to_numpy().copy()
        place = np.flatnonzero(values == 0 if column == "dose" else np.isnan(values))[0]
        values[place] = marked
        return records.set_column(records.schema.get_field_index(column), column, pa.array(values))

    assert failing(table, mutate(made.release, tmp_path / "m", records=mark)) == {"odd-numbers"}


def test_a_release_of_another_version_may_word_itself_otherwise(
    tmp_path: Path, mutate: Any
) -> None:
    table = people()
    made = sf.publish(table, PROMISE, to=tmp_path / "r", mechanism="uniform", **ROLES)
    path = made.release / "manifest.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace("whoever believes", "who believes"), "utf-8")
    assert failing(table, made.release) == {"words"}
    path.write_text(path.read_text("utf-8").replace(sf.__version__, "0.0.1"), "utf-8")
    (found,) = [f for f in sf.audit(table, made.release).findings if f.check.name == "words"]
    assert (found.value, found.listed) == (1, ("statement",))
    assert "compare the words by eye" in str(found.witness)


@pytest.mark.parametrize(("key", "mode", "why"), [("00" * 32, 0o600, "was not drawn"),
                                                  ("5ac0" * 16, 0o600, "was not drawn"),
                                                  (None, 0o644, "Others can read")])  # fmt: skip
def test_keys_that_are_no_secret_are_refused(
    cli: Any, tmp_path: Path, key: str | None, mode: int, why: str
) -> None:
    table = people().append_column("person", pa.array(np.arange(300)))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the folders of tests are private, whatever lies in them
        file = Path(folder) / "steward.key"
        cli("keygen", file)
        if key is not None:
            file.write_text(key)
        file.chmod(mode)
        with pytest.raises(DataError, match=why):
            sf.publish(table, PROMISE, to=tmp_path / "r", key="person", key_file=file, **ROLES)
    assert not (tmp_path / "r").exists()
