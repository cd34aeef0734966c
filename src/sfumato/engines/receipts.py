"""The receipt of a release: what repeats its draws, for the steward alone.

With it `audit --receipt` makes the release again, record by record. Whoever has it and the table's
domains can undo every draw, so it is as secret as the table, and can be destroyed once the audit is
done: the release stays what it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import convert

from sfumato.columns import Column, Range, Role, Values
from sfumato.draws import Draws
from sfumato.engines.run import Run
from sfumato.errors import DataError, UsageError
from sfumato.mechanisms.pinned import AsBefore
from sfumato.private import outside_release, private_file, read_private, writing_errors
from sfumato.release import FileEntry, typed_values
from sfumato.release.manifest import NAME
from sfumato.table import Table, read
from sfumato.table.quasi_k import QuasiMerge
from sfumato.table.reading import Reading
from sfumato.version import __version__

FORMAT = 1
_TABLE = ("key", "person", "count_rows", "missing")  # as `read` takes them


@dataclass(frozen=True, repr=False)
class Receipt:
    """Everything but the records that a run depended on."""

    manifest: str  # SHA-256 of the manifest that the run wrote
    engine: str
    draws: Draws
    guarantee: str
    mechanism: str
    as_before: bool  # whether operators were taken over from an earlier release
    table: dict[str, Any]
    sfumato: str = __version__

    def __repr__(self) -> str:
        return f"<Receipt of a release under {self.guarantee}>"  # never the keys

    @classmethod
    def of(cls, run: Run) -> Receipt:
        return cls(
            manifest=FileEntry.of(run.options.release / NAME).sha256,
            engine=run.options.engine,
            draws=run.draws,
            guarantee=run.manifest.guarantee,
            mechanism=run.manifest.mechanism,
            as_before=isinstance(run.mechanism, AsBefore),
            table=describe_table(run.table),
        )

    def to_text(self) -> str:
        written = {**vars(self), "receipt": FORMAT, "draws": self.draws.reveal()}
        return json.dumps(written | {"randomness": self.draws.origin}, indent=2) + "\n"

    @classmethod
    def read(cls, path: str | Path) -> Receipt:
        """A receipt from its file, which nobody else may be able to read."""
        try:
            written = json.loads(read_private(path, "the receipt"))
            if written.pop("receipt") != FORMAT:
                raise ValueError
            draws = Draws.repeated(written.pop("draws"), written.pop("randomness"))
            return cls(draws=draws, **written)
        except (ValueError, TypeError, KeyError, AttributeError, UsageError):
            raise DataError(
                f"Cannot use the receipt {str(path)!r}: it is not a file that 'publish --receipt' "
                "of this version wrote."
            ) from None

    @property
    def reading(self) -> Reading:
        """How the table was read."""
        return convert(self.table["reading"], Reading)

    def declare(self, source: Any) -> Table:
        """The table as it was declared when it was published, from where its records are now."""
        stated = self.table
        columns = [Column.from_json(described) for described in stated["columns"]]
        merged = QuasiMerge.options(stated["quasi_k"]) if stated["quasi_k"] else {}
        sensitive = [column.name for column in columns if column.role == "sensitive"]
        quasi = [column.name for column in columns if column.role == "quasi"]
        # merged columns are other ones, and their recodes stand with them
        quasi = [name for name in merged.pop("quasi", quasi) if name != stated["count_rows"]]
        needed = [*quasi, *sensitive, stated["key"], stated["person"]]
        lacking = [name for name in needed if name and name not in source.schema.names]
        if lacking:
            raise DataError(
                f"{source.label} has no column {lacking[0]!r}, which the receipt names. Is it the "
                "table that was published?"
            )
        recodes = merged.pop("recode", {}) | {c.name: c.recode for c in columns if c.recode}
        kept = [c for c in columns if not merged or c.name in (*quasi, *sensitive)]
        table = read(
            source,
            **merged,
            quasi=quasi,
            sensitive=sensitive,
            recode=recodes,
            drop_rest=True,
            numeric=[column.name for column in kept if column.kind == "numeric"],
            categorical=[column.name for column in kept if column.kind == "categorical"],
            **{name: stated[name] for name in _TABLE},
        )
        domains: dict[str, Values | Range] = {}
        for column in columns:
            if isinstance(column.domain, Values):
                typed = typed_values(column.domain.values, table.type_of(column.name))
                domains[column.name] = Values(tuple(typed.to_pylist()))
            elif column.domain is not None:
                domains[column.name] = column.domain
        return replace(table, domains=domains)


def describe_table(table: Table) -> dict[str, Any]:
    """What was declared about a table: all that is needed to declare it again."""
    roles: dict[str, Role] = dict.fromkeys(table.quasi, "quasi")
    roles |= dict.fromkeys(table.sensitive, "sensitive")
    columns = [table.column(name, roles[name], table.domains.get(name)) for name in roles]
    return {
        **{name: getattr(table, name) for name in _TABLE},
        "reading": table.reading.said(),
        "quasi_k": None if table.merged is None else table.merged.to_json(),
        "columns": [column.to_json() for column in columns],
    }


@contextmanager
def receipt_file(path: str | Path | None, release: Path) -> Iterator[Callable[[Run], object]]:
    """What writes the receipt of a run, where one is wanted: a file that is there when the release
    is."""
    if path is None:
        yield lambda run: None
        return
    outside_release(Path(path), release, "receipt")
    with private_file(Path(path), "receipt") as file:

        def write(run: Run) -> None:
            text = Receipt.of(run).to_text()
            with writing_errors(Path(path), "receipt"):
                file.write(text.encode())

        yield write
