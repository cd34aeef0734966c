"""What a run of any engine did, and what its release says of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import convert

from sfumato.columns import Column, Values, in_json
from sfumato.engines.exposure import Exposure
from sfumato.engines.run import Run, Written
from sfumato.engines.words import with_words
from sfumato.errors import DataError
from sfumato.guarantees import Guarantee
from sfumato.profile import Profile
from sfumato.release import Manifest
from sfumato.release.manifest import QuasiK
from sfumato.results import Result
from sfumato.table import Table
from sfumato.version import __version__

WRITER = f"pyarrow {pa.__version__}"  # decides how files are encoded


@dataclass(frozen=True, repr=False)
class Publication(Result):
    """What `publish` did: where the release is and what it holds.

    `rows` are those of the table. `notes`, `exposure` and `meanings` (for one person)
    follow from exact counts: they are for the steward and stand nowhere in the release.
    """

    release: str | Path
    manifest: Manifest
    rows: int
    seconds: float
    exposure: Exposure
    notes: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()

    def __str__(self) -> str:
        manifest = self.manifest
        lines = [
            f"Published {manifest.rows:,} of {self.rows:,} rows to {self.release}",
            f"  promise    {manifest.guarantee}",
            f"  mechanism  {manifest.mechanism}",
        ]
        shown = self.meanings or manifest.statement
        said = "".join(shown)
        lines += [f"  {sentence}" for sentence in shown]
        uncovered = [re.split(r" \(|: ", text)[0] for text in manifest.does_not_protect]
        lines.append(f"  Not covered: {'; '.join(uncovered)}.")
        lines.append("  Statement and caveats in full: its manifest.json, or `sfumato describe`.")
        told = [note for note in self.notes if note not in said]
        told += self.exposure.lines(promised=False)
        if told:
            lines.append("Not for publication, from the counts of the table:")
            lines += [f"  {sentence}" for sentence in told]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "release": str(self.release),
            "kind": self.manifest.kind,
            "mechanism": self.manifest.mechanism,
            "guarantee": self.manifest.guarantee,
            "rows": self.rows,
            "rows_published": self.manifest.rows,
            "suppressed": self.manifest.suppressed,
            "seconds": round(self.seconds, 3),
            "exposure": self.exposure.to_json(),
            "notes": list(self.notes),
            "meanings": list(self.meanings),
            "plan": in_json(self.manifest.plan),
        }


def steward_notes(profile: Profile, guarantee: Guarantee) -> tuple[str, ...]:
    """Whom the promise leaves out, by name and number.

    >>> import numpy as np
    >>> from sfumato.guarantees import RhoPrivacy
    >>> from sfumato.profile import Histogram
    >>> counts = Histogram("ill", ("no", "yes"), np.array([9, 1]))
    >>> steward_notes(Profile(10, {"ill": counts}), RhoPrivacy(0.2, 0.5))
    ("Column 'ill': nothing is promised about 9 of 10 people, those with 'no'.",)
    """
    left_out = (guarantee.left_out_text(histogram) for histogram in profile.histograms.values())
    return tuple(text for text in left_out if text)


def make_manifest(run: Run, written: Written) -> Manifest:
    """The manifest of a release, its files still to come."""
    table, plan, person = run.table, run.plan, run.rule
    manifest = Manifest.of(
        plan.kind,
        {**plan.public(), **written.plan},
        written.columns,
        sfumato=__version__,
        writer=WRITER,
        mechanism=str(run.chosen),
        guarantee=run.chosen.promised(run.guarantee).stated(),
        rows=written.rows,
        suppressed=plan.withheld + (0 if person is None else person.suppressed),
        missing=missing_rule(
            table.missing, [column.value for column in written.columns], run.profile.dropped
        ),
        randomness=run.draws.origin,
        quasi_k=None if table.merged is None else convert(table.merged.to_json(), QuasiK),
        statement=(),
        does_not_protect=(),
        caveats=(),
        person=person,
        joint=run.joint,
    )
    return with_words(manifest, run.profile.histograms)


def missing_rule(asked: str, columns: Sequence[Column], dropped: int) -> str:
    """How missing values were written: a rule that nothing called for is not told."""
    domains = [column.domain for column in columns if column.role == "sensitive"]
    missing = any(isinstance(domain, Values) and None in domain.values for domain in domains)
    needed = {"value": missing, "drop": dropped > 0}
    return asked if needed.get(asked) else "refuse"


def refuse_repeated(table: Table, repeated: int) -> None:
    """Promises count one record per person: a key that comes again is somebody's second record."""
    if repeated:
        raise DataError(
            f"The key column {table.key!r} of {table.label} repeats in {repeated:,} rows, but the "
            f"promises count one record per person. Say --person {table.key} instead of --key, and "
            "they hold for people with several rows."
        )
