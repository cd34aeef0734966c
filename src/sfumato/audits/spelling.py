"""Layer 1: a release has one spelling, so its content written again must give the same bytes.

Rows, buckets, lists, dictionaries and row groups have one order and one cut (`engines.spelling`),
the manifest one text, its sentences one maker (`engines.words`). What could carry a message besides
the content is a difference here. It needs neither the table nor the receipt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.audits import catalogue
from sfumato.audits.findings import Finding
from sfumato.columns import Values
from sfumato.engines.exposure import shown_histogram
from sfumato.engines.publication import WRITER
from sfumato.engines.spelling import BUCKET, Spelled, row_groups, spell
from sfumato.engines.words import with_words
from sfumato.errors import SfumatoError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets.settings import SizedBuckets, mean_squared_error
from sfumato.profile import Histogram
from sfumato.release import (
    BucketedRelease,
    BundleWriter,
    FileEntry,
    Manifest,
    Release,
    typed_values,
)
from sfumato.release.files import opened_parquet
from sfumato.release.manifest import FORMAT, NAME
from sfumato.release.reading import is_spelled, what_was_false
from sfumato.scratch import scratch_space
from sfumato.version import __version__

_AT_ONCE = 1 << 17  # rows
WORDS = ("statement", "does_not_protect", "caveats")


def check_spelling(release: Release) -> Iterator[Finding]:
    """Write the release again and compare. Costs a reading, a sorting and a writing of it."""
    with scratch_space() as folder:
        again = rewrite(release, folder / "release")
        files = list(_different_files(release, again, folder / "release"))
    manifest = list(_different_parts(release, again))
    yield Finding.limited(
        catalogue.SPELLING, len(files) + len(manifest), listed=(*manifest, *files)
    )
    stated, respelled = release.manifest, again
    if (stated.sfumato, stated.writer) != (respelled.sfumato, respelled.writer):
        yield Finding.skipped(
            catalogue.BYTES,
            witness=f"written by sfumato {stated.sfumato} with "
            f"{stated.writer or 'another writer'}, this is {respelled.sfumato} with "
            f"{respelled.writer}: bytes and words were not "
            "compared; 'audit --rewrite OUT' writes a clean copy to give out",
        )


def check_promise_of_older(release: Release) -> Iterator[Finding]:
    """A release of an older format, whose promise was false, does not keep it."""
    if (wrong := what_was_false(release.manifest)) is not None:
        yield Finding.plain(catalogue.OLDER, wrong)


def rewrite(release: Release, to: Path) -> Manifest:
    """The content of a release written again into the folder `to`: what it says, and no more."""
    manifest = release.manifest
    columns = _spelled(release)
    records = partial(_rows, release.records, columns)
    lists, first, shown = None, list[int]([0]), dict[str, Histogram]()
    if isinstance(release, BucketedRelease):
        counted = {column.name: shown_histogram(release, column) for column in release.sensitive}
        shown = {name: counts for name, counts in counted.items() if counts is not None}
        lists = partial(_rows, [release.file("sensitive")], columns)
        first = list(release.first_buckets) if release.tree is not None else [0]
    with BundleWriter(to) as bundle:
        spell(bundle.folder, list(columns.values()), records, lists, first)
        promise = parse_guarantee(manifest.stated).for_columns([c.name for c in release.sensitive])
        plain = msgspec.structs.replace(
            manifest,
            format=FORMAT,
            sfumato=__version__,
            writer=WRITER,
            stated=promise.stated(),
            mechanism=_named(manifest.mechanism),
            plan=_derived(release),
        )
        return bundle.finish(with_words(plain, shown))


def _derived(release: Release) -> Any:
    """The public part of a plan, with figures that follow from others made again."""
    plan = release.plan
    if not isinstance(release, BucketedRelease):
        return plan
    setting = tuple(SizedBuckets(size.size, size.buckets) for size in plan.sizes)
    return msgspec.structs.replace(
        plan,
        buckets=sum(part.buckets for part in setting),
        mean_squared_error=round(float(mean_squared_error(setting)), 6),
    )


def _named(mechanism: str) -> str:
    try:
        return str(parse_mechanism(mechanism))
    except SfumatoError:
        return mechanism


def _spelled(release: Release) -> dict[str, Spelled]:
    """How files show the columns, in the order of the files."""
    differing = {}
    for column in release.columns:
        names = release.shown_as(column) if column.role == "quasi" else (column.name,)
        for name in names:
            kind, domain, values = _type_of(release, name), column.domain, None
            number = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
            plain = number or pa.types.is_decimal(kind)  # shown as they are, unless sensitive
            if isinstance(domain, Values) and (column.role == "sensitive" or not plain):
                inner = kind.value_type if pa.types.is_list(kind) else kind
                values = typed_values(domain.values, inner).drop_null()
            elif not plain:
                values = _sorted_values(release, name)
            differing[name] = Spelled(name, values, isinstance(domain, Values))
    return differing


def _files(release: Release) -> list[Path]:
    return [*release.records, *(release.path / file for file in release.side_files)]


def _type_of(release: Release, name: str) -> pa.DataType:
    for path in _files(release):
        schema = pq.read_schema(path)
        if name in schema.names:
            return schema.field(name).type
    raise AssertionError(name)


def _sorted_values(release: Release, name: str) -> pa.Array:
    """The texts of a column that is too large to list."""
    seen = pa.array([], _type_of(release, name))
    for path in _files(release):
        with opened_parquet(path) as file:
            if name not in file.schema_arrow.names:
                continue
            for batch in file.iter_batches(columns=[name]):
                seen = pa.concat_arrays([seen, batch.column(0).unique()]).unique()
    seen = seen.drop_null()
    return seen.take(pc.sort_indices(seen))


def _rows(paths: list[Path], columns: dict[str, Spelled]) -> Iterator[pa.RecordBatch]:
    """Codes and plain numbers, as publishing hands them to the writer."""
    for path in paths:
        with opened_parquet(path) as file:
            names = file.schema_arrow.names
            order = [*(name for name in columns if name in names)]
            rest = [name for name in names if name not in order]
            first = BUCKET in rest and "count" in rest  # lists begin with their bucket
            order = [BUCKET, *order, "count"] if first else [*order, *rest]
            batches = file.iter_batches(columns=order)
            empty = pa.RecordBatch.from_pylist([], file.schema_arrow)
            for batch in batches if file.metadata.num_rows else [empty]:
                arrays = [_coded(batch.column(name), columns.get(name)) for name in order]
                yield pa.RecordBatch.from_arrays(arrays, names=order)


def _coded(array: pa.Array, column: Spelled | None) -> pa.Array:
    if column is None or column.values is None:
        return _usual(array)
    if pa.types.is_list(array.type):
        codes = pc.index_in(array.flatten(), value_set=column.values)
        lists = pa.ListArray.from_arrays(array.offsets, codes.cast(pa.int32()))
        owner = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
        order = np.lexsort((codes.to_numpy(zero_copy_only=False), owner))
        return pa.ListArray.from_arrays(lists.offsets, lists.values.take(pa.array(order)))
    return pc.index_in(_usual(array), value_set=column.values, skip_nulls=True).cast(pa.int32())


def _usual(array: pa.Array) -> pa.Array:
    """Zero without a sign, and one "not a number": others could mark people."""
    if not pa.types.is_floating(array.type):
        return array
    zero, nan = pa.scalar(0.0, array.type), pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, zero))


def _different_parts(release: Release, again: Manifest) -> Iterator[str]:
    """What of the manifest is not as this version writes it."""
    manifest, path = release.manifest, release.path / NAME
    if not is_spelled(path.read_text(encoding="utf-8"), manifest):
        yield f"{NAME}: blanks, escapes or the order of its keys"
    other = manifest.sfumato != again.sfumato
    passed = {"files", "format", "sfumato", "writer"}
    fields = [name for name in manifest.__struct_fields__ if name not in passed]
    for name in fields:
        if getattr(manifest, name) != getattr(again, name) and not (other and name in WORDS):
            yield f"{NAME}: {name}"


def _different_files(release: Release, again: Manifest, folder: Path) -> Iterator[str]:
    manifest = release.manifest
    if set(manifest.files) != set(again.files):
        yield "how the records are cut into files"
        return
    pairs = {name: FileEntry.of(release.path / name) for name in manifest.files}
    wrong = [name for name, entry in pairs.items() if entry != again.files[name]]
    if manifest.writer == again.writer:
        yield from wrong
        return
    for name in wrong:  # another writer may encode the same rows otherwise
        number, where = differing_rows([release.path / name], [folder / name])
        if number:
            yield f"{name}: {where}"


def differing_rows(one: Sequence[Path], two: Sequence[Path]) -> tuple[int, str]:
    """How many rows differ between two tables in files, however these are cut; and the first.

    Minus zero is not zero. What the release shows and would show are both as public as it is.
    """
    number, where, start = 0, "", 0
    for a, b in zip_longest(_pieces(one), _pieces(two)):
        if a is None or b is None or not a.equals(b, check_metadata=False) or _floats(a):
            rows = zip_longest(*([] if t is None else t.to_pylist() for t in (a, b)))
            for index, (left, right) in enumerate(rows):
                if repr(left) == repr(right):
                    continue
                number += 1
                if not where:
                    names = sorted({*(left or ()), *(right or ())})
                    how = [n for n in names if left and right and repr(left[n]) != repr(right[n])]
                    witness = (
                        f"{', '.join(how)} would be another" if how else "there is no such row"
                    )
                    where = f"row {start + index:,}: {witness}"
        start += max(0 if table is None else table.num_rows for table in (a, b))
    return number, where


def _floats(table: pa.Table) -> bool:
    return any(pa.types.is_floating(field.type) for field in table.schema)


def _pieces(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of the files in tables of as many rows, however they were written."""

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with opened_parquet(path) as file:
                yield from file.iter_batches(batch_size=_AT_ONCE)

    return row_groups((), pq.read_schema(paths[0]), batches(), _AT_ONCE)
