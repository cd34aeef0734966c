"""`sfumato init`: what it proposes for two files as they come, and that the proposal works."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.outlook.proposal import ANOTHER, propose
from tests.twins import census_file, hospital_file

ROWS = 3000


def test_a_hospital_file(tmp_path: Path) -> None:
    """50 columns, `?`, patients with several stays: one is sensitive, most are left out."""
    proposal = propose(hospital_file(tmp_path / "stays.csv", ROWS))
    table = proposal.table
    assert table["sensitive"] == ["diag_1"]
    others = [name for name, why in proposal.columns.items() if why == ANOTHER]
    assert sorted(others) == ["medical_specialty", "readmitted"]
    assert table["person"] == "patient_nbr"
    assert table["missing-markers"] == "?"
    assert table["missing"] == "value"
    assert {"race", "gender", "age"} <= set(table["quasi"])
    assert table["recode"]["diag_1"] == "prefix(3) then rare(20)"
    assert {"encounter_id", "diag_2", "diag_3", "weight", "insulin"} <= set(proposal.columns)
    assert "diag_1" in proposal.meaning


def test_a_census_without_names(tmp_path: Path) -> None:
    """Columns get names by what they hold, a dominant value is pointed out."""
    proposal = propose(census_file(tmp_path / "census.data", ROWS))
    table = proposal.table
    assert {"age", "education", "marital_status", "race", "sex", "country"} <= set(table["quasi"])
    assert table["sensitive"] == ["occupation"]
    assert len(table["columns"]) == 42
    assert proposal.columns["income"] == ANOTHER


def test_what_is_written_is_what_was_proposed(tmp_path: Path) -> None:
    proposal = propose(census_file(tmp_path / "census.data", ROWS))
    read = tomllib.loads(str(proposal))
    assert {**read["table"]} == {**proposal.table, "file": proposal.file, "drop-rest": True}
    assert read["publish"] == {"guarantee": proposal.guarantee, "out": "release"}


def test_the_adult_file_without_names(tmp_path: Path) -> None:
    """Its values tell what its columns are about."""
    rng = np.random.default_rng(3)
    columns = {
        "age": rng.integers(17, 91, ROWS),
        "class": rng.choice(["Private", "State-gov", "Self-emp-not-inc", "?"], ROWS),
        "schooling": rng.choice(
            ["Bachelors", "HS-grad", "11th", "Some-college", "Assoc-voc"], ROWS
        ),
        "job": rng.choice(["Adm-clerical", "Exec-managerial", "Machine-op-inspct", "Sales"], ROWS),
        "kin": rng.choice(["Husband", "Not-in-family", "Own-child", "Wife"], ROWS),
        "pay": rng.choice(["<=50K", ">50K"], ROWS, p=[0.76, 0.24]),
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    file = tmp_path / "adult.data"
    file.write_text("".join(", ".join(map(str, row)) + "\n" for row in rows))
    proposal = propose(file)
    assert proposal.table["quasi"] == ["age", "workclass", "education", "relationship"]
    assert proposal.table["sensitive"] == ["occupation"]


def test_codes_are_not_put_into_bins(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = tmp_path / "people.csv"
    people = zip(rng.integers(18, 90, ROWS), rng.integers(0, 50, ROWS), strict=True)
    file.write_text("age,occupation\n" + "".join(f"{age},{job}\n" for age, job in people))
    table = propose(file).table
    assert table["categorical"] == ["occupation"]
    assert list(table["recode"]) == ["age"]


def file_of(path: Path, **columns: Any) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        # thirteen people with HIV: rare(20) would make all values one, which no promise covers
        ({"sex": "mf" * 200, "hiv": ["yes"] * 13 + ["no"] * 387}, {"sensitive": ["hiv"]}),
        # as many incomes as people are no identifier, and get bins
        ({"sex": "mf" * 600, "salary": range(9000, 21000, 10)}, {"sensitive": ["salary"]}),
        ({"Alter": [20, 21, 22, 40] * 50, "Diagnose": "abcd" * 50}, {"quasi": ["Alter"]}),
        ({"name": ["Ann", "Bob", "Cid"], "ill": ["flu", "cold", "flu"]}, {"key": "name"}),
        ({"x1": [1, 2, 3, 4] * 50, "x2": [5, 6] * 100, "ill": "abcd" * 50}, {"sensitive": ["ill"]}),
    ],
)  # fmt: skip
def test_what_is_proposed_for_small_files_can_be_published(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: Any, said: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    proposal = propose(file_of(tmp_path / "people.csv", **columns))
    assert said.items() <= {**proposal.table}.items()
    assert cli("init", "people.csv").code == 0
    assert cli("publish").code == 0
    assert cli("audit").code == 0


@pytest.mark.parametrize("write", [hospital_file, census_file])
def test_four_commands_without_an_edit(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "people.csv", ROWS)
    for command in (("init", "people.csv", "--yes"), ("publish",), ("audit",), ("report",)):
        assert cli(*command).code == 0, command
    assert (tmp_path / "release-report" / "report.html").is_file()


def test_another_table_is_not_read_as_this_one(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job file in the folder is for its own table only."""
    monkeypatch.chdir(tmp_path)
    census_file(tmp_path / "people.csv", ROWS)
    (tmp_path / "other.csv").write_text("a,b\n1,x\n2,y\n")
    cli("init", "people.csv", "--yes")
    assert cli("describe", "other.csv").out.startswith("Columns. other.csv, 2 rows")
    assert "marital_status" in cli("describe").out


def test_nothing_sensitive(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("sex,age\n" + "f,30\nm,40\n" * 200)
    with pytest.raises(DataError, match="no column that looks sensitive"):
        propose(tmp_path / "plain.csv")


def test_columns_that_are_not_published_are_passed_over_with_a_note(tmp_path: Path) -> None:
    """Editing one line of a proposal is enough."""
    rng = np.random.default_rng(4)
    people = {"age": rng.integers(20, 60, 400), "ill": rng.choice(list("abc"), 400),
              "work": rng.choice(list("xyz"), 400)}  # fmt: skip
    roles = {"quasi": "age", "sensitive": "ill", "drop": "work", "recode": {"work": "rare(20)"},
             "categorical": "work", "domain": {"work": ["x", "y", "z"]}}  # fmt: skip
    stated = {"ill": "l-diversity(2)", "work": "l-diversity(3)"}
    done = sf.publish(pa.table(people), stated, to=tmp_path / "r", **roles)
    assert done.manifest.guarantee == "l-diversity(2)"
    assert any("what is said of them is not used: work" in note for note in done.notes)
    for wrong in ({"recode": {"wrk": "rare(20)"}}, {"categorical": "wrk"}):
        with pytest.raises(sf.SfumatoError, match="'wrk'"):
            sf.read(pa.table(people), **{**roles, **wrong})
    stated |= {"wrk": "l-diversity(2)"}
    with pytest.raises(sf.SfumatoError, match="something about wrk"):
        sf.publish(pa.table(people), stated, to=tmp_path / "x", **roles)
