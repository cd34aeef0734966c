"""Which report this is: of which release, made when, by what and by whom."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.release import Release
from sfumato.release.manifest import NAME, FileEntry
from sfumato.version import __version__

LONGEST = 200  # letters of a name


@dataclass(frozen=True)
class Head:
    """`table` and `author` are the steward's words; the raw file's own name is told to nobody."""

    release: str
    manifest: str  # its SHA-256: the release is this one if it agrees
    date: str
    version: str
    table: str | None = None
    author: str | None = None

    @classmethod
    def of(cls, release: Release, table: str | None, name: str | None, author: str | None) -> Head:
        for source in (table, name, author):
            if source is not None and (len(source) > LONGEST or not source.isprintable()):
                raise UsageError(f"A name in a report is one line of at most {LONGEST} letters.")
        return cls(
            name or release.path.resolve().name,
            FileEntry.of(release.path / NAME).sha256,
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            __version__,
            table or None,
            author or None,
        )

    def facts(self) -> list[tuple[str, str]]:
        named = [("table", self.table), ("release", self.release), ("author", self.author)]
        return [
            *((name, text) for name, text in named if text),
            ("date of this report", self.date),
            ("made by", f"sfumato {self.version}"),
            ("SHA-256 of its manifest", self.manifest),
        ]

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))
