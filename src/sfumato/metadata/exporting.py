"""Choosing a format, and writing what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, UsageError
from sfumato.metadata.croissant import croissant
from sfumato.metadata.csvw import NULL, SEPARATOR, csvw
from sfumato.metadata.ddi import ddi
from sfumato.metadata.described import Described, TableOf, described
from sfumato.metadata.dictionary import dictionary
from sfumato.release import Release, scan
from sfumato.scratch import scratch_database
from sfumato.shown import Shown


@dataclass(frozen=True)
class Format:
    """A format: its file, how to write it, and whether its data are CSV files beside it."""

    file: str
    text: Callable[[Described], str]
    title: str
    with_csv: bool = False


FORMATS: dict[str, Format] = {
    "croissant": Format("croissant.json", croissant, "Croissant 1.0, for catalogues"),
    "csvw": Format("csv-metadata.json", csvw, "CSV on the Web, with the tables as CSV files", True),
    "ddi": Format("ddi.xml", ddi, "DDI Codebook 2.5, for archives"),
    "dictionary": Format("dictionary.html", dictionary, "a data dictionary, for people"),
}


@dataclass(frozen=True, repr=False)
class Exported(Shown):
    """What was described: the text, and the files that were written."""

    format: str
    text: str
    files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"Wrote {path}" for path in self.files) if self.files else self.text

    def to_json(self) -> dict[str, Any]:
        written = [str(path) for path in self.files]
        return {"format": self.format, "files": written, "text": None if written else self.text}


def export_metadata(
    release: Release | str | Path,
    format: str,
    *,
    out: str | Path | None = None,
    title: str = "",
    creator: str = "",
    license: str = "",
    url: str = "",
) -> Exported:
    """Describe a release as `croissant`, `csvw`, `ddi` or `dictionary`.

    Without `out` the text is all; with it, the file is written into that folder, and for CSVW the
    tables as CSV beside it. `url` is where the release will be: an address, or a path from the
    written file; by default the release's folder stands beside it. `license` is best an address.

    >>> import tempfile, pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> to = tempfile.mkdtemp() + "/release"
    >>> done = sf.publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill", to=to)
    >>> "cr:RecordSet" in sf.export_metadata(to, "croissant").text
    True
    """
    if format not in FORMATS:
        raise UsageError(f"'format' must be one of {', '.join(FORMATS)}. Got {format!r} instead.")
    chosen = FORMATS[format]
    opened = release if isinstance(release, Release) else Release(release)
    told = described(opened, title=title, creator=creator, license=license, url=url)
    text = chosen.text(told)
    if out is None:
        return Exported(format, text)
    folder = Path(out)
    written = [folder / chosen.file]
    written += [folder / f"{table.name}.csv" for table in told.tables if chosen.with_csv]
    if folder.resolve().is_relative_to(opened.path.resolve()):
        raise UsageError("Nothing else may lie in a release. Choose a folder outside of it.")
    for path in written:
        if path.exists():
            raise DataError(f"{str(path)!r} exists already. Choose another folder, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    for table, path in zip(told.tables, written[1:], strict=False):
        _write_csv(opened, table, path)
    written[0].write_text(text, "utf-8")
    return Exported(format, text, tuple(written))


def _write_csv(release: Release, table: TableOf, path: Path) -> None:
    shown = ", ".join(
        f"array_to_string({_quoted(field.name)}, '{SEPARATOR}') AS {_quoted(field.name)}"
        if field.several
        else _quoted(field.name)
        for field in table.fields
    )
    source = scan([release.path / name for name in table.files])
    target = str(path).replace("'", "''")
    with scratch_database() as connection:
        connection.execute(
            f"COPY (SELECT {shown} FROM {source}) TO '{target}' (HEADER, NULLSTR '{NULL}')"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
