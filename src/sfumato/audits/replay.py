"""The release made again from its receipt, and compared record by record: nothing escapes this.

What publishing made is a function of the table, of what was asked and of the draws. The receipt has
the last two, so the audit runs the same plan again into a folder of its own, and any record that
differs, in any column, in content or in place, is found, whatever the kind of release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.publishing import ENGINES, repeat
from sfumato.engines.receipts import Receipt
from sfumato.errors import InfeasibleGuarantee
from sfumato.mechanisms import Batch, Published
from sfumato.mechanisms.generalized import Generalized
from sfumato.release import FileEntry, Manifest, Release, record_files
from sfumato.release.manifest import NAME
from sfumato.scratch import scratch_space
from sfumato.table import Table
from sfumato.table.sources import find_source
from sfumato.version import __version__

_WORDS = ("statement", "does_not_protect", "caveats")
_CLAIMS = ("kind", "mechanism", "guarantee", "rows", "suppressed", "missing", "randomness",
           "columns", "person", "joint", "plan")  # fmt: skip
_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class Matches:
    """Who stands behind the rows of ranges and sets, row by row of the release.

    Row r shows the value of record `source[r]`, and stands for `matches[starts[r]:starts[r + 1]]`
    or, where whole groups share what they show, for everybody of `group[r]`.
    """

    source: IntArray
    spans: int
    starts: IntArray | None = None
    matches: IntArray | None = None
    group: IntArray | None = None

    @classmethod
    def of(cls, made: Generalized, place: IntArray) -> Matches:
        source, group = made.source[place], None if made.group is None else made.group[place]
        if made.matches is None:
            return cls(source, made.spans, group=group)
        lengths = np.concatenate([np.full(len(run), run.shape[1]) for run in made.matches])
        flat = np.concatenate([run.ravel() for run in made.matches])
        begin = (np.cumsum(lengths) - lengths)[place]
        starts = np.concatenate([[0], np.cumsum(lengths[place])])
        entries = np.repeat(begin - starts[:-1], lengths[place]) + np.arange(starts[-1])
        return cls(source, made.spans, starts, flat[entries], group)


class Trace:
    """What a run that was repeated did with every record, for the checks of the promise."""

    def __init__(self) -> None:
        self.matches: Matches | None = None
        self._pieces: dict[str, list[IntArray]] = {}

    def records(self, batch: Batch, published: Published, numbers: Mapping[str, IntArray]) -> None:
        if not numbers:
            return
        rows = len(next(iter(numbers.values())))
        kept = np.ones(rows, np.bool_) if published.keep is None else published.keep
        shown = {f"{name} published": codes for name, codes in published.codes.items()}
        for name, array in {**batch.codes, **shown, **numbers, "kept": kept}.items():
            self._pieces.setdefault(name, []).append(array.astype(np.int32))

    def rows(self, made: Generalized, place: IntArray) -> None:
        self.matches = Matches.of(made, place)

    def numbers(self, name: str) -> IntArray:
        """Of every record: its code (`c`), its published code (`c published`), `kept`, or a number
        of the plan's own, such as `c group`."""
        return np.concatenate(self._pieces.get(name, [np.empty(0)])).astype(np.int64)


def declared_again(origin: Any, receipt: Receipt) -> Table:
    """The table as it was declared, on the engine that published it."""
    if isinstance(origin, Table):
        return origin
    return receipt.declare(find_source(ENGINES[receipt.engine].source(origin), receipt.reading))


def check_replay(case: AuditCase, receipt: Receipt, trace: Trace) -> Iterator[Finding]:
    """Publish again and compare. Costs what publishing costs, and a reading of both files."""
    release = case.release
    with scratch_space() as folder:
        again = folder / "release"
        try:
            manifest = repeat(receipt, case.table, release, again, trace)
        except InfeasibleGuarantee as error:
            yield Finding.plain(catalogue.REPLAY, False, witness=str(error))
            return
        yield _compared(release, manifest, again)
        yield _manifests(release, manifest, receipt)


def _manifests(release: Release, again: Manifest, receipt: Receipt) -> Finding:
    """What the release says of itself follows from the run, too."""
    told = release.manifest
    wrong = [name for name in _CLAIMS if _plain(told, name) != _plain(again, name)]
    # another version may put the same promise into other words: then the receipt has the hash
    as_written = FileEntry.of(release.path / NAME).sha256 == receipt.manifest
    if receipt.sfumato == __version__ or not as_written:
        wrong += [name for name in _WORDS if getattr(told, name) != getattr(again, name)]
    return Finding.none(catalogue.REPLAY_MANIFEST, len(wrong), listed=tuple(wrong))


