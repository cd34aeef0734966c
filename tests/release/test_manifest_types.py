"""The manifest's types, as msgspec sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from sfumato.release.manifest import AnyManifest


def test_no_union_of_a_dict_and_a_text_with_limits() -> None:
    """msgspec 0.22 frees such a type wrongly: every third command ended in a segmentation fault."""
    unions = [part for part in parts_of(inspect.type_info(AnyManifest)) if has_types(part)]
    assert unions  # the guarantee: a text, or one for each column
    for union in unions:
        texts = [kind for kind in union.types if isinstance(kind, inspect.StrType)]
        assert all(text == inspect.StrType() for text in texts), union


def has_types(part: Any) -> bool:
    """Whether it is a union with a dict and a text among its members."""
    members = {type(member) for member in getattr(part, "types", ())}
    return {inspect.DictType, inspect.StrType} <= members


def parts_of(kind: Any, seen: set[type] | None = None) -> Iterator[Any]:
    """A type and all types in it, each structure once."""
    seen = set() if seen is None else seen
    cls = getattr(kind, "cls", None)
    if isinstance(kind, inspect.StructType):
        if cls in seen:
            return
        seen.add(cls)
    yield kind
    children = msgspec.structs.asdict(kind).values() if isinstance(kind, msgspec.Struct) else ()
    for child in children:
        for part in child if isinstance(child, tuple) else (child,):
            if isinstance(part, inspect.Field):
                part = part.type
            if isinstance(part, inspect.Type):
                yield from parts_of(part, seen)
