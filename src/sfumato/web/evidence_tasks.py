"""The tasks that measure: candidates side by side, and the evidence for a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.engines.counting import Progress
from sfumato.release import Release
from sfumato.results import as_json
from sfumato.web.declared import declared, named, no_files
from sfumato.web.state import write_json


def compare_candidates(
    *, table: dict[str, Any], candidates: list[dict[str, Any]], out: str, progress: Progress
) -> Any:
    """Publish, ask, audit and attack every candidate; the page about it lies in `out`."""
    from sfumato.evidence.accuracy import LOW
    from sfumato.evidence.compare import Candidate, compare

    for candidate in candidates:
        no_files(candidate["guarantee"], candidate["mechanism"])
    with named(table["path"], table["label"]), named(out, "the comparison"):
        comparison = compare(
            declared(table),
            [
                Candidate(candidate["guarantee"], candidate["mechanism"] or None)
                for candidate in candidates
            ],
            out=out,
            progress=progress,
        )
    rows = []
    for row in comparison.rows:
        strongest = None if row.failed else row.strongest
        rows.append(
            {
                "guarantee": row.candidate.guarantee,
                "mechanism": row.result.get("mechanism", row.candidate.mechanism),
                "feasible": not row.failed,
                "reason": row.failed,
                "kept": row.kept,
                "error": None if row.failed else row.error.value,
                "attack": None if strongest is None else strongest[1].value,
                "strongest": None if strongest is None else strongest[0],
                "covered": None if row.failed else row.result["accuracy"]["covered"],
                "ceiling": row.ceiling,
            }
        )
    return as_json({"candidates": rows, "rows": comparison.people, "covered_from": LOW})


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
    """Audit and attack a release and write its report to `out`."""
    from sfumato.evidence.accuracy import LOW
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
    fields = evidence.to_json()
    # the highest ceiling may follow from counts: it is for the steward, and not in the report
    ran = [{**attack.to_json(), "ceiling": attack.ceiling} for attack in evidence.attacks or ()]
    seen = {name: fields[name] for name in ("audit", "utility", "problems")}
    write_json(Path(out) / "evidence.json", as_json({**seen, "attacks": ran, "covered_from": LOW}))
    return {"holds": report.holds, "problems": list(report.evidence.problems)}
