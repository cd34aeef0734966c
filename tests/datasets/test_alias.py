"""The alias tables draw the rounded shares exactly, and raking meets both margins."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.datasets.alias import AliasTable
from sfumato.datasets.network import rake


def weights_in(table: AliasTable, row: int, values: int) -> list[int]:
    """How many of the slots · 2³² equally likely (slot, low half) pairs draw each value."""
    weights = [0] * values
    for slot in range(table.slots):
        place = row * table.slots + slot
        own, other = int(table.threshold[place]), int(table.other[place])
        if own:
            weights[slot] += own
        weights[other] += 2**32 - own
    return weights


@given(
    st.integers(1, 70).flatmap(
        lambda m: st.lists(
            st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=m, max_size=m).filter(
                any
            ),
            min_size=1,
            max_size=3,
        )
    )
)
def test_table_holds_the_shares_exactly(rows: list[list[float]]) -> None:
    shares = np.array(rows)
    shares /= shares.sum(axis=1, keepdims=True)
    table = AliasTable.from_shares(shares)
    total = table.slots * 2**32
    for row, wanted in enumerate(shares):
        weights = weights_in(table, row, len(wanted))
        assert sum(weights) == total
        for weight, share in zip(weights, wanted, strict=True):
            assert weight == 0 or share > 0, "an impossible value can be drawn"
            assert abs(weight - share * total) <= len(wanted)


def test_slot_and_threshold_use_different_bits() -> None:
    table = AliasTable.from_shares(np.array([[0.75, 0.25]]))
    half = np.uint64(1) << np.uint64(63)
    low = np.arange(4, dtype=np.uint64) << np.uint64(30)  # the quarters of the low half
    drawn = [table.pick(low + top, np.zeros(4, np.intp)).tolist() for top in (np.uint64(0), half)]
    assert drawn == [[0, 0, 0, 0], [1, 1, 0, 0]]


def test_rake_meets_both_margins_and_keeps_zeros() -> None:
    tilt = np.array([[[1.0, 2, 0], [3, 1, 1]], [[1, 1, 1], [0, 5, 1]]])
    cells = np.array([[0.2, 0.3], [0.5, 0.0]])
    wanted = np.array([0.3, 0.4, 0.3])
    shares = rake(tilt, cells, wanted)
    assert np.allclose(shares.sum(axis=-1), 1)
    assert np.allclose((cells[..., None] * shares).sum(axis=(0, 1)), wanted)
    assert shares[0, 0, 2] == 0
    odds = shares[0, 1, 0] * shares[1, 0, 1] / shares[0, 1, 1] / shares[1, 0, 0]
    assert odds == pytest.approx(3)  # raking keeps the odds ratios of the tilt


def test_import_is_light() -> None:
    heavy = "[m for m in ('numpy', 'pyarrow', 'scipy', 'duckdb') if m in sys.modules]"
    code = f"import sys, sfumato.errors; before = {heavy}; import sfumato.datasets; " + (
        f"sys.exit(before != {heavy})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
