"""`audit --previous`: whoever stayed is shown alike, and a redrawn release is caught."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits import AuditCase, Verdict
from sfumato.audits.case import raw_table
from sfumato.audits.republication import check_previous
from sfumato.errors import DataError, UsageError
from sfumato.release import Release

PROMISE = "rho-privacy(0.2, 0.5)"
ROWS = 4_000


def people(rows: int = ROWS, *, ages: int = 70, seed: int = 0, start: int = 0) -> pa.Table:
    """People with a key, quasi columns that single most of them out, and one of ten values."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + rows), pa.int64()),
            "age": pa.array(rng.integers(0, ages, rows), pa.int64()),
            "zip": pa.array(rng.integers(0, 10 * ages, rows), pa.int64()),
            "s": np.array([f"v{i}" for i in range(10)])[rng.integers(0, 10, rows)],
        }
    )


def changed(table: pa.Table, column: str, rows: Any, values: Any) -> pa.Table:
    array = table.column(column).to_numpy(zero_copy_only=False).copy()
    array[rows] = values
    return table.set_column(table.schema.names.index(column), column, pa.array(array))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "steward.key"
    path.write_text(secrets.token_hex(32))
    return path


@pytest.fixture
def publish(tmp_path: Path, key_file: Path) -> Callable[..., Path]:
    def made(data: pa.Table, name: str, *, keyed: bool = True, quasi: str = "age,zip",
             **options: Any) -> Path:  # fmt: skip
        drop = [n for n in ("age", "zip") if n not in quasi]
        table = sf.read(
            data, quasi=quasi, sensitive="s", key="id", drop=drop,
            domain={"s": [f"v{i}" for i in range(10)]},
        )  # fmt: skip
        given = {"mechanism": "uniform", **({"key_file": key_file} if keyed else {}), **options}
        sf.publish(table, given.pop("guarantee", PROMISE), to=tmp_path / name, **given)
        return tmp_path / name

    return made


def compared(data: pa.Table, new: Path, old: Path, before: pa.Table | None = None) -> Verdict:
    """What `audit` says about the two releases together, without its other checks."""
    release, then = Release(new), Release(old)
    table = None if before is None else raw_table(before, then)
    case = AuditCase(raw_table(data, release), release, key="id", before=then, before_table=table)
    return Verdict(tuple(check_previous(case)), "the two releases")


def history(verdict: Verdict) -> Any:
    """The finding about the records; all findings before it hold."""
    *others, last = verdict.findings
    assert all(finding.holds for finding in others), str(verdict)
    assert last.check.name == "as-before"
    return last


def test_whoever_stayed_is_shown_alike(publish: Callable[..., Path]) -> None:
    data = people()
    old = publish(data, "old")
    new = publish(data.take(np.random.default_rng(1).permutation(ROWS)), "new", batch_rows=333)
    found = history(compared(data, new, old))
    assert found.holds
    assert 2_000 < int(found.witness.split()[0].replace(",", "")) <= ROWS
    found = history(compared(data, new, old, data))
    assert found.holds
    assert found.witness == f"{ROWS:,} people followed"


@pytest.mark.parametrize("table_too", [False, True])
def test_a_redrawn_release_fails(publish: Callable[..., Path], table_too: bool) -> None:
    data = people()
    old, new = publish(data, "old"), publish(data, "new", keyed=False)
    verdict = compared(data, new, old, data if table_too else None)
    failed = [f.check.name for f in verdict.findings if not f.holds]
    assert failed == ["personal-draws", "as-before"]
    last = verdict.findings[-1]
    assert last.limit == 0
    assert last.value > 1_000
    assert "people followed; age " in last.witness


def test_one_redrawn_person_is_found(
    publish: Callable[..., Path], mutate: Callable[..., Path], tmp_path: Path
) -> None:
    """The release says it used the key file, and did for all but one."""
    data = people()
    old, honest = publish(data, "old"), publish(data, "new")
    shown = pq.read_table(honest / "records")
    pairs = list(zip(*(shown.column(n).to_pylist() for n in ("age", "zip")), strict=True))
    alone = next(row for row, pair in enumerate(pairs) if pairs.count(pair) == 1)
    now = shown.column("s")[alone].as_py()
    other = "v1" if now == "v0" else "v0"
    lie = mutate(honest, tmp_path / "lie", records=lambda t: changed(t, "s", [alone], other))
    for before in (None, data):
        found = history(compared(data, lie, old, before))
        assert not found.holds
        assert found.value == 1
        assert f"age {pairs[alone][0]}, zip {pairs[alone][1]}: '{now}', then" in found.witness


def test_people_who_look_alike_are_followed_together(publish: Callable[..., Path]) -> None:
    data = people(ages=3)  # 90 combinations for 4,000 people: nobody is alone
    old, new = publish(data, "old"), publish(data, "new")
    assert history(compared(data, new, old, data)).holds
    unknown = history(compared(data, new, old))
    assert not unknown.holds
    assert "give --previous-table and --key" in unknown.witness
    fresh = publish(data, "fresh", keyed=False)
    found = compared(data, fresh, old, data).findings[-1]
    assert not found.holds
    assert found.value > 300


