"""AES on arrays: the primitive under every draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def encrypt_blocks(key: bytes, blocks: Words) -> Words:
    """AES-256 of each 128-bit row: a pseudo-random function of (key, row)."""
    source = np.ascontiguousarray(blocks)
    out = np.empty((len(source) + 1, 2), np.uint64)  # update_into wants room for one block more
    if source.size:
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        encryptor.update_into(raw_bytes(source), raw_bytes(out))
    return out[:-1]


def raw_bytes(array: npt.NDArray[Any]) -> memoryview:
    """The memory of an array, for the cipher to read and write."""
    return array.reshape(-1).view(np.uint8).data
