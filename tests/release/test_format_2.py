"""Releases of format 2, as 0.3 wrote them: every later version opens and answers them alike."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec import inspect

import sfumato as sf
from sfumato.audits.spelling import rewrite
from sfumato.errors import WeakPromiseWarning
from sfumato.release import Release
from sfumato.release.manifest import AnyManifest

HERE = Path(__file__).parent / "format_2"
NAMES = ("uniform", "columns", "partitioned", "splu", "optimal", "local", "heterogeneous")
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release WHERE age > 40 AND occupation = 'cook'",
    "SELECT COUNT(*) AS n FROM release",
    "SELECT occupation, COUNT(*) AS n FROM release GROUP BY occupation",
)


def answers(release: Any) -> list[list[float]]:
    """The estimates; error bars may get better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [[row["n"] for row in release.sql(sql).rows()] for sql in QUESTIONS]


@pytest.mark.parametrize("name", NAMES)
def test_a_release_of_format_2_is_opened_and_read(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        release = sf.open(HERE / name)
    counted = answers(release)[1]
    known = json.loads((HERE / "answers.json").read_text("utf-8"))[name]
    assert counted == pytest.approx(known[1])
    assert [len(answer) for answer in answers(release)] == [len(each) for each in known]


def test_blocks_that_tell_values_are_said_to(tmp_path: Path) -> None:
    """The promise of what 0.3 published by `local` was false: whoever opens or audits it hears."""
    place = shutil.copytree(HERE / "local", tmp_path / "local")
    with pytest.warns(WeakPromiseWarning, match="false for a reader who knows the program"):
        sf.open(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        verdict = sf.audit(None, place)
        table = pq.read_table(Path(__file__).parent / "people.parquet").slice(0, 240)
        with_table = sf.audit(table, place)
    for found in (verdict, with_table):
        assert found.holds is False
        (older,) = [finding for finding in found.findings if finding.check.name == "older"]
        assert "cut blocks by what the people in them have" in str(older)


def test_what_no_manifest_has_any_more_is_not_read() -> None:
    text = (HERE / "columns" / "manifest.json").read_text("utf-8")
    assert '"beyond": [' in text
    assert "beyond" not in sf.open(HERE / "columns").manifest.to_text()


@pytest.mark.parametrize(
    ("name", "fitted"), [("partitioned", ("operators",)), ("heterogeneous", ("spans",))]
)
def test_what_was_fitted_is_known_when_it_is_written_again(
    name: str, fitted: tuple[str, ...], tmp_path: Path
) -> None:
    again = rewrite(Release(HERE / name), tmp_path / name)
    assert (again.format, again.fitted) == (3, fitted)
    said = "everybody else" if name == "partitioned" else "concludes nothing"
    assert said in " ".join(again.statement)


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_of_format_2_has_one_text(name: str, tmp_path: Path) -> None:
    """And says anything but that text where somebody changed it, however little."""
    place = shutil.copytree(HERE / name, tmp_path / name)
    manifest = place / "manifest.json"
    text = manifest.read_text("utf-8")
    for other, right in ((text, True), (text + " ", False), (text.replace("\n  ", "\n ", 1), False),
                         (text.replace('"rows"', '"r\\u006fws"', 1), False)):  # fmt: skip
        manifest.write_text(other, "utf-8")
        (spelling,) = [f for f in audit_alone(place).findings if f.check.name == "spelling"]
        assert ("manifest.json: blanks" not in str(spelling)) == right, spelling


def audit_alone(place: Path) -> sf.Verdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        return sf.audit(None, place)


def test_no_union_of_a_dict_and_a_text_with_limits() -> None:
    """msgspec 0.22 frees such a type wrongly: every third command ended in a segmentation fault."""
    unions = [part for part in parts_of(inspect.type_info(AnyManifest)) if has_types(part)]
    assert unions  # the guarantee: a text, or one for each column
    for union in unions:
        texts = [kind for kind in union.types if isinstance(kind, inspect.StrType)]
        assert all(text == inspect.StrType() for text in texts), union


def has_types(part: Any) -> bool:
    """Whether it is a union with a dict and a text among its members."""
    members = {type(member) for member in getattr(part, "types", ())}
    return {inspect.DictType, inspect.StrType} <= members


def parts_of(kind: Any, seen: set[type] | None = None) -> Iterator[Any]:
    """A type and all types in it, each structure once."""
    seen = set() if seen is None else seen
    cls = getattr(kind, "cls", None)
    if isinstance(kind, inspect.StructType):
        if cls in seen:
            return
        seen.add(cls)
    yield kind
    children = msgspec.structs.asdict(kind).values() if isinstance(kind, msgspec.Struct) else ()
    for child in children:
        for part in child if isinstance(child, tuple) else (child,):
            if isinstance(part, inspect.Field):
                part = part.type
            if isinstance(part, inspect.Type):
                yield from parts_of(part, seen)
