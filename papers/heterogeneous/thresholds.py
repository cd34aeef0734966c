"""Figure 2's threshold modes: records go to the bucket whose people are most distant.

Algorithm 1 splits values over the buckets that have room. In the default mode chance decides who
of a value goes where, in threshold mode the quasi columns do, which the paper calls vulnerable to
minimality attacks and includes "to show the benefit". So it is here: for the loss alone, and
outside of the package. Pairs that meet a value twice are not forbidden, in either mode.
"""

from __future__ import annotations

import numpy as np

from papers.heterogeneous.algorithms import diversity_fill
from papers.heterogeneous.data import NUMERIC, People, Setting
from papers.heterogeneous.matchers import matching
from papers.tables import Series
from sfumato.draws import Draws, IntArray
from sfumato.engines.counting import take_profile
from sfumato.engines.whole import WholeTable
from sfumato.mechanisms.generalized import Generalized, covers_of, penalty
from sfumato.mechanisms.heterogeneous.buckets import Buckets, deal
from sfumato.operators.base import FloatArray

NAMES = {"HG": "hungarian", "SG": "sort-greedy", "GR": "greedy"}
ROWS_AT_ONCE = 256
Point = tuple[float, float]


def figure_2(people: People, setting: Setting) -> list[Series]:
    """GCP by l on CENSUS, both modes of the three matchers."""
    lines: dict[str, list[Point]] = {
        f"{name}{mode}": [] for name in NAMES for mode in ("", ", threshold")
    }
    for number in setting.diversities:
        rows = people.rows // number * number  # Algorithm 1 wants whole buckets
        table = people.table(rows=rows)
        whole = WholeTable(table, take_profile(table), True)
        counts = np.bincount(whole.codes)
        filled = diversity_fill(counts, number)
        points = _places(whole)
        for mode, records in (
            ("", deal((Buckets(filled),), whole.codes, Draws.from_seed(1))[0]),
            (", threshold", distant(filled, whole.codes, points, Draws.from_seed(1))),
        ):
            for name, match in NAMES.items():
                members = matching(whole.axes, match).members(records, ROWS_AT_ONCE)
                matches = [members.reshape(-1, number)]
                covers, units = covers_of(whole.axes, matches)
                made = Generalized(np.arange(rows), covers, units, matches=matches)
                lines[f"{name}{mode}"].append((number, float(penalty(whole.axes, made))))
    title = "GCP by l, CENSUS, Algorithm 1 with and without threshold mode"
    return [Series("Figure 2, threshold", title, "l", "GCP", lines)]


def distant(filled: IntArray, codes: IntArray, points: FloatArray, draws: Draws) -> IntArray:
    """`records[b, j]`: split values go, one after the other, where people are most distant."""
    number = len(filled)
    members: list[list[int]] = [[] for _ in range(number)]
    order = draws.order("deal", len(codes))
    split = (filled > 0).sum(axis=0) > 1
    home = np.argmax(filled > 0, axis=0)
    sums = np.zeros((number, points.shape[1]))
    later = order[split[codes[order]]]
    for record in order[~split[codes[order]]]:
        members[home[codes[record]]].append(int(record))
    for bucket, those in enumerate(members):
        sums[bucket] = points[those].sum(axis=0)
    room = filled.sum(axis=1) - np.array([len(those) for those in members])
    for record in later:
        centres = sums / np.maximum([[len(m)] for m in members], 1)
        far = np.abs(centres - points[record]).sum(axis=1)
        bucket = int(np.argmax(np.where(room > 0, far, -1.0)))
        members[bucket].append(int(record))
        sums[bucket] += points[record]
        room[bucket] -= 1
    return np.array(members, np.int64)


def _places(whole: WholeTable) -> FloatArray:
    """Every record as a point: numbers scaled to 0 … 1, categories as one coordinate each."""
    columns = []
    for axis in whole.axes:
        codes = np.asarray(axis.codes, np.int64)
        if axis.name in NUMERIC:
            columns.append((codes - codes.min())[:, None] / max(int(np.ptp(codes)), 1))
        else:
            columns.append(np.eye(int(codes.max()) + 1)[codes] / 2)
    return np.concatenate(columns, axis=1)
