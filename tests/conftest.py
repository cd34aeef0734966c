"""What many tests share: the command line in this process, small tables, mutated releases."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

# two processes share the machine: threads of numpy and scikit-learn would wait for one another
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

from tests import tables

# the same examples in every run, as keys are the same; --hypothesis-profile=random looks further
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("random", **_PATIENT)
settings.register_profile("repeatable", derandomize=True, **_PATIENT)
settings.load_profile("repeatable")

STARTED_ONCE = ("spark", "postgres", "site")  # servers that a whole run shares


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Nobody pulls the plug in a test: what it writes need not have reached the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_seeds() -> Iterator[None]:
    """An audit tries the key of a receipt against 2**24 seeds, ten seconds: here some hundred."""
    from sfumato.audits import replay

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "SEEDS", 500)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """While all is loaded there is nothing to clear away."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Thousands of tests and their libraries stay to the end: the collector need not look again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


class _Keys:
    """Keys of this run: the place that asks (a test, a fixture) and how often it asked before."""

    def __init__(self) -> None:
        self.place = "start"
        self.asked: dict[str, int] = {}

    def next(self, size: int) -> bytes:
        number = self.asked[self.place] = self.asked.get(self.place, 0) + 1
        return hashlib.sha256(f"{self.place} {number}".encode()).digest()[:size]


_KEYS = _Keys()


@pytest.fixture(scope="session", autouse=True)
def _repeatable_keys() -> Iterator[None]:
    """A failure can be seen again: `Draws.system` gives keys that follow from who asks for them.

    Programs that a test starts have the operating system's keys, as everybody else has.
    """
    from sfumato import draws

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "fresh_key", _KEYS.next)
        yield


def own_name(item: Any) -> str:
    """A test's name as it is without xdist, which writes the group behind it."""
    name: str = item.nodeid
    return name.rpartition("@")[0] if name.rfind("@") > name.rfind("]") else name


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """What many tests share draws alike, whichever of them is the first."""
    before, _KEYS.place = _KEYS.place, f"{fixturedef.baseid} {fixturedef.argname}"
    if hasattr(request, "param_index"):
        _KEYS.place += f" {request.param_index}"
    if fixturedef.scope == "function":
        _KEYS.place += f" {own_name(request.node)}"
    try:
        return (yield)
    finally:
        _KEYS.place = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _KEYS.place = own_name(item)
    _KEYS.asked.pop(_KEYS.place, None)
    return (yield)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What tests share is made once: `--dist loadgroup` keeps its users in one process.

    Whoever needs Spark or PostgreSQL is slow. What is slow comes first, so that
    no process is left with a long journey when the others are through.
    """
    for item in items:
        shared = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        scopes = {found[-1].scope for found in shared.values() if found}
        server = next((name for name in STARTED_ONCE if name in shared), None)
        if server is not None:
            item.add_marker(pytest.mark.xdist_group(server))
            if server in ("spark", "postgres"):
                item.add_marker(pytest.mark.slow)
        elif "module" in scopes:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on standard output; fails where there is anything else."""
        return json.loads(self.out, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`cli("publish", …)` runs the program as `sfumato publish …` would, in this process."""

    def run(*arguments: object) -> Outcome:
        from sfumato.cli import app

        monkeypatch.setattr(sys, "argv", ["sfumato", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        capsys.readouterr()
        code: Any = 0
        try:
            app.run()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Outcome(int(code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def people() -> Callable[..., pa.Table]:
    return tables.people


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "steward.key"
    path.write_text("5a0123456789bcde" * 4)
    return path


@pytest.fixture
def people_file(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    pq.write_table(tables.people(400), path)
    return path


@pytest.fixture(scope="session")
def public_file() -> Callable[[str], Path]:
    """A file of the public data beside the repository; the test is skipped, by name, without it."""

    def find(name: str) -> Path:
        folder = os.environ.get("SFUMATO_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
        if not (Path(folder) / name).is_file():
            pytest.skip(f"{name} is not there")
        return Path(folder) / name

    return find


@pytest.fixture
def mutate() -> Callable[..., Path]:
    """Copy a release with changed records or manifest, hashes made right again."""

    def change(
        release: Path,
        to: Path,
        *,
        records: Callable[[pa.Table], pa.Table] | None = None,
        manifest: Callable[[dict[str, Any]], None] | None = None,
    ) -> Path:
        shutil.copytree(release, to)
        described = json.loads((to / "manifest.json").read_text("utf-8"))
        path = to / "records/part-00000.parquet"
        if records is not None:
            table = records(pq.read_table(path))
            pq.write_table(table, path, store_schema=False)
            described["rows"] = table.num_rows
        described["files"]["records/part-00000.parquet"] = {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        if manifest is not None:
            manifest(described)
        (to / "manifest.json").write_text(
            json.dumps(described, indent=2, ensure_ascii=False) + "\n", "utf-8"
        )
        return to

    return change


@pytest.fixture(scope="session")
def split() -> Callable[[Path, Path], Path]:
    """Copy a release with its records cut into four parts, one of them empty."""

    def cut(release: Path, to: Path) -> Path:
        shutil.copytree(release, to)
        described = json.loads((to / "manifest.json").read_text("utf-8"))
        records = pq.read_table(to / "records")
        ends = [0, records.num_rows // 3, records.num_rows // 3, records.num_rows // 2, None]
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            path = to / "records" / f"part-{number:05}.parquet"
            pq.write_table(records[start:end], path, store_schema=False)
            described["files"][f"records/{path.name}"] = {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "bytes": path.stat().st_size,
            }
        described["files"] = dict(sorted(described["files"].items()))
        (to / "manifest.json").write_text(
            json.dumps(described, indent=2, ensure_ascii=False) + "\n", "utf-8"
        )
        return to

    return cut


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark on two cores of this machine; its start takes seconds, so all tests share one."""
    pyspark_sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Spark's own about the versions around it
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            session = (
                # a task that fails is tried again, four times in all
                pyspark_sql.SparkSession.builder.master("local[2,4]")
                .appName("sfumato tests")
                # short runs: what the better compiler finds out about a program comes too late
                .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.memory", "1g")
                .config("spark.sql.shuffle.partitions", "4")
                .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
                .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
                .getOrCreate()
            )
            session.sparkContext.setLogLevel("OFF")
            yield session
            session.stop()


@pytest.fixture
def leftovers() -> Callable[[Path], list[str]]:
    """Everything in a folder, hidden files too."""

    def listed(folder: Path) -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))

    return listed


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Fewer guarantees for advice to choose from, because each takes a while."""

    def restrict(*names: str) -> None:
        from sfumato.guarantees import GUARANTEES

        families = import_module("sfumato.outlook.advise.families")
        monkeypatch.setattr(families, "GUARANTEES", {name: GUARANTEES[name] for name in names})

    return restrict
