"""Choosing a format, and writing its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import DataError, UsageError
from sfumato.export.croissant import croissant
from sfumato.export.described import Described, described
from sfumato.export.dictionary import dictionary
from sfumato.release import Release
from sfumato.results import Result

# by format: its file, and how to write it
FORMATS: dict[str, tuple[str, Callable[[Described], str]]] = {
    "croissant": ("croissant.json", croissant),
    "dictionary": ("dictionary.html", dictionary),
}


@dataclass(frozen=True, repr=False)
class Exported(Result):
    """What was described: the text, or the file that it was written to."""

    format: str
    text: str | None
    file: Path | None = None

    def __str__(self) -> str:
        return self.text or f"Wrote {self.file}"


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
    """Describe a release as `croissant` or `dictionary`.

    Without `out` the text is all; with it, the file is written into that folder. `url` is where the
    release will be: an address, or a path from the written file; by default the release's folder
    stands beside it. `license` is best an address.

    >>> import tempfile, pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> to = tempfile.mkdtemp() + "/release"
    >>> done = sf.publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill", to=to)
    >>> "cr:RecordSet" in sf.export_metadata(to, "croissant").text
    True
    """
    if format not in FORMATS:
        raise UsageError(f"'format' must be one of {', '.join(FORMATS)}. Got {format!r} instead.")
    name, write = FORMATS[format]
    opened = release if isinstance(release, Release) else Release(release)
    text = write(described(opened, title=title, creator=creator, license=license, url=url))
    if out is None:
        return Exported(format, text)
    folder = Path(out)
    if folder.resolve().is_relative_to(opened.path.resolve()):
        raise UsageError("Nothing else may lie in a release. Choose a folder outside of it.")
    file = folder / name
    if file.exists():
        raise DataError(f"{str(file)!r} exists already. Choose another folder, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return Exported(format, None, file)
