"""A release kind is a class: which one a folder opens as, and what each refuses in its plan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import BundleError
from sfumato.operators import Parts, Uniform
from sfumato.queries import OpenedRelease
from sfumato.release import (
    KINDS,
    BucketedRelease,
    GeneralizedRelease,
    PerturbedRelease,
    Release,
)

Published = Callable[[str], Path]
CLASSES = {
    "uniform": PerturbedRelease,
    "sps": PerturbedRelease,
    "optimal": BucketedRelease,
    "heterogeneous": GeneralizedRelease,
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_folder_opens_as_the_class_of_its_kind(name: str, published: Published) -> None:
    own = CLASSES[name]
    assert type(Release(published(name))) is own is type(own(published(name)))
    asked = sf.open(published(name))
    assert isinstance(asked, own)
    assert isinstance(asked, OpenedRelease)
    assert (
        type(asked)
        is type(sf.open(published(name), verify=False))
        is type(type(asked)(published(name)))
    )
    assert asked.sql("SELECT COUNT(*) FROM release").value == 900
    assert KINDS[asked.kind] is own  # joining with answers registers nothing
    for other in {*KINDS.values()} - {own}:
        with pytest.raises(BundleError, match=f"is a {own.kind} release, not {other.kind}"):
            other(published(name))


def test_what_a_kind_tells(published: Published) -> None:
    uniform, merged = Release(published("uniform")), Release(published("sps"))
    buckets, ranges = Release(published("optimal")), Release(published("heterogeneous"))
    assert [c.name for c in uniform.quasi] == ["age", "gender", "education"]
    assert [c.name for c in uniform.sensitive] == ["occupation"]
    assert isinstance(uniform.operators["occupation"], Uniform)
    assert [r.shows_quasi_exactly for r in (uniform, merged, buckets, ranges)] == [
        True, False, True, False,
    ]  # fmt: skip
    assert [r.discloses_histogram for r in (uniform, buckets, ranges)] == [False, True, True]
    assert not Release(published("optimal(fakes=1)")).discloses_histogram
    assert merged.merges["age"][0].label == "16..85"
    assert merged.merges["age"][0].values[:2] == (16, 17)
    assert ranges.shown_as(ranges.column("age")) == ("age_low", "age_high")
    assert buckets.shown_as(buckets.column("occupation")) == ("bucket",)


def test_codes_are_symbols_where_an_operator_has_parts(published: Published) -> None:
    release = Release(published("partitioned"))
    operator = release.operators["occupation"]
    assert isinstance(operator, Parts)
    assert release.shown_as(release.column("occupation")) == ("occupation", "part")
    records = pq.read_table(release.records[0])
    symbols = release.shown_codes(records, "occupation")
    assert operator.symbol_parts[symbols].tolist() == records["part"].to_pylist()
    domain = release.domain("occupation").to_pylist()
    shown = [domain[code] for code in operator.symbol_codes[symbols]]
    assert shown == records["occupation"].to_pylist()
    plain = Release(published("uniform"))
    codes = plain.shown_codes(pq.read_table(plain.records[0]), "occupation")
    assert np.array_equal(np.unique(codes), np.arange(49))


def test_print(published: Published) -> None:
    release = sf.open(published("two columns"))
    assert repr(release) == (
        f"<PerturbedRelease {str(published('two columns'))!r}: rho-privacy(0.2, 0.5) by "
        "uniform, 900 rows; quasi age, gender, education; sensitive occupation, marital>"
    )
    html = release._repr_html_()
    assert "<td>sensitive column</td><td>marital (categorical, string)</td>" in html


def test_names_in_html_are_text(tmp_path: Path) -> None:
    data = pa.table({"<script>": [1, 2] * 30, "d": ["a", "b", "c"] * 20})
    table = sf.read(data, quasi=["<script>"], sensitive="d")
    sf.publish(table, "rho-privacy(0.4, 0.6)", to=tmp_path / "r", mechanism="uniform")
    html = sf.open(tmp_path / "r")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


Change = Callable[[dict[str, Any]], None]


def plan(name: str, value: Any) -> Change:
    return lambda described: described["plan"].update({name: value})


def operator(name: str, value: Any) -> Change:
    return lambda described: described["plan"]["operators"]["occupation"].update({name: value})


def parts(value: Any) -> Change:
    def change(described: dict[str, Any]) -> None:
        described["plan"]["operators"]["occupation"]["parts"][0]["codes"][0] = value

    return change


def no_sensitive(described: dict[str, Any]) -> None:
    described["columns"].pop()


ONE_SCALE = plan("sampling", {"levels": [], "scales": [1.0], "groups_suppressed": 0})
WORDS = r"is wrong: expected .* - at `plan\."
WRONG: list[tuple[str, Change, str]] = [
    ("partitioned", parts(1e300), WORDS),
    ("partitioned", parts(49), "part 0 names values that the column does not have"),
    ("partitioned", operator("values", 49.0), WORDS),
    ("partitioned", plan("part_columns", {"occupation": []}), WORDS),
    ("partitioned", plan("part_columns", {"occupation": "age"}), "stand in no column of parts"),
    ("partitioned", plan("part_columns", {"occupation": "part_occupation"}), "lack the column"),
    ("splu", operator("groups", 3.0), WORDS),
    ("sps", plan("sampling", {"scales": [True]}), WORDS),
    ("sps", ONE_SCALE, "A part in .* has no scale"),
    ("sps", plan("merges", {"occupation": []}), "merges .* are not about its quasi-identifiers"),
    ("sps", plan("merges", {"age": [{"label": "x", "values": []}]}), WORDS),
    ("sps", plan("merges", {"age": [{"label": "x", "values": [1]}]}), "do not name all labels"),
    ("heterogeneous", plan("matches", 1e300), WORDS),
    ("optimal", plan("fakes", 0.5), WORDS),
    ("optimal", plan("fakes", 1), "has fake values, but its plan states no histogram"),
    ("optimal", plan("sizes", [4]), WORDS),
    ("optimal", no_sensitive, "has no sensitive column"),
    ("optimal(fakes=1)", plan("histogram", [900] + [0] * 47), "states no histogram"),
    ("optimal(fakes=1)", plan("histogram", [901, -1] + [0] * 47), WORDS),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), WRONG)
def test_wrong_plans(
    name: str, change: Change, words: str, mutate: Any, tmp_path: Path, published: Published
) -> None:
    with pytest.raises(BundleError, match=words):
        Release(mutate(published(name), tmp_path / "r", manifest=change))


def test_numbers_beyond_all_floats_are_not_read(tmp_path: Path, published: Published) -> None:
    place = shutil.copytree(published("heterogeneous"), tmp_path / "r")
    text = (place / "manifest.json").read_text()
    (place / "manifest.json").write_text(text.replace('"matches": 4', '"matches": 1e999'))
    with pytest.raises(BundleError, match="number out of range"):
        Release(place)


def buckets(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(column)
        return table.set_column(index, column, pa.array([value] * table.num_rows))

    return change


@pytest.mark.parametrize(
    ("name", "records", "words"),
    [
        ("optimal", lambda t: t.drop_columns(["bucket"]), "Table 'records' of .* lacks bucket"),
        ("optimal", buckets("bucket", "one"), "does not hold whole numbers"),
        ("partitioned", buckets("part", 60), "A part in .* has no operator"),
        ("partitioned", buckets("occupation", "librarian"), "a value that its part does not have"),
        ("optimal", buckets("bucket", 225), "900 records .* are in a bucket that lists no values"),
        ("sps", lambda t: t.drop_columns(["part"]), "lack the column 'part'"),
    ],
)
def test_wrong_records(
    name: str, records: Any, words: str, mutate: Any, tmp_path: Path, published: Published
) -> None:
    with pytest.raises(BundleError, match=words):
        Release(mutate(published(name), tmp_path / "r", records=records))


def test_no_other_side_file(tmp_path: Path, published: Published) -> None:
    place = shutil.copytree(published("uniform"), tmp_path / "r")
    shutil.copy(published("optimal") / "sensitive.parquet", place)
    described = json.loads((place / "manifest.json").read_text())
    other = json.loads((published("optimal") / "manifest.json").read_text())["files"]
    described["files"]["sensitive.parquet"] = other["sensitive.parquet"]
    (place / "manifest.json").write_text(json.dumps(described))
    with pytest.raises(BundleError, match="beside its records it has no file"):
        Release(place)


def test_a_bucketed_release_needs_its_side_file(tmp_path: Path, published: Published) -> None:
    place = shutil.copytree(published("optimal"), tmp_path / "r")
    described = json.loads((place / "manifest.json").read_text())
    del described["files"]["sensitive.parquet"]
    (place / "sensitive.parquet").unlink()
    (place / "manifest.json").write_text(json.dumps(described))
    with pytest.raises(BundleError, match=r"beside its records it has sensitive\.parquet"):
        Release(place)
