"""Sorting by counting gives the order that `argsort` gives, for every size and number of values."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.sorting import counted_order, sorted_places

RANDOM = np.random.default_rng(25)


@pytest.mark.parametrize("rows", [0, 1, 4095, 4096, 30_000])
@pytest.mark.parametrize("values", [1, 50, 2048, 2049, 65_536, 65_537])
def test_codes_are_sorted_stably(rows: int, values: int) -> None:
    codes = RANDOM.integers(0, values, rows)
    assert np.array_equal(counted_order(codes, values), np.argsort(codes, kind="stable"))


@pytest.mark.parametrize("rows", [0, 1, 4095, 4096, 32_767, 32_768, 300_000])
def test_words_are_sorted(rows: int) -> None:
    words = np.frombuffer(RANDOM.bytes(8 * rows), np.uint64)
    assert np.array_equal(sorted_places(words), np.argsort(words, kind="stable"))


@pytest.mark.parametrize("bits", [0, 5, 30, 43, 64])
def test_words_that_differ_in_few_bits_are_sorted(bits: int) -> None:
    """So few different upper bits that nearly all words meet others with the same."""
    words = np.frombuffer(RANDOM.bytes(8 * 40_000), np.uint64)
    words = words & np.uint64((1 << bits) - 1)
    assert np.array_equal(sorted_places(words), np.argsort(words, kind="stable"))
