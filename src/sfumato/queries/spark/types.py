"""Which values mean the same to DuckDB and to Spark, and how each type is written there.

Types go by their DuckDB names. What is not in here, a record's own column included, Spark is not
asked about.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_PLAIN = {
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "VARCHAR": "STRING",
    "DATE": "DATE",
}
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")
_EXACT_DIGITS = 15  # of a decimal whose nearest double DuckDB and Spark agree about


class Untranslatable(Exception):
    """Spark has no expression that surely means the same; the reason is for tests."""


def spark_type(kind: str) -> str:
    """A DuckDB type as Spark writes it.

    >>> spark_type("INTEGER"), spark_type("DECIMAL(4,2)")
    ('INT', 'DECIMAL(4,2)')
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if _DECIMAL.fullmatch(kind):
        return kind
    raise Untranslatable(f"the type {kind}")


def decimal_size(kind: str) -> tuple[int, int] | None:
    """Digits and scale of a decimal, None for other types."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def cast(text: str, kind: str, to: str) -> str:
    """Spark SQL that turns a value as DuckDB would where it does so by itself.

    >>> cast("a", "INTEGER", "DOUBLE")
    'CAST(a AS DOUBLE)'
    """
    if kind in (to, "NULL"):
        return text if kind == to else f"CAST({text} AS {spark_type(to)})"
    size, target = decimal_size(kind), decimal_size(to)
    known = (
        (kind in INTEGERS and (to in INTEGERS or to == "DOUBLE" or target is not None))
        or (kind == "BOOLEAN" and (to in INTEGERS or to == "DOUBLE"))
        or (size is not None and to == "DOUBLE" and size[0] <= _EXACT_DIGITS)
        or (size is not None and target is not None and size[1] <= target[1])
    )
    if not known:
        raise Untranslatable(f"{kind} as {to}")
    return f"CAST({text} AS {spark_type(to)})"


@dataclass(frozen=True)
class Typed:
    """An expression of Spark's SQL, and the DuckDB type of its value."""

    text: str
    kind: str

    def of(self, kind: str) -> str:
        """The expression as a value of another type."""
        return cast(self.text, self.kind, kind)


def alike(one: str, other: str) -> str:
    """The type in which two values are compared, exactly."""
    if "NULL" in (one, other):
        return other if one == "NULL" else one
    if one == other:
        spark_type(one)
        return one
    numbers = (*INTEGERS, "DOUBLE")
    sizes = [decimal_size(one), decimal_size(other)]
    if all(kind in numbers or size for kind, size in zip((one, other), sizes, strict=True)):
        if "DOUBLE" in (one, other):
            return "DOUBLE"
        if sizes == [None, None]:
            return max(one, other, key=INTEGERS.index)
        whole = max(19 if size is None else size[0] - size[1] for size in sizes)
        scale = max(0 if size is None else size[1] for size in sizes)
        if whole + scale <= 38:
            return f"DECIMAL(38,{scale})"
    raise Untranslatable(f"{one} beside {other}")


def constant(value: Any, kind: str) -> str:
    """A value as Spark SQL, of exactly that type.

    >>> constant("it's", "VARCHAR"), constant(None, "DATE"), constant(0.5, "DOUBLE")
    ("'it\\\\'s'", 'CAST(NULL AS DATE)', "CAST('0.5' AS DOUBLE)")
    """
    if kind == "NULL":
        return "NULL"
    written = spark_type(kind)
    if value is None:
        return f"CAST(NULL AS {written})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_constant(value)
    if isinstance(value, float):
        return f"CAST('{_float_text(value)}' AS DOUBLE)"
    if isinstance(value, (int, Decimal)):
        return f"CAST('{value}' AS {written})"
    if isinstance(value, datetime.date):
        return f"DATE'{value.isoformat()}'"
    raise Untranslatable(f"a constant of the type {kind}")


def text_constant(value: str) -> str:
    """A Spark string; whatever could end it or mean more than itself is written as its number."""

    def letter(one: str) -> str:
        if one in "'\\":
            return "\\" + one
        return f"\\u{ord(one):04x}" if ord(one) < 32 else one

    return "'" + "".join(map(letter, value)) + "'"


def _float_text(value: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))


def column_type(kind: pa.DataType) -> DataType:
    """The Spark type in which a column of a record file is read."""
    from pyspark.sql import types as spark

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    plain: dict[pa.DataType, DataType] = {
        pa.int8(): spark.ByteType(),
        pa.int16(): spark.ShortType(),
        pa.int32(): spark.IntegerType(),
        pa.int64(): spark.LongType(),
        pa.float64(): spark.DoubleType(),
        pa.bool_(): spark.BooleanType(),
        pa.string(): spark.StringType(),
        pa.date32(): spark.DateType(),
    }
    if kind in plain:
        return plain[kind]
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return spark.DecimalType(kind.precision, kind.scale)
    raise Untranslatable(f"a column of the type {kind}")
