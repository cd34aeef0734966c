"""What an engine has to do, and that nothing else has to know of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.engine import Engine
from sfumato.engines.publishing import ENGINES
from sfumato.engines.stream import RecordStream
from sfumato.mechanisms import RecordPlan
from sfumato.profile import Profile

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")


class Ledger(Engine):
    """As little as an engine can be: one batch, one thread."""

    name: ClassVar[str] = "ledger"

    def stream(self, plan: RecordPlan, profile: Profile, draws: Draws) -> RecordStream:
        progress = self.options.progress
        return RecordStream(self.table, profile, plan, draws, profile.rows, False, progress)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "ledger", Ledger)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize(
    ("guarantee", "mechanism"),
    [
        ("rho-privacy(0.25, 0.5)", "uniform"),
        ("small-sum(groups=3)", "splu"),
        ("l-diversity(3)", "optimal"),
        ("reconstruction-privacy(0.3, 0.3)", "sps"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_new_engine_is_one_class(
    cli: Any, people_file: Path, tmp_path: Path, guarantee: str, mechanism: str
) -> None:
    """It publishes, through the command line too, what the local engine does, byte for byte."""
    flags = (*ROLES, "--guarantee", guarantee, "--mechanism", mechanism, "--seed", "5")
    for engine in ("ledger", "local"):
        found = cli("publish", people_file, *flags, "--engine", engine, "--out", tmp_path / engine)
        assert found.code == 0, found.err
    assert contents(tmp_path / "ledger") == contents(tmp_path / "local")


@pytest.mark.usefixtures("ledger")
def test_plans_that_an_engine_cannot_run_are_refused(people_file: Path, tmp_path: Path) -> None:
    table = sf.read(people_file, quasi="age,sex,region", sensitive="disease")
    with pytest.raises(sf.UsageError, match="must see all records at once"):
        sf.publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="ring", engine="ledger")
    assert not (tmp_path / "r").exists()
