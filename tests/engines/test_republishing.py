"""Publishing as before: the earlier operator and domain, held to the promise on today's counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.publishing import publish
from sfumato.errors import DataError, InfeasibleGuarantee, SfumatoError, UsageError

FINE = {"guarantee": "fine-rho-privacy(theta=3)", "mechanism": "fine-grain(objective=counts)"}
COUNTS = {"guarantee": "rho-privacy(0.06, 0.3)", "mechanism": "fine-grain(objective=counts)"}
UNIFORM = {"guarantee": "rho-privacy(0.2, 0.5)", "mechanism": "uniform"}


def people(counts: list[int], seed: int = 0) -> pa.Table:
    """One person per line; the shares of the values are those of `counts`."""
    values = np.repeat([f"v{i}" for i in range(len(counts))], counts)
    rng = np.random.default_rng(seed)
    rows = len(values)
    return pa.table({"id": rng.permutation(rows), "age": rng.integers(0, 9, rows), "s": values})


@pytest.fixture
def made(tmp_path: Path, key_file: Path) -> Any:
    def make(data: pa.Table, name: str, way: dict[str, str], **options: Any) -> Path:
        roles = {"quasi": "age", "sensitive": "s", "key": "id", **options.pop("roles", {})}
        given = {"key_file": key_file, **way, **options}
        publish(sf.read(data, **roles), given.pop("guarantee"), to=tmp_path / name, **given)
        return tmp_path / name

    return make


SPRING = people([400, 300, 150, 100, 50])
AUTUMN = people([390, 280, 190, 95, 45])


def test_the_operator_is_taken_over(made: Any) -> None:
    """By itself autumn's plan would be another, and everybody drawn again."""
    spring, alone = made(SPRING, "spring", COUNTS), made(AUTUMN, "alone", COUNTS)
    receipt = spring.with_name("receipt")
    autumn = made(AUTUMN, "autumn", COUNTS, previous=spring, receipt=receipt)
    plans = [sf.open(place).manifest.plan for place in (spring, alone, autumn)]
    assert plans[0] == plans[2] != plans[1]
    manifest = sf.open(autumn).manifest
    assert manifest.mechanism == COUNTS["mechanism"]
    blind = sf.audit(AUTUMN, autumn)  # whose plan the operator is, the receipt says
    assert blind.holds is None
    assert "audit with --receipt" in str(blind)
    assert sf.audit(AUTUMN, autumn, receipt=receipt).holds


def test_the_domain_is_taken_over(made: Any) -> None:
    """Nobody has v4 any more; without the earlier domain, m and so p would be others."""
    spring, gone = made(SPRING, "spring", UNIFORM), SPRING.slice(0, 950)
    autumn = made(gone, "autumn", UNIFORM, previous=spring)
    assert sf.open(autumn).manifest.plan == sf.open(spring).manifest.plan
    assert sf.audit(gone, autumn).holds is None  # v4 may have been added: spring lists it
    stated = sf.read(gone, quasi="age", sensitive="s", drop="id", domain={"s": "v0,v1,v2,v3,v4"})
    assert sf.audit(stated, autumn).holds
    alone = made(gone, "alone", UNIFORM)
    assert sf.open(alone).manifest.plan != sf.open(spring).manifest.plan


def test_a_column_may_be_new(made: Any) -> None:
    spring = made(SPRING, "spring", UNIFORM)
    more = AUTUMN.append_column("t", AUTUMN.column("s"))
    autumn = made(more, "autumn", UNIFORM, previous=spring, roles={"sensitive": "s,t"})
    operators = sf.open(autumn).manifest.plan.operators
    assert operators["s"] == sf.open(spring).manifest.plan.operators["s"]
    assert set(operators) == {"s", "t"}


def test_an_operator_that_tells_too_much_today_is_refused(made: Any, tmp_path: Path) -> None:
    """v4 became rare: theta times its share is less than what the operator lets conclude."""
    spring = made(SPRING, "spring", FINE)
    with pytest.raises(InfeasibleGuarantee, match="no longer keeps 'fine-rho-privacy") as caught:
        made(people([400, 300, 150, 100, 5]), "autumn", FINE, previous=spring)
    assert caught.value.witness == "'v4'"
    assert caught.value.exit_code == 3
    assert not (tmp_path / "autumn").exists()


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"key_file": None}, UsageError, "give key_file= too"),
        ({"guarantee": "rho-privacy(0.2, 0.6)"}, UsageError, "keeps 'rho-privacy"),
        ({"mechanism": "fine-grain"}, UsageError, "was made by 'uniform'"),
        ({"roles": {"domain": {"s": "v0,v1,v2,v3,v4,v5"}}}, UsageError, "domain stated for"),
        ({"data": people([400, 300, 150, 100, 40, 10])}, DataError, "outside the stated domain"),
    ],
)  # fmt: skip
def test_what_cannot_be_as_before_is_refused(
    made: Any, changes: dict[str, Any], error: type[SfumatoError], complaint: str
) -> None:
    spring = made(SPRING, "spring", UNIFORM)
    data = changes.pop("data", AUTUMN)
    with pytest.raises(error, match=complaint):
        made(data, "autumn", UNIFORM, previous=spring, **changes)


def test_only_releases_under_a_key_file_can_be_repeated(made: Any) -> None:
    spring = made(SPRING, "spring", UNIFORM, key_file=None)
    with pytest.raises(DataError, match="not published with a key file"):
        made(AUTUMN, "autumn", UNIFORM, previous=spring)
