"""The manifest: what a release says about itself."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from sfumato.columns import Column
from sfumato.errors import BundleError

FORMAT = 1
NAME = "manifest.json"
UNFINISHED = ".sfumato-part"  # how the folder of a run that has not finished ends
MOST_BYTES = 64 << 20  # a larger manifest is not read


@dataclass(frozen=True)
class FileEntry:
    """A file of the release, with what it must hash to."""

    sha256: str
    bytes: int

    @staticmethod
    def of(path: Path) -> FileEntry:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(digest, path.stat().st_size)


@dataclass(frozen=True)
class PersonRule:
    """Whose rows they are, and how many of a person are published at most, chosen at random."""

    column: str
    rows: int
    withheld: int  # rows beyond that

    def sentences(self) -> list[str]:
        """What stands beside the promise.

        >>> print(PersonRule("patient", 1, 30).sentences()[1])
        Of each person one row, chosen at random, is published; 30 rows are withheld. Answers count
        published rows alone.
        """
        whose = f"A person is whoever has one value of {self.column!r}, and the promise holds for "
        tail = f"{self.withheld:,} rows are withheld. Answers count published rows alone."
        if self.rows == 1:
            return [
                whose + "the person, of whom one row is published: to have a value is to have it "
                "in that row.",
                f"Of each person one row, chosen at random, is published; {tail}",
            ]
        return [
            whose + "the person: a person's own record is all of their published rows together, "
            "and to have a value is to have it in any of these rows.",
            f"Of each person at most {self.rows} rows, chosen at random, are published; {tail}",
            f"Differential privacy is told for one row; for a person it is at most {self.rows} "
            "times as much.",
        ]


@dataclass(frozen=True)
class Manifest:
    """Everything public about a release; nothing that the method hides."""

    sfumato: str
    kind: str
    mechanism: str
    guarantee: str
    rows: int
    withheld: int
    missing: str
    order: str
    randomness: str
    columns: tuple[Column, ...]
    plan: dict[str, Any]
    statement: tuple[str, ...]
    does_not_protect: tuple[str, ...]
    caveats: tuple[str, ...]
    person: PersonRule | None = None
    joint: bool = False  # whether the promise is about what all sensitive columns tell together
    files: dict[str, FileEntry] = field(default_factory=dict)
    quasi_k: dict[str, Any] | None = None  # k, and the columns that were merged with their recodes

    def to_text(self) -> str:
        described = {
            "format": FORMAT,
            "sfumato": self.sfumato,
            "kind": self.kind,
            "mechanism": self.mechanism,
            "guarantee": self.guarantee,
            "rows": self.rows,
            "withheld": self.withheld,
            "missing": self.missing,
            "order": self.order,
            "randomness": self.randomness,
            "statement": list(self.statement),
            "does_not_protect": list(self.does_not_protect),
            "caveats": list(self.caveats),
            "columns": [column.to_json() for column in self.columns],
            **({} if self.person is None else {"person": asdict(self.person)}),
            **({} if self.quasi_k is None else {"quasi_k": self.quasi_k}),
            **({"joint": True} if self.joint else {}),
            "plan": self.plan,
            "files": {
                name: {"sha256": entry.sha256, "bytes": entry.bytes}
                for name, entry in sorted(self.files.items())
            },
        }
        return json.dumps(described, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(folder: Path, where: str) -> Manifest:
    """Read and validate a manifest that nobody vouches for; messages name the folder `where`."""
    path = folder / NAME
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{where} is not a release: it has no {NAME}.")
    if path.stat().st_size > MOST_BYTES:
        raise BundleError(f"The manifest of {where} is larger than {MOST_BYTES:,} bytes.")
    try:
        described = json.loads(
            path.read_text(encoding="utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, OSError, RecursionError):
        raise BundleError(f"The manifest of {where} is not readable JSON.") from None
    stated = described.get("format") if isinstance(described, dict) else None
    if isinstance(stated, int) and stated > FORMAT:
        raise BundleError(
            f"{where} was made by a newer version: it has release format {stated}, and this "
            f"sfumato reads up to {FORMAT}. Update sfumato."
        )
    _validate(described, where)
    try:
        columns = tuple(Column.from_json(column) for column in described["columns"])
    except ValueError as error:
        raise BundleError(
            f"The manifest of {where} states an unreadable number: {error}."
        ) from None
    return Manifest(
        sfumato=described["sfumato"],
        kind=described["kind"],
        mechanism=described["mechanism"],
        guarantee=described["guarantee"],
        rows=described["rows"],
        withheld=described["withheld"],
        missing=described["missing"],
        order=described["order"],
        randomness=described["randomness"],
        columns=columns,
        plan=described["plan"],
        statement=tuple(described["statement"]),
        does_not_protect=tuple(described["does_not_protect"]),
        caveats=tuple(described["caveats"]),
        person=PersonRule(**described["person"]) if "person" in described else None,
        quasi_k=described.get("quasi_k"),
        joint=described.get("joint", False),
        files={
            name: FileEntry(entry["sha256"], entry["bytes"])
            for name, entry in described["files"].items()
        },
    )


def manifest_schema() -> dict[str, Any]:
    """The published JSON Schema of the manifest."""
    text = resources.files("sfumato.release").joinpath("manifest.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _validate(described: Any, where: str) -> None:
    import jsonschema

    schema = manifest_schema()
    # jsonschema compares every pair of values where one of them is null: we use a set instead
    listed = schema["properties"]["columns"]["items"]["properties"]["domain"]["oneOf"][0]
    del listed["properties"]["values"]["uniqueItems"]
    validator = jsonschema.Draft202012Validator(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(described))
    if error is not None:
        place = "/".join(str(step) for step in error.absolute_path) or "top level"
        problem = error.message if len(error.message) < 300 else error.message[:300] + " …"
        raise BundleError(f"The manifest of {where} is wrong at {place}: {problem}.")
    names = [column["name"] for column in described["columns"]]
    if len(set(names)) != len(names):
        raise BundleError(f"The manifest of {where} names a column twice.")
    for column in described["columns"]:
        values = (column.get("domain") or {}).get("values", [])
        if len({(isinstance(value, bool), value) for value in values}) != len(values):
            raise BundleError(
                f"The manifest of {where} names a value of column {column['name']!r} twice."
            )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # 1e999 is JSON, but no number that we could count with
        raise ValueError(f"{text} is too large")
    return number
