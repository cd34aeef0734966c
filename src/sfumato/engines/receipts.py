"""The receipt of a release: what repeats its draws, for the steward alone.

With it `audit --receipt` makes the release again, record by record. Whoever has it and the table's
domains can undo every draw, so it is as secret as the table, and can be destroyed once the audit is
done: the release stays what it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.columns import Column, Range, Role, Values
from sfumato.draws import Draws
from sfumato.errors import DataError, UsageError
from sfumato.private import create_private, outside_release, read_private
from sfumato.release import typed_values
from sfumato.table import Hierarchy, Table, looked_at, read
from sfumato.table.counted_rows import CountedRows
from sfumato.table.quasi_k import QuasiMerge
from sfumato.table.reading import Reading
from sfumato.table.recodes import parse_recode
from sfumato.version import __version__

FORMAT = 1
_FIELDS = {
    "receipt", "sfumato", "manifest", "engine", "draws", "randomness", "guarantee",
    "mechanism", "as_before", "table",
}  # fmt: skip


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

    def to_text(self) -> str:
        described = {
            "receipt": FORMAT,
            "sfumato": self.sfumato,
            "manifest": self.manifest,
            "engine": self.engine,
            "randomness": self.draws.origin,
            "draws": self.draws.reveal(),
            "guarantee": self.guarantee,
            "mechanism": self.mechanism,
            "as_before": self.as_before,
            "table": self.table,
        }
        return json.dumps(described, indent=2) + "\n"

    @classmethod
    def read(cls, path: str | Path) -> Receipt:
        """A receipt from its file, which nobody else may be able to read."""
        try:
            fields = json.loads(read_private(path, "the receipt"))
            if set(fields) != _FIELDS or fields["receipt"] != FORMAT:
                raise ValueError
            origin = fields["randomness"]
            return cls(
                manifest=fields["manifest"],
                engine=fields["engine"],
                draws=Draws.repeated(fields["draws"], origin),
                guarantee=fields["guarantee"],
                mechanism=fields["mechanism"],
                as_before=fields["as_before"],
                table=fields["table"],
                sfumato=fields["sfumato"],
            )
        except (ValueError, TypeError, KeyError, UsageError):
            raise DataError(
                f"Cannot use the receipt {str(path)!r}: it is not a file that 'publish --receipt' "
                "of this version wrote."
            ) from None

    @property
    def reading(self) -> Reading:
        """How the table was read."""
        said: dict[str, Any] = self.table["reading"]
        lists = {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
        return Reading(**(said | lists))

    def declare(self, source: Any) -> Table:
        """The table as it was declared when it was published, from where its records are now."""
        if self.table.get("quasi_k"):
            return self._merged_again(source)
        columns = [Column.from_json(described) for described in self.table["columns"]]
        if counted := self.table["count_rows"]:
            sensitive = [column.name for column in columns if column.role == "sensitive"]
            whole = sensitive if self.table["missing"] == "drop" else ()
            (row_counts,) = (column for column in columns if column.name == counted)
            source = CountedRows(
                source,
                self.table["person"],
                counted,
                whole,
                top=not (row_counts.recode or row_counts.bins),
            )
        names = set(source.schema.names)
        needed = [column["name"] for column in self.table["columns"]]
        needed += [self.table["key"], self.table["person"]]
        lacking = [name for name in needed if name and name not in names]
        if lacking:
            raise DataError(
                f"{source.label} has no column {lacking[0]!r}, which the receipt names. Is it the "
                "table that was published?"
            )
        recodes = {}
        for column in columns:
            if column.recode:
                steps = parse_recode(column.recode)
                source, recodes[column.name] = steps.apply(source, column.name)
        domains: dict[str, Values | Range] = {}
        for column in columns:
            domain = column.domain
            if isinstance(domain, Values):
                kind = source.schema.field(column.name).type
                domain = Values(tuple(typed_values(domain.values, kind).to_pylist()))
            if domain is not None:
                domains[column.name] = domain
        hierarchies = self.table["hierarchies"]
        declared = Table(
            source,
            quasi=tuple(column.name for column in columns if column.role == "quasi"),
            sensitive=tuple(column.name for column in columns if column.role == "sensitive"),
            key=self.table["key"],
            person=self.table["person"],
            rows_per_person=self.table["rows_per_person"],
            count_rows=self.table["count_rows"],
            kinds={column.name: column.kind for column in columns},
            domains=domains,
            recodes=recodes,
            missing=self.table["missing"],
            hierarchies={name: Hierarchy.of(lines) for name, lines in hierarchies.items()},
        )
        return looked_at(declared)

    def _merged_again(self, source: Any) -> Table:
        merged = QuasiMerge.options(self.table["quasi_k"])
        sensitive = [
            column
            for column in map(Column.from_json, self.table["columns"])
            if column.role == "sensitive"
        ]
        shown = {column["name"] for column in self.table["columns"]}
        recode = {column.name: column.recode for column in sensitive if column.recode}
        domains = {
            c.name: list(c.domain.values)
            for c in sensitive
            if isinstance(c.domain, Values) and c.bins is None
        }
        return read(
            source,
            **{**merged, "recode": merged["recode"] | recode},
            sensitive=[column.name for column in sensitive],
            key=self.table["key"],
            drop_rest=True,
            numeric=[column.name for column in sensitive if column.kind == "numeric"],
            categorical=[
                *(column.name for column in sensitive if column.kind == "categorical"),
                *(name for name in merged["quasi"] if name in shown),
            ],
            domain=domains,
            missing=self.table["missing"],
        )


def describe_table(table: Table) -> dict[str, Any]:
    """What was declared about a table: all that is needed to declare it again."""

    def column(name: str, role: Role) -> dict[str, Any]:
        return table.column(name, role, table.domains.get(name)).to_json()

    return {
        "key": table.key,
        "person": table.person,
        "rows_per_person": table.rows_per_person,
        "count_rows": table.count_rows,
        "missing": table.missing,
        "reading": table.reading.said(),
        "quasi_k": None if table.merged is None else table.merged.to_json(),
        "columns": [
            *(column(name, "quasi") for name in table.quasi),
            *(column(name, "sensitive") for name in table.sensitive),
        ],
        "hierarchies": {
            name: [list(path) for path in hierarchy.paths.values()]
            for name, hierarchy in table.hierarchies.items()
        },
    }


class ReceiptFile:
    """A place for a receipt: an empty file until the release is there."""

    def __init__(self, path: Path, release: Path) -> None:
        outside_release(path, release, "receipt")
        self._path = path
        self._file = os.fdopen(create_private(path, "receipt"), "w", encoding="ascii")

    def write(self, receipt: Receipt) -> None:
        with self._file:
            self._file.write(receipt.to_text())
            self._file.flush()
            os.fsync(self._file.fileno())

    def remove(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


@contextmanager
def receipt_file(path: str | Path | None, release: Path) -> Iterator[ReceiptFile | None]:
    """The file for a receipt, where one is wanted; it goes away if the run fails."""
    if path is None:
        yield None
        return
    file = ReceiptFile(Path(path), release)
    try:
        yield file
    except BaseException:
        file.remove()
        raise
