"""The worked tables of the heterogeneous paper, and a small rerun of one figure."""

from __future__ import annotations

import numpy as np

from papers.heterogeneous import examples, figures
from papers.heterogeneous.algorithms import diversity_fill
from papers.heterogeneous.data import Setting, census
from papers.heterogeneous.thresholds import distant
from sfumato.draws import Draws


def test_worked_tables_agree_with_the_paper() -> None:
    tables = {table.name: table for table in examples.tables()}
    first = tables["Table 1"]
    assert [row[1] for row in first.rows] == [row[2] for row in first.rows]
    assert first.rows[6][4] == "t'4, t'6, t'7"  # errata H5
    fourth = tables["Table 4"]
    assert [row[1] for row in fourth.rows] == [row[2] for row in fourth.rows]
    assert tables["Table 5"].rows[1][1:] == ("B2", "B3", "B4", "B5", "B1")
    sixth = tables["Table 6"]
    for start in range(1, 6):
        columns = [str(row[start]).split() for row in sixth.rows]
        for index in range(3):
            assert len({column[index] for column in columns}) == 5
    for number, beta in ((7, "5/7"), (8, "2/3"), (9, "5/7")):
        assert f"beta = {beta} " in tables[f"Table {number}"].note


def test_a_small_rerun_of_figure_2() -> None:
    people, notes = census(None, 600)
    assert "generated" in notes[0]
    setting = Setting(600, (2, 4), (3,), (300,), (32,), (0.5,), 10)
    series = figures.diversity(people, setting)
    assert [each.name for each in series] == ["Figure 2(a)", "Figure 2(b)", "Figure 2(c)"]
    for each in series:
        for name in ("HG", "SG", "GR"):
            points = dict(each.lines[name])
            assert 0 < points[2] < points[4] < 1


def test_threshold_mode_fills_the_same_buckets_with_distant_people() -> None:
    """Buckets by the quasi value: split values go to the bucket of the other one."""
    codes = np.repeat(np.arange(3), [4, 4, 4])
    place = np.array([0.0] * 4 + [1.0] * 4 + [0.0, 1.0, 0.0, 1.0])[:, None]
    filled = diversity_fill(np.bincount(codes), 2)
    records = distant(filled, codes, place, Draws.from_seed(1))
    assert np.array_equal(np.sort(records.ravel()), np.arange(12))
    assert records.shape == (2, 6)
    low, high = (set(place[bucket, 0][codes[bucket] == 2]) for bucket in records)
    assert low == {1.0}
    assert high == {0.0}
