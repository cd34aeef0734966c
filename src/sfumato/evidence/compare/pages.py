"""The comparison as a page, for the steward alone: it shows true counts.

Tables and charts are made here; `comparison.html.jinja` has the words around them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sfumato.evidence.compare.accuracy import held_by_class
from sfumato.evidence.compare.comparison import COLUMNS, PERCENT, Comparison, Row
from sfumato.guarantees import GUARANTEES
from sfumato.pages import Chart, render
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


def comparison_page(comparison: Comparison) -> str:
    """One page that answers: which promise, kept how?"""
    measured = comparison.measured
    marks: dict[int, Tone] = {
        number: "private" if row.failed else "bad"
        for number, row in enumerate(comparison.rows)
        if row.failed or row.kept is False
    }
    coverage = [
        (row.name, held_by_class([(c["least"], c["most"], c["covered"]) for c in _classes(row)]))
        for row in measured
    ]
    checks = _checks(measured)
    failed = [cells for cells in checks.rows if cells[1] == "failed"]
    return render(
        "evidence/compare/comparison.html.jinja",
        f"{len(comparison.rows)} ways to publish {comparison.label}, compared",
        f"{comparison.people:,} people; {len(comparison.truth):,} questions about "
        f"{comparison.column}, the same for every candidate.",
        footer="Made by sfumato.",
        comparison=comparison,
        glance=untitled(COLUMNS, comparison.summary(), PERCENT, marks=marks),
        risk=_risk(measured),
        error_charts=_error_charts(comparison) if measured else [],
        held_by_candidate=[pair for pair in coverage if pair[1]],
        predictions=_predictions(measured),
        advantages=_advantages(measured),
        failed_checks=untitled(
            checks.columns, failed, marks=dict.fromkeys(range(len(failed)), "bad")
        ),
        skipped=sum(cells[1] == "skipped" for cells in checks.rows),
        checks=checks,
        candidates=_candidates(comparison.rows),
        shapes=[_shapes(number, row) for number, row in enumerate(measured)],
    )


def _classes(row: Row) -> list[dict[str, Any]]:
    classes: list[dict[str, Any]] = row.result["accuracy"]["by_count"]
    return classes


def _risk(measured: Sequence[Row]) -> Chart | None:
    points = [
        RiskPoint(row.name, row.strongest[1], row.error)
        for row in measured
        if row.strongest is not None and math.isfinite(row.error.value)
    ]
    if not points:
        return None
    least = measured[0].result["accuracy"]["median_relative_error"]["counts_from"]
    return risk_against_utility(
        points,
        f"median relative error of counts from {least:,} up",
        "Down is safer: the strongest attack learns less from a person's own record. Left "
        "is more useful: answers are closer to the truth. Bars are 95 % intervals.",
    )


def _error_charts(comparison: Comparison) -> list[Chart]:
    measured = comparison.measured
    points = [
        ErrorPoint(row.name, class_["count"], class_["mean"], class_["questions"])
        for row in measured
        for class_ in _classes(row)
    ]
    names = ("least", "most", "questions", "median", "mean", "covered")
    rows = [(row.name, *(class_[n] for n in names)) for row in measured for class_ in _classes(row)]
    errors: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in measured:
        for figure in row.result["accuracy"]["by_value"]:
            errors[figure["value"]][row.name] = figure["median_relative_error"]
    shares = ("median error", "mean error", "truth inside 95 %")
    columns = ("candidate", "true counts from", "to", "questions", *shares)
    return [
        error_by_count(points, "Mean relative error by class of true counts. Lower is better."),
        estimate_against_truth(
            {row.name: _pairs(comparison.truth, row) for row in measured},
            untitled(columns, rows, shares),
            "Every dot is a question; on the dashed line the answer is right. Answers far "
            f"below 0 lie outside. Up to {MOST_DOTS} questions a panel; report.json has all.",
        ),
        error_by_value(
            errors, f"Median relative error of the questions about each {comparison.column}."
        ),
    ]


def _pairs(truth: Sequence[int], row: Row) -> list[tuple[float, float]]:
    estimates = row.result["answers"]["estimates"]
    both = [(float(t), e) for t, e in zip(truth, estimates, strict=True) if t and e is not None]
    return both[:: max(1, math.ceil(len(both) / MOST_DOTS))]


def _predictions(measured: Sequence[Row]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for row in measured:
        foretold = row.result["predicted"] or {}
        error, predicted = foretold.get("measured"), foretold.get("mean_absolute_error")
        ratio = error / predicted if predicted and error is not None else None
        rows.append((row.name, error, predicted, ratio))
    return untitled(
        ("candidate", "measured", "predicted from the plan", "measured / predicted"),
        rows,
        note="Of ranges and sets nothing is predicted.",
    )


def _advantages(measured: Sequence[Row]) -> Chart | None:
    figures: defaultdict[str, dict[str, Figure]] = defaultdict(dict)
    for row in measured:
        for attacked in row.result["attacks"]:
            figures[attacked["attack"]][row.name] = Figure(**attacked["advantage"])
    if not figures:
        return None
    return attack_advantage(
        figures,
        "How much more often an attack is right than the same attack on a release without the "
        "person, with 95 % intervals. Around 0, a person's own record gives nothing away.",
    )


def _checks(measured: Sequence[Row]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = [
        (
            row.name,
            finding["result"],
            finding["title"],
            finding["value_text"] or None,
            finding["limit_text"] or None,
            ", ".join((finding["witness"] or "", *finding["listed"])).strip(", ") or None,
        )
        for row in measured
        for finding in row.result["audit"]["findings"]
    ]
    columns = ("candidate", "", "check", "measured", "limit", "where")
    return untitled(columns, rows, folded=f"All {len(rows):,} checks of the audits")


def _candidates(rows: Sequence[Row]) -> ResultTable:
    others = [name for name, guarantee in GUARANTEES.items() if not guarantee.limits_belief]
    columns: dict[str, list[Cell]] = {
        "candidate": [row.name for row in rows],
        "promise and mechanism": [str(row.candidate) for row in rows],
        "kind": [row.result.get("kind", "not published") for row in rows],
        "largest chance allowed": [row.ceiling for row in rows],
        "values not covered": [row.uncovered for row in rows],
        "records": [row.result.get("rows") for row in rows],
        "suppressed": [row.result.get("withheld") for row in rows],
    }
    return untitled(
        tuple(columns),
        list(zip(*columns.values(), strict=True)),
        ("largest chance allowed",),
        "The largest chance that the promise lets anybody reach about a value, among the values it "
        f"covers. {' and '.join(others)} promise about sums, not about chances.",
    )


def _shapes(number: int, row: Row) -> list[Chart]:
    """What a candidate's release looks like inside: buckets, or how wide ranges and sets are."""
    charts = []
    if row.result.get("sizes"):
        sizes = sorted((int(s["size"]), int(s["buckets"])) for s in row.result["sizes"])
        charts.append(bucket_sizes(sizes, row.name, name=f"buckets-{number}"))
    if penalty := row.result.get("penalty"):
        caption = (
            f"{row.name}. NCP of every quasi-identifier: 0 % is exact, 100 % the whole domain."
        )
        if penalty["least"] is not None:
            caption += (
                f" GCP is {penalty['gcp']:.4f}; no release of ranges and sets that keeps the "
                f"promise can be below {penalty['least']:.4f}."
            )
        charts.append(
            penalty_by_column(penalty["ncp"], penalty["gcp"], caption, name=f"penalty-{number}")
        )
    return charts
