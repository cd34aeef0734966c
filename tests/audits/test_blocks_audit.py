"""Audits of local buckets: the tree follows from quasi-identifiers, refusals are draws."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audits import Verdict
from sfumato.blocks import Cut
from sfumato.mechanisms.buckets import local, tree
from sfumato.mechanisms.buckets.tree import Node

ROWS = 2400


def people(seed: int = 1) -> pa.Table:
    """Towns and dates with ties, values that go with the age a little."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, ROWS)
    born = [datetime.date(2020 - int(a), 1 + int(a) % 12, 1) for a in age]
    ill = (rng.integers(0, 7, ROWS) + (age > 60) * (rng.random(ROWS) < 0.2)) % 8
    return pa.table(
        {
            "born": pa.array(born, mask=rng.random(ROWS) < 0.05),
            "town": np.array(["Ulm", "Bonn", "Jena", "Kiel"])[np.arange(ROWS) % 4],
            "ok": rng.random(ROWS) < 0.4,
            "ill": np.array([f"d{v}" for v in ill]),
        }
    )


ROLES: dict[str, Any] = {"quasi": ["born", "town", "ok"], "sensitive": "ill"}


def released(
    folder: Path, table: pa.Table, promise: str = "l-diversity(4)", way: str = "local", **more: Any
) -> Verdict:
    """The verdict on a release, however it was made."""
    sf.publish(table, promise, to=folder, mechanism=way, **{**ROLES, **more})
    return sf.audit(table, folder)


def failed(verdict: Verdict) -> set[str]:
    return {finding.check.name for finding in verdict.findings if finding.holds is False}


def test_honest_releases_pass_and_their_trees_were_grown_again(tmp_path: Path) -> None:
    """Towns are equally common: which is named first follows from the domain that was stated."""
    table = people()
    domain = {"town": ["Ulm", "Kiel", "Jena", "Bonn"]}
    for number, way in enumerate(("local", "local(min=40)", "local(columns=town;ok)")):
        verdict = released(tmp_path / str(number), table, way=way, domain=domain)
        assert not failed(verdict), verdict
        assert "blocks" in {finding.check.name for finding in verdict.findings}
    two = table.append_column("job", pa.array(np.array(list("abcdefg"))[np.arange(ROWS) % 7]))
    verdict = released(tmp_path / "two", two, sensitive=["ill", "job"], joint=True)
    assert not failed(verdict), verdict
    small = released(tmp_path / "one", table.slice(0, 150))
    assert not failed(small), small


def test_a_tree_that_sorts_towns_by_who_is_ill_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else of the release is right: the cut alone says in which towns somebody is."""
    kept = local.grow

    def grown(cells: Any, least: int, columns: Any = ()) -> Any:
        root, _ = kept(cells, least, columns)
        town = next(n for n, bins in enumerate(cells.columns) if bins.column == "town")
        first = cells.codes[town] == cells.columns[town].values.index("Jena")
        sides = Node("0", 0, 1), Node("1", 1, 2)
        cut = Cut("town", values=("Jena",))
        return replace(root, after=2, cut=cut, sides=sides), np.where(first, 0, 1)

    monkeypatch.setattr(local, "grow", grown)
    sf.publish(people(), "l-diversity(4)", to=tmp_path / "r", mechanism="local", **ROLES)
    assert sf.open(tmp_path / "r").manifest.plan.blocks
    monkeypatch.setattr(local, "grow", kept)
    assert failed(sf.audit(people(), tmp_path / "r")) == {"blocks"}


def test_a_cut_that_leaves_a_value_no_room_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 % of one side: within f' = 1/4, above f'' = 10/43; honestly it is refused."""
    town = np.arange(1600) % 2
    ill = np.where(np.arange(1600) // 2 % 50 < 12 - 4 * town, 0, np.arange(1600) // 2 % 7 + 1)
    table = pa.table({"town": np.array(["Ulm", "Bonn"])[town], "ill": ill})
    roles = {"quasi": "town", "sensitive": "ill"}
    with monkeypatch.context() as patched:
        patched.setattr(tree, "exchanges", lambda *_: None)
        sf.publish(table, "l-diversity(4)", to=tmp_path / "r", mechanism="local", **roles)
    assert "blocks" in failed(sf.audit(table, tmp_path / "r"))


def test_cuts_that_are_refused_at_will_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root is 240 exchanges away from a ceiling, and yet it is refused."""
    table = people()
    more = np.where(np.arange(ROWS) % 6, table["ill"].to_numpy(zero_copy_only=False), "d0")
    table = table.set_column(3, "ill", pa.array(more.astype(str)))
    with monkeypatch.context() as patched:
        patched.setattr(tree, "refused", lambda away, path, draws: path == "")
        sf.publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism="local", **ROLES)
    assert failed(sf.audit(table, tmp_path / "r")) == {"draws"}


def test_buckets_of_a_refused_block_keep_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled under f' = 1/4 as if nothing had been refused: buckets of four people."""
    with monkeypatch.context() as patched:
        patched.setattr(local, "inside_blocks", lambda limits: limits)
        patched.setattr(tree, "refused", lambda away, path, draws: path == "0")
        sf.publish(people(), "l-diversity(4)", to=tmp_path / "r", mechanism="local", **ROLES)
    assert "refused-blocks" in failed(sf.audit(people(), tmp_path / "r"))


def test_where_rows_of_people_were_drawn_the_tree_is_for_the_receipt(tmp_path: Path) -> None:
    table = people().append_column("who", pa.array(np.arange(ROWS) // 2))
    verdict = released(tmp_path / "r", table, person="who", way="local(min=60)")
    assert not failed(verdict), verdict
    (said,) = [finding for finding in verdict.findings if finding.check.name == "blocks"]
    assert "audit with --receipt" in str(said.value)


MOMENTS = pa.array(np.random.default_rng(5).integers(0, 10**9, ROWS), pa.timestamp("s"))
KINDS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "intervals": (
        pa.array(np.random.default_rng(6).normal(0, 20, ROWS)),
        {"recode": {"q": "bins(-inf, -20, 0, 20, inf)"}},
    ),
    "times with a zone": (MOMENTS.cast(pa.timestamp("us", "Europe/Berlin")), {}),
    "times of day": (pa.array(np.arange(ROWS) * 31 % 86_400, pa.int32()).cast(pa.time32("s")), {}),
    "decimals": (pa.array(np.arange(ROWS) % 700 - 350).cast(pa.decimal128(21, 2)), {}),
    "merged for k": (pa.array(np.arange(ROWS) % 300), {"quasi_k": 5}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_of_every_kind_are_read_again(kind: str, tmp_path: Path) -> None:
    """Written as text or number, read as the column has it: everybody stands in their block."""
    shown, more = KINDS[kind]
    table = pa.table({"q": shown, "ill": people()["ill"]})
    verdict = released(tmp_path / "r", table, way="local(min=60)", **{**more, "quasi": "q"})
    assert not failed(verdict), verdict
    release = sf.open(tmp_path / "r")
    assert sum(node.column is not None for node in release.manifest.plan.blocks) >= 3
    assert release.sql("SELECT COUNT(*) AS n FROM release").rows()[0]["n"] == ROWS
