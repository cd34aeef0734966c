"""The quasi values that a release merged, as a CSV file for people."""

from __future__ import annotations

import csv
from pathlib import Path

from sfumato.errors import DataError
from sfumato.release.manifest import Manifest


def write_merges(manifest: Manifest, path: str | Path) -> int:
    """Write `column,value,published_as`, a line for each merged value; returns how many."""
    lines = [
        (column, "" if value is None else value, merged.label)
        for column, classes in getattr(manifest.plan, "merges", {}).items()
        for merged in classes
        for value in merged.values
    ]
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("column", "value", "published_as"))
            writer.writerows(lines)
    except OSError as error:
        raise DataError(f"Cannot write the merges to {str(path)!r}: {error.strerror}.") from None
    return len(lines)
