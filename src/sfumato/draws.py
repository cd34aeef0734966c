"""Secure, keyed, counter-based randomness: the only source of draws in sfumato.

Every draw has an *address*: the purpose it serves and the place it is for, a stream position or a
person. The same key and address always give the same draw, so batches, threads and machines may
come in any order and agree. Words come from AES-256; the subkey of a purpose is
HMAC-SHA256(key, purpose), so purposes never share a keystream.

Integers and probabilities are exact: rejection where a modulus would be biased (the rejected word
is replaced from a further purpose, so addresses stay independent of one another).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import DataError, UsageError
from sfumato.permutations import IntArray as IntArray
from sfumato.permutations import Permutation as Permutation
from sfumato.permutations import Words
from sfumato.private import read_private

BoolArray = npt.NDArray[np.bool_]

fresh_key = secrets.token_bytes

KEY_BYTES = 32
_LEAST_BYTES = 8  # different ones in a key; fewer come up with a chance below 2e-37


@dataclass(frozen=True)
class Positions:
    """Addresses `start … start+count-1` of a stream."""

    start: int
    count: int


@dataclass(frozen=True)
class Persons:
    """Addresses of people: one 128-bit block each, made by `Draws.persons`."""

    blocks: Words  # shape (n, 2)

    @property
    def count(self) -> int:
        return len(self.blocks)


Address = Positions | Persons


class Draws:
    """Draws under one key.

    >>> draws = Draws.from_seed(7)
    >>> whole = draws.words("demo", Positions(0, 5))
    >>> bool((draws.words("demo", Positions(2, 3)) == whole[2:]).all())
    True
    """

    def __init__(self, key: bytes, *, origin: str = "system") -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(f"A key has {KEY_BYTES} bytes; got {len(key)}.")
        self._key = key
        self.origin = origin  # "system", "seeded" or "key-file": goes into the manifest

    @classmethod
    def system(cls) -> Draws:
        """A fresh key from the operating system, forgotten with this object."""
        return cls(fresh_key(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> Draws:
        """Repeatable draws for experiments and tests: anyone who knows the seed can undo them."""
        return cls(hashlib.sha256(b"sfumato seed %d" % int(seed)).digest(), origin="seeded")

    @classmethod
    def from_key_file(cls, path: str | Path) -> Draws:
        """Draws under the steward's key: a file with 64 hexadecimal digits (`sfumato keygen`)."""
        try:
            return cls.repeated(read_private(path, "the key file"), origin="key-file")
        except UsageError as error:
            why = str(error)
            raise DataError(
                f"Cannot use the key file {str(path)!r}: {why[0].lower()}{why[1:]} Make one with "
                "'sfumato keygen FILE'."
            ) from None

    @classmethod
    def repeated(cls, text: str, origin: str) -> Draws:
        """Draws under a key that was written down, as hexadecimal digits.

        >>> Draws.repeated(64 * "0", "key-file")
        Traceback (most recent call last):
        ...
        sfumato.errors.UsageError: A key that repeats a few bytes, such as zeros, was not drawn.
        """
        try:
            key = bytes.fromhex(text.strip())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise UsageError(f"Expected one line of {2 * KEY_BYTES} hexadecimal digits.")
        if len(set(key)) < _LEAST_BYTES:
            raise UsageError("A key that repeats a few bytes, such as zeros, was not drawn.")
        return cls(key, origin=origin)

    def __repr__(self) -> str:
        return f"<Draws {self.origin}>"  # never the key

    def reveal(self) -> str:
        """The key as hexadecimal digits: for a receipt, which nobody but the steward may read."""
        return self._key.hex()

    def child(self, purpose: str) -> Draws:
        """Draws that are independent of these and of every other child."""
        return Draws(self._subkey("child " + purpose), origin=self.origin)

    def _subkey(self, purpose: str) -> bytes:
        return hmac.digest(self._key, purpose.encode(), "sha256")

    # -- words -------------------------------------------------------------------------------

    def words(self, purpose: str, address: Address) -> Words:
        """One uniform 64-bit word per address. Cost: 16 bytes of AES a word at most."""
        if isinstance(address, Positions):
            return self._stream(purpose, address.start, address.count)
        return encrypt_blocks(self._subkey(purpose), address.blocks)[:, 0].copy()

    def _stream(self, purpose: str, start: int, count: int) -> Words:
        if count == 0:
            return np.empty(0, np.uint64)
        first, skip = divmod(start, 2)  # two words in a block
        blocks = (skip + count + 1) // 2
        counter = modes.CTR(first.to_bytes(16, "big"))
        encryptor = Cipher(algorithms.AES(self._subkey(purpose)), counter).encryptor()
        out = np.zeros(2 * blocks, np.uint64)
        encryptor.update_into(_bytes(out), _bytes(out))
        return out[skip : skip + count]

    def persons(self, purpose: str, keys: list[bytes]) -> Persons:
        """Addresses tied to people, from the bytes that identify each of them."""
        subkey = self._subkey("persons " + purpose)
        digests = b"".join(
            hashlib.blake2b(key, key=subkey, digest_size=16).digest() for key in keys
        )
        return Persons(np.frombuffer(digests, np.uint64).reshape(-1, 2))

    # -- exact integers and probabilities -------------------------------------------------------

    def below(self, purpose: str, address: Address, bound: int | IntArray) -> IntArray:
        """Exactly uniform integers in `[0, bound)`; `bound` may differ by address.

        >>> Draws.from_seed(1).below("die", Positions(0, 4), 6).tolist()
        [4, 0, 4, 1]
        """
        words = self.words(purpose, address)
        limit = np.asarray(bound, np.uint64)
        if words.size and int(limit.min()) < 1:
            raise ValueError("below() needs bounds of at least 1")
        # one bound stays one number: numpy divides by that several times as fast
        result, rejected = _reduce(words, limit)
        limit = np.broadcast_to(limit, words.shape)
        attempt = 0
        while rejected.size:
            attempt += 1
            fresh = self.words(f"{purpose} again {attempt}", _select(address, rejected))
            again, still = _reduce(fresh, limit[rejected])
            result[rejected] = again
            rejected = rejected[still]
        return result.view(np.int64)

    def below_small(
        self, purpose: str, address: Address, halves: Words, bound: int | IntArray
    ) -> IntArray:
        """Exactly uniform integers in `[0, bound)`, `bound` < 2³¹, from 32-bit halves of words.

        Lemire's multiply-shift with rejection; replacements come from `below` under `purpose`.
        `bound` may differ by address.
        """
        limit = np.asarray(bound, np.uint64)
        product = halves * limit
        result = product >> np.uint64(32)
        product &= np.uint64(0xFFFFFFFF)
        # only products below their bound can be unfair: the modulus is smaller still
        rejected = np.flatnonzero(product < limit)
        if rejected.size:
            limit = np.broadcast_to(limit, product.shape)[rejected]
            rejected = rejected[product[rejected] < np.uint64(1 << 32) % limit]
        if rejected.size:
            fresh = self.below(
                f"{purpose} again",
                _select(address, rejected),
                np.broadcast_to(np.asarray(bound), product.shape)[rejected],
            )
            result[rejected] = fresh.view(np.uint64)
        return result.view(np.int64)

    def bernoulli(self, purpose: str, address: Address, probability: Fraction) -> BoolArray:
        """True with exactly `probability` (its denominator at most 2⁶²)."""
        if probability.denominator > 1 << 62:
            raise ValueError("bernoulli() needs a denominator of at most 2**62")
        return self.below(purpose, address, probability.denominator) < probability.numerator

    # -- orders and samples ------------------------------------------------------------------------

    def order(self, purpose: str, n: int) -> IntArray:
        """A uniformly random order of `0 … n-1` (up to n²/2⁶⁵, the chance of a tie). O(n)."""
        return np.argsort(self.words(purpose, Positions(0, n)))

    def choose(self, purpose: str, n: int, k: int) -> IntArray:
        """`k` different integers of `[0, n)`, every subset equally likely, sorted. O(k) words."""
        if not 0 <= k <= n:
            raise ValueError(f"cannot choose {k} of {n}")
        if 2 * k > n:
            kept = np.ones(n, np.bool_)
            kept[self.choose(purpose, n, n - k)] = False
            return np.flatnonzero(kept)
        chosen: dict[int, None] = {}
        start = 0
        while len(chosen) < k:
            need = k - len(chosen)
            drawn = self.below(purpose, Positions(start, need), n)
            chosen.update(dict.fromkeys(drawn.tolist()))
            start += need
        return np.sort(np.fromiter(chosen, np.int64, k))

    def permutation(self, purpose: str, sizes: npt.ArrayLike) -> Permutation:
        """Independent keyed permutations of `[0, sizes[x])` for every x."""
        return Permutation(partial(self._stream, purpose + " table"), np.asarray(sizes, np.int64))

    def hypergeometric(self, purpose: str, counts: npt.ArrayLike, sample: int) -> IntArray:
        """How many of a uniform sample without replacement fall into each class."""
        edges = np.cumsum(np.asarray(counts, np.int64))
        chosen = self.choose(purpose, int(edges[-1]) if len(edges) else 0, sample)
        return np.bincount(np.searchsorted(edges, chosen, side="right"), minlength=len(edges))


