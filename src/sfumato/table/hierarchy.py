"""A hierarchy of categories: which leaf lies under which node, from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.columns import list_some
from sfumato.errors import DataError


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
        try:
            with Path(path).open(encoding="utf-8", newline="") as file:
                lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"Cannot read the hierarchy {str(path)!r}: {error}.") from None
        return Hierarchy.of(lines, str(path))

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

    def below(self, values: Sequence[Any], column: str) -> tuple[int, npt.NDArray[np.int64]]:
        """How many leaves, and the parent of every node, when `values` are the leaves 0, 1, 2 …

        Only the leaves that occur are counted: the release shows no others.
        """
        texts = ["" if value is None else str(value) for value in values]
        unknown = [text for text in texts if text not in self.paths]
        if unknown:
            raise DataError(
                f"The hierarchy of column {column!r} lacks {list_some(unknown)}. Add a line for "
                "each, from leaf to root."
            )
        numbers: dict[str, int] = {text: place for place, text in enumerate(texts)}
        for text in texts:
            for node in self.paths[text][1:]:
                numbers.setdefault(node, len(numbers))
        parents = np.arange(len(numbers))
        for text in texts:
            path = self.paths[text]
            for child, parent in pairwise(path):
                parents[numbers[child]] = numbers[parent]
        return len(texts), parents
