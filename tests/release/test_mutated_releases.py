"""Manifests and files with something changed: refused in a sentence, or answering like any other.

A manifest is not signed, so a number that became another number may go unnoticed. What must not
happen is an error that is not ours, or an answer that depends on a field that says nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

HERE = Path(__file__).parent / "written_before"
NAMES = sorted(path.parent.name for path in HERE.glob("*/manifest.json"))
MUTATIONS = 30  # of each release
BROKEN = 12  # files of each release
OTHER = (
    "null true false -1 0 1 2 0.5 1e999 -1e999 1e300 [] {} [1] [[]] "
    f'{{"a":1}} "" "x" "1/2" "1e999" "inf" "nan" "\\u0000" {10**30} {2**63} {-(2**70)}'
).split()
SAYS_NOTHING = {"sfumato", "mechanism", "guarantee", "statement", "does_not_protect", "caveats"}
QUESTIONS = (
    "SELECT COUNT(*) FROM release WHERE age > 40 AND occupation = 'cook'",
    "SELECT gender, AVG(education) FROM release GROUP BY gender",
    "SELECT occupation, COUNT(*) FROM release GROUP BY occupation",
)


class Text(str):
    """JSON as it is to stand in the file, such as numbers that Python does not write."""


def written(value: Any) -> str:
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


def change(described: dict[str, Any], rng: random.Random) -> list[str | int]:
    """Change one place of a manifest, plan and columns more often than others; says which."""
    first = rng.choice(["plan", "plan", "columns", rng.choice(list(described))])
    steps: list[str | int] = [first]
    inside: Any = described
    while isinstance(inside[steps[-1]], (dict, list)) and inside[steps[-1]] and rng.random() < 0.8:
        inside = inside[steps[-1]]
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        steps.append(rng.choice(keys))
    key, how = steps[-1], rng.choice(["other", "other", "drop", "near", "more"])
    known = inside[key]
    if how == "drop":
        del inside[key]
    elif how == "near" and type(known) is int:
        inside[key] = known + rng.choice([-1, 1, 1000])
    elif how == "near" and isinstance(known, str):
        inside[key] = known + "0"
    elif how == "more" and isinstance(inside, list):
        inside.append(known)
    elif how == "more" and isinstance(inside, dict):
        inside["further"] = Text(rng.choice(OTHER))
    else:
        inside[key] = Text(rng.choice(OTHER))
    return steps


def one_sentence(error: SfumatoError) -> str:
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    return text


def _rounded(value: Any) -> Any:
    return round(value, 6) + 0.0 if isinstance(value, float) else value  # sums in any order


def answers(place: Path) -> list[Any]:
    """The release in print, and what it answers or why it does not."""
    release = sf.open(place)
    assert release.manifest.kind in repr(release).lower()
    assert "<table>" in release._repr_html_()
    found: list[Any] = []
    for question in QUESTIONS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = release.sql(question).to_json()
            found.append([[_rounded(value) for value in row.values()] for row in table["rows"]])
        except SfumatoError as error:
            found.append(one_sentence(error))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_manifest_is_refused_or_answers(name: str, tmp_path: Path) -> None:
    place = shutil.copytree(HERE / name, tmp_path / "release")
    manifest = place / "manifest.json"
    text = manifest.read_text("utf-8")
    known, rng, refused = answers(place), random.Random(f"mutations of {name}"), 0
    for _ in range(MUTATIONS):
        described = json.loads(text)
        steps = change(described, rng)
        manifest.write_text(written(described), "utf-8")
        try:
            found = answers(place)
        except SfumatoError as error:
            refused += 1
            one_sentence(error)
            continue
        except Exception as error:
            error.add_note(f"changed at {steps} to {written(described)[:2000]}")
            raise
        assert found == known or steps[0] not in SAYS_NOTHING, steps
    assert 0 < refused < MUTATIONS  # some are noticed, some do not matter


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, those of the footer more often; now and then the end is missing."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 10])):
        near_the_end = rng.random() < 0.5
        place = rng.randrange(max(len(found) - 1500, 0) if near_the_end else 0, len(found))
        found[place] = rng.randrange(256)
    return bytes(found[: rng.randrange(len(found))] if rng.random() < 0.1 else found)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_with_its_right_hash_is_refused_or_answers(
    name: str, tmp_path: Path
) -> None:
    place = shutil.copytree(HERE / name, tmp_path / "release")
    described = json.loads((place / "manifest.json").read_text("utf-8"))
    rng, refused = random.Random(f"damages of {name}"), 0
    for _ in range(BROKEN):
        path = place / rng.choice(sorted(described["files"]))
        whole = path.read_bytes()
        data = damaged(whole, rng)
        path.write_bytes(data)
        entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        stated = described | {"files": described["files"] | {path.name: entry}}
        (place / "manifest.json").write_text(json.dumps(stated), "utf-8")
        try:
            answers(place)
        except SfumatoError as error:
            refused += 1
            one_sentence(error)
        path.write_bytes(whole)
    assert refused
