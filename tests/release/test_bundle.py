"""A folder appears whole or not at all: locks, kills, leftovers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sfumato as sf
from sfumato.errors import DataError, LeftoverWarning
from sfumato.release import BundleWriter, Manifest, Release
from sfumato.release.bundle import UNFINISHED
from sfumato.release.manifest import PerturbedPart


def test_two_runs_at_once(tmp_path: Path) -> None:
    place = tmp_path / "release"
    with BundleWriter(place) as first:
        (first.folder / "records.parquet").write_bytes(b"x")
        with pytest.raises(DataError, match="Another run is publishing to"), BundleWriter(place):
            pass
        # the second run took nothing away from the first
        assert (first.folder / "records.parquet").exists()
    assert not first.folder.exists()


def test_another_process_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from sfumato.release import BundleWriter\n"
        "with BundleWriter(sys.argv[1]):\n"
        "    print('locked', flush=True); sys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "release")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DataError, match="just now"), BundleWriter(tmp_path / "release"):
            pass
        other.stdin.close()
    with BundleWriter(tmp_path / "release") as bundle:
        assert list(bundle.folder.iterdir()) == []


def test_leftovers_of_a_dead_run_are_removed(tmp_path: Path, people: Any, leftovers: Any) -> None:
    dead = tmp_path / f".release{UNFINISHED}"
    (dead / "piles").mkdir(parents=True)
    (dead / "piles" / "0.arrow").write_bytes(b"x")
    (dead / "manifest.json").write_text("{}")
    (dead / "link").symlink_to(tmp_path)
    keep = tmp_path / "precious"
    keep.touch()
    table = sf.read(people(100), quasi="age,sex,region", sensitive="disease")
    with pytest.warns(LeftoverWarning, match="had left a part of"):
        sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "release", mechanism="uniform")
    assert leftovers(tmp_path) == [
        "precious", "release", "release/manifest.json", "release/records",
        "release/records/part-00000.parquet",
    ]  # fmt: skip


def test_a_link_in_place_of_the_hidden_folder(tmp_path: Path) -> None:
    """Somebody else's folder is not emptied through a link."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "data").touch()
    (tmp_path / f".release{UNFINISHED}").symlink_to(tmp_path / "victim")
    with pytest.raises(DataError, match="Cannot write"), BundleWriter(tmp_path / "release"):
        pass
    assert (tmp_path / "victim" / "data").exists()


def test_folders_above_the_place(tmp_path: Path, people: Any, leftovers: Any) -> None:
    table = sf.read(people(100), quasi="age,sex,region", sensitive="disease")
    place = tmp_path / "a" / "b" / "release"
    with pytest.raises(sf.InfeasibleGuarantee):
        sf.publish(table, "rho-privacy(0.0001, 0.6)", to=place)
    assert leftovers(tmp_path) == []
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=place, mechanism="uniform")
    Release(place)


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, people: Any, leftovers: Any) -> None:
    table = sf.read(people(2000), quasi="age,sex,region", sensitive="disease")

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "publishing":
            raise KeyboardInterrupt

    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        sf.publish(
            table, "rho-privacy(0.3, 0.6)", to=tmp_path / "r", progress=stop,
            mechanism="uniform", batch_rows=100,
        )  # fmt: skip
    assert leftovers(tmp_path) == []
    assert threading.active_count() == threads


def test_the_place_is_taken_at_the_last_moment(tmp_path: Path, people: Any, leftovers: Any) -> None:
    table = sf.read(people(2000), quasi="age,sex,region", sensitive="disease")
    place = tmp_path / "release"

    def take(stage: str, done: int, total: int) -> None:
        if stage == "publishing" and not place.exists():
            place.mkdir()
            (place / "theirs").touch()

    with pytest.raises(DataError, match="Cannot write the release to"):
        sf.publish(table, "rho-privacy(0.3, 0.6)", to=place, progress=take, mechanism="uniform")
    assert leftovers(tmp_path) == ["release", "release/theirs"]


def test_what_could_not_be_opened_again_does_not_appear(tmp_path: Path, published: Any) -> None:
    """Whatever a mechanism writes: a release that its own reader refuses is not published."""
    place = tmp_path / "made" / "release"
    known = Release(published("uniform"))
    for manifest, words in (
        (replace(known.manifest, plan=PerturbedPart({})), "has operators for ; the sensitive"),
        (replace(known.manifest, rows=3), "have 900 rows; the manifest says 3"),
        (replace(known.manifest, columns=known.columns[1:]), "does not name: age"),
        (replace(known.manifest, caveats=("x" * (65 << 20),)), "is larger than"),
    ):
        with pytest.raises(DataError, match=f"could not be opened again: .*{words}") as refused:
            write_again(known, place, manifest)
        assert UNFINISHED not in str(refused.value)  # the steward knows the place, not our folder
        assert not list(tmp_path.iterdir())
    write_again(known, place, known.manifest)
    assert Release(place).rows == 900


def write_again(release: Release, place: Path, manifest: Manifest) -> None:
    with BundleWriter(place) as bundle:
        leave = shutil.ignore_patterns("manifest.json")
        shutil.copytree(release.path, bundle.folder, ignore=leave, dirs_exist_ok=True)
        bundle.finish(manifest)
