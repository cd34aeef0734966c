"""The comparison as a page, for the steward alone: it shows true counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.evidence.compare.accuracy import held_by_class
from sfumato.evidence.compare.comparison import COLUMNS, PERCENT, Comparison, Row
from sfumato.guarantees import GUARANTEES
from sfumato.pages import (
    Block,
    Bullets,
    Heading,
    Notice,
    Page,
    Paragraph,
    Section,
)
from sfumato.pages.charts import (
    ErrorPoint,
    Figure,
    RiskPoint,
    attack_advantage,
    bucket_sizes,
    error_by_count,
    error_by_value,
    estimate_against_truth,
    penalty_by_column,
    risk_against_utility,
)
from sfumato.results import Cell, ResultTable, Tone, untitled

MOST_DOTS = 300  # of a panel


def comparison_page(found: Comparison) -> Page:
    """One page that answers: which promise, kept how?"""
    return Page(
        f"{len(found.rows)} ways to publish {found.label}, compared",
        f"{found.people:,} people; {len(found.truth):,} questions about {found.column}, the same "
        "for every candidate.",
        [
            _glance(found),
            _utility(found),
            _risk(found),
            _candidates(found),
            _method(found),
        ],
        [
            Notice(
                "Not for publication: this page shows true counts. Give out a release and its "
                "own report ('sfumato report'), never this page.",
                "private",
            )
        ],
        "Made by sfumato.",
    )


def _glance(found: Comparison) -> Section:
    marks: dict[int, Tone] = {
        number: "private" if row.failed else "bad"
        for number, row in enumerate(found.rows)
        if row.failed or row.kept is False
    }
    blocks: list[Block] = [
        untitled(COLUMNS, found.summary(), PERCENT, marks=marks),
        *(Notice(f"{r.name} was not published: {r.failed}", "bad") for r in found.rows if r.failed),
    ]
    points = [
        RiskPoint(row.name, row.strongest[1], row.error)
        for row in found.measured
        if row.strongest is not None and math.isfinite(row.error.value)
    ]
    if points:
        least = found.measured[0].result["accuracy"]["median_relative_error"]["counts_from"]
        blocks.append(
            risk_against_utility(
                points,
                f"median relative error of counts from {least:,} up",
                "Down is safer: the strongest attack learns less from a person's own record. Left "
                "is more useful: answers are closer to the truth. Bars are 95 % intervals.",
            )
        )
    return Section("At a glance", blocks)


def _utility(found: Comparison) -> Section:
    points = [
        ErrorPoint(row.name, each["count"], each["mean"], each["questions"])
        for row in found.measured
        for each in row.result["accuracy"]["by_count"]
    ]
    if not points:
        return Section("What answers are worth", [])
    errors: dict[str, dict[str, float]] = {}
    for row in found.measured:
        for each in row.result["accuracy"]["by_value"]:
            errors.setdefault(each["value"], {})[row.name] = each["median_relative_error"]
    return Section(
        "What answers are worth",
        [
            error_by_count(points, "Mean relative error by class of true counts. Lower is better."),
            estimate_against_truth(
                {row.name: _pairs(found.truth, row) for row in found.measured},
                _truth_table(found),
                "Every dot is a question; on the dashed line the answer is right. Answers far "
                f"below 0 lie outside. Up to {MOST_DOTS} questions a panel; report.json has all.",
            ),
            *_held(found),
            Paragraph("Is the prediction right? Mean absolute error over the same questions:"),
            _predictions(found),
            error_by_value(
                errors, f"Median relative error of the questions about each {found.column}."
            ),
        ],
    )


def _held(found: Comparison) -> list[Block]:
    """What the 95 % intervals of every candidate held, by size; marked where that is too little."""
    told: list[Block] = []
    for row in found.measured:
        classes = row.result["accuracy"]["by_count"]
        held = held_by_class([(each["least"], each["most"], each["covered"]) for each in classes])
        if held:
            told.append(Paragraph(f"{row.name}: truth inside the 95 % interval.{held}"))
    return told


def _predictions(found: Comparison) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for row in found.measured:
        measured = row.result["accuracy"]["mean_absolute_error"]
        predicted = (row.result["predicted"] or {}).get("mean_absolute_error")
        told = predicted and measured is not None
        rows.append((row.name, measured, predicted, measured / predicted if told else None))
    return untitled(
        ("candidate", "measured", "predicted from the plan", "measured / predicted"),
        rows,
        note="Of ranges and sets nothing is predicted.",
    )


def _pairs(truth: Sequence[int], row: Row) -> list[tuple[float, float]]:
    estimates = row.result["answers"]["estimates"]
    both = [(float(t), e) for t, e in zip(truth, estimates, strict=True) if t and e is not None]
    step = max(1, math.ceil(len(both) / MOST_DOTS))
    return both[::step]


def _truth_table(found: Comparison) -> ResultTable:
    rows: list[tuple[Cell, ...]] = [
        (
            row.name,
            each["least"],
            each["most"],
            each["questions"],
            each["median"],
            each["mean"],
            each["covered"],
        )
        for row in found.measured
        for each in row.result["accuracy"]["by_count"]
    ]
    columns = (
        "candidate",
        "true counts from",
        "to",
        "questions",
        "median error",
        "mean error",
        "truth inside 95 %",
    )
    return untitled(columns, rows, frozenset(columns[4:]))


def _risk(found: Comparison) -> Section:
    figures: dict[str, dict[str, Figure]] = {}
    for row in found.measured:
        for each in row.result["attacks"]:
            figures.setdefault(each["attack"], {})[row.name] = Figure(**each["advantage"])
    blocks: list[Block] = []
    if figures:
        blocks.append(
            attack_advantage(
                figures,
                "How much more often an attack is right than the same attack on a release without "
                "the person, with 95 % intervals. Around 0, a person's own record gives nothing "
                "away.",
            )
        )
    problems = [(r.name, r.result.get("attack_problem")) for r in found.measured]
    blocks += [Notice(f"{name} was not attacked: {text}") for name, text in problems if text]
    return Section("What they give away", [*blocks, *_audits(found)])


def _audits(found: Comparison) -> list[Block]:
    """The checks that failed in sight, all of them folded away."""
    columns = ("candidate", "", "check", "measured", "limit", "where")
    findings = [(row.name, f) for row in found.measured for f in row.result["audit"]["findings"]]
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            finding["result"],
            finding["title"],
            finding["value_text"] or None,
            finding["limit_text"] or None,
            ", ".join((finding["witness"] or "", *finding["listed"])).strip(", ") or None,
        )
        for name, finding in findings
    ]
    verdicts = [finding["holds"] for _, finding in findings]
    broken = [cells for cells, holds in zip(rows, verdicts, strict=True) if holds is False]
    every = f"All {len(rows):,} checks of the audits"
    if not broken:
        unseen = verdicts.count(None)
        passed = Notice("Every release passed its audit.", "good")
        return [
            Notice(f"No check failed; {unseen:,} could not be made.") if unseen else passed,
            untitled(columns, rows, folded=every),
        ]
    marks: dict[int, Tone] = dict.fromkeys(range(len(broken)), "bad")
    return [
        Notice(f"{len(broken):,} checks of the audits failed:", "bad"),
        untitled(columns, broken, marks=marks),
        untitled(columns, rows, folded=every),
    ]


def _candidates(found: Comparison) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        result = row.result
        rows.append(
            (
                row.name,
                str(row.candidate),
                result.get("kind", "not published"),
                row.ceiling,
                row.uncovered,
                result.get("rows"),
                result.get("withheld"),
            )
        )
    columns = (
        "candidate",
        "promise and mechanism",
        "kind",
        "largest chance allowed",
        "values not covered",
        "records",
        "withheld",
    )
    others = [name for name, guarantee in GUARANTEES.items() if not guarantee.limits_belief]
    note = (
        "The largest chance that the promise lets anybody reach about a value, among the values it "
        f"covers. {' and '.join(others)} promise about sums, not about chances."
    )
    blocks: list[Block] = [untitled(columns, rows, frozenset((columns[3],)), note)]
    for number, row in enumerate(found.measured):
        result = row.result
        blocks += [Heading(row.name), *(Paragraph(text) for text in result["statement"])]
        if result["caveats"]:
            blocks.append(Bullets(result["caveats"]))
        if result.get("sizes"):
            sizes = sorted((int(s["size"]), int(s["buckets"])) for s in result["sizes"])
            blocks.append(bucket_sizes(sizes, row.name, name=f"buckets-{number}"))
        if result.get("penalty"):
            penalty = result["penalty"]
            blocks.append(
                penalty_by_column(
                    penalty["ncp"],
                    penalty["gcp"],
                    f"{row.name}. NCP of every quasi-identifier: 0 % is exact, 100 % the whole "
                    f"domain. "
                    f"{_least(penalty)}",
                    name=f"penalty-{number}",
                )
            )
    return Section("The candidates", blocks)


def _least(penalty: Mapping[str, Any]) -> str:
    """GCP beside the bound that no release with the promise can be below."""
    if penalty.get("least") is None:
        return ""
    return (
        f"GCP is {penalty['gcp']:.4f}; no release of ranges and sets that keeps the promise can "
        f"be below {penalty['least']:.4f}."
    )


def _method(found: Comparison) -> Section:
    return Section(
        "How it was measured",
        [
            Bullets(
                [
                    f"Questions: {found.source}; saved as workload.sql, one statement a line.",
                    "Every candidate was published with fresh draws from the operating system into "
                    "a private folder that is gone by now. Publish the one you choose.",
                    "Advantage: right guesses less those of the same attack on a release of a "
                    "fresh table without the person; where that could not be had, less the best "
                    "guess without any release.",
                    "Relative errors leave out questions whose true count is 0.",
                    f"All of it took {found.seconds:,.0f} seconds.",
                ]
            )
        ],
    )
