"""A release in the formats of others: whole, valid, and silent about what the release hides."""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.metadata import FORMATS
from tests.conftest import DISEASES, make_people

DDI = "{ddi:codebook:2_5}"
KINDS = {
    "bucketed": ("l-diversity(3)", None),
    "perturbed": ("rho-privacy(0.3, 0.6)", "partitioned"),
    "generalized": ("l-diversity(3)", "heterogeneous"),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("metadata")
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
    return {path.stem: pq.read_schema(path).names for path in release.glob("*.parquet")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_is_in_every_format(releases: dict[str, Path], kind: str) -> None:
    release = releases[kind]
    fields = fields_of(release)
    told = {name: sf.export_metadata(release, name).text for name in FORMATS}
    sets = {s["name"]: s for s in json.loads(told["croissant"])["recordSet"]}
    assert {name: [f["name"] for f in s["field"]] for name, s in sets.items()} == fields
    tables = {t["url"]: t for t in json.loads(told["csvw"])["tables"]}
    assert {
        url.removesuffix(".csv"): [c["titles"] for c in t["tableSchema"]["columns"]]
        for url, t in tables.items()
    } == fields
    book = ElementTree.fromstring(told["ddi"])
    assert [var.get("name") for var in book.iter(f"{DDI}var")] == [
        name for table in ("records", "sensitive") for name in fields.get(table, ())
    ]
    for statement in sf.open(release).manifest.statement:
        assert all(statement in json.loads(told[name]).get(key, "") for name, key in (
            ("croissant", "description"), ("csvw", "dc:description")
        ))  # fmt: skip
        assert statement in {part.text for part in book.iter(f"{DDI}abstract")}


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
        dataset = mlcroissant.Dataset(jsonld=str(done.files[0]))
        assert not dataset.metadata.issues.errors
        rows = list(dataset.records("records"))
        values = {row["sensitive/disease"] for row in dataset.records("sensitive")}
    assert len(rows) == 300
    assert set(rows[0]) == {
        f"records/{name}" for name in fields_of(releases["bucketed"])["records"]
    }
    assert {v.decode() if isinstance(v, bytes) else v for v in values} == set(DISEASES)


@pytest.mark.parametrize("kind", KINDS)
def test_csvw_describes_the_files_beside_it(
    releases: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    done = sf.export_metadata(releases[kind], "csvw", out=tmp_path)
    told = json.loads(done.files[0].read_text("utf-8"))
    for table in told["tables"]:
        with (tmp_path / table["url"]).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        stem = table["url"].removesuffix(".csv")
        assert rows[0] == [column["titles"] for column in table["tableSchema"]["columns"]]
        raw = pq.read_table(releases[kind] / f"{stem}.parquet")
        assert len(rows) - 1 == raw.num_rows
        for place, column in enumerate(table["tableSchema"]["columns"]):
            cells = [row[place] for row in rows[1:]]
            found = raw.column(column["titles"]).to_pylist()
            if "separator" in column:
                assert [set(cell.split("|")) for cell in cells] == [set(each) for each in found]
            else:
                assert cells == [str(each) for each in found]


def test_missing_values_and_empty_texts_stay_apart(tmp_path: Path) -> None:
    table = pa.table({"town": ["", None, "Oslo", "a,b"] * 10, "ill": ["a", "b", None, "c"] * 10})
    sf.publish(
        table, "l-diversity(2)", to=tmp_path / "release", quasi="town", sensitive="ill",
        missing="value",
    )  # fmt: skip
    sf.export_metadata(tmp_path / "release", "csvw", out=tmp_path / "csv")
    with (tmp_path / "csv" / "records.csv").open(encoding="utf-8", newline="") as file:
        towns = [row[0] for row in csv.reader(file)][1:]
    assert {town: towns.count(town) for town in set(towns)} == {
        "": 10, "\\N": 10, "Oslo": 10, "a,b": 10,
    }  # fmt: skip
    book = ElementTree.fromstring(sf.export_metadata(tmp_path / "release", "ddi").text)
    missing = [each for each in book.iter(f"{DDI}catgry") if each.get("missing") == "Y"]
    assert missing


def test_ddi_has_its_elements_in_the_order_of_the_schema(releases: dict[str, Path]) -> None:
    """Of codebook 2.5, as far as we write it."""
    book = ElementTree.fromstring(
        sf.export_metadata(
            releases["bucketed"], "ddi", creator="C", license="L", url="https://example.org/r"
        ).text
    )
    orders = {
        "codeBook": ["stdyDscr", "fileDscr", "dataDscr"],
        "stdyDscr": ["citation", "stdyInfo", "dataAccs"],
        "citation": ["titlStmt", "rspStmt", "prodStmt", "distStmt"],
        "fileTxt": ["fileName", "fileCont", "dimensns", "fileType"],
        "var": ["labl", "valrng", "catgry", "derivation", "varFormat"],
    }
    assert book.get("version") == "2.5"
    for name, order in orders.items():
        for element in [book, *book.iter()]:
            if element.tag == f"{DDI}{name}":
                places = [order.index(part.tag.removeprefix(DDI)) for part in element]
                assert places == sorted(places), name


def test_parts_are_record_sets_of_their_own(
    releases: dict[str, Path], tmp_path: Path, split: Callable[[Path, Path], Path]
) -> None:
    cut = split(releases["perturbed"], tmp_path / "cut")
    told = json.loads(sf.export_metadata(cut, "croissant").text)
    assert [each["name"] for each in told["recordSet"]] == [f"records-{n}" for n in range(4)]
    assert sf.export_metadata(cut, "csvw", out=tmp_path / "csv").files[1].name == "records.csv"


def test_the_dictionary_is_one_page(releases: dict[str, Path], tmp_path: Path) -> None:
    page = sf.export_metadata(releases["generalized"], "dictionary", out=tmp_path).files[0]
    text = page.read_text("utf-8")
    assert "age_low" in text
    assert "set of text" in text
    assert "http" not in text.replace("http-equiv", "")


def test_on_the_command_line(cli: Any, releases: dict[str, Path], tmp_path: Path) -> None:
    release = releases["bucketed"]
    printed = cli("export-metadata", release, "--format", "croissant", "--title", "Admissions")
    assert printed.json["name"] == "Admissions"
    written = cli("export-metadata", release, "--format", "csvw", "--out", tmp_path / "o", "--json")
    assert len(written.json["files"]) == 3
    again = cli("export-metadata", release, "--format", "csvw", "--out", tmp_path / "o")
    assert (again.code, "exists already" in again.err) == (2, True)
    wrong = cli("export-metadata", release, "--format", "rdf")
    assert "must be one of croissant, csvw, ddi, dictionary" in wrong.err
    inside = cli("export-metadata", release, "--format", "ddi", "--out", release / "x")
    assert "Nothing else may lie in a release" in inside.err
    with pytest.raises(UsageError):
        sf.export_metadata(release, "Croissant")
