"""What a worker can do: each task calls the function that the command line calls.

Tables, profiles and releases are named by paths that the server has checked. Results are plain
JSON: no infinities, no paths, and no raw records but the first lines that a steward asks to see.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.columns import label
from sfumato.draws import KEY_BYTES, Draws, fresh_key
from sfumato.engines.choosing import with_counts
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.engines.person_rows import one_row_each
from sfumato.engines.publishing import LEFT_OUT, publish
from sfumato.errors import DataError, InfeasibleGuarantee
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import given_mechanism
from sfumato.outlook.catalogue import allowed_guarantees, guarantee_list, too_many_values
from sfumato.outlook.preview import looked_at, preview
from sfumato.outlook.survey import survey
from sfumato.profile import Histogram, Profile
from sfumato.queries import OpenedRelease, open_release
from sfumato.queries.estimators import estimators_of
from sfumato.release import Release
from sfumato.results import as_json
from sfumato.table import Table
from sfumato.table.reading import Reading
from sfumato.table.staging import stage
from sfumato.web.answers import in_page_words
from sfumato.web.declared import declared, named, no_files, source_of
from sfumato.web.state import read_json, write_json

MOST_BARS = 200  # values of a sensitive histogram that the page is given
MOST_ROWS = 1000  # rows of an answer that the page is given


def catalogue(*, progress: Progress) -> Any:
    """The promises, for `/api/state`; with it all is loaded that the first prediction needs."""
    import scipy.optimize
    import scipy.sparse
    import scipy.special  # noqa: F401

    import sfumato.outlook.prediction  # noqa: F401

    return guarantee_list()


def look(
    *, path: str, label: str, progress: Progress, options: dict[str, Any] | None = None
) -> Any:
    """A first look at a table, read as `options` say."""
    with named(path, label):
        return survey(source_of(path, label, options or {}), progress=progress).to_json()


def first_lines(*, path: str, label: str, options: dict[str, Any], progress: Progress) -> Any:
    """The first lines of a text file, as they would be cut; None for files of other kinds."""
    from sfumato.table.csv_preview import preview_csv
    from sfumato.table.sources import file_kind

    if file_kind(Path(path)) != "CSV":
        return {"csv": None}
    with named(path, label):
        seen = preview_csv(Path(path), Reading.of(**options))
    return as_json({"csv": seen.to_json()})


def profile(*, table: dict[str, Any], out: str, seen: dict[str, Any], progress: Progress) -> Any:
    """Count what planning needs; kept at `out` is what the page shows, and which rows were counted.

    `seen` is what the first look saw.
    """
    kept = {"declared": table, "key": fresh_key(KEY_BYTES).hex()}
    with named(table["path"], table["label"]):
        counted = take_profile(_rows(kept, progress))
        progress("seeing what can be promised", 0, 0)
        reaches = allowed_guarantees(counted).items()
    (person, *_) = [name for name, role in table["roles"].items() if role == "person"] or [None]
    shown = {
        "table": seen["table"],
        "label": table["label"],
        "roles": table["roles"],
        "sensitive": list(counted.histograms),
        "rows": counted.rows,
        "table_rows": seen["rows"],
        "person": person,
        "values": {name: len(h.values) for name, h in counted.histograms.items()},
        "allowed": [{"promise": name, **vars(reach)} for name, reach in reaches],
        "histogram": [_bars(h) for h in counted.histograms.values()],
    }
    write_json(Path(out), as_json({**kept, "shown": shown}))
    return {"profile": Path(out).stem}


def _rows(kept: dict[str, Any], progress: Progress = no_progress) -> Table:
    """The rows that are counted, and counted again when a promise asks for groups of people: of
    people with several rows always the same."""
    progress("counting", 0, 0)
    draws = Draws(bytes.fromhex(kept["key"]))
    return stage(one_row_each(declared(kept["declared"]), draws), progress=progress)


def _bars(histogram: Histogram) -> dict[str, Any]:
    order = np.argsort(-histogram.counts, kind="stable")[:MOST_BARS].tolist()
    return {
        "column": histogram.column,
        "bars": [
            {"label": label(histogram.values[code]), "count": int(histogram.counts[code])}
            for code in order
        ],
        "others": histogram.rows - int(histogram.counts[order].sum()),
    }


_counted: dict[str, tuple[Table, Profile]] = {}  # of this worker, by file
_releases: dict[str, OpenedRelease] = {}


def predict(
    *,
    file: str,
    guarantee: str,
    mechanism: str | None,
    exact: bool,
    progress: Progress,
) -> Any:
    """What a promise would mean: from the counts that were kept, never from the table."""
    no_files(guarantee, mechanism)
    promise, asked = parse_guarantee(guarantee), given_mechanism(mechanism)
    counts, counted = _counts(file)
    for histogram in counted.histograms.values():  # said before anything is promised
        if (crowd := too_many_values(histogram)) is not None:
            return {"feasible": False, "reason": crowd, "witness": None, "nearest": None}
    # groups of people are counted when a promise asks for them first
    counted = with_counts(counted, looked_at(promise, asked, exact=exact), counts)
    _counted[file] = counts, counted
    try:
        return as_json(preview(counted, promise, asked, exact=exact, table=counts))
    except InfeasibleGuarantee as error:
        return {
            "feasible": False,
            "reason": in_page_words(error.with_flags),
            "witness": error.witness,
            "nearest": error.nearest,
        }


def _counts(file: str) -> tuple[Table, Profile]:
    if file not in _counted:
        kept = read_json(Path(file))
        if kept is None:
            raise DataError("These counts are no longer there. Choose the table again.")
        with named(kept["declared"]["path"], kept["declared"]["label"]):
            counts = _rows(kept)
            _counted.clear()  # one table per worker
            _counted[file] = counts, take_profile(counts)
    return _counted[file]


def cards(
    *,
    table: dict[str, Any],
    error: float,
    guarded: list[str],
    anybody: bool,
    progress: Progress,
) -> Any:
    """Three promises for what the steward needs."""
    from sfumato.outlook.advise.cards import cards as find_cards

    with named(table["path"], table["label"]):
        promises = find_cards(
            declared(table), error=error, protected=guarded, anybody=anybody, progress=progress
        )
    return as_json({"cards": promises})


def make_release(
    *,
    table: dict[str, Any],
    guarantee: str,
    mechanism: str | None,
    left_out: str | None,
    out: str,
    progress: Progress,
) -> Any:
    """Publish."""
    no_files(guarantee, mechanism)
    with named(table["path"], table["label"]), named(out, "the release"):
        publication = publish(
            declared(table),
            guarantee,
            to=out,
            mechanism=mechanism or None,
            left_out=LEFT_OUT if left_out is None else left_out,
            progress=progress,
        )
    lines = (*publication.notes, *publication.exposure.lines(promised=False))
    return {
        **_about(Release(out, verify=False)),
        "seconds": round(publication.seconds, 2),
        "bytes": sum(entry.bytes for entry in publication.manifest.files.values()),
        "notes": [in_page_words(line) for line in lines],
    }


def collect_evidence(
    *,
    table: dict[str, Any],
    release: str,
    out: str,
    progress: Progress,
    attacks: list[str] | None = None,
    targets: int | None = None,
    names: dict[str, Any] | None = None,
) -> Any:
    """Audit and attack a release and write its report to `out`; what it comes to."""
    from sfumato.attacks.protocol import verdict
    from sfumato.evidence.report import write_report

    with named(table["path"], table["label"]), named(release, "the release"):
        report = write_report(
            Release(release),
            table=declared(table),
            out=out,
            attacks=attacks or "all",
            targets=targets or None,
            **(names or {}),
            progress=progress,
        )
    evidence = report.evidence
    failing = [finding for finding in evidence.findings or () if finding.holds is not True]
    return as_json(
        {
            "holds": report.holds,
            "headline": evidence.headline,
            "findings": [str(finding) for finding in failing],
            "verdict": verdict(evidence.attacks or ()),
            "problems": evidence.problems,
        }
    )


def _about(release: Release) -> Any:
    """What a release says of itself, for who builds questions to it."""
    manifest, names = release.manifest, ("name", "does", "when")
    columns = [
        {
            "name": column.name,
            "role": column.role,
            "type": column.type,
            "text": "string" in column.type,
            "values": list(map(label, (column.to_json().get("domain") or {}).get("values", [])))[
                :MOST_BARS
            ],
        }
        for column in manifest.columns
    ]
    facts = ("kind", "guarantee", "mechanism", "rows", "suppressed", "statement", "caveats")
    said = {name: getattr(manifest, name) for name in (*facts, "does_not_protect")}
    ways = [dict(zip(names, texts, strict=True)) for texts in estimators_of(release)]
    return as_json({**said, "estimators": ways, "columns": columns})


def explore(*, release: str, progress: Progress) -> Any:
    """What a release says of itself, validated as anybody's."""
    with named(release, "the release"):
        return {"name": Path(release).name, **_about(Release(release))}


