"""Local buckets, record by record: blocks and buckets are looked up, and found the same."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato import blocks
from sfumato.blocks import BlockTree, Cut, near_integers, reached
from sfumato.engines import binning
from sfumato.engines.counting import take_profile
from sfumato.profile import Holdings

TREE = BlockTree(
    (Cut("age", below=38), Cut("sex", values=("F",)), None, None, Cut("age", below=61), None, None)
)


def people(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows)
    sex = rng.choice(["F", "M", "X"], rows)
    value = (age // 10 + (sex == "F") + rng.integers(0, 5, rows)) % 8
    return pa.table({"age": age.astype(np.int16), "sex": sex, "value": value})


def walked(tree: BlockTree, records: pa.Table, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As a tree finds blocks that remembers none."""
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "_REMEMBERED", 0)
        return BlockTree(tree.cuts).numbers(records).tolist()


def test_blocks_that_are_remembered_are_those_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = BlockTree(TREE.cuts)
    for seed in range(3):  # the second and third ask for what was met before, and for more
        records = people(20 * 4**seed, seed)
        assert tree.numbers(records).tolist() == walked(TREE, records, monkeypatch)
    assert tree.numbers(people(0)).tolist() == []


def test_a_tree_travels_without_what_it_remembers() -> None:
    tree = BlockTree(TREE.cuts)
    found = tree.numbers(people(500)).tolist()
    sent = pickle.dumps(tree)
    assert len(sent) < 1000
    assert pickle.loads(sent).numbers(people(500)).tolist() == found


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
    assert reached(np.array(sorted(edges)), array).tolist() == expected


def test_integers_that_are_far_apart_or_missing_are_looked_at_one_by_one() -> None:
    assert near_integers(pa.array([1, 10**6])) is None
    assert near_integers(pa.array([1, None])) is None
    assert near_integers(pa.array([2**63 + 1], pa.uint64())) is None
    assert reached(np.array([5.0]), pa.array([None, 4, 9])).tolist() == [0, 0, 1]
    assert reached(np.array([2.0**63]), pa.array([2**63 + 1], pa.uint64())).tolist() == [1]
    low = np.array([-128, 127], np.int8)
    assert reached(np.array([0.0]), pa.array(low)).tolist() == [0, 1]


def test_cells_are_counted_in_the_order_of_their_bins() -> None:
    rng = np.random.default_rng(4)
    rows = 5000
    wide = {f"q{n:02}": rng.integers(0, 40, rows) % (n + 2) for n in range(13)}  # several integers
    table = pa.table({**wide, "s": rng.integers(0, 9, rows)})
    declared = sf.read(table, quasi=list(wide), sensitive="s")
    binned = binning.count_binned(
        declared, Holdings.one(*take_profile(declared).histograms.values())
    )
    cells = np.stack([*binned.codes, binned.values])
    expected, counts = np.unique(
        np.stack([np.asarray(table.column(n)) for n in table.column_names]), axis=1, return_counts=1
    )
    assert cells.tolist() == expected.tolist()
    assert binned.counts.tolist() == counts.tolist()
