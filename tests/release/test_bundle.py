"""A folder appears whole or not at all: locks, kills, leftovers."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import sfumato as sf
from sfumato.errors import BundleError, DataError, LeftoverWarning
from sfumato.release import BundleWriter, Manifest, Release
from sfumato.release.bundle import UNFINISHED
from sfumato.release.manifest import PerturbedPart

# forks from a process that has everything loaded, so that a kill hits the run and not the imports
SERVER = """
import os, sys, time
import sfumato as sf
import sfumato.engines.publishing, sfumato.release, scipy.stats, duckdb
table = sf.read(sys.argv[1], quasi="x,y", sensitive="s")
for line in sys.stdin:
    place, seconds = line.split()
    child = os.fork()
    if child == 0:
        try:
            sf.publish(table, "rho-privacy(0.15, 0.4)", to=place, mechanism="uniform",
                       batch_rows=5_000)
        finally:
            os._exit(0)
    if float(seconds):
        time.sleep(float(seconds))
        os.kill(child, 9)  # a zombie at worst: nobody else has this number before waitpid
    os.waitpid(child, 0)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_killed_runs_leave_nothing_that_opens(tmp_path: Path, leftovers: Any) -> None:
    """kill -9 at 20 random moments; then a run that finishes."""
    rng = np.random.default_rng(3)
    rows = 120_000
    data = pa.table(
        {
            "x": rng.integers(0, 1000, rows),
            "y": rng.random(rows),
            "s": np.array([f"v{i}" for i in range(10)])[rng.integers(0, 10, rows)],
        }
    )
    pq.write_table(data, tmp_path / "people.parquet")
    moments = random.Random(5)
    folder = tmp_path / "places"
    folder.mkdir()
    # one worker that forks a child per run, in this environment
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER, str(tmp_path / "people.parquet")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None

        def run(seconds: float = 0.0) -> float:
            began = time.monotonic()
            print(f"{folder}/release {seconds}", file=server.stdin, flush=True)
            assert server.stdout.readline() == "done\n"
            return time.monotonic() - began

        run()
        Release(folder / "release")
        shutil.rmtree(folder / "release")
        whole = run()
        killed = unfinished = 0
        for _ in range(20):
            if (folder / "release").exists():
                Release(folder / "release")  # what is there is whole
                shutil.rmtree(folder / "release")
            run(0.001 + moments.random() * min(whole, 1.0))
            left = sorted(path.name for path in folder.iterdir())
            hidden = [name for name in left if name.startswith(".")]
            assert len(hidden) <= 1
            assert set(left) <= {f".release{UNFINISHED}", "release"}
            unfinished += len(hidden)
            killed += not (folder / "release").exists()
            for name in hidden:
                with pytest.raises(BundleError, match=r"did not finish|is not a release"):
                    Release(folder / name)
        assert killed >= 5  # otherwise this test tells nothing
        assert unfinished >= 3
        if (folder / "release").exists():
            shutil.rmtree(folder / "release")
        run()
        server.stdin.close()
    assert leftovers(folder) == [
        "release", "release/manifest.json", "release/records",
        "release/records/part-00000.parquet",
    ]  # fmt: skip
    Release(folder / "release")


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