def seed_of(key: bytes, below: int) -> int | None:
    """The seed below a bound that gives this key, where there is one: 0.6 µs a seed.

    >>> seed_of(bytes.fromhex(Draws.from_seed(7).reveal()), 10), seed_of(32 * b"k", 10)
    (7, None)
    """
    hashed = hashlib.sha256
    return next((n for n in range(below) if hashed(b"sfumato seed %d" % n).digest() == key), None)


def _reduce(words: Words, limit: Words) -> tuple[Words, IntArray]:
    """Words modulo their limits, and the places whose word must be drawn again."""
    whole = words // limit
    whole *= limit
    # a word is fair when the whole run [word - residue, word - residue + limit) exists
    unfair = whole > np.uint64(0xFFFFFFFFFFFFFFFF) - (limit - np.uint64(1))
    return np.subtract(words, whole, out=whole), np.flatnonzero(unfair)


def encrypt_blocks(key: bytes, blocks: Words) -> Words:
    """AES-256 of each 128-bit row: a pseudo-random function of (key, row)."""
    source = np.ascontiguousarray(blocks)
    out = np.empty((len(source) + 1, 2), np.uint64)  # update_into wants room for one block more
    if source.size:
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        encryptor.update_into(_bytes(source), _bytes(out))
    return out[:-1]


def _bytes(array: Words) -> memoryview:
    """The memory of an array, for the cipher to read and write."""
    return array.reshape(-1).view(np.uint8).data


def _select(address: Address, index: IntArray) -> Persons:
    """The chosen addresses; positions become blocks of their own, under a purpose of their own."""
    if isinstance(address, Persons):
        return Persons(address.blocks[index])
    blocks = np.zeros((len(index), 2), np.uint64)
    blocks[:, 0] = (index + address.start).astype(np.uint64)
    return Persons(blocks)
