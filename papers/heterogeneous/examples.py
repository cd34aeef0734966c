"""The worked examples: Tables 1 and 4 to 9."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from papers.heterogeneous.algorithms import diversity_fill, rounds
from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.generalized import RangeCover, covers_of
from sfumato.mechanisms.heterogeneous.buckets import Buckets, deal
from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
from sfumato.results import Cell, ResultTable

AGE = np.array([59, 57, 39, 28, 41, 37, 40, 53])
SALARY = np.array([25, 27, 47, 41, 20, 59, 35, 34])
TABLE_1 = np.array(
    [[0, 1, 7], [0, 1, 7], [2, 3, 5], [3, 4, 5], [0, 4, 6], [2, 3, 5], [2, 4, 6], [1, 6, 7]]
)
PRINTED_1 = ["53-59", "53-59", "28-39", "28-41", "40-59", "28-39", "39-41", "40-57"]
VALUES = "abcdef"
FIFTEEN = np.array([3, 3, 3, 2, 2, 2])
THREE = np.array([6, 7, 12])
PRINTED_BETA = {4: 0.71, 5: 0.66, 6: 0.71}


def sequential_spread(ordered: IntArray, size: int) -> IntArray:
    """|B_x| when the values fill buckets of `size` one after the other (H14).

    >>> sequential_spread(np.array([6, 7, 12]), 5).tolist()
    [2, 2, 3]
    """
    before = np.cumsum(ordered) - ordered
    return np.where(ordered > 0, (before + ordered - 1) // size - before // size + 1, 0)


def equation_7(ordered: IntArray, size: int) -> Fraction:
    """The beta that this order attains with buckets of `size`: c / min(n_x / |B_x|) − 1, without
    the ceiling that Algorithm 3 takes (H10).

    >>> [str(equation_7(np.array([6, 7, 12]), size)) for size in (4, 5, 6)]
    ['5/7', '2/3', '5/7']
    """
    spread = sequential_spread(ordered, size)
    pairs = zip(ordered.tolist(), spread.tolist(), strict=True)
    return size / min(Fraction(count, buckets) for count, buckets in pairs) - 1


def tables() -> list[ResultTable]:
    """Every worked table, the paper's column beside ours."""
    return [_table_1(), _table_4(), _table_5(), _table_6(), *_tables_7_to_9()]


def _table_1() -> ResultTable:
    places = np.arange(60)
    axes = [NumericAxis("age", AGE, places, 31), NumericAxis("salary", SALARY, places, 39)]
    shown, _ = covers_of(axes, [TABLE_1])
    texts = []
    for cover in shown:
        assert isinstance(cover, RangeCover)
        texts.append([f"{a}-{b}" for a, b in zip(cover.low, cover.high, strict=True)])
    rows = [
        (
            f"t'{row}",
            texts[0][row],
            PRINTED_1[row],
            texts[1][row],
            ", ".join(f"t'{r}" for r, matches in enumerate(TABLE_1.tolist()) if row in matches),
        )
        for row in range(8)
    ]
    columns = ("record", "age", "age (paper)", "salary", "matches of the original")
    return ResultTable("Table 1", "Example of generalization", columns, rows, ("age (paper)",))


def _table_4() -> ResultTable:
    filled = diversity_fill(FIFTEEN, 5)
    printed = ("a a a", "b b b", "c c c", "d d f", "e e f")
    rows = [
        (
            f"B{b + 1}",
            " ".join(VALUES[v] for v in range(6) for _ in range(filled[b, v])),
            printed[b],
        )
        for b in range(5)
    ]
    return ResultTable("Table 4", "Five buckets", ("bucket", "values", "paper"), rows, ("paper",))


def _table_5() -> ResultTable:
    rows: list[tuple[Cell, ...]] = [
        (x + 1, *(f"B{(b + x) % 5 + 1}" for b in range(5))) for x in range(5)
    ]
    return ResultTable(
        "Table 5", "Bucket-to-bucket assignments", ("round", "B1", "B2", "B3", "B4", "B5"), rows
    )


def _table_6() -> ResultTable:
    codes = np.repeat(np.arange(6), FIFTEEN)
    (records,) = deal((Buckets(diversity_fill(FIFTEEN, 5)),), codes, Draws.from_seed(1))
    members = rounds(records, np.arange(15), codes)
    rows: list[tuple[Cell, ...]] = []
    for x in range(5):
        row = [
            " ".join(VALUES[codes[r]] for r in members[b, :, (b + x) % 5].tolist())
            for b in range(5)
        ]
        rows.append((x + 1, *row))
    return ResultTable(
        "Table 6",
        "Record-to-record assignments, by the bucket that rows start from",
        ("round", "B1", "B2", "B3", "B4", "B5"),
        rows,
        note="Every row has five different values; which of d, e and f meet depends on costs.",
    )


def _tables_7_to_9() -> list[ResultTable]:
    made = []
    for number, size in ((7, 4), (8, 5), (9, 6)):
        spread = sequential_spread(THREE, size)
        rows = [("abd"[v], int(THREE[v]), int(spread[v])) for v in range(3)]
        beta = equation_7(THREE, size)
        made.append(
            ResultTable(
                f"Table {number}",
                f"Buckets of {size}",
                ("value", "records", "buckets that hold it"),
                rows,
                note=f"beta = {beta} = {float(beta):.4f}; the paper prints {PRINTED_BETA[size]}.",
            )
        )
    return made
