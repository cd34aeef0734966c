"""A release of ranges and sets as an adversary sees it, and every kind of release as its view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attacks.people import Codes, Domains, People, common_keys
from sfumato.attacks.views import BucketsView, RecordsView, View
from sfumato.columns import Column
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Design, Links, RecordLikelihoods, ShownSymbols
from sfumato.release import BucketedRelease, GeneralizedRelease, Release

PAIRS = 1 << 24  # (person, row) pairs that are compared at once
_CHUNK = 1 << 16  # rows
_SCALINGS = 30  # between "everybody has one row" and "every row is somebody's"
_PILOT = 256  # profiles that tell how many rows a person fits


@dataclass(frozen=True, eq=False)
class RangesView(View):
    """Records that show a range or a set per quasi-identifier, and one sensitive value each.

    `holds[j][r, t]` says whether record r's range or set of column j holds the value of code t.
    """

    holds: list[BoolArray]
    shown: IntArray
    values: int

    @cached_property
    def prior(self) -> FloatArray:
        return np.bincount(self.shown, minlength=self.values) / max(len(self.shown), 1)

    @cached_property
    def rows(self) -> tuple[IntArray, IntArray]:
        """A record of each of the different rows, and how often it is shown."""
        packed = [np.packbits(holds, axis=1) for holds in self.holds]
        shown = self.shown.astype(np.int64).view(np.uint8).reshape(len(self.shown), -1)
        rows = np.ascontiguousarray(np.hstack([*packed, shown]))
        keys = rows.view(np.dtype((np.void, rows.shape[1]))).ravel()
        _, first, count = np.unique(keys, return_index=True, return_counts=True)
        return first, count

    def fits(self, codes: Codes) -> Iterator[tuple[IntArray, IntArray]]:
        """Pairs (person, different row) whose ranges and sets hold all of the person's values.

        Some people at a time, in order, so that no piece has more than about `PAIRS` pairs.
        """
        first, _ = self.rows
        packed = [np.packbits(holds[first].T, axis=1) for holds in self.holds]
        step = max(1, PAIRS // max(len(first), 1))
        for start in range(0, len(codes[0]), step):
            fitting = np.full((1, 1), 255, np.uint8)
            for rows, column in zip(packed, codes, strict=True):
                fitting = fitting & rows[column[start : start + step]]
            position, byte = np.nonzero(fitting)
            which, bit = np.nonzero(np.unpackbits(fitting[position, byte][:, None], axis=1))
            yield position[which] + start, byte[which] * 8 + bit

    def tables(self, sizes: list[int], *, estimated: bool) -> list[FloatArray]:
        """Every record counts for all values that its range or set holds."""
        by_column = [np.zeros((holds.shape[1], self.values)) for holds in self.holds]
        for start in range(0, len(self.shown), _CHUNK):
            shown = self.shown[start : start + _CHUNK]
            single = np.zeros((len(shown), self.values), np.float32)
            single[np.arange(len(shown)), shown] = 1.0
            for table, holds in zip(by_column, self.holds, strict=True):
                table += holds[start : start + _CHUNK].T.astype(np.float32) @ single
        return by_column

    def near(self, targets: People) -> tuple[IntArray, FloatArray]:
        """Records whose ranges and sets hold all of the target's values."""
        first, count = self.rows
        totals = np.zeros((len(targets), self.values))
        for person, row in self.fits(targets.codes):
            np.add.at(totals, (person, self.shown[first[row]]), count[row])
        matches = totals.sum(axis=1)
        return matches.astype(np.int64), totals / np.maximum(matches[:, None], 1)

    def evidence(
        self, people: People, bins: Mapping[int, IntArray]
    ) -> tuple[Design, RecordLikelihoods]:
        """A row stands for whoever its ranges hold, by what people have in each column."""
        from scipy.sparse import csr_array

        blocks = []
        for holds, codes in zip(self.holds, people.codes, strict=True):
            weights = holds * (np.bincount(codes, minlength=holds.shape[1]) + 1e-9)[None, :]
            blocks.append(
                csr_array(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300))
            )
        return Design.joined(blocks, bins), ShownSymbols(self.shown, np.eye(self.values))

    def weigh(
        self, rule: Links, targets: People, people: People, thorough: bool, draws: Draws
    ) -> FloatArray:
        value, taken = self.shown[self.rows[0]], self._taken(rule, people, draws)
        posterior = np.exp(rule.log_chances(targets.codes))
        for person, row in self.fits(targets.codes):
            chance = posterior[person, value[row]] * taken[row]
            those, inverse = np.unique(person, return_inverse=True)
            flat = inverse * rule.values + value[row]
            total = np.bincount(flat, chance, minlength=len(those) * rule.values)
            chances = total.reshape(-1, rule.values) + 1e-300 * posterior[those]
            posterior[those] = chances / chances.sum(axis=1, keepdims=True)
        return np.asarray(posterior)

    def _taken(self, rule: Links, people: People, draws: Draws) -> FloatArray:
        """How much of a person's weight falls on each row, when everybody has one row and every
        row somebody: the scaling factors of the rows over all people, or over some of them."""
        keys, _ = common_keys(people.codes, [column[:0] for column in people.codes])
        _, first, count = np.unique(keys, return_index=True, return_counts=True)
        order = draws.order("register", len(first))
        fitting, tried = 0, order[:_PILOT]
        for person, _ in self.fits([codes[first[tried]] for codes in people.codes]):
            fitting += len(person)
        some = order[: max(_PILOT, PAIRS * len(tried) // max(fitting, 1))]
        people_of = count[some].astype(np.float64)
        codes = [column[first[some]] for column in people.codes]
        pieces = list(self.fits(codes))
        person, row = (np.concatenate(part) for part in zip(*pieces, strict=True))
        weight = np.exp(rule.log_chances(codes))[person, self.shown[self.rows[0]][row]]
        wanted = self.rows[1] * (people_of.sum() / len(people))
        taken, having = np.ones(len(wanted)), people_of
        for _ in range(_SCALINGS):
            by_row = np.bincount(row, weight * having[person], len(wanted))
            taken = wanted / np.maximum(by_row, 1e-300)
            by_person = np.bincount(person, weight * taken[row], len(people_of))
            having = people_of / np.maximum(by_person, 1e-300)
        return np.asarray(taken)


@singledispatch
def view_of(release: Release, people: People) -> View:
    """Read a release in the codes of `people`: records with a value each, for most kinds."""
    records = release.table()
    shown = release.shown_codes(records, people.column)
    operator = release.operators.get(people.column)
    return RecordsView(people.domains.all_codes(records), shown, people.values, operator)


@view_of.register
def _buckets(release: BucketedRelease, people: People) -> BucketsView:
    records, listed = release.table(), release.side_table("sensitive")
    names = np.asarray(listed.column("bucket").to_numpy(), np.int64)
    buckets, cell_bucket = np.unique(names, return_inverse=True)
    stands = np.asarray(records.column("bucket").to_numpy(), np.int64)
    return BucketsView(
        people.domains.all_codes(records),
        np.searchsorted(buckets, stands),
        cell_bucket,
        release.shown_codes(listed, people.column),
        np.asarray(listed.column("count").to_numpy(), np.int64),
        people.values,
    )


@view_of.register
def _ranges(release: GeneralizedRelease, people: People) -> RangesView:
    records = release.table()
    holds = [
        _holds(release.column(name), records, people.domains, index)
        for index, name in enumerate(people.domains.names)
    ]
    return RangesView(holds, release.shown_codes(records, people.column), people.values)


def _holds(column: Column, records: pa.Table, domains: Domains, place: int) -> BoolArray:
    values = domains.values[place]
    rows, size = records.num_rows, domains.sizes[place]
    holds = np.zeros((rows, size), np.bool_)
    if column.kind == "numeric":
        low, high = (_numbers(records.column(f"{column.name}_{end}")) for end in ("low", "high"))
        numbers = _numbers(values)
        holds[:, :-1] = (low[:, None] <= numbers[None, :]) & (numbers[None, :] <= high[:, None])
        return holds
    lists = records.column(column.name)
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    lengths = np.asarray(pc.list_value_length(lists).to_numpy(), np.int64)
    owner = np.repeat(np.arange(rows), lengths)
    holds[owner, domains.codes(place, lists.flatten())] = True
    return holds


def _numbers(array: pa.Array | pa.ChunkedArray) -> FloatArray:
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    numbers = [c.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for c in chunks]
    return np.concatenate(numbers) if numbers else np.empty(0)
