"""The audit of decoys passes honest releases and catches dishonest ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audits import Verdict, audit
from sfumato.draws import Draws
from sfumato.engines.publishing import publish
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Batch, Mechanism, Published
from sfumato.mechanisms.splu import DecoyPlan, DecoyValues
from sfumato.profile import Profile
from sfumato.table import Table, read

GROUPS = 4


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, 5003)
    disease = (rng.integers(0, 10, 5003) + sex * 2) % 12
    work = rng.integers(0, 15, 5003)
    shown = {"age": rng.integers(0, 40, 5003), "sex": sex, "disease": disease, "work": work}
    return read(pa.table(shown), quasi=["age", "sex"], sensitive=["disease", "work"])


def audited(
    table: Table, folder: Path, mechanism: Mechanism | None = None
) -> dict[tuple[str, str], bool | None]:
    """Findings by name."""
    publish(
        table,
        f"small-sum(groups={GROUPS})",
        to=folder / "release",
        mechanism=mechanism,
        seed=3,
        receipt=folder / "receipt",
    )
    found = findings(audit(table, folder / "release"))
    return found | findings(audit(table, folder / "release", receipt=folder / "receipt"))


def findings(verdict: Verdict) -> dict[tuple[str, str], bool | None]:
    return {(f.check.name, f.column): f.holds for f in verdict.findings}


def test_honest_releases_pass(table: Table, tmp_path: Path) -> None:
    found = audited(table, tmp_path)
    assert all(holds for (_, column), holds in found.items() if column), found
    assert found["draws", None]
    assert sum(check == "traced-groups" for check, _ in found) == 2


@dataclass(frozen=True)
class Honest(DecoyValues):
    """Publishes the truth: its counts look right, its records do not."""

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> DecoyPlan:
        made = super().plan(profile, guarantee, draws)
        return TruthPlan(made.columns, made.histograms, made.withheld)


class TruthPlan(DecoyPlan):
    def apply(self, batch: Batch, draws: Draws) -> Published:
        return Published(dict(batch.codes), keep=super().apply(batch, draws).keep)


def test_true_values_are_caught_though_their_counts_are_right(table: Table, tmp_path: Path) -> None:
    found = audited(table, tmp_path, Honest())
    assert not found["draws", None]


class ShiftedPlan(DecoyPlan):
    def apply(self, batch: Batch, draws: Draws) -> Published:
        published = super().apply(batch, draws)
        shifted = {name: np.minimum(codes, 8) for name, codes in published.codes.items()}
        return Published(shifted, keep=published.keep)


@dataclass(frozen=True)
class Shifted(DecoyValues):
    """Turns some published values into others."""

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> DecoyPlan:
        made = super().plan(profile, guarantee, draws)
        return ShiftedPlan(made.columns, made.histograms, made.withheld)


def test_wrong_counts_and_values_from_outside_a_group_are_caught(
    table: Table, tmp_path: Path
) -> None:
    found = audited(table, tmp_path, Shifted())
    assert not found["draws", None]
