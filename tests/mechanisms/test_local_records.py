"""Bins of quasi columns, of numbers and of cells."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.blocks import ColumnBins
from sfumato.engines import binning
from sfumato.engines.counting import take_profile
from sfumato.profile import Holdings


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["int8", "uint8", "int16", "int64", "uint64", "float64"]),
    st.lists(st.integers(0, 120), min_size=1, max_size=30),
    st.lists(st.floats(-5, 130), max_size=6, unique=True),
)
def test_numbers_reach_the_edges_that_they_are_not_below(
    kind: str, numbers: list[int], edges: list[float]
) -> None:
    array = pa.array(np.array(numbers).astype(kind))
    expected = [sum(n >= edge for edge in edges) for n in numbers]
    assert ColumnBins("n", edges=tuple(sorted(edges))).of(array).tolist() == expected


def test_numbers_that_are_missing_or_very_large_have_a_bin() -> None:
    reached = ColumnBins("n", edges=(5.0,)).of(pa.array([None, 4, 9]))
    assert reached.tolist() == [0, 0, 1]
    assert ColumnBins("n", edges=(5.0,)).of(pa.array([np.nan, -np.inf, np.inf])).tolist() == [
        0,
        0,
        1,
    ]
    large = pa.array([2**63 + 1], pa.uint64())
    assert ColumnBins("n", edges=(2.0**63,)).of(large).tolist() == [1]


def test_cells_are_counted_in_the_order_of_their_bins() -> None:
    rng = np.random.default_rng(4)
    rows = 5000
    wide = {f"q{n:02}": rng.integers(0, 40, rows) % (n + 2) for n in range(13)}  # several integers
    table = pa.table({**wide, "s": rng.integers(0, 9, rows)})
    declared = sf.read(table, quasi=list(wide), sensitive="s")
    binned = binning.count_binned(
        declared, Holdings.one(*take_profile(declared).histograms.values())
    )
    cells = np.stack([*(code[binned.cell] for code in binned.cells.codes), binned.values])
    expected, counts = np.unique(
        np.stack([np.asarray(table.column(n)) for n in table.column_names]), axis=1, return_counts=1
    )
    assert cells.tolist() == expected.tolist()
    assert binned.counts.tolist() == counts.tolist()
