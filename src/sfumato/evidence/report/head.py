"""Which report this is: of which release, made when, by what, and signed by whom."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.release import Release
from sfumato.release.manifest import NAME, SIGNATURE, FileEntry
from sfumato.release.signatures import read_signature
from sfumato.version import __version__

LONGEST = 200  # letters of a name


@dataclass(frozen=True)
class Head:
    """`table` and `author` are the steward's words; the raw file's own name is told to nobody."""

    release: str
    manifest: str  # its SHA-256: the release is this one if it agrees
    date: str
    version: str
    signature: str | None  # the fingerprint that the signature names; nobody compared it
    table: str | None = None
    author: str | None = None

    @classmethod
    def of(cls, release: Release, table: str | None, name: str | None, author: str | None) -> Head:
        for given in (table, name, author):
            if given is not None and (len(given) > LONGEST or not given.isprintable()):
                raise UsageError(f"A name in a report is one line of at most {LONGEST} letters.")
        signed = (release.path / SIGNATURE).exists()
        return cls(
            name or release.path.resolve().name,
            FileEntry.of(release.path / NAME).sha256,
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            __version__,
            read_signature(release.path, release.where).fingerprint if signed else None,
            table or None,
            author or None,
        )

    def facts(self) -> list[tuple[str, str]]:
        signed = (
            "none"
            if self.signature is None
            else f"by the key {self.signature}; check it with 'sfumato verify RELEASE --key KEY'"
        )
        named = [("table", self.table), ("release", self.release), ("author", self.author)]
        return [
            *((name, text) for name, text in named if text),
            ("date of this report", self.date),
            ("made by", f"sfumato {self.version}"),
            ("SHA-256 of its manifest", self.manifest),
            ("signature", signed),
        ]

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))
