"""How many people of a table have each value of a quasi column, as the manifest of ranges tells it.

Ranges and sets do not say where their people stand inside; with the counts of the columns answers
are much closer. No count is of fewer people than stated: rare values share a *cell* with others,
whole numbers with those beside them, categories with the other rare ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import Column, Range, Values
from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.operators.matched import Marginal
from sfumato.release.manifest import MarginalPart
from sfumato.release.values import codes_of, typed_values

MOST_WHOLE = 1 << 20  # whole numbers between the ends of a domain that are asked one by one


def whole_numbers(column: Column) -> IntArray | None:
    """The numbers that a column of whole numbers can have, where they can be asked one by one."""
    domain = column.domain
    if (
        column.type.startswith(("int", "uint"))
        and isinstance(domain, Range)
        and isinstance(domain.low, int)
        and isinstance(domain.high, int)
        and domain.high - domain.low < MOST_WHOLE
    ):
        return np.arange(domain.low, domain.high + 1)
    return None


def places(column: Column) -> int:
    """How many values a column can have, where they can be numbered; else 0."""
    if column.kind == "categorical":
        return len(column.domain) if isinstance(column.domain, Values) else 0
    whole = whole_numbers(column)
    return 0 if whole is None else len(whole)


def places_of(column: Column, values: pa.Array) -> IntArray:
    """The place of each value in the domain of a column; −1 outside."""
    if isinstance(column.domain, Values):
        return codes_of(values, typed_values(column.domain.values, values.type))
    whole = whole_numbers(column)
    assert whole is not None
    numbers = np.asarray(values.cast(pa.int64()).to_numpy(), np.int64)
    return np.where((numbers >= whole[0]) & (numbers <= whole[-1]), numbers - whole[0], -1)


def in_cells(column: Column, counts: IntArray, least: int) -> Marginal:
    """Counts by place in the domain, in cells of at least so many people where there are as many.

    >>> age = Column("age", "quasi", "numeric", "int64", Range(20, 24))
    >>> told = in_cells(age, np.array([9, 2, 7, 3, 1]), least=5)
    >>> told.cell.tolist(), told.people.tolist()
    ([0, 1, 1, 1, 1], [9, 13])
    """
    if column.kind == "categorical":
        cell = _rare_together(counts, least)
    else:
        cell = _runs(counts, least)
    return Marginal(cell, np.bincount(cell, counts).astype(np.int64))


def _runs(counts: IntArray, least: int) -> IntArray:
    """Neighbours in one cell until it has enough; the last people join the cell before them."""
    cell = np.zeros(len(counts), np.int64)
    number = people = 0
    for index, count in enumerate(counts.tolist()):
        cell[index] = number
        people += count
        if people >= least:
            number, people = number + 1, 0
    return np.minimum(cell, max(number - 1, 0))


def _rare_together(counts: IntArray, least: int) -> IntArray:
    """The rare values in the last cell; with them the rarest of the others, if they are too few."""
    order = np.argsort(-counts, kind="stable")
    alone = int((counts >= least).sum())
    while alone and 0 < counts[order[alone:]].sum() < least:
        alone -= 1
    cell = np.full(len(counts), alone, np.int64)
    if alone and not counts[order[alone:]].any():
        cell[:] = alone - 1  # nobody has the others: they need no cell of their own
    cell[np.sort(order[:alone])] = np.arange(alone)
    return cell


def to_json(column: Column, told: Marginal) -> dict[str, Any]:
    """Runs of numbers by where they start, categories by the cell of each value of the domain."""
    people = told.people.tolist()
    if column.kind == "categorical":
        return {"cells": told.cell.tolist(), "people": people}
    whole = whole_numbers(column)
    assert whole is not None
    starts = np.flatnonzero(np.diff(told.cell, prepend=-1))
    return {"starts": whole[starts].tolist(), "people": people}


def read_marginals(
    stated: Mapping[str, MarginalPart], columns: Mapping[str, Column], where: str
) -> dict[str, Marginal]:
    """What a plan tells of its quasi columns; nobody vouches for it."""
    marginals = {}
    for name, said in stated.items():
        column = columns.get(name)
        cell = None if column is None or not places(column) else _cells(column, said)
        if cell is None or set(np.unique(cell).tolist()) != set(range(len(said.people))):
            raise BundleError(
                f"The plan of {where} has marginals of {name!r} that do not count the values of a "
                "quasi-identifier by cells. Ask its publisher for a sound copy."
            )
        marginals[name] = Marginal(cell, np.array(said.people, np.int64))
    return marginals


def _cells(column: Column, said: MarginalPart) -> IntArray | None:
    """The cell of every place of the domain, as a plan states it; None where it does not."""
    if column.kind == "categorical":
        cells = said.cells or ()
        return np.array(cells, np.int64) if len(cells) == places(column) else None
    starts, whole = said.starts, whole_numbers(column)
    if whole is None or not starts or starts[0] != whole[0] or starts[-1] > whole[-1]:
        return None
    if any(after <= before for before, after in pairwise(starts)):
        return None
    return np.searchsorted(np.array(starts), whole, side="right") - 1
