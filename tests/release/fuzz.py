"""Manifests and Parquet files with something changed: refused, or answering as before.

Releases of every kind, seeded. A manifest is not signed, and a damaged file gets its right
hash, as whoever damages it on purpose would do: so a value that became another value may be read,
and change answers. Then an audit with the table and the receipt must not hold. Bars: no error that
is not ours, no sentence that is none, no changed answer under an audit that holds.
"""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.datasets import census
from sfumato.errors import SfumatoError

TABLE = census(900, seed=1)
RELEASES = {
    "fine-grain": "fine-rho-privacy(theta=4)",
    "heterogeneous": "l-diversity(4)",
    "local": "l-diversity(3)",
    "optimal": "l-diversity(4)",
    "optimal(fakes=1)": "l-diversity(3)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "uniform": "rho-privacy(0.2, 0.5)",
}
FINE = ("refused", "as before", "caught by audit")
OTHER = (
    "null true false -1 0 1 2 0.5 1e999 -1e999 1e300 [] {} [1] [[]] "
    f'{{"a":1}} "" "x" "1/2" "1e999" "inf" "nan" "\\u0000" {10**30} {2**63} {-(2**70)}'
).split()
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


def is_sentence(error: SfumatoError) -> bool:
    return str(error).endswith(".") and "\n" not in str(error)


def rounded(value: Any) -> Any:
    return round(value, 6) + 0.0 if isinstance(value, float) else value  # sums in any order


def answers(place: Path) -> list[Any]:
    """The release in print, and what it answers or why it does not."""
    release = sf.open(place)
    found: list[Any] = [release.manifest.kind in repr(release).lower()]
    found.append("<table>" in release._repr_html_())
    for question in QUESTIONS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = release.sql(question).to_json()
            found.append([[rounded(value) for value in row.values()] for row in table["rows"]])
        except SfumatoError as error:
            if not is_sentence(error):
                raise
            found.append(str(error))
    return found


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, those of the footer more often; now and then the end is missing."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 10])):
        near_the_end = rng.random() < 0.5
        place = rng.randrange(max(len(found) - 1500, 0) if near_the_end else 0, len(found))
        found[place] = rng.randrange(256)
    return bytes(found[: rng.randrange(len(found))] if rng.random() < 0.1 else found)


def published(mechanism: str, folder: Path) -> Path:
    """A release to change, with its receipt beside it."""
    place = folder / "release"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sf.publish(
            TABLE,
            RELEASES[mechanism],
            mechanism=mechanism,
            quasi="age,gender,education",
            sensitive="occupation",
            drop_rest=True,
            to=place,
            receipt=folder / "receipt",
        )
    return place


def changed_manifests(name: str, place: Path, number: int) -> Iterator[str]:
    """Change the manifest of a release again and again; where, and the manifest is in place."""
    rng, manifest = random.Random(f"mutations of {name}"), place / "manifest.json"
    text = manifest.read_text("utf-8")
    for _ in range(number):
        described = json.loads(text)
        steps = change(described, rng)
        manifest.write_text(written(described), "utf-8")
        yield "/".join(map(str, steps))
    manifest.write_text(text, "utf-8")


def damaged_files(release: str, place: Path, number: int) -> Iterator[str]:
    """Damage one file of a release after the other, each with its right hash; which."""
    rng, manifest = random.Random(f"damages of {release}"), place / "manifest.json"
    text = manifest.read_text("utf-8")
    described = json.loads(text)
    for _ in range(number):
        name = rng.choice(sorted(described["files"]))
        path = place / name
        whole = path.read_bytes()
        data = damaged(whole, rng)
        path.write_bytes(data)
        entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        stated = described | {"files": described["files"] | {name: entry}}
        manifest.write_text(json.dumps(stated), "utf-8")
        yield name
        path.write_bytes(whole)
    manifest.write_text(text, "utf-8")


def outcome(place: Path, known: list[Any]) -> str:
    """What became of a changed release."""
    try:
        if answers(place) == known:
            return "as before"
        return "wrong and held" if audited(place) else "caught by audit"
    except SfumatoError as error:
        return "refused" if is_sentence(error) else "not one sentence"
    except Exception as error:
        return f"error: {type(error).__name__}: {str(error)[:200]}"


def audited(place: Path) -> bool:
    """Whether an audit beside the raw table takes a release for honest."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sf.audit(TABLE, place, receipt=place.parent / "receipt").holds is True
    except SfumatoError:
        return False