def test_without_quasi_columns(publish: Callable[..., Path]) -> None:
    data = people()
    old, new = publish(data, "old", quasi=""), publish(data, "new", quasi="")
    assert history(compared(data, new, old, data)).holds
    fresh = publish(data, "fresh", quasi="", keyed=False)
    assert not compared(data, fresh, old, data).holds


def test_a_year_later(publish: Callable[..., Path]) -> None:
    """Values changed, everybody is a year older, some moved, some left, some are new."""
    before = people()
    rng = np.random.default_rng(2)
    sick = rng.permutation(ROWS)[:500]
    after = changed(before, "s", sick, [f"v{i}" for i in rng.integers(0, 10, 500)])
    after = changed(after, "age", np.arange(ROWS), before.column("age").to_numpy() + 1)
    after = changed(after, "zip", rng.permutation(ROWS)[:300], 9_999)
    after = pa.concat_tables([after.slice(400), people(600, seed=7, start=ROWS)])
    old, new = publish(before, "old"), publish(after, "new")
    found = history(compared(after, new, old, before))
    assert found.holds
    assert int(found.witness.split()[0].replace(",", "")) > 1_500
    # without the earlier table, other people and changed values look like redrawn ones
    unknown = history(compared(after, new, old))
    assert not unknown.holds
    assert "if their values changed, give --previous-table" in unknown.witness


def test_missing_quasi_values_are_values(publish: Callable[..., Path]) -> None:
    data = people(300)
    ages = [None if i % 7 == 0 else age for i, age in enumerate(data.column("age").to_pylist())]
    data = data.set_column(1, "age", pa.array(ages, pa.int64()))
    old, new = publish(data, "old"), publish(data, "new")
    found = history(compared(data, new, old, data))
    assert found.holds
    assert found.witness == "300 people followed"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"guarantee": "rho-privacy(0.2, 0.6)"}, "the operator is another"),
        ({"mechanism": "fine-grain(objective=counts)", "guarantee": "fine-rho-privacy(theta=4)"},
         "the operator is another"),
    ],
)  # fmt: skip
def test_another_operator_fails(
    publish: Callable[..., Path], options: dict[str, str], complaint: str
) -> None:
    data = people()
    old, new = publish(data, "old"), publish(data, "new", **options)
    verdict = compared(data, new, old)
    failed = [finding for finding in verdict.findings if not finding.holds]
    assert [finding.check.name for finding in failed] == ["same-operator"]
    assert complaint in failed[0].witness


def test_another_domain_fails(publish: Callable[..., Path], tmp_path: Path, key_file: Path) -> None:
    data = people()
    old = publish(data, "old")
    table = sf.read(
        data, quasi="age,zip", sensitive="s", key="id",
        domain={"s": [f"v{i}" for i in range(11)]},
    )  # fmt: skip
    sf.publish(table, PROMISE, to=tmp_path / "new", mechanism="uniform", key_file=key_file)
    verdict = compared(data, tmp_path / "new", old)
    (failed,) = [finding for finding in verdict.findings if not finding.holds]
    assert "the domain is another (new: 'v10')" in failed.witness


def test_other_kinds_fail(publish: Callable[..., Path]) -> None:
    data = people()
    old = publish(data, "old")
    new = publish(data, "new", keyed=False, mechanism="optimal", guarantee="l-diversity(4)")
    last = compared(data, new, old).findings[-1]
    assert not last.holds
    assert last.value == "perturbed, then bucketed"


def test_the_command_line(cli: Any, publish: Callable[..., Path], tmp_path: Path) -> None:
    data, file = people(), tmp_path / "people.parquet"
    pq.write_table(data, file)
    old, new = publish(data, "old"), publish(data, "new")
    fresh = publish(data, "fresh", keyed=False)
    good = cli("audit", file, new, "--previous", old, "--previous-table", file, "--key", "id",
               "--verbose")  # fmt: skip
    assert good.code == 0, good
    assert "is not as published before: 0 (at most 0); 4,000 people followed" in good.out
    bad = cli("audit", file, fresh, "--previous", old, "--json")
    assert bad.code == 4
    assert not json.loads(bad.out)["holds"]
    for arguments, message in (
        (("--previous", old, "--previous-table", file), "name their column with --key"),
        (("--previous-table", file), "but not that release"),
        (("--previous", tmp_path / "nowhere"), "no release folder"),
        (("--previous", old, "--previous-table", file, "--key", "idd"), "has no column 'idd'"),
    ):
        outcome = cli("audit", file, new, *arguments)
        assert outcome.code == 2
        assert message in outcome.err


def test_repeated_keys_are_refused(publish: Callable[..., Path]) -> None:
    data = people()
    old, new = publish(data, "old"), publish(data, "new")
    keyed = sf.read(data, quasi="age,zip", sensitive="s", key="id")
    assert sf.audit(keyed, new, previous=old, previous_table=data).holds  # its own key column
    with pytest.raises(DataError, match=r"key column 'zip' .* repeats or lacks [\d,]+ keys"):
        sf.audit(data, new, previous=old, previous_table=data, key="zip")
    with pytest.raises(UsageError, match="key="):
        sf.audit(data, new, previous=old, previous_table=data)
