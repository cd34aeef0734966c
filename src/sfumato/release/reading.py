"""Reading a manifest that nobody vouches for, of this format or of an older one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from sfumato.columns import Counts, Values
from sfumato.errors import BundleError
from sfumato.release.manifest import FORMAT, NAME, OLDER, AnyManifest, Manifest, text_of

READERS = {1: "0.2"}  # the last version that reads a format that is not read any more
MOST_BYTES = 64 << 20  # a larger manifest is not read
BLOCKS_BY_VALUES = (
    "The promise of this release is false for a reader who knows the program: sfumato 0.3 cut "
    "blocks by what the people in them have, so the side of a cut on which somebody stands can "
    "tell their value. Publish the table again."
)


class _Head(msgspec.Struct):
    format: int


def read_manifest(folder: Path, where: str) -> Manifest:
    """Read and validate a manifest that nobody vouches for; messages name the folder `where`."""
    path = folder / NAME
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{where} is not a release: it has no {NAME}.")
    if path.stat().st_size > MOST_BYTES:
        raise BundleError(f"The manifest of {where} is larger than {MOST_BYTES:,} bytes.")
    try:
        text = path.read_bytes()
        stated = msgspec.json.decode(text, type=_Head).format
        if stated not in (FORMAT, OLDER):
            raise BundleError(_other_format(stated, where))
        manifest: Manifest
        if stated == FORMAT:
            manifest = msgspec.json.decode(text, type=AnyManifest)
        else:
            now, _ = _as_now(msgspec.json.decode(text))
            manifest = msgspec.convert(now, AnyManifest)
    except msgspec.ValidationError as error:
        raise BundleError(f"The manifest of {where} is wrong: {_place(str(error))}.") from None
    except (msgspec.MsgspecError, ValueError, OSError, RecursionError):
        raise BundleError(f"The manifest of {where} is not readable JSON.") from None
    _refuse_repeated(manifest, where)
    return manifest


class _Gone(msgspec.Struct):
    """What plans of format 2 had besides, two of them from hidden counts."""

    beyond: tuple[str, ...] = ()  # columns that all columns together tell too much of
    common: dict[str, Counts] = {}  # values in nearly every group of decoys
    fitted: bool = False  # whether operators follow from how common values are

    def is_plain(self, names: list[str]) -> bool:
        """Whether columns and codes stand in their order: another one could say something."""
        named = [self.beyond, tuple(self.common)]
        ordered = all(told == tuple(name for name in names if name in told) for told in named)
        return ordered and all([*codes] == sorted({*codes}) for codes in self.common.values())


def _as_now(document: dict[str, Any]) -> tuple[dict[str, Any], _Gone]:
    """A manifest of format 2 without what no manifest has any more, and that."""
    gone, part = _Gone(), document.get("plan")
    if isinstance(part, dict):
        gone = msgspec.convert(part, _Gone)
        for name in _Gone.__struct_fields__:
            part.pop(name, None)
        operators = ["operators"] if gone.fitted or part.get("part_columns") else []
        matches = ["matches"] if part.get("groups") else []
        others = [name for name in ("sampling", "merges", "spans", "groups") if part.get(name)]
        merged = [f"domain of {name}" for name in part.get("merges") or ()]
        document["fitted"] = [*operators, *matches, *others, *merged]
        for last in ("plan", "files"):  # as manifests have them
            document[last] = document.pop(last, None)
    return document, gone


def is_spelled(text: str, manifest: Manifest) -> bool:
    """Whether this is the one text of a manifest; of an older format, but for what is not read."""
    if manifest.format == FORMAT:
        return text == manifest.to_text()
    document = msgspec.json.decode(text)
    plain = text == text_of(document)
    now, gone = _as_now(document)
    names = [column.name for column in manifest.columns]
    return plain and gone.is_plain(names) and text_of(now) == manifest.to_text()


def what_was_false(manifest: Manifest) -> str | None:
    """What is false in the promise of an older release; None where it stands.

    Format 2 had blocks that were grown on sensitive values: with six places of one person each
    among 806 people, and ceilings of 1/2, the posterior of three of the six was 1.
    """
    blocks = getattr(manifest.plan, "blocks", None)
    return BLOCKS_BY_VALUES if blocks and manifest.format < FORMAT else None


def _other_format(stated: int, where: str) -> str:
    if stated in READERS:
        return (
            f"{where} was made by an older version, in release format {stated}: ask it with "
            f"sfumato {READERS[stated]} (pip install 'sfumato=={READERS[stated]}.*'), or publish "
            "it again."
        )
    return (
        f"{where} was made by another version: it has release format {stated}, and this sfumato "
        f"reads {FORMAT}. Update sfumato."
    )


def _place(problem: str) -> str:
    """msgspec's words, shortened: a pattern or a list of tags may be long.

    >>> _place("Expected `int`, got `str` - at `$.rows`")
    'expected `int`, got `str` - at `rows`'
    """
    text = re.sub(r"`\$\.?", "`", problem)
    return text[:1].lower() + (text[1:] if len(text) < 400 else f"{text[1:400]} …")


def _refuse_repeated(manifest: Manifest, where: str) -> None:
    names = [column.name for column in manifest.columns]
    if len(set(names)) != len(names):
        raise BundleError(f"The manifest of {where} names a column twice.")
    for column in manifest.columns:
        values = column.domain.values if isinstance(column.domain, Values) else ()
        if len({(isinstance(value, bool), value) for value in values}) != len(values):
            raise BundleError(
                f"The manifest of {where} names a value of column {column.name!r} twice."
            )
    if not any(name.startswith("records/") for name in manifest.files):
        raise BundleError(f"The manifest of {where} is wrong: it names no files of records.")
