"""A hierarchy of categories: which leaf lies under which node, from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sfumato.errors import DataError


def read_paths(path: str | Path, what: str) -> list[list[str]]:
    """The cells of every line of a CSV file that leads from values to what stands above them."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"Cannot read the {what} {str(path)!r}.") from None


@dataclass(frozen=True)
class Hierarchy:
    """`paths[leaf]` leads from the leaf to the root, as texts; every path ends in the same root.

    >>> tree = Hierarchy.of([["Berlin", "Germany", "Europe"], ["Rome", "Italy", "Europe"]])
    >>> tree.paths["Rome"]
    ('Rome', 'Italy', 'Europe')
    """

    paths: dict[str, tuple[str, ...]]

    @staticmethod
    def read(path: str | Path) -> Hierarchy:
        """One line per leaf, from leaf to root, separated by commas."""
        return Hierarchy.of(read_paths(path, "hierarchy"), str(path))

    @staticmethod
    def of(lines: Sequence[Sequence[str]], label: str = "the hierarchy") -> Hierarchy:
        paths = {line[0]: tuple(line) for line in lines}
        if not lines or len(paths) != len(lines):
            raise DataError(f"{label} needs one line per leaf, from leaf to root, each leaf once.")
        if len({line[-1] for line in lines}) != 1:
            raise DataError(f"Every line of {label} must end in the same root.")
        parents: dict[str, str] = {}
        for line in lines:
            for child, parent in pairwise(line):
                if child == parent or parents.setdefault(child, parent) != parent:
                    raise DataError(
                        f"{label} puts {child!r} under two parents, or under itself. Give every "
                        "node one parent and a name of its own."
                    )
        inner = {node for line in lines for node in line[1:]}
        if inner & set(paths):
            raise DataError(f"{sorted(inner & set(paths))[0]!r} of {label} is a leaf and a node.")
        return Hierarchy(paths)
