"""Releases of format 2, as they were written: every later version opens and answers them alike.

`python tests/release/test_format_2.py` writes them anew. Only for a format that nobody has yet.
"""

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
from sfumato.release.manifest import AnyManifest

HERE = Path(__file__).parent / "format_2"
PROMISES = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "optimal": "l-diversity(3)",
    "heterogeneous": "l-diversity(3)",
}
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


@pytest.mark.parametrize("name", PROMISES)
def test_a_release_of_format_2_is_opened_and_read(name: str) -> None:
    release = sf.open(HERE / name)
    assert release.manifest.to_text() == (HERE / name / "manifest.json").read_text("utf-8")
    counted = answers(release)[1]
    known = json.loads((HERE / "answers.json").read_text("utf-8"))[name]
    assert counted == pytest.approx(known[1])
    assert [len(answer) for answer in answers(release)] == [len(each) for each in known]


def write() -> None:
    people = pq.read_table(Path(__file__).parent / "people.parquet").slice(0, 240)
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    known = {}
    for name, promise in PROMISES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sf.publish(
                people, promise, to=HERE / name, mechanism=name, seed=3, left_out=1,
                quasi="age,gender,education", sensitive="occupation", drop_rest=True,
            )  # fmt: skip
        known[name] = answers(sf.open(HERE / name))
    (HERE / "answers.json").write_text(json.dumps(known, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write()


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
