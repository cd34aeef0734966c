"""The replay audit: every kind of release is made again from its receipt; one change is found."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits.spelling import differing_rows
from sfumato.engines.receipts import Receipt
from sfumato.errors import DataError, UsageError


@pytest.fixture(scope="module")
def data() -> pa.Table:
    rng = np.random.default_rng(8)
    rows = 1500
    return pa.table(
        {
            "age": rng.integers(18, 60, rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "weight": np.round(rng.normal(70, 9, rows), 1),
            "note": rng.integers(0, 9, rows),
            "disease": np.array(list("abcdef"))[rng.integers(0, 6, rows)],
        }
    )


TYPES: dict[str, Any] = {
    "date": lambda i: date(2020, 1, 1 + i),
    "moment": lambda i: datetime(2020, 1, 1 + i, 3),
    "time": lambda i: time(i, 30),
    "decimal": lambda i: Decimal(i) / 4,
    "truth": lambda i: i % 2 == 0,
    "number": lambda i: i / 3 or -0.0,
}


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_every_type_are_made_again(tmp_path: Path, kind: str) -> None:
    """A manifest holds dates as texts: every honest release with dates once failed its replay."""
    values = [TYPES[kind](i * i % 7) for i in range(60)]
    data = pa.table({"q": values, "s": values[1:] + values[:1]})
    release, receipt = tmp_path / "r", tmp_path / "receipt"
    table = sf.read(data, quasi="q", sensitive="s")
    sf.publish(table, "rho-privacy(1/2, 3/4)", to=release, receipt=receipt)
    verdict = sf.audit(table, release, receipt=receipt)
    assert verdict.holds, str(verdict)


def test_a_declared_table_a_key_and_an_earlier_release(data: pa.Table, tmp_path: Path) -> None:
    """Domains, bins, kinds, a key file and operators taken over: the receipt repeats all of it."""
    pq.write_table(data.append_column("id", pa.array(range(1500))), tmp_path / "t.parquet")
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4)
    roles: dict[str, Any] = {
        "quasi": ["age", "sex"], "sensitive": ["disease", "weight"], "drop": ["note"],
        "key": "id", "categorical": ["age"], "domain": {"disease": list("abcdefg")},
        "bins": {"weight": "-inf,60,70,80,inf"},
    }  # fmt: skip
    promise = "rho-privacy(0.3, 0.6)"
    for name, more in (("first", {}), ("second", {"previous": tmp_path / "first"})):
        sf.publish(
            tmp_path / "t.parquet", promise, to=tmp_path / name, mechanism="uniform",
            key_file=key, receipt=tmp_path / f"{name}.receipt", **roles, **more,
        )  # fmt: skip
        assert (tmp_path / f"{name}.receipt").stat().st_mode & 0o777 == 0o600
        verdict = sf.audit(
            tmp_path / "t.parquet", tmp_path / name, receipt=tmp_path / f"{name}.receipt"
        )
        assert verdict.holds, str(verdict)
    records = [tmp_path / name / "records/part-00000.parquet" for name in ("first", "second")]
    assert records[0].read_bytes() == records[1].read_bytes()


def test_another_table_is_found(data: pa.Table, tmp_path: Path) -> None:
    roles = {"quasi": ["age", "sex"], "sensitive": "disease", "drop": ["weight", "note"]}
    place, receipt = tmp_path / "r", tmp_path / "receipt"
    sf.publish(data, "l-diversity(3)", to=place, receipt=receipt, **roles)
    values = data.column("disease").to_pylist()
    values[0] = "a" if values[0] != "a" else "b"
    other = data.set_column(4, "disease", pa.array(values))
    assert sf.audit(other, place, receipt=receipt).holds is False
    rare = data.set_column(4, "disease", pa.array(["a"] * 1490 + list("bcdef") * 2))
    assert sf.audit(rare, place, receipt=receipt).holds is False  # nothing could be published
    with pytest.raises(DataError, match="has no column 'disease'"):
        sf.audit(data.drop_columns("disease"), place, receipt=receipt)


def test_a_receipt_is_kept_from_others(data: pa.Table, tmp_path: Path) -> None:
    roles = {"quasi": ["age", "sex"], "sensitive": "disease", "drop": ["weight", "note"]}
    with pytest.raises(UsageError, match=r"receipt .* would lie in the release"):
        sf.publish(data, "l-diversity(3)", to=tmp_path / "r", receipt=tmp_path / "r" / "x", **roles)
    (tmp_path / "there").write_text("something")
    with pytest.raises(DataError, match="never overwritten"):
        sf.publish(data, "l-diversity(3)", to=tmp_path / "r", receipt=tmp_path / "there", **roles)
    with pytest.raises(sf.InfeasibleGuarantee):
        sf.publish(data, "l-diversity(9)", to=tmp_path / "r", receipt=tmp_path / "new", **roles)
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "new").exists()
    sf.publish(data, "l-diversity(3)", to=tmp_path / "r", receipt=tmp_path / "new", **roles)
    secret = json.loads((tmp_path / "new").read_text())["draws"]
    assert secret not in repr(Receipt.read(tmp_path / "new"))
    for path in (tmp_path / "r").rglob("*.*"):
        assert secret.encode() not in path.read_bytes()
        assert bytes.fromhex(secret) not in path.read_bytes()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        open_to_all = Path(shutil.copy(tmp_path / "new", folder))
        open_to_all.chmod(0o644)
        with pytest.raises(DataError, match=r"Others can read the receipt .*mode 644"):
            sf.audit(data, tmp_path / "r", receipt=open_to_all)
    for text in ("", "{}", (tmp_path / "new").read_text().replace(secret, "0" * 64)):
        (tmp_path / "bad").unlink(missing_ok=True)
        (tmp_path / "bad").write_text(text)
        with pytest.raises(DataError, match="Cannot use the receipt"):
            sf.audit(data, tmp_path / "r", receipt=tmp_path / "bad")


def test_rows_are_compared(tmp_path: Path) -> None:
    """Whatever the row groups; −0.0 is not 0.0. (Bits of a NaN are the spelling's.)"""
    base: dict[str, list[Any]] = {
        "x": [0.0, np.nan, None, 4.0], "set": [["a"], ["b"], ["a", "b"], []],
        "t": ["u", None, "v", "w"],
    }  # fmt: skip

    def written(name: str, **changes: list[Any]) -> Path:
        kinds = {"x": pa.float64(), "set": pa.list_(pa.string()), "t": pa.string()}
        columns = {k: pa.array(v, kinds[k], from_pandas=False) for k, v in (base | changes).items()}
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=3 if name == "one" else 1)
        return path

    one = written("one")
    for number, where, two in (
        (0, "", written("same")),
        (1, "row 0: x would be another", written("zero", x=[-0.0, np.nan, None, 4.0])),
        (1, "row 2: set would be another", written("set", set=[["a"], ["b"], ["b", "a"], []])),
        (1, "row 1: t would be another", written("null", t=["u", "x", "v", "w"])),
    ):
        assert differing_rows([one], [two]) == (number, where)
    short = tmp_path / "short.parquet"
    pq.write_table(pq.read_table(one).slice(0, 3), short)
    assert differing_rows([one], [short]) == (1, "row 3: there is no such row")
    assert differing_rows([one, one], [one])[0] == 4
