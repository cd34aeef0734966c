"""The reference of the Python package: every public name, from its docstring."""

from __future__ import annotations

import inspect
from typing import Any

import sfumato
from sfumato.errors import SfumatoError
from sfumato.guarantees import Guarantee

TITLES = {
    "Verbs": "What one does with tables and releases.",
    "Guarantees": "Promises, as objects; `parse_guarantee` reads their text form.",
    "Results": "What the verbs give back. Each prints itself, and shows itself in a notebook.",
    "Errors and warnings": "Everything that is raised on purpose is a `SfumatoError`.",
}


def python_page() -> str:
    """The names of `sfumato`, grouped."""
    groups: dict[str, list[str]] = {title: [] for title in TITLES}
    for name in sfumato.__all__:
        if name != "__version__":
            groups[_group(getattr(sfumato, name))].append(name)
    parts = ["# Python", "`import sfumato as sf`; every name below is one of `sf`."]
    for title, names in groups.items():
        parts += [f"## {title}", TITLES[title]]
        parts += [f"::: {sfumato._PLACES[name]}.{name}" for name in names]
    return "\n\n".join(parts) + "\n"


def _group(thing: Any) -> str:
    if not inspect.isclass(thing):
        return "Verbs"
    if issubclass(thing, SfumatoError | Warning):
        return "Errors and warnings"
    return "Guarantees" if issubclass(thing, Guarantee) else "Results"
