"""The first lines of a CSV file as they are cut: for whoever reads it or says how it is written.

A file that cannot be read yet can be looked at all the same. What nobody said is guessed here, and
shown as a guess; reading refuses what it would have to guess in silence.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.table.reading import MARKERS, Reading

PACKED = {".gz": "gzip", ".zst": "zstd"}
SEPARATORS = (",", ";", "\t", "|")
_LINES = 5000  # that are looked at
_BYTES = 1 << 22
_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")  # tried in this order: the last reads anything
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
MOST_RAGGED = 5  # lines that are named


@dataclass(frozen=True)
class CsvPreview:
    """Names and first rows; `ragged` are lines (number, cells) that do not have `cells` cells.

    `skip` lines of remarks stand before all others; `marked` says whether a byte order mark tells
    the encoding.
    """

    encoding: str
    marked: bool
    separator: str
    quote: str
    escape: str
    skip: int
    header: bool
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: int
    cells: int
    ragged: tuple[tuple[int, int], ...]
    markers: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "ragged": [{"line": line, "cells": cells} for line, cells in self.ragged],
            "markers": [{"text": text, "count": count} for text, count in self.markers],
        }


def preview_csv(path: Path, reading: Reading, rows: int = 8) -> CsvPreview:
    """Look at the first lines of a file, cut as `reading` says or as they suggest.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_bytes("name;age\\nZo\\xeb;?\\nAnn;41;x\\n".encode("latin-1"))
    >>> seen = preview_csv(file, Reading())
    >>> seen.encoding, seen.separator, seen.names, seen.rows[0], seen.ragged
    ('cp1252', ';', ('name', 'age'), ('Zoë', '?'), ((3, 3),))
    >>> seen.markers
    (('?', 1),)
    """
    encoding, text = _decoded(path, reading.encoding)
    separator = reading.separator or _likely_separator(text)
    quote = reading.quote or _likely_quote(text, separator)
    escape = "\\" if f"\\{quote}" in text and quote * 2 not in text else quote
    skip = next((n for n, line in enumerate(text.splitlines()) if not line.startswith("#")), 0)
    cut: list[tuple[int, list[str]]] = []
    with suppress(csv.Error):  # what was read before it tells enough
        cut.extend(
            islice(records(text.splitlines(keepends=True), separator, quote, escape), _LINES)
        )
    header = _has_names(cut, reading)
    common = Counter(len(cells) for _, cells in cut).most_common(1)
    width = common[0][0] if common else 0
    body = cut[1:] if header else cut
    names = tuple(reading.columns) if reading.columns else ()
    if not names:
        names = tuple(cut[0][1]) if header else tuple(f"column{k + 1}" for k in range(width))
    marks = Counter(
        cell.strip() for _, cells in body for cell in cells if cell.strip().casefold() in MARKERS
    )
    return CsvPreview(
        encoding.removesuffix("-sig"),
        encoding == "utf-16" and not reading.encoding,
        separator,
        quote,
        escape,
        skip,
        header,
        names,
        tuple(tuple(cells) for _, cells in body[:rows]),
        len(cut),
        width,
        tuple((line, len(cells)) for line, cells in cut if len(cells) != width)[:MOST_RAGGED],
        tuple(marks.most_common()),
    )


def _decoded(path: Path, said: str) -> tuple[str, str]:
    """The encoding, and the first lines in it; a letter that it does not have is marked."""
    with opened(path) as file:
        start = file.read(_BYTES)
    start = start if len(start) < _BYTES else start[: start.rfind(b"\n") + 1]
    if said:
        said = codecs.lookup(said).name
        return said, start.decode(said, errors="replace")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", start.decode("utf-16", errors="replace")
    for encoding in _ENCODINGS:
        try:
            return encoding, start.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 has every byte")


def opened(path: Path) -> Any:
    """The bytes of a text file, unpacked on the way."""
    packed = PACKED.get(path.suffix.lower())
    return path.open("rb") if packed is None else pa.input_stream(str(path), compression=packed)


def _likely_separator(text: str) -> str:
    """The sign that cuts most lines into the same number of cells, and into most."""
    lines = [line for line in islice(text.splitlines(), 200) if line.strip()]

    def fits(sign: str) -> tuple[int, int]:
        counts = Counter(line.count(sign) for line in lines)
        cuts, often = max(counts.items(), key=lambda pair: (pair[1], pair[0]), default=(0, 0))
        return (often if cuts else 0, cuts)

    return max(SEPARATORS, key=fits)


def _likely_quote(text: str, separator: str) -> str:
    """Single quotes where they alone stand around cells, else double ones."""
    sign = re.escape(separator)
    around = re.search(rf"(^|{sign})'[^'\r\n]*'({sign}|[\r\n]|$)", text, re.MULTILINE)
    return "'" if around and '"' not in text else '"'


def records(
    lines: Iterable[str], separator: str, quote: str, escape: str, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """(number of the line, cells); lines without anything and remarks before all others are left
    out. A cell without an end is a `csv.Error` with the line in which it begins."""
    reader = csv.reader(
        lines,
        delimiter=separator,
        quotechar=quote,
        escapechar=escape if escape != quote else None,
        strict=strict,
    )
    line, begun = 1, False
    try:
        for cells in reader:
            begun = begun or bool(cells and not cells[0].startswith("#"))
            if cells and begun:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error:
        raise csv.Error(line) from None


def _has_names(cut: Sequence[tuple[int, list[str]]], reading: Reading) -> bool:
    """Whether the first line has names: said, or no number in it and no text that comes again."""
    if reading.columns or reading.header == "no" or not cut:
        return False
    if reading.header == "yes":
        return True
    first, others = cut[0][1], [cells for _, cells in cut[1:]]
    if any(_NUMBER.fullmatch(cell) for cell in first):
        return False
    again = (
        cell in {cells[index] for cells in others if index < len(cells)}
        for index, cell in enumerate(first)
        if cell and cell.casefold() not in MARKERS
    )
    return not any(again)
