"""Fields of a plan that nobody vouches for, read one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import BundleError

MOST = 1 << 62  # larger numbers count nothing


def is_whole(value: Any, least: int = 0) -> bool:
    """Whether a value of JSON is a count: a whole number, and no boolean.

    >>> is_whole(3), is_whole(True), is_whole(2.0), is_whole(-1), is_whole(10**30)
    (True, False, False, False, False)
    """
    return type(value) is int and least <= value < MOST


def whole_number(
    plan: Mapping[str, Any], name: str, where: str, *, default: int, least: int = 0
) -> int:
    """
    >>> whole_number({"matches": 4}, "matches", "'r'", default=1)
    4
    >>> whole_number({"matches": "many"}, "matches", "'r'", default=1)
    Traceback (most recent call last):
        ...
    sfumato.errors.BundleError: The plan of 'r' needs 'matches', a whole number from 0 up.
    """
    value = plan.get(name, default)
    if not is_whole(value, least):
        raise BundleError(f"The plan of {where} needs {name!r}, a whole number from {least} up.")
    return int(value)


def one_of(plan: Mapping[str, Any], name: str, choices: tuple[str, ...], where: str) -> str:
    """
    >>> one_of({}, "hand", ("shift", "paper"), "'r'")
    'shift'
    """
    value = plan.get(name, choices[0])
    if value not in choices:
        raise BundleError(
            f"The plan of {where} has {name!r}, which must be {' or '.join(choices)}."
        )
    return str(value)
