"""A guarantee and a mechanism of one's own walk through the whole house, and no room needs an edit.

What is registered here stands in no module of sfumato: whatever names a guarantee instead of asking
the registry fails.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.guarantees import GUARANTEES
from tests.contracts import toy

ROLES = ("--quasi", "age,sex", "--sensitive", "disease")
PROMISE = "coin-toss(0.5)"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    toy.register()
    yield
    toy.forget()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = 3000
    people = pa.table(
        {
            "age": rng.integers(20, 60, rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "disease": np.array(["flu", "HIV", "ulcer", "none"])[
                rng.choice(4, rows, p=(0.3, 0.1, 0.2, 0.4))
            ],
        }
    )
    pq.write_table(people, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


@pytest.fixture
def release(cli: Any, table: Path) -> Path:
    to = table.parent / "release"
    made = cli("publish", table, *ROLES, "--guarantee", PROMISE, "--out", to)
    assert made.code == 0, made.err
    assert "mechanism  coin" in made.out
    return to


def test_publish_query_audit(cli: Any, table: Path, release: Path) -> None:
    asked = cli("query", release, "SELECT COUNT(*) FROM release WHERE disease = 'flu'", "--json")
    assert asked.json["rows"][0]["count"] == pytest.approx(900, abs=200)
    audited = cli("audit", table, release, "--json")
    # seeded or not: every check was made, the toy's own among them
    assert audited.code == 0, audited.out
    checks = {finding["check"]: finding for finding in audited.json["findings"]}
    assert checks["coin"]["holds"]
    assert "chance that disease is kept" in cli("audit", table, release, "--verbose").out


def test_an_audit_judges_by_the_toys_own_check(
    cli: Any, table: Path, release: Path, mutate: Any
) -> None:
    def stricter(manifest: dict[str, Any]) -> None:
        manifest["guarantee"] = "coin-toss(0.4)"

    bad = mutate(release, release.parent / "bad", manifest=stricter)
    assert cli("audit", table, bad).code == 4


def test_describe(cli: Any, table: Path, release: Path) -> None:
    assert "to 'coin-toss(0.95)'" in cli("describe", table, *ROLES).out
    told = cli("describe", table, *ROLES, "--guarantee", PROMISE)
    assert told.code == 0, told.err
    assert "a value is kept with a chance of at most 0.5" in told.out
    assert "whoever looks at the coin" in told.out
    assert "coin-toss(0.5)" in cli("describe", release).out


def test_advise(cli: Any, table: Path, only: Callable[..., None]) -> None:
    only("coin-toss")
    asked = ("advise", table, *ROLES, "--min-count", "100")
    found = cli(*asked, "--target-error", "0.3", "--json")
    assert found.code == 0, found.err
    best = found.json["recommended"]
    assert best["mechanism"] == "coin"
    assert best["against"] == "whoever trusts coins"
    cost = cli(*asked, "--guarantee", PROMISE, "--json")
    assert [option["mechanism"] for option in cost.json["options"]] == ["coin"]
    assert cost.json["options"][0]["error"] > 0


@pytest.mark.slow
def test_compare(cli: Any, table: Path, tmp_path: Path) -> None:
    done = cli(
        "compare", table, *ROLES, "--candidate", f"{PROMISE} by coin", "--candidate",
        "l-diversity(2)", "--questions", "50", "--attack", "linkage",
        "--out", tmp_path / "page", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    own, other = done.json["candidates"]
    assert own["mechanism"] == "coin"
    assert own["audit"]["holds"] is True
    # age and sex say nothing about the disease: no cut into blocks is worth it
    assert other["mechanism"] == "optimal"


@pytest.mark.slow
def test_report_and_attack(cli: Any, table: Path, release: Path, tmp_path: Path) -> None:
    done = cli("report", release, "--table", table, "--out", tmp_path / "report")
    assert done.code == 0, done.err
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "Pr(kept) ≤ 0.5" in page
    assert "chance that disease is kept" in page
    attacked = cli("attack", table, release, "--attack", "linkage", "--targets", "100")
    assert attacked.code == 0, attacked.err


ROOMS = ("cli", "engines", "evidence", "outlook", "pages", "queries", "release", "web")


def test_no_room_names_a_guarantee() -> None:
    own = {cls.__name__ for cls in GUARANTEES.values()}
    for room in ROOMS:
        for path in (Path(sf.__file__).parent / room).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
            named = {alias.name for node in imported for alias in node.names} & own
            assert not named, f"{path} names {named}"
