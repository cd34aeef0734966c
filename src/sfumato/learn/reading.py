"""A release as learners read it: quasi columns as they stand, and what is seen of a sensitive one.

What is read is the release alone. Of large releases some records are read, or some buckets, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.learn.seen import Seen, truly_seen
from sfumato.operators.base import FloatArray
from sfumato.queries.bucketed import bucket_table_of
from sfumato.queries.model_sample import (
    dealt_records,
    kept_records,
    shown_chances,
    some_buckets,
    some_records,
)
from sfumato.release import (
    BucketedRelease,
    PerturbedRelease,
    Release,
)

Read = tuple[pa.Table, Seen]
MOST_CLASSES = 1000


def read_quasi(release: Release) -> pa.Table:
    """The quasi columns of the records."""
    _check(release)
    return kept_records(release, [], some_records(release, 1))


def read_hidden(release: Release, column: str) -> Read:
    """The quasi columns, and what is seen of a sensitive column."""
    _check(release)
    return READERS[release.kind](release, column)


def sorted_values(values: list[Any]) -> list[int]:
    """The places of values in their order; what is missing comes last."""
    return sorted(
        range(len(values)),
        key=lambda place: (values[place] is None, 0 if values[place] is None else values[place]),
    )


def _check(release: Release) -> None:
    if not release.rows:
        raise UsageError(f"{release.where} has no records, so there is nothing to learn from.")
    if release.kind not in READERS:
        raise UsageError(
            f"{release.where} shows ranges and sets in the place of quasi values, and nothing that "
            "holds for single people can be learned from these: ask for a perturbed or a bucketed "
            "release."
        )


def _read_drawn(release: Any, column: str) -> Read:
    """Records that show what an operator made of their value."""
    domain = release.domain(column).to_pylist()
    names = [*release.shown_as(release.column(column))]
    if release.scales is not None and "part" not in names:
        names.append("part")
    kept = kept_records(release, names, some_records(release, len(domain)))
    shown = release.shown_codes(kept, column)
    operator = release.operators[column]
    if operator.needs_counts:
        operator = operator.observed(np.bincount(shown, minlength=len(domain)))
    counts = np.bincount(shown, minlength=operator.values)
    chances, prior = shown_chances(operator, counts)
    order = sorted_values(domain)
    chances, prior = chances[:, order], prior[order]
    copies = None
    if release.scales is not None:
        copies = np.array(release.scales)[kept.column("part").to_numpy()]
    seen = Seen(
        column,
        tuple(domain[value] for value in order),
        prior,
        shown,
        chances,
        np.arange(len(shown)),
        copies=copies,
    )
    return kept, seen


def _read_listed(release: Any, column: str) -> Read:
    """Records in buckets that list values."""
    if release.fakes:
        raise UsageError(
            f"The buckets of {release.where} list values that nobody has, and which these are "
            "cannot be told, so nothing is learned from them: ask for a release without fakes."
        )
    table = bucket_table_of(release, [column])
    domain = release.domain(column).to_pylist()
    order = sorted_values(domain)
    chosen, keep = some_buckets(release, table, Draws.from_seed(0))
    kept = kept_records(release, ["bucket"], keep)
    shares = table.shares[np.flatnonzero(chosen)][:, order]
    listed, dealt = dealt_records(kept, chosen, shares)
    listed = listed.toarray()
    first = np.array(release.first_buckets)
    block = np.searchsorted(first, np.flatnonzero(chosen), side="right") - 1
    totals = listed.sum(axis=0)
    seen = Seen(
        column,
        tuple(domain[value] for value in order),
        np.maximum(totals, 1e-3) / np.maximum(totals, 1e-3).sum(),
        dealt.bucket,
        _placed(listed, block),
        dealt.bucket,
        dealt,
        listed,
        block,
        () if release.tree is None else release.tree.columns,
    )
    return kept, seen


def _placed(listed: FloatArray, block: IntArray) -> FloatArray:
    """Pr(bucket | value, block): who has a value is in a bucket as often as it lists it."""
    totals = np.zeros((int(block.max(initial=0)) + 1, listed.shape[1]))
    np.add.at(totals, block, listed)
    return np.asarray(listed / np.maximum(totals, 1.0)[block])


READERS: dict[str, Callable[[Any, str], Read]] = {
    PerturbedRelease.kind: _read_drawn,
    BucketedRelease.kind: _read_listed,
}


def coded_target(name: str, values: pa.ChunkedArray) -> Seen:
    """A column of classes that is seen as it is."""
    target = values.combine_chunks()
    if pa.types.is_dictionary(target.type):
        target = target.cast(target.type.value_type)
    coded = target.dictionary_encode(null_encoding="encode")
    domain = coded.dictionary.to_pylist()
    if len(domain) > MOST_CLASSES:
        raise UsageError(
            f"Column {name!r} has {len(domain):,} different values, such as "
            f"{value_text(domain[0])}: too many to be classes. Predict numbers with "
            "LinearRegression."
        )
    order = sorted_values(domain)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)]
    return truly_seen(name, tuple(domain[value] for value in order), codes)
