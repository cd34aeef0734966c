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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import DataError, UsageError

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

KEY_BYTES = 32
_CHUNK = 1 << 15  # elements per inner step: temporaries stay in the second-level cache


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
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> Draws:
        """Repeatable draws for experiments and tests: anyone who knows the seed can undo them."""
        return cls(hashlib.sha256(f"sfumato seed {int(seed)}".encode()).digest(), origin="seeded")

    @classmethod
    def from_key_file(cls, path: str | Path) -> Draws:
        """Draws under the steward's key: a file with 64 hexadecimal digits (`sfumato keygen`)."""
        try:
            text = Path(path).read_text(encoding="ascii").strip()
            key = bytes.fromhex(text)
        except (OSError, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise DataError(
                f"Cannot use the key file {str(path)!r}: expected one line of {2 * KEY_BYTES} "
                "hexadecimal digits. Make one with 'sfumato keygen FILE'."
            )
        return cls(key, origin="key-file")

    def __repr__(self) -> str:
        return f"<Draws {self.origin}>"  # never the key

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
        limit = np.broadcast_to(np.asarray(bound, np.uint64), words.shape)
        if words.size and int(limit.min()) < 1:
            raise ValueError("below() needs bounds of at least 1")
        result, rejected = _reduce(words, limit)
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
        """A uniformly random order of `0 … n-1` (up to n²/2⁶⁵, the chance of a tie). O(n log n)."""
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
        return Permutation(self, purpose, np.asarray(sizes, np.int64))

    # -- counts -----------------------------------------------------------------------------------

    def binomial(self, purpose: str, counts: npt.ArrayLike, probability: Fraction) -> IntArray:
        """Exact Binomial(counts[i], probability), by its definition: O(sum of counts)."""
        sizes = np.asarray(counts, np.int64)
        hits = np.zeros(len(sizes), np.int64)
        for start, count, owners in _owners(sizes):
            hit = self.bernoulli(purpose, Positions(start, count), probability)
            hits += np.bincount(owners[hit], minlength=len(sizes))
        return hits

    def multinomial(self, purpose: str, counts: npt.ArrayLike, weights: npt.ArrayLike) -> IntArray:
        """Exact Multinomial(counts[i], weights / sum) for integer weights; shape (i, weights)."""
        sizes, cumulative = np.asarray(counts, np.int64), np.cumsum(np.asarray(weights, np.int64))
        table = np.zeros((len(sizes), len(cumulative)), np.int64)
        for start, count, owners in _owners(sizes):
            drawn = self.below(purpose, Positions(start, count), int(cumulative[-1]))
            value = np.searchsorted(cumulative, drawn, side="right")
            flat = owners * len(cumulative) + value
            table += np.bincount(flat, minlength=table.size).reshape(table.shape)
        return table

    def hypergeometric(self, purpose: str, counts: npt.ArrayLike, sample: int) -> IntArray:
        """How many of a uniform sample without replacement fall into each class."""
        edges = np.cumsum(np.asarray(counts, np.int64))
        chosen = self.choose(purpose, int(edges[-1]) if len(edges) else 0, sample)
        return np.bincount(np.searchsorted(edges, chosen, side="right"), minlength=len(edges))


class Permutation:
    """One keyed permutation of `[0, sizes[x])` per value x, evaluated for many (x, rank) at once.

    Small sizes hold an explicit, uniformly random table (2²¹ entries in all at most). Larger ones
    run a generalized Feistel network with AES round functions on Z_a × Z_b, a·b ≥ size, walking
    out-of-range points on: a bijection for every key, in O(1) per rank. The round functions are
    looked up in tables of O(√size) entries where 2²³ of them are enough.

    >>> slots = Draws.from_seed(3).permutation("demo", [4, 3])
    >>> sorted(slots(np.array([0, 0, 0, 0]), np.array([0, 1, 2, 3])).tolist())
    [0, 1, 2, 3]
    """

    ROUNDS = 6
    TABLE_ENTRIES = 1 << 21
    ROUND_ENTRIES = 1 << 23

    def __init__(self, draws: Draws, purpose: str, sizes: IntArray) -> None:
        if len(sizes) and int(sizes.min()) < 0:
            raise ValueError("sizes must not be negative")
        self.sizes = sizes
        self._key = draws._subkey("permutation " + purpose)
        ascending = np.argsort(sizes, kind="stable")
        fits = np.cumsum(sizes[ascending]) <= self.TABLE_ENTRIES
        tabled = np.sort(ascending[fits])
        self._offset = np.full(len(sizes), -1, np.int64)
        self._offset[tabled] = np.concatenate([[0], np.cumsum(sizes[tabled])])[: len(tabled)]
        self._table = _shuffled_runs(
            draws.words(purpose + " table", Positions(0, int(sizes[tabled].sum()))), sizes[tabled]
        )
        self._all_tabled = len(tabled) == len(sizes)
        root = np.ceil(np.sqrt(np.maximum(sizes, 1).astype(np.float64))).astype(np.int64)
        self._left = np.maximum(root, 1)
        self._right = np.maximum(-(-sizes // np.maximum(root, 1)), 1)

    def __call__(self, values: npt.ArrayLike, ranks: npt.ArrayLike) -> IntArray:
        """The slot of every (value, rank). Cost: about 0.1 µs a record where a network runs."""
        value, rank = np.asarray(values, np.int64), np.asarray(ranks, np.int64)
        if rank.size and (int(rank.min()) < 0 or bool((rank >= self.sizes[value]).any())):
            raise ValueError("a rank lies outside its value's count")
        slots = np.empty(len(rank), np.int64)
        for low in range(0, len(rank), _CHUNK):
            part = slice(low, low + _CHUNK)
            slots[part] = self._chunk(value[part], rank[part])
        return slots

    def _chunk(self, value: IntArray, rank: IntArray) -> IntArray:
        if self._all_tabled:
            return np.asarray(self._table[self._offset[value] + rank])
        slots = np.empty(len(rank), np.int64)
        offset = self._offset[value]
        tabled = np.flatnonzero(offset >= 0)
        slots[tabled] = self._table[offset[tabled] + rank[tabled]]
        pending = np.flatnonzero(offset < 0)
        held, point = value[pending], rank[pending]
        while pending.size:  # cycle walking: fewer than size**-0.5 of the points go round again
            point = self._network(held, point)
            slots[pending] = point
            outside = np.flatnonzero(point >= self.sizes[held])
            pending, held, point = pending[outside], held[outside], point[outside]
        return slots

    def _network(self, value: IntArray, point: IntArray) -> IntArray:
        a, b = self._left[value], self._right[value]
        # exact for sizes below 2⁵³: a quotient lies at least 1/b below the next whole number
        left = (point / b).astype(np.int64)
        right = point - left * b
        held = self._rounds
        starts = None if held is None else (held.starts[0][value], held.starts[1][value])
        for number in range(self.ROUNDS):
            into_left = number % 2 == 0
            half, modulus = (left, a) if into_left else (right, b)
            other = right if into_left else left
            if held is None or starts is None:
                half += self._mixed(value, number, other, modulus)
            else:
                half += held.tables[number][starts[number % 2] + other]
            # modulo: of the two candidates the negative one is huge as an unsigned number
            reduced = (half - modulus).view(np.uint64)
            np.minimum(half.view(np.uint64), reduced, out=half.view(np.uint64))
        left *= b
        left += right
        return left

    def _mixed(self, value: IntArray, number: int, other: IntArray, modulus: IntArray) -> IntArray:
        """The round function: what a half moves by, given the other half."""
        blocks = np.empty((len(other), 2), np.uint64)
        blocks[:, 0] = (value.astype(np.uint64) << np.uint64(8)) + np.uint64(number)
        blocks[:, 1] = other
        mixed = encrypt_blocks(self._key, blocks)[:, 0]
        scaled = (mixed >> np.uint64(32)) * modulus.astype(np.uint64)
        return (scaled >> np.uint64(32)).view(np.int64)

    @cached_property
    def _rounds(self) -> _Rounds | None:
        """The round functions as tables, where they are small: a half has √size points only."""
        networked = np.flatnonzero(self._offset < 0)
        a, b = self._left[networked], self._right[networked]
        if self.ROUNDS * int(np.maximum(a, b).sum()) > self.ROUND_ENTRIES:
            return None
        starts, tables = [], []
        for inputs in (b, a):  # even rounds read the right half, odd rounds the left one
            start = np.zeros(len(self.sizes), np.int64)
            start[networked] = np.cumsum(inputs) - inputs
            starts.append(start)
        for number in range(self.ROUNDS):
            inputs, modulus = (b, a) if number % 2 == 0 else (a, b)
            owner = np.repeat(np.arange(len(networked)), inputs)
            other = np.arange(len(owner)) - starts[number % 2][networked][owner]
            mixed = self._mixed(networked[owner], number, other, modulus[owner])
            tables.append(mixed.astype(np.int32))
        return _Rounds((starts[0], starts[1]), tables)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Where each value's inputs start in the tables of even and odd rounds, and the tables."""

    starts: tuple[IntArray, IntArray]
    tables: list[npt.NDArray[np.int32]]


def _shuffled_runs(words: Words, sizes: IntArray) -> IntArray:
    """The order of the words within each run of the given sizes."""
    if len(sizes) > 1 << 15:  # many small runs: one sort of everything
        owners = np.repeat(np.arange(len(sizes)), sizes)
        return np.lexsort((words, owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ends = np.cumsum(sizes).tolist()
    orders = [np.argsort(words[low:high]) for low, high in zip([0, *ends], ends, strict=False)]
    return np.concatenate(orders) if orders else np.empty(0, np.int64)


def encrypt_blocks(key: bytes, blocks: Words) -> Words:
    """AES-256 of each 128-bit row: a pseudo-random function of (key, row)."""
    source = np.ascontiguousarray(blocks)
    out = np.empty((len(source) + 1, 2), np.uint64)  # update_into wants room for one block more
    if source.size:
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        encryptor.update_into(_bytes(source), _bytes(out))
    return out[:-1]


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _reduce(words: Words, limit: Words) -> tuple[Words, IntArray]:
    """Words modulo their limits, and the places whose word must be drawn again."""
    residue = words % limit
    # a word is fair when the whole run [word - residue, word - residue + limit) exists
    unfair = words - residue > np.uint64(0xFFFFFFFFFFFFFFFF) - (limit - np.uint64(1))
    return residue, np.flatnonzero(unfair)


def _select(address: Address, index: IntArray) -> Persons:
    """The chosen addresses; positions become blocks of their own, under a purpose of their own."""
    if isinstance(address, Persons):
        return Persons(address.blocks[index])
    blocks = np.zeros((len(index), 2), np.uint64)
    blocks[:, 0] = (index + address.start).astype(np.uint64)
    return Persons(blocks)


def _owners(sizes: IntArray, most: int = 1 << 20) -> list[tuple[int, int, IntArray]]:
    """Cut `repeat(i, sizes[i])` into runs of at most `most`: (start, count, owners)."""
    edges = np.cumsum(sizes)
    total = int(edges[-1]) if len(edges) else 0
    runs = []
    for start in range(0, total, most):
        count = min(most, total - start)
        owners = np.searchsorted(edges, np.arange(start, start + count), side="right")
        runs.append((start, count, owners))
    return runs
