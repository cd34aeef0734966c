"""The worked examples: Tables 1 and 4 to 9."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.generalized import RangeCover, covers_of
from sfumato.mechanisms.heterogeneous.buckets import Buckets, deal
from sfumato.mechanisms.heterogeneous.ncp import NumericAxis
from sfumato.mechanisms.heterogeneous.sweeps import hungarian
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
    shown = covers_of(axes, [TABLE_1])
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


FORBIDDEN = float(1 << 50)  # more than a whole matching can cost otherwise


def diversity_fill(counts: IntArray, number: int) -> IntArray:
    """Algorithm 1: the ℓ commonest values one bucket each, the rest into the emptiest (H6).

    Table 4 of the paper:

    >>> diversity_fill(np.array([3, 3, 3, 2, 2, 2]), 5)[3:].tolist()
    [[0, 0, 0, 2, 0, 1], [0, 0, 0, 0, 2, 1]]
    """
    size = int(counts.sum()) // number
    table = np.zeros((number, len(counts)), np.int64)
    order = np.argsort(-counts, kind="stable")
    for bucket, code in enumerate(order[:number]):
        table[bucket, code] = counts[code]
    room = size - table.sum(axis=1)
    for code in order[number:]:
        left = int(counts[code])
        while left:
            bucket = int(np.argmax(room))
            placed = min(left, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            left -= placed
    return table


def rounds(records: IntArray, position: IntArray, codes: IntArray) -> IntArray:
    """Algorithm 2 along one numeric column: `members[b, r, k]` from `records[k, j]`.

    A pair of a row and a record whose value the row has already is forbidden; for whole buckets a
    matching without such pairs exists (Theorem 2, H7), and the cheapest avoids them.
    """
    number, size = records.shape
    members = np.empty((number, size, number), np.int64)
    for start in range(number):
        members[start, :, start] = records[start]
        met = [start]
        for step in range(1, number):
            bucket = (start + step) % number
            rows = members[start][:, met]
            low, high = position[rows].min(axis=1), position[rows].max(axis=1)
            place = position[records[bucket]][:, None]
            cost = (np.maximum(low - place, 0) + np.maximum(place - high, 0)).astype(np.float64)
            repeated = (codes[records[bucket]][:, None, None] == codes[rows][None]).any(axis=2)
            cost[repeated] = FORBIDDEN
            members[start, :, bucket] = records[bucket][hungarian(cost)]
            met.append(bucket)
    return members
