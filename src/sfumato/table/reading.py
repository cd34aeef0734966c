"""How a file is to be read, as far as somebody said so: what no reader should guess in silence."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import UsageError
from sfumato.textform import Parameter

Header = Literal["guess", "yes", "no"]
# texts that often stand for what is not known, as they are without blanks and capitals
MARKERS = frozenset(("?", "na", "n/a", "nan", "-", "--", ".", "null", "missing", "#n/a"))


@dataclass(frozen=True)
class Reading:
    """What was said of a file. Every field is a table option of that name.

    `header`, `columns`, `separator`, `quote` and `encoding` are of texts, `sheet` of workbooks;
    `missing_markers` hold for the texts of every table. `texts` are columns in which 007 is no
    number.

    >>> Reading.of(missing_markers="?,NA,").apply(pa.array(["?", "Private", None]))
    <pyarrow.lib.StringArray object at ...>
    [
      null,
      "Private",
      null
    ]
    """

    header: Header = "guess"
    columns: tuple[str, ...] = ()
    separator: str = ""
    quote: str = ""
    encoding: str = ""
    sheet: str = ""
    missing_markers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Parameter("header", options=get_args(Header)).read(self.header, "a table")
        if self.columns and self.header == "yes":
            raise UsageError(
                "'columns' names the columns of a file without names in its first line; with "
                "header yes they stand there. Say one of the two."
            )
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice or "" in self.columns:
            raise UsageError(
                f"'columns' names {twice[0]!r} twice." if twice else "'columns' has an empty name."
            )
        if len(self.separator) > 1 or len(self.quote) > 1:
            raise UsageError("A separator and a quote are one character each; tab is \\t.")
        if self.encoding:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise UsageError(
                    f"There is no encoding {self.encoding!r}. Common ones are utf-8, latin-1, "
                    "cp1252 and utf-16."
                ) from None

    @classmethod
    def of(cls, **given: Any) -> Reading:
        """From what the options say: lists may come as texts with commas."""
        said = {name: value for name, value in given.items() if value is not None}
        said |= {n: _listed(said[n]) for n in ("columns", "missing_markers") if n in said}
        if said.get("separator") == "\\t":
            said["separator"] = "\t"
        return cls(**said)

    def said(self) -> dict[str, Any]:
        """What was said, and nothing that is as usual.

        >>> Reading.of(sheet="people", columns="a,b").said()
        {'columns': ('a', 'b'), 'sheet': 'people'}
        """
        plain = Reading()
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: said for name, said in options.items() if said != getattr(plain, name)}

    def refuse(self, label: str, kind: str, known: Sequence[str] = ()) -> None:
        """Refuse what has no meaning for a source of this kind, except the fields `known`."""
        for name in self.said():
            if name not in ("missing_markers", "texts", *known):
                raise UsageError(f"{label} is {kind}: '{name}' has no meaning for it.")

    def type(self, kind: pa.DataType) -> pa.DataType:
        return kind

    def apply(self, array: pa.Array) -> pa.Array:
        """Texts, and markers as missing."""
        coded = pa.types.is_dictionary(array.type)
        texts = array.dictionary if coded else array
        marked = pc.is_in(texts, value_set=pa.array(self.missing_markers, pa.string()))
        cleaned = pc.if_else(marked, pa.scalar(None, pa.string()), texts)
        # a coded text may now stand as a null in its dictionary
        return cleaned.take(array.indices).dictionary_encode() if coded else cleaned

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the given options that say something else than how to read."""
        names = {field.name for field in fields(cls)}
        return {name: value for name, value in given.items() if name not in names}


def _listed(given: Sequence[str] | str) -> tuple[str, ...]:
    """
    >>> _listed("?, NA,"), _listed(""), _listed(["a", "b"])
    (('?', 'NA', ''), (), ('a', 'b'))
    """
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",")) if given else ()
    return tuple(given)
