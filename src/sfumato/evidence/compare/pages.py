"""The comparison as a page, for the steward alone: it shows true counts.

Tables and charts are made here; `comparison.html.jinja` has the words around them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from sfumato.evidence.compare.comparison import Comparison, Row
from sfumato.guarantees import GUARANTEES
from sfumato.pages import Chart, render
from sfumato.pages.charts import (
    attack_advantage,
    error_by_count,
    error_by_value,
    risk_against_utility,
)
from sfumato.results import Cell, Interval, ResultTable, untitled


def comparison_page(comparison: Comparison) -> str:
    """One page that answers: which promise, kept how?"""
    measured = comparison.measured
    findings = [(row.name, f) for row in measured for f in row.result["audit"]["findings"]]
    failed = [
        (name, f["title"], f["value_text"], f["limit_text"], f["witness"] or ", ".join(f["listed"]))
        for name, f in findings
        if f["holds"] is False
    ]
    return render(
        "evidence/compare/comparison.html.jinja",
        f"{len(comparison.rows)} ways to publish {comparison.label}, compared",
        f"{comparison.people:,} people; {len(comparison.truth):,} questions about "
        f"{' and '.join(comparison.columns)}, the same for every candidate.",
        footer="Made by sfumato.",
        comparison=comparison,
        glance=comparison.table(),
        risk=_risk(measured),
        error_charts=_error_charts(comparison) if measured else [],
        advantages=_advantages(measured),
        failed_checks=untitled(
            ("candidate", "check", "measured", "limit", "where"),
            failed,
            marks=dict.fromkeys(range(len(failed)), "bad"),
        ),
        skipped=sum(f["holds"] is None for _, f in findings),
        candidates=_candidates(comparison.rows),
    )


def _risk(measured: Sequence[Row]) -> Chart | None:
    points = [
        (row.name, row.strongest[1], row.error)
        for row in measured
        if row.strongest is not None and math.isfinite(row.error.value)
    ]
    if not points:
        return None
    least = measured[0].result["accuracy"]["counts_from"]
    return risk_against_utility(
        points,
        f"median relative error of counts from {least:,} up",
        "Down is safer: the strongest attack learns less from a person's own record. Left "
        "is more useful: answers are closer to the truth. Bars are 95 % intervals.",
    )


def _error_charts(comparison: Comparison) -> list[Chart]:
    classes = [
        (row.name, c) for row in comparison.measured for c in row.result["accuracy"]["by_count"]
    ]
    errors: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in comparison.measured:
        for value, error in row.result["accuracy"]["by_value"].items():
            errors[value][row.name] = error
    names = ("least", "most", "questions", "median", "mean", "covered")
    shares = ("median error", "mean error", "truth inside 95 %")
    columns = ("candidate", "true counts from", "to", "questions", *shares)
    table = untitled(columns, [(name, *(c[n] for n in names)) for name, c in classes], shares)
    points = [(name, c["count"], c["mean"]) for name, c in classes]
    about = " and ".join(comparison.columns)
    return [
        error_by_count(
            points,
            "Mean relative error by class of true counts. Lower is better. The table has the share "
            "of questions whose 95 % interval holds the truth.",
            table,
        ),
        error_by_value(errors, f"Median relative error of the questions about each {about}."),
    ]


def _advantages(measured: Sequence[Row]) -> Chart | None:
    figures: defaultdict[str, dict[str, Interval]] = defaultdict(dict)
    for row in measured:
        for attack, advantage in row.advantages.items():
            figures[attack][row.name] = advantage
    if not figures:
        return None
    return attack_advantage(
        figures,
        "How much more often an attack is right than the same attack on a release without the "
        "person, with 95 % intervals. Around 0, a person's own record gives nothing away.",
    )


def _candidates(rows: Sequence[Row]) -> ResultTable:
    others = [name for name, guarantee in GUARANTEES.items() if not guarantee.limits_belief]
    chance = "largest chance allowed"
    head = ("candidate", "promise and mechanism", "kind", chance, "values not covered", "records",
            "suppressed")  # fmt: skip
    cells: list[tuple[Cell, ...]] = [
        (
            row.name,
            str(row.candidate),
            row.result.get("kind", "not published"),
            row.ceiling,
            row.uncovered,
            row.result.get("rows"),
            row.result.get("withheld"),
        )
        for row in rows
    ]
    note = (
        "The largest chance that the promise lets anybody reach about a value, among the values it "
        f"covers. {' and '.join(others)} promise about sums, not about chances."
    )
    return untitled(head, cells, (chance,), note)
