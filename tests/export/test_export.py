"""A release in the formats of others: whole, valid, and silent about what the release hides."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.export import FORMATS
from tests.tables import DISEASES
from tests.tables import people as make_people

KINDS = {
    "bucketed": ("l-diversity(3)", None),
    "perturbed": ("rho-privacy(0.3, 0.6)", "partitioned"),
    "generalized": ("l-diversity(3)", "heterogeneous"),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("export")
    for name, (guarantee, mechanism) in KINDS.items():
        sf.publish(
            make_people(300),
            guarantee,
            mechanism=mechanism,
            to=folder / name,
            quasi=["age", "sex", "region"],
            sensitive="disease",
        )
    return {name: folder / name for name in KINDS}


def fields_of(release: Path) -> dict[str, list[str]]:
    files = [*release.glob("*.parquet"), release / "records/part-00000.parquet"]
    return {
        path.stem if path.parent == release else "records": pq.read_schema(path).names
        for path in files
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_is_in_every_format(releases: dict[str, Path], kind: str) -> None:
    release = releases[kind]
    fields = fields_of(release)
    told = {name: sf.export_metadata(release, name).text for name in FORMATS}
    sets = {s["name"]: s for s in json.loads(told["croissant"])["recordSet"]}
    assert {name: [f["name"] for f in s["field"]] for name, s in sets.items()} == fields
    for names in fields.values():
        assert all(f">{name}</td>" in told["dictionary"] for name in names)
    for statement in sf.open(release).manifest.statement:
        assert statement in json.loads(told["croissant"])["description"]


def test_croissant_is_valid_and_its_records_can_be_read(
    releases: dict[str, Path], tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library's own about its imports
        mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
        shutil.copytree(releases["bucketed"], tmp_path / "bucketed")
        done = sf.export_metadata(
            tmp_path / "bucketed",
            "croissant",
            out=tmp_path,
            creator="City Hospital",
            license="https://creativecommons.org/licenses/by/4.0/",
        )
        dataset = mlcroissant.Dataset(jsonld=str(done.file))
        assert not dataset.metadata.issues.errors
        rows = list(dataset.records("records"))
        values = {row["sensitive/disease"] for row in dataset.records("sensitive")}
    assert len(rows) == 300
    assert set(rows[0]) == {
        f"records/{name}" for name in fields_of(releases["bucketed"])["records"]
    }
    assert {v.decode() if isinstance(v, bytes) else v for v in values} == set(DISEASES)


def test_parts_are_record_sets_of_their_own(
    releases: dict[str, Path], tmp_path: Path, split: Callable[[Path, Path], Path]
) -> None:
    cut = split(releases["perturbed"], tmp_path / "cut")
    told = json.loads(sf.export_metadata(cut, "croissant").text)
    assert [each["name"] for each in told["recordSet"]] == [f"records-{n}" for n in range(4)]


def test_the_dictionary_is_one_page(releases: dict[str, Path], tmp_path: Path) -> None:
    page = sf.export_metadata(releases["generalized"], "dictionary", out=tmp_path).file
    text = page.read_text("utf-8")
    assert "age_low" in text
    assert "set of text" in text
    assert "http" not in text.replace("http-equiv", "")


def test_on_the_command_line(cli: Any, releases: dict[str, Path], tmp_path: Path) -> None:
    release = releases["bucketed"]
    printed = cli("export", release, "--format", "croissant", "--title", "Admissions")
    assert printed.json["name"] == "Admissions"
    given = ("--format", "dictionary", "--out", tmp_path / "o")
    assert cli("export", release, *given, "--json").json["file"].endswith("dictionary.html")
    again = cli("export", release, *given)
    assert (again.code, "exists already" in again.err) == (2, True)
    wrong = cli("export", release, "--format", "rdf")
    assert "must be one of croissant, dictionary" in wrong.err
    inside = cli("export", release, "--format", "croissant", "--out", release / "x")
    assert "Nothing else may lie in a release" in inside.err
    with pytest.raises(UsageError):
        sf.export_metadata(release, "Croissant")
