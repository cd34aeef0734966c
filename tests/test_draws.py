"""Draws: exact laws, addresses, permutations. Every statistical test states its false alarm."""

from __future__ import annotations

import hashlib
import hmac
import pickle
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.draws import Draws, Permutation, Persons, Positions, encrypt_blocks
from sfumato.errors import DataError, UsageError

FALSE_ALARM = 1e-6  # of each chi-square test here; all seeds are fixed


def assert_law(observed: np.ndarray, probabilities: np.ndarray) -> None:
    """Chi-square goodness of fit at FALSE_ALARM; cells expected less than 5 times are pooled."""
    expected = np.asarray(probabilities, float) * observed.sum()
    rare = expected < 5
    if rare.any() and rare.sum() < len(expected):
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] == 0:
            assert observed[-1] == 0
            observed, expected = observed[:-1], expected[:-1]
    if len(observed) == 1:
        return
    chance = stats.chisquare(observed, expected).pvalue
    assert chance >= FALSE_ALARM, (observed, expected, chance)


# -- words and addresses -------------------------------------------------------------------------


@given(start=st.integers(0, 2**40), cuts=st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_words_do_not_depend_on_the_cutting(start: int, cuts: list[int]) -> None:
    draws = Draws.from_seed(1)
    whole = draws.words("cut", Positions(start, sum(cuts)))
    parts, place = [], start
    for count in cuts:
        parts.append(draws.words("cut", Positions(place, count)))
        place += count
    assert np.concatenate(parts).tolist() == whole.tolist()


@given(bound=st.integers(1, 2**62), cut=st.integers(0, 50))
def test_integers_do_not_depend_on_the_cutting(bound: int, cut: int) -> None:
    """Rejected words are replaced by address, so a batch boundary changes nothing."""
    draws = Draws.from_seed(2)
    whole = draws.below("cut", Positions(3, 50), bound)
    first = draws.below("cut", Positions(3, cut), bound)
    second = draws.below("cut", Positions(3 + cut, 50 - cut), bound)
    assert np.concatenate([first, second]).tolist() == whole.tolist()


def test_purposes_keys_and_children_are_independent() -> None:
    """Correlation of bits between 65,536 words of two streams: 5.5 sigma, false alarm 4e-8 each."""
    address = Positions(0, 1 << 16)
    streams = [
        Draws.from_seed(1).words("a", address),
        Draws.from_seed(1).words("b", address),
        Draws.from_seed(2).words("a", address),
        Draws.from_seed(1).child("a").words("a", address),
        Draws.from_seed(1).words("a", Positions(1 << 16, 1 << 16)),
    ]
    bits = [np.unpackbits(stream.view(np.uint8)) for stream in streams]
    size = len(bits[0])
    for i, one in enumerate(bits):
        assert abs(one.mean() - 0.5) < 5.5 * 0.5 / size**0.5
        for other in bits[:i]:
            assert abs((one ^ other).mean() - 0.5) < 5.5 * 0.5 / size**0.5


def test_words_are_aes_in_counter_mode() -> None:
    """An independent computation of the keystream: the format is a promise to ourselves."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.sha256(b"sfumato seed 5").digest()
    subkey = hmac.new(key, b"purpose", "sha256").digest()
    stream = Cipher(algorithms.AES(subkey), modes.CTR(bytes(16))).encryptor()
    expected = np.frombuffer(stream.update(bytes(8 * 7)), np.uint64)
    assert Draws.from_seed(5).words("purpose", Positions(0, 7)).tolist() == expected.tolist()


def test_persons_are_addresses_of_their_own() -> None:
    draws = Draws.from_seed(3)
    keys = [b"ann", b"bob", b"eve"]
    people = draws.persons("disease", keys)
    again = draws.persons("disease", keys[::-1])
    assert people.count == 3
    assert draws.words("x", people).tolist() == draws.words("x", again).tolist()[::-1]
    assert draws.words("x", people).tolist() != draws.words("y", people).tolist()
    other = Draws.from_seed(4)
    assert other.persons("disease", keys).blocks.tolist() != people.blocks.tolist()
    assert draws.persons("income", keys).blocks.tolist() != people.blocks.tolist()
    assert draws.persons("disease", []).count == 0
    assert draws.below("x", draws.persons("disease", []), 5).tolist() == []


def test_persons_are_uniform() -> None:
    draws = Draws.from_seed(6)
    people = draws.persons("disease", [str(i).encode() for i in range(20_000)])
    drawn = draws.below("die", people, 6)
    assert_law(np.bincount(drawn, minlength=6), np.full(6, 1 / 6))
    small = draws.below_small("die2", people, draws.words("w", people) >> np.uint64(32), 7)
    assert_law(np.bincount(small, minlength=7), np.full(7, 1 / 7))


# -- exact integers ------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 50, 1000, 4097])
def test_below_is_uniform(bound: int) -> None:
    drawn = Draws.from_seed(bound).below("law", Positions(0, 40 * bound + 1000), bound)
    assert_law(np.bincount(drawn, minlength=bound), np.full(bound, 1 / bound))


def test_below_with_a_large_bound_rejects_and_stays_uniform() -> None:
    """Two thirds of 2⁶⁴: a plain modulus would give the lower half twice the chance."""
    bound = 3 * 2**61  # 2⁶⁴ mod bound is a large part of the bound
    drawn = Draws.from_seed(8).below("large", Positions(0, 30_000), bound)
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) < bound
    thirds = (drawn // (bound // 3)).astype(int)
    assert_law(np.bincount(thirds, minlength=3), np.full(3, 1 / 3))
    edge = Draws.from_seed(8).below("edge", Positions(0, 1000), 2**63 - 1)
    assert int(edge.min()) >= 0


def test_bounds_may_differ_by_address() -> None:
    draws = Draws.from_seed(9)
    bounds = np.array([1, 2, 3, 2**62] * 500)
    drawn = draws.below("many", Positions(0, 2000), bounds)
    assert bool((drawn < bounds).all())
    for bound in (1, 2, 3):
        part = drawn[bounds == bound]
        assert_law(np.bincount(part, minlength=bound), np.full(bound, 1 / bound))
    with pytest.raises(ValueError, match="at least 1"):
        draws.below("none", Positions(0, 3), 0)


class Scripted(Draws):
    """Draws whose words are given, to force the paths that chance never takes."""

    def __init__(self, script: dict[str, list[int]]) -> None:
        super().__init__(bytes(32))
        self.script, self.asked = script, list[tuple[str, Any]]()

    def words(self, purpose: str, address: Any) -> np.ndarray:
        self.asked.append((purpose, address))
        return np.array(self.script[purpose], np.uint64)


def test_below_rejects_exactly_the_unfair_words() -> None:
    """For every bound the fair words are a whole number of runs: checked with Python integers."""
    for bound in (3, 6, 10, 2**62 + 1, 2**63 - 1, 3 * 2**61):
        first_unfair = 2**64 - 2**64 % bound
        fair = [0, bound - 1, bound, first_unfair - 1]
        unfair = [first_unfair, 2**64 - 1]
        words = [*fair, *unfair]
        draws = Scripted({"p": words, "p again 1": [first_unfair, 7], "p again 2": [2]})
        found = draws.below("p", Positions(100, len(words)), bound)
        assert found.tolist() == [*(word % bound for word in fair), 2, 7 % bound]
        again = draws.asked[1][1]
        assert isinstance(again, Persons)
        # the replacements are addressed by the places of the rejected words
        assert again.blocks[:, 0].tolist() == [104, 105]
        assert draws.asked[2][1].blocks[:, 0].tolist() == [104]


@pytest.mark.parametrize("bound", [2**64 // 2, 2**62, 1])
def test_below_never_rejects_powers_of_two(bound: int) -> None:
    draws = Scripted({"p": [0, 2**64 - 1, 2**63]})
    found = draws.below("p", Positions(0, 3), bound).view(np.uint64)
    assert found.tolist() == [0, (2**64 - 1) % bound, 2**63 % bound]


@pytest.mark.parametrize("bound", [3, 6, 50, 2**31 - 1])
def test_below_small_rejects_exactly_the_unfair_halves(bound: int) -> None:
    """Lemire: of the products half·bound, the low word below 2³² mod bound is unfair."""
    rng = np.random.default_rng(bound)
    halves = {0, 1, 2**32 - 1, *rng.integers(0, 2**32, 200).tolist()}
    # the smallest halves of a result: the ones that may be unfair
    for result in {0, 1, bound // 2, bound - 1}:
        halves |= {-(-result * 2**32 // bound), max(-(-result * 2**32 // bound) - 1, 0)}
    listed = sorted(half for half in halves if half < 2**32)
    unfair = [half for half in listed if half * bound % 2**32 < 2**32 % bound]
    assert unfair
    draws = Scripted({"p again": [0] * len(unfair)})
    found = draws.below_small("p", Positions(0, len(listed)), np.array(listed, np.uint64), bound)
    expected = [0 if half in unfair else half * bound >> 32 for half in listed]
    assert found.tolist() == expected


def test_below_small_with_a_bound_per_address() -> None:
    draws = Draws.from_seed(10)
    bounds = np.array([1, 5, 17] * 5000)
    halves = draws.words("halves", Positions(0, 15_000)) >> np.uint64(32)
    drawn = draws.below_small("p", Positions(0, 15_000), halves, bounds)
    for bound in (1, 5, 17):
        part = drawn[bounds == bound]
        assert_law(np.bincount(part, minlength=bound), np.full(bound, 1 / bound))


@pytest.mark.parametrize("probability", ["0", "1", "1/3", "1/1000", "999/1000"])
def test_bernoulli(probability: str) -> None:
    p = Fraction(probability)
    hits = Draws.from_seed(11).bernoulli("p", Positions(0, 50_000), p)
    if p in (0, 1):
        assert hits.all() == bool(p)
        assert hits.any() == bool(p)
    else:
        chance = stats.binomtest(int(hits.sum()), 50_000, float(p)).pvalue
        assert chance >= FALSE_ALARM
    with pytest.raises(ValueError, match="denominator"):
        Draws.from_seed(1).bernoulli("p", Positions(0, 1), Fraction(1, 2**63))


# -- orders and samples --------------------------------------------------------------------------


def test_order_is_uniform() -> None:
    draws = Draws.from_seed(12)
    seen: dict[tuple[int, ...], int] = {}
    for number in range(6000):
        order = tuple(draws.order(f"order {number}", 4).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert_law(np.array(list(seen.values())), np.full(24, 1 / 24))


def test_choose_is_uniform_over_subsets() -> None:
    for k in (1, 2, 3, 4):
        draws = Draws.from_seed(13 + k)
        seen: dict[tuple[int, ...], int] = {}
        for number in range(4000):
            chosen = tuple(draws.choose(f"choose {number}", 5, k).tolist())
            assert list(chosen) == sorted(set(chosen))
            seen[chosen] = seen.get(chosen, 0) + 1
        subsets = {1: 5, 2: 10, 3: 10, 4: 5}[k]
        assert len(seen) == subsets
        assert_law(np.array(list(seen.values())), np.full(subsets, 1 / subsets))


@given(n=st.integers(0, 200), share=st.fractions(0, 1))
def test_choose_gives_k_different_integers(n: int, share: Fraction) -> None:
    k = int(share * n)
    chosen = Draws.from_seed(1).choose("p", n, k)
    assert len(set(chosen.tolist())) == k
    assert all(0 <= x < n for x in chosen.tolist())


def test_choose_refuses_too_many() -> None:
    with pytest.raises(ValueError, match="cannot choose 4 of 3"):
        Draws.from_seed(1).choose("p", 3, 4)


def test_hypergeometric_law() -> None:
    draws = Draws.from_seed(16)
    first = np.array([draws.hypergeometric(f"h {i}", [6, 4], 5)[0] for i in range(6000)])
    law = stats.hypergeom(10, 6, 5)
    assert_law(np.bincount(first, minlength=6), law.pmf(np.arange(6)))
    assert draws.hypergeometric("all", [3, 0, 2], 5).tolist() == [3, 0, 2]
    assert draws.hypergeometric("none", [3, 0, 2], 0).tolist() == [0, 0, 0]


# -- keyed permutations --------------------------------------------------------------------------


def all_slots(permutation: Permutation) -> list[list[int]]:
    values = np.repeat(np.arange(len(permutation.sizes)), permutation.sizes)
    ranks = np.concatenate([np.arange(size) for size in permutation.sizes] or [np.empty(0, int)])
    slots = permutation(values, ranks)
    return [slots[values == value].tolist() for value in range(len(permutation.sizes))]


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=6),
    at_once=st.sampled_from([1, 5, 100, 1 << 21]),
    seed=st.integers(0, 100),
)
def test_permutations_are_bijections(sizes: list[int], at_once: int, seed: int) -> None:
    """The same ones however many words are drawn at once."""
    with patch("sfumato.permutations._AT_ONCE", at_once):
        slots = all_slots(Draws.from_seed(seed).permutation("p", sizes))
    assert slots == all_slots(Draws.from_seed(seed).permutation("p", sizes))
    for size, of_value in zip(sizes, slots, strict=True):
        assert sorted(of_value) == list(range(size))


def test_permutations_travel() -> None:
    """To the workers of an engine, before or after they were first asked."""
    for asked in (False, True):
        permutation = Draws.from_seed(5).permutation("p", [4, 300])
        known = all_slots(permutation) if asked else None
        again = all_slots(pickle.loads(pickle.dumps(permutation)))
        assert again == (known or all_slots(permutation))


def test_permutations_of_small_sizes_are_uniform() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for number in range(6000):
        permutation = Draws.from_seed(number).permutation("p", [4])
        slots = tuple(permutation(np.zeros(4, int), np.arange(4)).tolist())
        seen[slots] = seen.get(slots, 0) + 1
    assert len(seen) == 24
    assert_law(np.array(list(seen.values())), np.full(24, 1 / 24))


def test_one_rank_lands_everywhere_alike() -> None:
    sizes = [13] * 8000  # independent permutations under one key
    slots = Draws.from_seed(18).permutation("p", sizes)(np.arange(8000), np.full(8000, 5))
    assert_law(np.bincount(slots, minlength=13), np.full(13, 1 / 13))


def test_permutation_refuses_foreign_ranks() -> None:
    permutation = Draws.from_seed(1).permutation("p", [3, 4])
    for value, rank in ((0, 3), (1, -1), (1, 4)):
        with pytest.raises(ValueError, match="outside"):
            permutation([value], [rank])
    with pytest.raises(ValueError, match="negative"):
        Draws.from_seed(1).permutation("p", [-1])


def test_encrypt_blocks_is_aes() -> None:
    """FIPS 197, appendix C.3."""
    key = bytes(range(32))
    block = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), np.uint64)
    out = encrypt_blocks(key, block.reshape(1, 2))
    assert out.tobytes().hex() == "8ea2b7ca516745bfeafc49904b496089"
    assert encrypt_blocks(key, np.empty((0, 2), np.uint64)).shape == (0, 2)


# -- keys ----------------------------------------------------------------------------------------


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("0A1B2C3D4E5F6078" * 4 + "\n")
    draws = Draws.from_key_file(path)
    assert draws.origin == "key-file"
    same = Draws(bytes.fromhex("0a1b2c3d4e5f6078" * 4))
    address = Positions(0, 4)
    assert draws.words("x", address).tolist() == same.words("x", address).tolist()
    for text in ("", "0a" * 31, "0a" * 33, "xy" * 32, "é" * 64):
        path.write_text(text, "utf-8")
        with pytest.raises(DataError, match="64 hexadecimal digits"):
            Draws.from_key_file(path)
    with pytest.raises(DataError, match="64 hexadecimal digits"):
        Draws.from_key_file(tmp_path / "nowhere")


def test_a_key_that_hides_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for text in ("00" * 32, "0a" * 32, "01234567" * 8):
        path.write_text(text)
        with pytest.raises(DataError, match="was not drawn"):
            Draws.from_key_file(path)
    path.write_text("0A1B2C3D4E5F6078" * 4)
    path.chmod(0o644)
    Draws.from_key_file(path)  # a folder above keeps others out
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        open_to_all = Path(shutil.copy(path, folder))
        with pytest.raises(DataError, match=r"Others can read the key file .* \(mode 644\)"):
            Draws.from_key_file(open_to_all)
        open_to_all.chmod(0o600)
        Draws.from_key_file(open_to_all)


def test_keys_stay_secret() -> None:
    key = bytes(range(32))
    draws = Draws(key)
    assert repr(draws) == "<Draws system>"
    assert key.hex() not in str(vars(Draws)) + repr(draws)
    with pytest.raises(UsageError, match="32 bytes"):
        Draws(b"short")


def test_system_keys_differ() -> None:
    words = {int(Draws.system().words("x", Positions(0, 1))[0]) for _ in range(50)}
    assert len(words) == 50
    assert Draws.system().origin == "system"
    assert Draws.from_seed(1).origin == "seeded"
    assert Draws.from_seed(1).child("x").origin == "seeded"
