"""Tables from an S3 server and releases to it: a real server, started here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato import storage
from sfumato.errors import BundleError, DataError, UsageError
from sfumato.storage import Stored
from tests.s3 import s3_server

ROWS = 3000
PROMISE = "l-diversity(3)"  # two kinds of files: records, and the lists of buckets
ROLES: dict[str, Any] = {"quasi": "age,town", "sensitive": "ill"}
FLAGS = ("--quasi", "age,town", "--sensitive", "ill", "--guarantee", PROMISE)


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "age": rng.integers(18, 90, ROWS),
            "town": np.array(["Bergen", "Oslo", "Ås"])[rng.integers(0, 3, ROWS)],
            "ill": np.array(list("abcdefgh"))[rng.integers(0, 8, ROWS)],
        }
    )


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server("clinic") as address:
        yield address


@pytest.fixture
def bucket(
    server: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A place of this test's own on the server; nothing of it is in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"{server}/{request.node.name.replace('[', '-').replace(']', '')}"


def put(address: str, people: pa.Table, folder: Path) -> None:
    above, _, name = address.rpartition("/")
    file = folder / name
    if name.endswith(".csv"):
        pyarrow.csv.write_csv(people, file)
    else:
        pq.write_table(people, file)
    Stored.at(above).put(name, file)


def names(address: str) -> list[str]:
    return Stored.at(address).names()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_there_gives_the_release_that_it_gives_here(
    bucket: str, people: pa.Table, tmp_path: Path, ending: str
) -> None:
    put(f"{bucket}/people.{ending}", people, tmp_path)
    sources = {"there": f"{bucket}/people.{ending}", "here": tmp_path / f"people.{ending}"}
    for name, source in sources.items():
        sf.publish(source, PROMISE, to=tmp_path / name, seed=3, **ROLES)
    told = [(tmp_path / name / "manifest.json").read_bytes() for name in sources]
    assert told[0] == told[1]
    table = sf.read(sources["there"], **ROLES)
    assert table.label == sources["there"]


def test_several_files_by_a_pattern(bucket: str, people: pa.Table, tmp_path: Path) -> None:
    for number, start in enumerate(range(0, ROWS, 1000)):
        put(f"{bucket}/part-{number}.parquet", people.slice(start, 1000), tmp_path)
    put(f"{bucket}/other.csv", people, tmp_path)
    done = sf.publish(f"{bucket}/part-*.parquet", PROMISE, to=tmp_path / "r", **ROLES)
    assert done.rows == ROWS
    with pytest.raises(DataError, match="No file matches"):
        sf.read(f"{bucket}/part-*.csv", **ROLES)


def test_a_release_is_published_there_and_asked_from_there(
    bucket: str, people: pa.Table, tmp_path: Path
) -> None:
    place = f"{bucket}/release"
    done = sf.publish(people, PROMISE, to=place, seed=3, **ROLES)
    assert done.release == place
    assert place in str(done)
    sf.publish(people, PROMISE, to=tmp_path / "here", seed=3, **ROLES)
    paths = [p for p in (tmp_path / "here").rglob("*") if p.is_file()]
    assert names(place) == sorted(p.relative_to(tmp_path / "here").as_posix() for p in paths)
    opened = sf.open(place)
    question = "SELECT COUNT(*) FROM release WHERE town = 'Oslo'"
    assert opened.sql(question).value == sf.open(tmp_path / "here").sql(question).value
    assert place in repr(opened)
    with pytest.raises(DataError, match="holds files already"):
        sf.publish(people, PROMISE, to=place, **ROLES)
    assert sf.open(place).manifest == opened.manifest


def test_copies_over_the_limit_go_but_those_that_may_be_in_use(
    bucket: str, people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, opened = tmp_path / "cache" / "sfumato" / "releases", {}
    for age, name in ((3, "older"), (2, "old"), (0, "fresh")):
        sf.publish(people, PROMISE, to=f"{bucket}/{name}", **ROLES)
        sf.open(f"{bucket}/{name}")
        (opened[name],) = {*copies.iterdir()} - {*opened.values()}
        os.utime(opened[name], (time.time() - age * 86_400,) * 2)
    size = sum(path.stat().st_size for path in opened["fresh"].rglob("*"))
    for limit, left in ((4 * size, 3), (2 * size + size // 2, 2), (0, 1)):
        monkeypatch.setattr(storage, "_MOST_KEPT", limit)
        assert sf.open(f"{bucket}/fresh").manifest.rows == ROWS
        assert {*copies.iterdir()} == {*list(opened.values())[-left:]}


def test_a_copy_that_another_run_removes_meanwhile_is_none(
    bucket: str, people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sf.publish(people, PROMISE, to=f"{bucket}/release", **ROLES)
    there = Path.iterdir

    def and_one_gone(self: Path) -> Iterator[Path]:
        return iter([*there(self), *([self / "gone"] if self.name == "releases" else [])])

    monkeypatch.setattr(Path, "iterdir", and_one_gone)
    assert sf.open(f"{bucket}/release").manifest.rows == ROWS


def test_from_the_command_line(cli: Any, bucket: str, people: pa.Table, tmp_path: Path) -> None:
    put(f"{bucket}/people.csv", people, tmp_path)
    place = f"{bucket}/release"
    made = cli("publish", f"{bucket}/people.csv", *FLAGS, "--out", place, "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["release"] == place
    for command in (
        ("query", place, "SELECT COUNT(*) FROM release"),
        ("describe", place),
        ("describe", f"{bucket}/people.csv"),
        ("audit", f"{bucket}/people.csv", place),
    ):
        ran = cli(*command)
        assert ran.code == 0, (command, ran.out, ran.err)


@pytest.mark.parametrize("name", ["manifest.json", "sensitive.parquet"])
def test_an_upload_that_breaks_leaves_nothing(
    bucket: str, people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nor a receipt of what is not there."""
    whole = Stored.put

    def breaks(self: Stored, part: str, source: Path) -> None:
        whole(self, part, source)
        if part == name:
            raise DataError("the wire was cut")

    monkeypatch.setattr(Stored, "put", breaks)
    place, receipt = f"{bucket}/release", tmp_path / "receipt"
    with pytest.raises(DataError, match="the wire was cut"):
        sf.publish(people, PROMISE, to=place, receipt=receipt, **ROLES)
    assert names(place) == []
    assert not receipt.exists()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


