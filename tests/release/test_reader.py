"""Opening folders that nobody vouches for: every way to be wrong ends in one sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import BundleError
from sfumato.release import Release, manifest_schema
from sfumato.release.bundle import UNFINISHED


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = pa.table(
        {
            "age": [20 + i % 50 for i in range(300)],
            "sex": ["FM"[i % 2] for i in range(300)],
            "disease": [f"d{i % 6}" for i in range(300)],
        }
    )
    place = tmp_path_factory.mktemp("good") / "release"
    table = sf.read(data, quasi="age,sex", sensitive="disease")
    sf.publish(table, "rho-privacy(0.2, 0.5)", to=place, mechanism="uniform")
    return place


def refuse(place: Path, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        Release(place)


def test_a_good_release_opens(release: Path) -> None:
    opened = Release(release)
    assert opened.kind == "perturbed"
    assert opened.rows == 300
    assert [column.name for column in opened.columns] == ["age", "sex", "disease"]
    assert opened.domain("disease").to_pylist() == [f"d{i}" for i in range(6)]
    with pytest.raises(BundleError, match="no listed domain"):
        opened.domain("age")
    with pytest.raises(BundleError, match="has no column 'height'"):
        opened.column("height")
    with pytest.raises(BundleError, match="has no file sensitive"):
        opened.file("sensitive")


def test_the_manifest_fits_its_published_schema(release: Path) -> None:
    described = json.loads((release / "manifest.json").read_text())
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(described, schema, cls=jsonschema.Draft202012Validator)


def test_missing_file(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    (place / "records/part-00000.parquet").unlink()
    refuse(place, r"lacks records/part-00000\.parquet\. The release is incomplete")


def test_extra_file(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    (place / "notes.txt").write_text("hello")
    refuse(place, r"holds files that the manifest does not name: notes\.txt")


def test_extra_folder(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    (place / "more").mkdir()
    refuse(place, "does not name: more")


@pytest.mark.parametrize("where", [10, -10, 500])
def test_changed_byte(tmp_path: Path, release: Path, where: int) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    data = bytearray((place / "records/part-00000.parquet").read_bytes())
    data[where] ^= 64
    (place / "records/part-00000.parquet").write_bytes(bytes(data))
    refuse(place, "is not the file that was published")


def test_link_instead_of_a_file(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    (place / "records/part-00000.parquet").unlink()
    (place / "records/part-00000.parquet").symlink_to(release / "records/part-00000.parquet")
    refuse(place, "is not a plain file")
    other = shutil.copytree(release, tmp_path / "s")
    (other / "manifest.json").unlink()
    (other / "manifest.json").symlink_to(release / "manifest.json")
    refuse(other, "is not a release")


def test_unfinished_folder(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / f".release{UNFINISHED}")
    refuse(place, "was left by a run that did not finish")
    link = tmp_path / "link"
    link.symlink_to(place)
    refuse(link, "was left by a run that did not finish")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[" * 100_000,
        '{"rows": NaN}',
        '{"rows": ' + "9" * 10_000 + "}",
        "\ud800".encode("utf-8", "surrogatepass"),
        b"\xff\xfe",
    ],
    ids=["empty", "words", "deep", "nan", "long number", "surrogate", "bytes"],
)
def test_unreadable_json(tmp_path: Path, release: Path, text: str | bytes) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    data = text if isinstance(text, bytes) else text.encode()
    (place / "manifest.json").write_bytes(data)
    refuse(place, "is not readable JSON|is wrong: ")


def test_huge_manifest(tmp_path: Path, release: Path) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    with (place / "manifest.json").open("r+b") as file:
        file.truncate(1 << 40)  # sparse: takes no room
    refuse(place, "is larger than")


@pytest.mark.parametrize("described", ["[]", "3", "null", '"x"', "{}"])
def test_json_that_is_no_manifest(tmp_path: Path, release: Path, described: str) -> None:
    place = shutil.copytree(release, tmp_path / "r")
    (place / "manifest.json").write_text(described)
    refuse(place, "is wrong: ")


Change = Callable[[dict[str, Any]], None]


def put(*path: Any, value: Any) -> Change:
    def change(described: dict[str, Any]) -> None:
        inside: Any = described
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    def change(described: dict[str, Any]) -> None:
        inside: Any = described
        for step in path[:-1]:
            inside = inside[step]
        del inside[path[-1]]

    return change


OPERATOR = ("plan", "operators", "disease")
LISTED = {"form": "values"}
HASH = {"sha256": "0" * 64, "bytes": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("format", value=9), "was made by another version: it has release format 9, and this"),
        (put("format", value=True), "is wrong: .* at `format`"),
        (put("kind", value="magic"), "is wrong: .* at `kind`"),
        (put("rows", value=-1), "is wrong: .* at `rows`"),
        (put("rows", value=299), "have 300 rows; the manifest says 299"),
        (put("seed", value=7), "is wrong: "),
        (drop("statement"), "is wrong: "),
        (put("columns", 0, "name", value=""), r"is wrong: .* at `columns\[0\]\.name`"),
        (put("columns", 0, "name", value="sex"), "names a column twice"),
        (put("columns", 0, "name", value="height"), "Table 'records' of .* lacks height"),
        (put("columns", 0, "type", value="string"), "has type int64; the manifest says string"),
        (drop("columns", 0), "has columns that the manifest does not name: age"),
        (put("columns", 0, "domain", "low", value=30), "values outside the domain"),
        (put("columns", 1, "domain", "values", value=["F", "M", "F"]), "names a value of column"),
        (put("columns", 0, "domain", value=LISTED | {"values": [20, "x"]}), "does not fit"),
        (put("columns", 0, "domain", value=LISTED | {"values": [20, 2**63]}), "does not fit"),
        (put("columns", 2, "domain", value={"form": "range", "low": 0, "high": 1}), "."),
        (drop("columns", 2, "domain"), "does not fit its domain"),
        (put("plan", value={}), "is wrong: .* `operators` - at `plan`"),
        (put(*OPERATOR, value={"form": "magic"}), "is wrong: invalid value 'magic'"),
        (put(*OPERATOR, "retention", value="3/2"), "retention in .0, 1."),
        (put(*OPERATOR, "retention", value="1/0"), "is wrong: |is unreadable"),
        (put(*OPERATOR, "retention", value="1e999999999"), "is wrong: |is unreadable"),
        (put(*OPERATOR, "values", value=7), "does not fit its domain"),
        (put(*OPERATOR, "values", value=-6), "is wrong: "),
        (put("plan", "operators", "sex", value={"form": "uniform", "values": 2,
             "retention": "1/2"}), "has operators for disease, sex; the sensitive columns are"),
        (put("files", "../people.parquet", value=HASH), "is wrong: "),
        (put("files", "/etc/passwd", value=HASH), "is wrong: "),
        (put("files", "records/part-00000.parquet", "bytes", value=5), "is not the file that was"),
        (drop("files", "records/part-00000.parquet"), "is wrong: "),
    ],
)  # fmt: skip
def test_wrong_manifests(
    tmp_path: Path, release: Path, mutate: Any, change: Change, words: str
) -> None:
    refuse(mutate(release, tmp_path / "r", manifest=change), words)


Records = Callable[[pa.Table], pa.Table]


def replaced(name: str, array: Any) -> Records:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(name), name, array(table))

    return change


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (lambda t: t.drop_columns(["sex"]), "Table 'records' of .* lacks sex"),
        (lambda t: t.append_column("name", t.column("sex")), "does not name: name"),
        (replaced("age", lambda t: t.column("age").cast(pa.string())), "has type string"),
        (replaced("age", lambda t: pc.add(t.column("age"), 100)), "300 values outside the domain"),
        (replaced("disease", lambda t: pa.array(["plague"] * 300)), "1 values outside the domain"),
        (lambda t: t.rename_columns(["age", "age", "disease"]), "has a column twice"),
    ],
)
def test_wrong_records(
    tmp_path: Path, release: Path, mutate: Any, records: Records, words: str
) -> None:
    refuse(mutate(release, tmp_path / "r", records=records), words)


def test_files_that_are_not_parquet(tmp_path: Path, release: Path, mutate: Any) -> None:
    import hashlib

    for data in (b"", b"PAR1PAR1", b"hello world, this is no Parquet file"):
        place = tmp_path / f"r{len(data)}"
        shutil.copytree(release, place)
        (place / "records/part-00000.parquet").write_bytes(data)
        described = json.loads((place / "manifest.json").read_text())
        entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        described["files"]["records/part-00000.parquet"] = entry
        (place / "manifest.json").write_text(json.dumps(described))
        refuse(place, r"Cannot read part-00000\.parquet of ")


SECRETS = ("20261115", "patients-of-ward-7")


def test_the_manifest_tells_no_secret(tmp_path: Path) -> None:
    """No seed, no path, no key, no column that is not published, and no true count."""
    rows = 9973
    counts = [3989, 2711, 1777, 997, 499]
    values = [f"d{i}" for i, count in enumerate(counts) for _ in range(count)]
    assert len(values) == rows
    folder = tmp_path / SECRETS[1]
    folder.mkdir()
    data = pa.table({"name": [f"n{i}" for i in range(rows)], "sex": (["F", "M"] * rows)[:rows],
                     "hidden": [3] * rows, "disease": values})  # fmt: skip
    pq.write_table(data, folder / "raw.parquet")
    key = folder / "steward.key"
    key.write_text("5eed0123456789ab" * 4)
    for number, options in enumerate(({"seed": int(SECRETS[0])}, {"key_file": key}, {})):
        table = sf.read(
            folder / "raw.parquet", quasi="sex", sensitive="disease", key="name", drop="hidden"
        )
        place = tmp_path / f"release{number}"
        sf.publish(
            table, "rho-privacy(0.3, 0.6)", to=place, mechanism="uniform", **options,  # type: ignore[arg-type]
        )  # fmt: skip
        text = (place / "manifest.json").read_text()
        for secret in (*SECRETS, "raw.parquet", "steward", "5eed", "hidden", str(tmp_path), "n17"):
            assert secret not in text, secret
        assert '"name": "name"' not in text
        for count in counts:
            assert not re.search(rf"(?<!\d){count}(?!\d)", text), count
        records = (place / "records/part-00000.parquet").read_bytes()
        for secret in (b"hidden", b"n17", b"ARROW:schema", b"pandas"):
            assert secret not in records
