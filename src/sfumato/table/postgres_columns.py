"""PostgreSQL's types as sfumato reads them: what arrives as it is, and what is cast on the way.

The driver hands on `numeric` as text and wraps infinite dates around to ordinary ones, so both
need care here. A type without a counterpart can be dropped, not published.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import DataError

_AS_IT_IS = {
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea", "date", "time",
    "timestamp", "timestamptz",
}  # fmt: skip
_AS_TEXT = {"bpchar", "char", "name", "uuid", "citext"}  # bpchar: padding blanks mean nothing
_MOST_DIGITS = 38  # of Arrow's decimal128
_INTEGER_DIGITS = 18  # that every int64 has room for


@dataclass(frozen=True)
class PostgresColumn:
    """One column: its type here, the type it has there, and the SQL that asks for it."""

    name: str
    type: pa.DataType
    foreign: str | None = None  # the name of a type that cannot be read
    cast: str | None = None

    @property
    def sql(self) -> str:
        name = quoted(self.name)
        return name if self.cast is None else f"{name}::{self.cast} AS {name}"

    def arrived(self, array: pa.Array, label: str) -> pa.Array:
        """The values as they should be; raises where the type here cannot hold one of them."""
        if pa.types.is_decimal(self.type):
            try:
                return array.cast(self.type)
            except pa.ArrowInvalid:
                raise self._beyond(label, "NaN, or digits that its type should not have") from None
        kind = self.type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            first, last = _ends(kind)
            ends = pc.min_max(array)
            if ends["min"].is_valid and (
                pc.less(ends["min"], first).as_py() or pc.greater(ends["max"], last).as_py()
            ):
                raise self._beyond(label, "infinite dates, or years outside 1 … 9999")
        return array

    def _beyond(self, label: str, what: str) -> DataError:
        return DataError(
            f"Column {self.name!r} of {label} holds {what}. Replace them in a query=SELECT …."
        )


def quoted(name: str) -> str:
    """A name inside SQL, exactly as it is.

    >>> print(quoted('an "odd" name'))
    "an ""odd"" name"
    """
    return '"' + name.replace('"', '""') + '"'


def column_of(described: pa.Field) -> PostgresColumn:
    """What to make of a column that the driver describes."""
    metadata = described.metadata or {}
    kind = metadata.get(b"POSTGRESQL:type", b"").decode()
    if kind in _AS_IT_IS:
        return PostgresColumn(described.name, described.type)
    if kind == "numeric":
        return _numeric(described.name, int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
    # what else the driver takes for text is an enum
    if kind in _AS_TEXT or pa.types.is_string(described.type):
        return PostgresColumn(described.name, pa.string(), cast="text")
    return PostgresColumn(described.name, described.type, foreign=kind or str(described.type))


def _numeric(name: str, modifier: int) -> PostgresColumn:
    """Exact where the declared digits allow it: whole numbers, else decimals; doubles otherwise."""
    precision, scale = numeric_digits(modifier)
    if precision is None or precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return PostgresColumn(name, pa.float64(), cast="double precision")
    if scale == 0 and precision <= _INTEGER_DIGITS:
        return PostgresColumn(name, pa.int64(), cast="bigint")
    return PostgresColumn(name, pa.decimal128(precision, scale), cast="text")


def numeric_digits(modifier: int) -> tuple[int | None, int]:
    """Precision and scale that PostgreSQL packs into one number; None where nothing is declared.

    >>> numeric_digits(655366), numeric_digits(-1)
    ((10, 2), (None, 0))
    """
    if modifier < 4:
        return None, 0
    packed = modifier - 4
    scale = packed & 0x7FF
    return packed >> 16 & 0xFFFF, scale - 2048 if scale >= 1024 else scale


def _ends(kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """The first and the last day, or instant, that the rest of the program can tell."""
    if pa.types.is_date(kind):
        return pa.scalar(date.min, kind), pa.scalar(date.max, kind)
    plain = pa.timestamp(kind.unit)
    ends = [pa.scalar(end, plain).cast(kind) for end in (datetime.min, datetime.max)]
    return ends[0], ends[1]