KILLED = """
import os, signal, sys
import sfumato as sf
from sfumato.storage import Stored
from tests.s3 import s3_server
whole = Stored.put
def killed(self, name, source):
    if name == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
    whole(self, name, source)
Stored.put = killed
sf.publish(sys.argv[1], sys.argv[4], to=sys.argv[2], quasi="age,town", sensitive="ill")
"""


@pytest.mark.parametrize("name", ["sensitive.parquet", "manifest.json"])
def test_killed_in_the_middle_nothing_opens(
    bucket: str, people: pa.Table, tmp_path: Path, name: str
) -> None:
    put(f"{bucket}/people.parquet", people, tmp_path)
    place = f"{bucket}/release"
    script = [sys.executable, "-c", KILLED, f"{bucket}/people.parquet", place, name, PROMISE]
    ended = subprocess.run(
        script, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert names(place) == (
        ["records/part-00000.parquet"]
        if name == "sensitive.parquet"
        else ["records/part-00000.parquet", "sensitive.parquet"]
    )
    with pytest.raises(BundleError, match="it has no manifest"):
        sf.open(place)
    with pytest.raises(DataError, match="holds files already"):
        sf.publish(people, PROMISE, to=place, **ROLES)


def test_a_file_that_was_changed_there_is_noticed(
    bucket: str, people: pa.Table, tmp_path: Path
) -> None:
    place = f"{bucket}/release"
    sf.publish(people, PROMISE, to=place, seed=3, **ROLES)
    sf.publish(people, PROMISE, to=tmp_path / "other", seed=4, **ROLES)
    Stored.at(place).put("sensitive.parquet", tmp_path / "other" / "sensitive.parquet")
    with pytest.raises(BundleError):
        sf.open(place)


def test_what_cannot_be_used_is_one_sentence_without_secrets(
    bucket: str, people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("s3://key:secret@bucket/people.csv", "s3://bucket/people.csv?secret=1"):
        with pytest.raises(UsageError, match="those of the environment") as refused:
            sf.read(address, **ROLES)
        assert "secret" not in str(refused.value)
    with pytest.raises(DataError, match="There is no file"):
        sf.read(f"{bucket}/nobody.csv", **ROLES)
    with pytest.raises(DataError, match="no such bucket"):
        sf.publish(people, PROMISE, to="s3://nowhere/release", **ROLES)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="nothing answers there"):
        sf.open(f"{bucket}/release")


@pytest.mark.parametrize("scheme", ["gs", "abfs", "hdfs", "http"])
def test_nothing_is_written_to_a_folder_that_looks_like_an_address(
    people: pa.Table, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"Cannot read from a {scheme}:// address") as refused:
        sf.read(f"{scheme}://me:secret@clinic/people.csv", **ROLES)
    assert "secret" not in str(refused.value)
    for place in (f"{scheme}://clinic/release", Path(f"{scheme}://clinic/release")):
        with pytest.raises(UsageError, match=f"cannot be put at a {scheme}:// address"):
            sf.publish(people, PROMISE, to=place, **ROLES)
    assert list(tmp_path.iterdir()) == []


def test_file_addresses_are_paths(people: pa.Table, tmp_path: Path) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    place = f"file://{tmp_path}/release"
    sf.publish(f"file://{tmp_path}/people.parquet", PROMISE, to=place, **ROLES)
    assert sf.open(place).manifest == sf.open(tmp_path / "release").manifest


def test_copies_of_a_table_go_away_with_it(bucket: str, people: pa.Table, tmp_path: Path) -> None:
    put(f"{bucket}/people.parquet", people, tmp_path)
    copies = storage.Copies(f"{bucket}/people.parquet")
    folder = copies.folder
    assert [path.name for path in folder.iterdir()] == ["people.parquet"]
    assert folder.stat().st_mode & 0o077 == 0
    del copies
    assert not folder.exists()
