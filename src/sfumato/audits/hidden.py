"""What a release could say besides its records: texts and bytes in the files, odd numbers, words.

Whoever publishes could mark people where no column shows it. A file has room for texts that belong
to no value, zero and "not a number" have many spellings, and a manifest is prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.columns import in_json
from sfumato.draws import Draws
from sfumato.engines.choosing import TableCounts, choose_plan, with_counts
from sfumato.engines.publication import columns_together
from sfumato.engines.together import told_by_release
from sfumato.errors import SfumatoError
from sfumato.mechanisms.buckets.settings import Part, mean_squared_error
from sfumato.release import BucketedRelease, Release
from sfumato.release.manifest import NAME
from sfumato.scratch import scratch_database
from sfumato.version import __version__

_WRITER = re.compile(r"parquet-cpp-arrow version \d+\.\d+\.\d+(-SNAPSHOT)?")
_MAGIC = 4  # bytes at both ends of a Parquet file; as many for the length of its footer
_NUMBERS = {32: (np.uint32, 0x80000000, 0x7FC00000), 64: (np.uint64, 1 << 63, 0x7FF8 << 48)}


def check_hidden_texts(case: AuditCase) -> Iterator[Finding]:
    """No file holds a text or a byte that belongs to no column; a manifest has one spelling."""
    found = [
        f"{name}: {what}" for name in case.release.manifest.files
        for what in _beside_columns(case.release.path / name)
    ]  # fmt: skip
    if _spelt_otherwise(case.release):
        found.append(f"{NAME}: not spelt as this version writes it")
    yield Finding.none(catalogue.HIDDEN_TEXTS, len(found), listed=tuple(found))


def _spelt_otherwise(release: Release) -> bool:
    """Blanks, escapes and the order of keys could say something; versions may differ in them."""
    manifest = release.manifest
    written = (release.path / NAME).read_text(encoding="utf-8")
    return manifest.sfumato == __version__ and written != manifest.to_text()


def _beside_columns(path: Path) -> Iterator[str]:
    import duckdb
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        about = file.metadata
    for key in about.metadata or {}:
        yield f"metadata {key.decode(errors='replace')!r}"
    if not _WRITER.fullmatch(about.created_by or ""):
        yield f"a writer called {about.created_by!r}"
    try:
        with scratch_database() as connection:
            marked = connection.sql(
                "SELECT DISTINCT path_in_schema FROM parquet_metadata(?) "
                "WHERE cardinality(key_value_metadata) > 0",
                params=[str(path)],
            ).fetchall()
    except duckdb.Error:  # bytes that are no text
        marked = []
        yield "metadata that cannot be read"
    yield from (f"metadata of column {column!r}" for (column,) in marked)
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    held = sum(
        group.column(place).total_compressed_size
        for group in groups
        for place in range(group.num_columns)
    )
    stray = path.stat().st_size - held - about.serialized_size - 3 * _MAGIC
    if stray:
        yield f"{stray:,} bytes outside all columns"


def check_odd_numbers(case: AuditCase) -> Iterator[Finding]:
    """Zero without a sign, and one "not a number": others could mark people."""
    number = sum(_odd_numbers(case.release.path / name) for name in case.release.manifest.files)
    yield Finding.none(catalogue.ODD_NUMBERS, number)


def _odd_numbers(path: Path) -> int:
    import pyarrow.parquet as pq

    number = 0
    with pq.ParquetFile(path) as file:
        names = [field.name for field in file.schema_arrow if _is_floating(field.type)]
        for batch in file.iter_batches(columns=names) if names else []:
            for array in batch.columns:
                plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
                while pa.types.is_nested(plain.type):
                    plain = plain.flatten()
                kind, minus_zero, usual = _NUMBERS[plain.type.bit_width]
                values = plain.drop_null().to_numpy(zero_copy_only=False)
                bits = values.view(kind)
                number += int(((bits == minus_zero) | (np.isnan(values) & (bits != usual))).sum())
    return number


def _is_floating(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_list(kind):
        return _is_floating(kind.value_type)
    return bool(pa.types.is_floating(kind))


def check_words(case: AuditCase) -> Iterator[Finding]:
    """The manifest says what this promise, kept in this way, says of itself, and no more."""
    manifest, mechanism = case.release.manifest, case.mechanism
    wrong = list(_false_claims(case.release))
    if manifest.does_not_protect != case.guarantee.unprotected():
        wrong.append("does_not_protect")
    witness = None
    # of people with several rows a limited promise is planned with, which `check_people` looks at
    if mechanism is not None and manifest.person is None:
        try:
            counts = TableCounts(case.table)
            profile = with_counts(case.profile, [mechanism], counts)
            # what a plan promises follows from counts; its draws decide who stands where
            _, plan = choose_plan(profile, case.guarantee, mechanism, Draws.from_seed(0))
        except SfumatoError as error:
            yield Finding.plain(catalogue.WORDS, False, witness=str(error))
            return
        made = [plan.statement(case.guarantee, h) for h in profile.histograms.values()]
        together = told_by_release(case.table, case.release, profile, case.guarantee)
        made += columns_together(case.table, manifest.joint, together)
        if manifest.statement != tuple(made):
            wrong.append("statement")
        wrong += _other_operators(in_json(manifest.plan), plan.public())
    if wrong and manifest.sfumato != __version__:
        # another version may put the same promise into other words
        witness = f"written by sfumato {manifest.sfumato}: compare the words by eye"
        yield Finding.told(catalogue.WORDS, len(wrong), witness=witness, listed=tuple(wrong))
        return
    yield Finding.none(catalogue.WORDS, len(wrong), listed=tuple(wrong))


def _other_operators(told: dict[str, Any], made: dict[str, Any]) -> Iterator[str]:
    """Columns whose operator is of another form than this mechanism's."""
    forms = [
        {name: operator["form"] for name, operator in plan.get("operators", {}).items()}
        for plan in (told, made)
    ]
    yield from (f"operator of {name}" for name in forms[1] if forms[0].get(name) != forms[1][name])


def _false_claims(release: Release) -> Iterator[str]:
    """Figures of the plan that follow from others."""
    if not isinstance(release, BucketedRelease):
        return
    setting = tuple(Part(size, buckets) for size, buckets in release.sizes)
    if release.manifest.plan.buckets != sum(part.buckets for part in setting):
        yield "buckets"
    error = round(float(mean_squared_error(setting)), 6)
    if release.manifest.plan.mean_squared_error != error:
        yield "mean_squared_error"
