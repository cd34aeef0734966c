"""A ledger refuses what releases of the same people would tell beyond its promise."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import _whole_program
from sfumato.engines.ledger import Ledger
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.release import Release

VALUES = [f"v{number}" for number in range(10)]
ALL = "rho-privacy(0.12, 0.5)"  # odds may rise 22/3 times in all
EACH = "rho-privacy(0.12, 0.2)"  # and 11/6 times in each: three times, not four
ROLES = {"quasi": "row", "sensitive": "job", "mechanism": "uniform"}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Everybody is alone with their row, so that anybody can follow them."""
    rng = np.random.default_rng(2)
    return pa.table({"row": range(3000), "job": np.array(VALUES)[rng.integers(0, 10, 3000)]})


def beliefs(releases: list[Path], people: pa.Table) -> np.ndarray:
    """What the averaging reader believes, who follows everybody and knows the true shares."""
    truth = np.array([VALUES.index(job) for job in people["job"].to_pylist()])
    belief = np.log(np.tile(np.bincount(truth) / len(truth), (len(truth), 1)))
    for folder in releases:
        shown = pq.read_table(folder / "records").sort_by("row")
        codes = np.array([VALUES.index(job) for job in shown["job"].to_pylist()])
        belief += np.log(Release(folder).operators["job"].matrix()[:, codes].T)
    chance = np.exp(belief - belief.max(axis=1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def test_the_averaging_reader_is_stopped(people: pa.Table, tmp_path: Path) -> None:
    """24 releases are asked for. Nobody may believe more than 1/2 of what had 0.12 at most."""
    ledger = tmp_path / "ledger"
    made: list[Path] = []
    refused: list[str] = []
    for number in range(24):
        to = tmp_path / f"month {number}"
        try:
            sf.publish(people, EACH, to=to, ledger=ledger, ledger_promise=ALL, **ROLES)
            made.append(to)
        except InfeasibleGuarantee as error:
            refused.append(str(error))
    assert (len(made), len(refused)) == (3, 21)
    assert all("What is left is a factor of 1.19" in told for told in refused)
    assert sorted(path.name for path in tmp_path.glob("month *")) == [p.name for p in made]
    shares = np.unique(people["job"].to_numpy(), return_counts=True)[1] / people.num_rows
    assert shares.max() <= 0.12
    assert beliefs(made, people).max() <= 0.5
    # without the ledger it goes on: the same reader, after 24 releases
    for number in range(24 - len(made)):
        to = tmp_path / f"more {number}"
        sf.publish(people, EACH, to=to, **ROLES)
        made.append(to)
    assert beliefs(made, people).max() > 0.9


def test_what_is_left_can_be_used(people: pa.Table, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    for number in range(3):
        sf.publish(people, EACH, to=tmp_path / str(number), ledger=ledger, ledger_promise=ALL,
                   **ROLES)  # fmt: skip
    left = Fraction(22, 3) / Fraction(11, 6) ** 3
    odds = left * Fraction(12, 88)
    stricter = f"rho-privacy(0.12, {odds / (1 + odds)})"
    done = sf.publish(people, stricter, to=tmp_path / "last", ledger=ledger, **ROLES)
    assert "Ledger: 4 releases together may have raised odds 7.333 of 7.333 times" in str(done)


def test_draws_of_a_key_file_count_once(people: pa.Table, tmp_path: Path) -> None:
    key, ledger = tmp_path / "key", tmp_path / "ledger"
    CliRunner().invoke(_whole_program(), ["keygen", str(key)])
    roles = {**ROLES, "quasi": "age", "key": "row"}
    aged = people.append_column("age", pa.array([30] * people.num_rows))
    for number in range(5):
        sf.publish(aged, ALL, to=tmp_path / str(number), ledger=ledger, key_file=key, **roles)
    with pytest.raises(InfeasibleGuarantee, match="no room"):  # another operator draws afresh
        sf.publish(aged, EACH, to=tmp_path / "x", ledger=ledger, key_file=key, **roles)
    assert key.read_text().strip() not in ledger.read_text()


def publish_with(people: pa.Table, folder: Path, number: int, **changes: str) -> None:
    roles = {**ROLES, "quasi": "age", "key": "row", **changes}
    listed = people.select([*roles["quasi"].split(","), roles["sensitive"], roles["key"]])
    sf.publish(listed, EACH, to=folder / str(number), ledger=folder / "ledger",
               ledger_promise=ALL, key_file=folder / "key", **roles)  # fmt: skip


def told(folder: Path, column: str = "job") -> float:
    return float(Ledger.from_text((folder / "ledger").read_text()).told(column))


@pytest.mark.parametrize("change", ["key", "sensitive", "recoded", "renumbered"])
def test_other_keys_and_other_names_are_other_draws(
    people: pa.Table, tmp_path: Path, change: str
) -> None:
    """Twelve releases under one key file, each with draws of its own: the fourth is refused."""
    CliRunner().invoke(_whole_program(), ["keygen", str(tmp_path / "key")])
    people = people.append_column("age", pa.array([30] * people.num_rows))
    for number in range(12):
        table, changes = people, {}
        if change == "key":  # draws follow from the keys' values
            changes["key"] = f"key {number}"
            table = people.append_column(changes["key"], people["row"])
        elif change == "renumbered":
            other = pa.array([row + 10_000 * number for row in range(people.num_rows)])
            table = people.set_column(0, "row", other)
        else:
            changes["sensitive"] = f"job {number}"
            values = people["job"].to_pylist()
            recoded = [f"{v} {number}" for v in values] if change == "recoded" else values
            table = people.append_column(changes["sensitive"], pa.array(recoded))
        if number < 3:
            publish_with(table, tmp_path, number, **changes)
        else:
            with pytest.raises(InfeasibleGuarantee, match=r"no room.*One draw is counted once"):
                publish_with(table, tmp_path, number, **changes)


def test_an_honest_series_stays_at_one_draw(people: pa.Table, tmp_path: Path) -> None:
    """A tenth of the people leave and as many come, twelve times; others all at once count anew."""
    CliRunner().invoke(_whole_program(), ["keygen", str(tmp_path / "key")])
    everybody = pa.table({"row": range(9000), "job": people["job"].to_pylist() * 3,
                          "age": [30] * 9000})  # fmt: skip
    for number in range(12):
        publish_with(everybody.slice(300 * number, 3000), tmp_path, number)
    assert told(tmp_path) == pytest.approx(11 / 6)
    publish_with(everybody.slice(0, 3000), tmp_path, 12)  # all of them were there before
    assert told(tmp_path) == pytest.approx(11 / 6)
    publish_with(everybody.slice(6300, 2700), tmp_path, 13)  # nobody was
    assert told(tmp_path) == pytest.approx((11 / 6) ** 2)


def test_columns_published_together_are_others(people: pa.Table, tmp_path: Path) -> None:
    both = people.append_column("past job", people["job"])
    roles = {**ROLES, "sensitive": ["job", "past job"]}
    sf.publish(both, EACH, to=tmp_path / "r", ledger=tmp_path / "ledger", ledger_promise=ALL,
               **roles)  # fmt: skip
    assert told(tmp_path) == pytest.approx(11 / 6)


def test_a_ledger_is_private_and_refuses_what_it_cannot_count(
    people: pa.Table, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    sf.publish(people, EACH, to=tmp_path / "one", ledger=ledger, ledger_promise=ALL, **ROLES)
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    before = ledger.read_text()
    with pytest.raises(UsageError, match="cannot be for another promise"):
        sf.publish(people, EACH, to=tmp_path / "r", ledger=ledger, ledger_promise=EACH, **ROLES)
    with pytest.raises(UsageError, match="two releases by it can be intersected"):
        sf.publish(people, "l-diversity(3)", to=tmp_path / "r", ledger=ledger, quasi="row",
                   sensitive="job")  # fmt: skip
    with pytest.raises(UsageError, match="limits something else"):
        sf.publish(people, "l-diversity(3)", to=tmp_path / "r", ledger=tmp_path / "new",
                   quasi="row", sensitive="job")  # fmt: skip
    with pytest.raises(UsageError, match="needs its ledger="):
        sf.publish(people, EACH, to=tmp_path / "r", ledger_promise=ALL, **ROLES)
    with pytest.raises(UsageError, match="would lie in the release"):
        sf.publish(people, EACH, to=tmp_path / "r", ledger=tmp_path / "r" / "x", **ROLES)
    assert ledger.read_text() == before
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "r").exists()
    for text in (
        "",
        "{}",
        before.replace('"gamma": "', '"gamma": "-'),
        before.replace('"ledger": 2', '"ledger": 1'),
    ):
        broken = tmp_path / "broken"
        broken.unlink(missing_ok=True)
        broken.write_text(text)
        broken.chmod(0o600)
        with pytest.raises(DataError, match="not a file that 'publish ledger=' wrote"):
            sf.publish(people, EACH, to=tmp_path / "r", ledger=broken, **ROLES)


def test_on_the_command_line(people: pa.Table, tmp_path: Path) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    said = ["publish", str(tmp_path / "people.parquet"), "--quasi", "row", "--sensitive", "job",
            "--mechanism", "uniform", "--ledger", str(tmp_path / "ledger")]  # fmt: skip
    first = CliRunner().invoke(
        _whole_program(), [*said, "--guarantee", EACH, "--out", str(tmp_path / "one")]
    )
    assert first.exit_code == 0, first.output
    assert "Ledger: one release" in first.output
    again = CliRunner().invoke(
        _whole_program(), [*said, "--guarantee", EACH, "--out", str(tmp_path / "two")]
    )
    assert isinstance(again.exception, InfeasibleGuarantee)