def _plain(manifest: Manifest, name: str) -> Any:
    if name == "columns":
        return [column.to_json() for column in manifest.columns]
    return getattr(manifest, name)


def _compared(release: Release, manifest: Manifest, again: Path) -> Finding:
    """Differing records of all files, with the first as a witness."""
    known, made = release.manifest.files, manifest.files
    number, where = 0, None
    sides = sorted(path.stem for path in again.glob("*.parquet") if path.stem != "records")
    pairs = [("records", release.records, record_files(again))]
    for stem in sides:
        name = f"{stem}.parquet"
        pairs.append((stem, [release.path / name], [again / name]))
    for stem, ours, theirs in pairs:
        hashes = [[entry.sha256 for entry in _entries(files, paths)] for files, paths in
                  ((known, ours), (made, theirs))]  # fmt: skip
        if hashes[0] == hashes[1]:
            continue
        found = differing_rows(ours, theirs)
        number += found.number
        if found.number and where is None:
            where = f"{stem}, row {found.first:,}: {found.how}"
    return Finding.none(
        catalogue.REPLAY,
        number,
        witness=where or f"{manifest.rows:,} records made again, each in its place",
    )


def _entries(files: dict[str, FileEntry], paths: Sequence[Path]) -> list[FileEntry]:
    names = {Path(name).name: entry for name, entry in files.items()}
    return [names[path.name] for path in paths]


@dataclass(frozen=True)
class Differences:
    """How many rows differ, and the first of them (from 0)."""

    number: int
    first: int = 0
    how: str = ""


def differing_rows(one: Sequence[Path], two: Sequence[Path]) -> Differences:
    """Compare two tables in files, row by row, in bounded memory."""
    number, first, how, start = 0, 0, "", 0
    left, right = _pieces(one), _pieces(two)
    while True:
        a, b = next(left, None), next(right, None)
        if a is None and b is None:
            return Differences(number, first, how)
        rows = max(0 if each is None else each.num_rows for each in (a, b))
        if a is None or b is None or a.num_rows != b.num_rows:
            both = 0 if a is None or b is None else min(a.num_rows, b.num_rows)
            wrong = np.ones(rows, np.bool_)
            if both and a is not None and b is not None:
                wrong[:both] = _different(a.slice(0, both), b.slice(0, both))
        else:
            wrong = _different(a, b)
        if wrong.any() and not number:
            place = int(wrong.argmax())
            first, how = start + place, _told(a, b, place)
        number += int(wrong.sum())
        start += rows


def _told(a: pa.Table | None, b: pa.Table | None, place: int) -> str:
    """What the release shows, and what it would show; both are as public as the release."""
    rows = [None if t is None or place >= t.num_rows else t.slice(place, 1).to_pylist()[0]
            for t in (a, b)]  # fmt: skip
    if rows[0] is None or rows[1] is None:
        return "there are more rows" if rows[1] is None else "there are fewer rows"
    names = sorted(set(rows[0]) | set(rows[1]))
    differ = [n for n in names if repr(rows[0].get(n)) != repr(rows[1].get(n))]
    return f"{', '.join(differ) or 'the bits of a number'} would be another"


def _different(a: pa.Table, b: pa.Table) -> BoolArray:
    """Which rows differ in some column, to the last bit."""
    wrong = np.zeros(a.num_rows, np.bool_)
    if a.schema.names != b.schema.names:
        return ~wrong
    for name in a.schema.names:
        ours, theirs = _bits(a.column(name)), _bits(b.column(name))
        if ours.type != theirs.type:
            return np.ones(a.num_rows, np.bool_)
        if not ours.equals(theirs):
            if pa.types.is_nested(ours.type):
                pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
                wrong |= np.array([repr(x) != repr(y) for x, y in pairs], np.bool_)
            else:
                same = pc.fill_null(pc.equal(ours, theirs), False)
                both = pc.and_(pc.is_null(ours), pc.is_null(theirs))
                wrong |= ~np.asarray(pc.or_(same, both).to_numpy())
    return wrong


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose equality is that of its bits: −0.0 is not 0.0, a NaN is itself."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_floating(kind):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)
    return column


def _pieces(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of the files in tables of `_AT_ONCE` rows, however they were written."""
    import pyarrow.parquet as pq

    held: list[pa.Table] = []
    number = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_AT_ONCE):
                held.append(pa.Table.from_batches([batch]))
                number += batch.num_rows
                while number >= _AT_ONCE:
                    whole = pa.concat_tables(held)
                    yield whole.slice(0, _AT_ONCE)
                    held, number = [whole.slice(_AT_ONCE)], number - _AT_ONCE
    if number:
        yield pa.concat_tables(held)