def query(
    *,
    release: str,
    sql: str,
    confidence: float,
    progress: Progress,
    estimator: str | None = None,
) -> Any:
    """Answer SQL from a release alone, behind the walls that `sfumato query` has."""
    with named(release, "the release"):
        if release not in _releases:
            _releases.clear()  # one open release per worker
            _releases[release] = open_release(release, verify=False)
        answer = _releases[release].sql(sql, confidence=confidence, estimator=estimator)
        document = answer.to_json()
    measures = [
        name + end for name in answer.aggregates for end in ("", "_stderr", "_low", "_high")
    ]
    keys = [name for name in answer.columns if name not in measures]
    first = next(iter(answer.aggregates), "")
    estimates = [
        {
            "label": ", ".join(label(row[key]) for key in keys) or first,
            "value": row[first],
            "low": row.get(f"{first}_low"),
            "high": row.get(f"{first}_high"),
        }
        for row in (document["rows"][:MOST_ROWS] if first else [])
    ]
    return as_json(
        {
            "columns": document["columns"],
            "aggregates": list(answer.aggregates),
            "counts": sorted(answer.counts),  # of people: whole numbers
            "rows": document["rows"][:MOST_ROWS],
            "left_off": max(len(document["rows"]) - MOST_ROWS, 0),
            "estimates": estimates,
            "note": answer.note,
        }
    )


TASKS: dict[str, Callable[..., Any]] = {
    "catalogue": catalogue,
    "look": look,
    "preview": first_lines,
    "counts": profile,
    "predict": predict,
    "cards": cards,
    "publish": make_release,
    "evidence": collect_evidence,
    "query": query,
    "explore": explore,
}
