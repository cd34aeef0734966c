"""The report as a page: figures, tables and charts for `report.html.jinja`, which has the words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sfumato.audits.catalogue import POSTERIOR
from sfumato.audits.findings import CheckResult
from sfumato.engines.exposure import shown_histogram
from sfumato.evidence.compare.accuracy import LOW, held_by_class
from sfumato.evidence.report.discreet import QUESTIONS
from sfumato.evidence.report.evidence import SEEDS, Evidence, files_of, parameters_of
from sfumato.evidence.report.expected import YARDSTICK, ExpectedErrors
from sfumato.evidence.report.shapes import shape_charts
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.pages import Chart, render
from sfumato.pages.charts import ErrorPoint, attack_advantage, error_by_count, error_by_value
from sfumato.profile import Histogram
from sfumato.results import ResultTable, Tone, cell_text, untitled

MOST_CHECKS = 25  # in sight at once


@dataclass(frozen=True)
class KeyFigure:
    """One of the three figures of the first screen; `share` is drawn as a bar."""

    title: str
    text: str
    words: str
    share: float | None = None

    @classmethod
    def of_share(cls, title: str, share: float, words: str) -> KeyFigure:
        return cls(title, cell_text(share, percent=True), words, min(share, 1.0))


def report_page(evidence: Evidence) -> str:
    """What a steward shows to whoever asks how the people in a release are protected."""
    manifest, release = evidence.release.manifest, evidence.release
    tones: dict[bool | None, Tone] = {True: "good", False: "bad", None: "plain"}
    histograms = [charts for c in release.sensitive if (charts := shown_histogram(release, c))]
    promise = parse_guarantee(manifest.guarantee)
    quasi = [column.name for column in release.quasi]
    about = [text for h in histograms if (text := meaning_for_a_person(promise, h, quasi))]
    attack_chart, adversaries, successes = _attacks(evidence)
    utility = evidence.utility
    covered = (
        [] if utility is None else [utility.covered, *(c["covered"] for c in utility.by_count)]
    )
    least_covered = min((share for share in covered if share is not None), default=1.0)
    return render(
        "evidence/report/report.html.jinja",
        "What this release promises, and how it was checked",
        f"{manifest.rows:,} records, published under {manifest.guarantee} by {manifest.mechanism}.",
        footer="Made by sfumato. Nothing on this page tells about the raw table what the release "
        "does not tell: figures measured with it are coarse, and who is exposed is not named.",
        evidence=evidence,
        tone=tones[evidence.holds],
        meanings=about,
        figures=[_posterior(evidence, histograms), _usual_error(evidence), _exposed(evidence)],
        seeds=SEEDS,
        least_covered=least_covered if least_covered < LOW else None,
        error_charts=_error_charts(evidence),
        attack_chart=attack_chart,
        adversaries=adversaries,
        successes=successes,
        audit_tables=_audit_tables(evidence),
        parameters=parameters_of(release),
        columns=untitled(
            ("column", "role", "kind", "type"),
            [(c.name, c.role, c.kind, c.type) for c in manifest.columns],
        ),
        files=untitled(
            ("file", "bytes", "SHA-256"),
            [(name, entry.bytes, entry.sha256) for name, entry in files_of(release).items()],
            note="The release is the one that is reported on if these hashes agree.",
        ),
        shapes=shape_charts(release),
    )


def _posterior(evidence: Evidence, histograms: list[Histogram]) -> KeyFigure:
    """The largest chance that a reader inside the promise may reach, where the release tells it."""
    title = "Largest posterior"
    promise = parse_guarantee(evidence.release.manifest.guarantee)
    if not promise.limits_belief:
        return KeyFigure(title, "–", "This promise limits sums over few people, not chances.")
    reached = [
        float(finding.value)
        for finding in evidence.findings or ()
        if finding.check is POSTERIOR
        and finding.result is not CheckResult.INFO
        and finding.limit is not None
        and not isinstance(finding.value, str | None)
    ]
    if reached:
        words = "The largest posterior of one person's value for anybody the promise speaks of, "
        return KeyFigure.of_share(title, max(reached), words + "as the audit measured it.")
    ceilings = [
        float(ceiling)
        for histogram in histograms or _without_counts(evidence)
        for ceiling, count in zip(promise.ceilings(histogram), histogram.counts, strict=True)
        if 0 < ceiling < 1 and (count or not histograms)
    ]
    if not ceilings:
        words = "The limit differs by value and follows counts that the release hides."
        return KeyFigure(title, "–", words)
    words = "The promise allows nobody it speaks of a larger posterior of a value that it covers."
    return KeyFigure.of_share(title, max(ceilings), words)


def _without_counts(evidence: Evidence) -> list[Histogram]:
    domains = [(c, evidence.release.domain(c.name)) for c in evidence.release.sensitive]
    return [
        Histogram(column.name, tuple(domain.to_pylist()), np.zeros(len(domain), np.int64))
        for column, domain in domains
    ]


def _usual_error(evidence: Evidence) -> KeyFigure:
    """How far a count of some 500 is off: as measured, or else as predicted."""
    title, utility = f"Error of a count of {YARDSTICK}", evidence.utility
    reached = [c for c in utility.by_count if c["from"] <= YARDSTICK] if utility else []
    if utility is not None and reached:
        least, most, asked, error, _ = reached[-1].values()
        sizes = f"from {least:,}" + (f" to {most:,}" if most else "")
        words = f"Mean relative error of the counts {sizes}, {asked:,} questions, measured"
        words += " in a rehearsal." if utility.rehearsed else "."
        near = most is None or most >= YARDSTICK
        return KeyFigure.of_share(title if near else f"Error of counts {sizes}", error, words)
    computed = [
        errors
        for errors in evidence.expected
        if isinstance(errors, ExpectedErrors) and np.isfinite(errors.by_value).any()
    ]
    if not computed:
        return KeyFigure(title, "–", "It depends on the question: every answer has an error bar.")
    worst = max(computed, key=lambda found: float(np.nanmedian(found.by_value)))
    return KeyFigure.of_share(
        f"Error of a count of {worst.size:,}",
        float(np.nanmedian(worst.by_value)),
        f"Median over the values of {worst.column}, predicted from the release alone.",
    )


def _exposed(evidence: Evidence) -> KeyFigure:
    """The worst of what the release shows although the promise holds."""
    title, exposure = "Remaining exposure", evidence.exposure
    shown = sum(column.shown_as_it_is or 0 for column in exposure.columns)
    outside = sum(column.without_promise or 0 for column in exposure.columns)
    about = ((shown, "people are shown with their value as it is."),
             (outside, "people have a value about which nothing is promised."))  # fmt: skip
    for people, words in about:
        if people:
            return KeyFigure(title, f"{people:,}", words, people / max(exposure.rows, 1))
    if exposure.alone:
        share = exposure.alone / max(exposure.rows, 1)
        words = "of the rows are alone with their quasi-identifiers: whoever knows these of a "
        return KeyFigure.of_share(title, share, words + "person finds the row, not the value.")
    return KeyFigure(title, "0", "people are shown with their value or alone in their columns.")


def _audit_tables(evidence: Evidence) -> list[ResultTable]:
    """The checks; those that are made for every value are folded away where there are many."""
    findings = evidence.findings or ()
    notable = [f for f in findings if f.holds is False or f.check is not POSTERIOR]
    note = (
        "Where the draws are tested, the figure is a p-value, and only a very small one is an "
        "alarm. Checks without figures were made too; "
        "their figures tell about single values of the raw table, and 'sfumato audit' shows them "
        "to the steward."
    )
    tables = []
    for chosen in (notable, findings) if len(findings) > MOST_CHECKS else (findings,):
        rows = [
            (
                finding.result.value,
                finding.title,
                finding.value_text() or None,
                finding.limit_text() or None,
                finding.where_text() or None,
            )
            for finding in chosen
        ]
        marks: dict[int, Tone] = {k: "bad" for k, f in enumerate(chosen) if f.holds is False}
        columns = ("", "check", "measured", "limit", "where")
        tables.append(untitled(columns, rows, note=note, marks=marks))
    if len(tables) > 1:
        tables[1] = replace(tables[1], folded=f"All {len(findings):,} checks, value by value")
    return tables if findings else []


def _attacks(evidence: Evidence) -> tuple[Chart, ResultTable, ResultTable] | tuple[None, ...]:
    """What attacks gain as a chart, who makes them, and how often they are right."""
    if not evidence.attacks:
        return None, None, None
    several = len({a.column for a in evidence.attacks}) > 1
    by_attack = {f"{a.attack} on {a.column}" if several else a.attack: a for a in evidence.attacks}
    step = f"{max(a.rounded_to for a in evidence.attacks):.0%}"
    chart = attack_advantage(
        {"": {name: a.advantage for name, a in by_attack.items()}},
        "What each attack gains over the same attack on a release without the person (where "
        "that cannot be had: over the best guess without a release), with 95 % intervals. "
        f"Around 0 nothing is learned from a person's own record. In steps of {step}.",
        by="attack ",
    )
    standings = {"inside": "inside", "outside": "outside", "partly": "inside for some people"}
    adversaries = untitled(
        ("attack", "who it is", "the promise"),
        [(n, a.sentence, standings.get(a.standing or "")) for n, a in by_attack.items()],
        note="Ceilings hold for adversaries inside the promise. Others know more than it "
        "speaks of, and may go beyond.",
    )
    columns = ("attack", "right", "from", "to", "without a release", "advantage", "from ", "to ")
    figures = [
        (n, a.success.value, a.success.low, a.success.high, a.prior, *a.advantage.ends)
        for n, a in by_attack.items()
    ]
    note = (
        f"Rounded to steps of {step}, intervals outwards, so that no count can be read "
        f"from them. The seed that chose the people attacked: {evidence.attack_seed}."
    )
    return chart, adversaries, untitled(columns, figures, columns[1:], note)


def _error_charts(evidence: Evidence) -> list[Chart]:
    """Errors by the size of the count, predicted and measured, and by value."""
    utility = evidence.utility
    computed = [errors for errors in evidence.expected if isinstance(errors, ExpectedErrors)]
    points = [
        ErrorPoint(f"{prefix}predicted, {which} value", size, float(f"{error:.3g}"))
        for found in computed
        for prefix in [f"{found.column}, " if len(evidence.expected) > 1 else ""]
        for index, which in enumerate(("middle", "best", "worst"))
        for size, *errors in found.by_count
        for error in [errors[index]]
    ]
    caption = (
        "Relative error of a count by its size. Predicted from the release alone, for a "
        "condition that has nothing to do with the sensitive column."
    )
    if utility is not None:
        for least, most, asked, error, _ in map(dict.values, utility.by_count):
            middle = (least * (most or 3 * least)) ** 0.5
            points.append(ErrorPoint("measured", round(middle), error, asked))
        caption += (
            f" Measured: means over at least {QUESTIONS} questions each of {utility.workload}, "
            "placed at the middle of their class; their conditions may hold for more people, "
            "which makes the error larger."
        )
        if utility.rehearsed:
            caption += (
                " Measured in a rehearsal: rows of the people were drawn again and published "
                "under the same settings, because nobody knows which rows were published."
            )
        if utility.covered is not None:
            caption += f" The 95 % intervals held the truth in {utility.covered:.0%} of the "
            caption += "questions." + held_by_class(
                [(c["from"], c["to"], c["covered"]) for c in utility.by_count]
            )
    charts = [error_by_count(points, caption)] if points else []
    for found in computed:
        errors = {
            value: {"predicted": float(f"{error:.3g}")}
            for value, error in zip(found.values, found.by_value, strict=True)
            if np.isfinite(error)
        }
        caption = (
            f"Predicted relative error of a count of {found.size:,} people with each "
            f"{found.column}, from the release alone."
        )
        charts.append(error_by_value(errors, caption, name=f"value-{found.column}"))
    return charts
