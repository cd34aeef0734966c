"""The release made again from its receipt, and compared record by record: nothing escapes this.

What publishing made is a function of the table, of what was asked and of the draws. The receipt has
the last two, so the audit runs the same plan again into a folder of its own, and any record that
differs, in any column, in content or in place, is found, whatever the kind of release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import CheckResult, Finding
from sfumato.audits.spelling import WORDS, differing_rows
from sfumato.draws import IntArray, seed_of
from sfumato.engines.publishing import ENGINES, repeat
from sfumato.engines.receipts import Receipt
from sfumato.errors import InfeasibleGuarantee
from sfumato.mechanisms.generalized import Generalized
from sfumato.release.records import record_names
from sfumato.scratch import scratch_space
from sfumato.table import Table
from sfumato.table.sources import find_source
from sfumato.version import __version__

SEEDS = 1 << 20  # seeds that the key of a receipt is tried against: half a second


@dataclass(frozen=True, eq=False)
class Matches:
    """Who stands behind the rows of ranges and sets, row by row of the release.

    Row r shows the value of record `source[r]`, and stands for `matches[starts[r]:starts[r + 1]]`
    or, where whole groups share what they show, for everybody of `group[r]`.
    """

    source: IntArray
    starts: IntArray | None = None
    matches: IntArray | None = None
    group: IntArray | None = None

    @classmethod
    def of(cls, made: Generalized, place: IntArray) -> Matches:
        source, group = made.source[place], None if made.group is None else made.group[place]
        if made.matches is None:
            return cls(source, group=group)
        lengths = np.concatenate([np.full(len(run), run.shape[1]) for run in made.matches])
        flat = np.concatenate([run.ravel() for run in made.matches])
        begin = (np.cumsum(lengths) - lengths)[place]
        starts = np.concatenate([[0], np.cumsum(lengths[place])])
        entries = np.repeat(begin - starts[:-1], lengths[place]) + np.arange(starts[-1])
        return cls(source, starts, flat[entries], group)


def declared_again(origin: Any, receipt: Receipt) -> Table:
    """The table as it was declared, on the engine that published it."""
    if isinstance(origin, Table):
        return origin
    return receipt.declare(find_source(ENGINES[receipt.engine].source(origin), receipt.reading))


def check_replay(case: AuditCase, receipt: Receipt) -> Iterator[Finding]:
    """Publish again and compare. Costs what publishing costs, and a reading of both files."""
    stated, matches = case.release.manifest, list[Matches]()
    key, origin = receipt.draws.reveal(), receipt.draws.origin
    seed = None if origin == "seeded" else seed_of(bytes.fromhex(key), SEEDS)
    if seed is None and origin != "seeded":
        yield Finding.plain(catalogue.KEY, None, value=origin)
    else:
        wrong = None if seed is None else f"the receipt says {origin}; it is the seed {seed}"
        yield Finding(catalogue.KEY, CheckResult.FAILED, value="seeded", witness=wrong)
    if origin == "key-file" and case.table.key is None:
        wrong = "the receipt says key-file, but names no column of keys"
        yield Finding.plain(catalogue.REPLAY, wrong)
        return
    with scratch_space() as folder:
        try:
            manifest = repeat(
                receipt,
                case.table,
                case.release,
                folder / "release",
                lambda made, place: matches.append(Matches.of(made, place)),
            )
        except InfeasibleGuarantee as error:
            yield Finding.plain(catalogue.REPLAY, str(error))
            return
        number, where = 0, f"{manifest.rows:,} records drawn again"
        pairs = [([name], [name]) for name in manifest.files if "/" not in name]
        pairs.insert(0, (record_names(stated.files), record_names(manifest.files)))
        for ours, theirs in pairs:
            if [stated.files[n] for n in ours] != [manifest.files[n] for n in theirs]:
                rows, how = differing_rows(
                    [case.release.path / n for n in ours], [folder / "release" / n for n in theirs]
                )
                where = f"{Path(ours[0]).parts[0]}, {how}" if rows and not number else where
                number += rows
    yield Finding.limited(catalogue.REPLAY, number, witness=where)
    case.repeated, case.matches = True, matches[0] if matches else None
    passed = {"files", "sfumato", "writer", *(() if stated.sfumato == __version__ else WORDS)}
    written, again = stated.to_json(), manifest.to_json()
    differing = [name for name in written if name not in passed and written[name] != again[name]]
    yield Finding.limited(catalogue.REPLAY_MANIFEST, len(differing), listed=tuple(differing))
