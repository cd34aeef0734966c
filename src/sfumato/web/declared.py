"""The tables that tasks read: declared as the steward did, and named as the steward does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, SfumatoError, UsageError
from sfumato.table import Table, read
from sfumato.table.reading import Reading
from sfumato.table.sources import Source, find_source
from sfumato.table_options import ROLES
from sfumato.web.answers import in_page_words
from sfumato.web.places import stamp


def source_of(path: str, name: str, options: Mapping[str, Any]) -> Source:
    """The file as the steward said that it is written."""
    split = Reading.split(options)
    source = find_source(path, Reading.of(**{k: v for k, v in options.items() if k not in split}))
    source.label = name  # messages and reports name the table as the steward does
    return source


def declared(table: dict[str, Any]) -> Table:
    """The table with the roles that the steward gave."""
    path = Path(table["path"])
    if stamp(path) != table["stamp"]:
        raise DataError(
            f"The file of {table['label']} has changed since it was chosen, or is gone. Choose it "
            "again."
        )
    roles: dict[str, Any] = {
        role: [name for name, value in table["roles"].items() if value == role] for role in ROLES
    }
    for role in ("key", "person"):
        if len(roles[role]) > 1:
            raise DataError(
                f"Only one column can be the {role}; {', '.join(map(repr, roles[role]))} are. Drop "
                "the others."
            )
        roles[role] = roles[role][0] if roles[role] else None
    options = table["options"]
    no_files(*options.get("recode", {}).values())
    source = source_of(table["path"], table["label"], options)
    return read(source, **roles, **Reading.split(options))


def no_files(*texts: str | None) -> None:
    """A promise's text may name a file with @: not here, where texts come from a page."""
    if any(text and "@" in text for text in texts):
        raise UsageError(
            "A text on this page cannot read a file (@…). Write what the file says, for example "
            "f-privacy(limits=HIV:0.05;*:1) or groups(flu:airways;*:other)."
        )


@contextmanager
def named(path: str, name: str) -> Iterator[None]:
    """Errors inside name a file as the steward does, not by its place on this machine."""
    try:
        yield
    except SfumatoError as error:
        text = in_page_words(error.with_flags)
        for spelling in (repr(path), path):
            text = text.replace(spelling, name)
        error.args = (text, *error.args[1:])
        raise
