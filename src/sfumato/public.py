"""What is public of a table, with what it follows from.

A reader who knows the program works backwards from everything that a release says. So a manifest is
made of `Public` values alone, and five constructors make these, one for each source; a raw count is
none, and mypy refuses it. Each source allows those before it:

>>> from_stated(5)
Public(value=5, follows='domain')
>>> fitted_of({"operators": from_stated("…"), "merges": fitted("…")})
('merges',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

Source = Literal["domain", "quasi", "shown-counts", "draws", "fitted"]
T = TypeVar("T")


@dataclass(frozen=True)
class Public(Generic[T]):
    """A value that may be published, and what it follows from besides promise, options and
    program."""

    value: T
    follows: Source


PublicPlan = Mapping[str, Public[Any]]  # the manifest's `plan`, field by field


def from_stated(value: T) -> Public[T]:
    """The same for every table with these columns and domains."""
    return Public(value, "domain")


def from_quasi(value: T) -> Public[T]:
    """The same whatever sensitive values people have."""
    return Public(value, "quasi")


def from_shown(value: T) -> Public[T]:
    """The same for every table of which the release would show the same counts."""
    return Public(value, "shown-counts")


def from_draws(value: T) -> Public[T]:
    """What of these the draws decide; a refused cut of a tree, which moves odds by 11/10 at most
    and for which ceilings are planned, is taken to be one."""
    return Public(value, "draws")


def fitted(value: T) -> Public[T]:
    """What follows from counts that the release hides. Its statement says so, and names a reader
    who does not know everybody else's values."""
    return Public(value, "fitted")


def values_of(plan: PublicPlan) -> dict[str, Any]:
    """The values alone, as a manifest holds them."""
    return {name: public.value for name, public in plan.items()}


def fitted_of(
    plan: PublicPlan, columns: Mapping[str, Public[Any]] = MappingProxyType({})
) -> tuple[str, ...]:
    """The names of what is fitted: fields of a plan, and domains of columns."""
    named = {**plan, **{f"domain of {name}": column for name, column in columns.items()}}
    return tuple(name for name, public in named.items() if public.follows == "fitted")
