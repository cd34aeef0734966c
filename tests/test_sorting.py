"""Sorting by counting gives the order that `argsort` gives, for every size and number of values."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.sorting import counted_order

RANDOM = np.random.default_rng(25)


@pytest.mark.parametrize("rows", [0, 1, 4095, 4096, 30_000])
@pytest.mark.parametrize("values", [1, 50, 2048, 2049, 65_536, 65_537])
def test_codes_are_sorted_stably(rows: int, values: int) -> None:
    codes = RANDOM.integers(0, values, rows)
    assert np.array_equal(counted_order(codes, values), np.argsort(codes, kind="stable"))
