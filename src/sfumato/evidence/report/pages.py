"""The report as a page: figures, tables and charts for `report.html.jinja`, which has the words."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from sfumato.audits.catalogue import POSTERIOR
from sfumato.audits.findings import CheckResult, findings_table
from sfumato.columns import Column, domain_text
from sfumato.engines.exposure import shown_histogram
from sfumato.evidence.accuracy import LOW
from sfumato.evidence.penalty import release_penalty
from sfumato.evidence.report.discreet import QUESTIONS
from sfumato.evidence.report.evidence import SEEDS, Evidence, files_of, parameters_of
from sfumato.evidence.report.expected import YARDSTICK, ExpectedErrors
from sfumato.guarantees import parse_guarantee
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.pages import Chart, render
from sfumato.pages.charts import attack_advantage, error_by_count, error_by_value
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, GeneralizedRelease, Release
from sfumato.results import Cell, ResultTable, Tone, cell_text, untitled

MOST_CHECKS = 25  # in sight at once
MOST_VALUES = 40  # of a column's domain, in the dictionary


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
    attack_chart, adversaries = _attacks(evidence)
    measured = evidence.utility or ()
    covered = [
        share for u in measured for share in (u.covered, *(c["covered"] for c in u.by_count))
    ]
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
        audit_tables=_audit_tables(evidence),
        parameters=parameters_of(release),
        columns=untitled(
            ("column", "role", "kind", "type", "in the records", "recode", "values"),
            [_described(release, column) for column in release.columns],
        ),
        files=untitled(
            ("file", "bytes", "SHA-256"),
            [(name, entry.bytes, entry.sha256) for name, entry in files_of(release).items()],
            note="The release is the one that is reported on if these hashes agree.",
        ),
        inside=_inside(release),
    )


def _described(release: Release, column: Column) -> tuple[str, ...]:
    """A line of the data dictionary."""
    quasi, values = column.role == "quasi", domain_text(column.domain, MOST_VALUES)
    shown = ", ".join(release.shown_as(column)) if quasi else release.means(column)
    return column.name, column.role, column.kind, column.type, shown, column.recode, values


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
    title = f"Error of a count of {YARDSTICK}"
    reached = [
        (nearest[-1], utility)
        for utility in evidence.utility or ()
        if (nearest := [c for c in utility.by_count if c["from"] <= YARDSTICK])
    ]
    if reached:  # of the column that is worst off
        size, utility = max(reached, key=lambda pair: pair[0]["mean_relative_error"])
        least, most, asked, error, _ = size.values()
        sizes = f"from {least:,}" + (f" to {most:,}" if most else "")
        words = f"Mean relative error of the counts of {utility.column} {sizes}, {asked:,} "
        words += f"questions, measured{' in a rehearsal' if utility.rehearsed else ''}."
        near = most is None or most >= YARDSTICK
        return KeyFigure.of_share(title if near else f"Error of counts {sizes}", error, words)
    computed = [
        errors
        for errors in evidence.predicted
        if isinstance(errors, ExpectedErrors) and errors.by_value
    ]
    if not computed:
        return KeyFigure(title, "–", "It depends on the question: every answer has an error bar.")
    error, column, count = max(
        (median([*e.by_value.values()]), e.column, e.count) for e in computed
    )
    words = f"Median over the values of {column}, predicted from the release alone."
    return KeyFigure.of_share(f"Error of a count of {count:,}", error, words)


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
    if len(findings) <= MOST_CHECKS:
        return [findings_table(findings, note)] if findings else []
    folded = f"All {len(findings):,} checks, value by value"
    return [findings_table(notable, note), findings_table(findings, note, folded)]


def _inside(release: Release) -> list[ResultTable]:
    """What a release looks like inside: sizes of buckets, or how wide ranges and sets are."""
    if isinstance(release, BucketedRelease):
        sizes = sorted((size.size, size.buckets) for size in release.manifest.plan.sizes)
        return [untitled(("records in a bucket", "buckets"), sizes)]
    if not isinstance(release, GeneralizedRelease):
        return []
    penalty, head = release_penalty(release), ("quasi-identifier", "NCP")
    rows = [*penalty.columns.items(), ("all of them (GCP)", penalty.whole)]
    return [untitled(head, rows, head[1:], "0 % is an exact value, 100 % the whole domain.")]


def _attacks(evidence: Evidence) -> tuple[Chart, ResultTable] | tuple[None, None]:
    """What attacks gain as a chart, and who makes them and how often they are right."""
    if not evidence.attacks:
        return None, None
    several = len({a.column for a in evidence.attacks}) > 1
    by_attack = {f"{a.attack} on {a.column}" if several else a.attack: a for a in evidence.attacks}
    step = f"{max(a.rounded_to for a in evidence.attacks):.0%}"
    chart = attack_advantage(
        {"": {name: a.advantage for name, a in by_attack.items()}},
        "What each attack gains over the same attack on a release without the person (where "
        "that cannot be had: over the best guess without a release), with 95 % intervals. "
        f"Around 0 nothing is learned from a person's own record. In steps of {step}.",
    )
    standings = {"inside": "inside", "outside": "outside", "partly": "inside for some people"}
    columns = ("attack", "who it is", "the promise", "right", "from", "to", "without a release")
    rows = [
        (n, a.sentence, standings.get(a.standing or ""), *a.success.ends, a.prior)
        for n, a in by_attack.items()
    ]
    note = (
        "Ceilings hold for adversaries inside the promise. Others know more than it speaks of, and "
        f"may go beyond. Rounded to steps of {step}, intervals outwards, so that no count can be "
        f"read from them. The seed that chose the people attacked: {evidence.attack_seed}."
    )
    return chart, untitled(columns, rows, columns[3:], note)


def _error_charts(evidence: Evidence) -> list[Chart]:
    """Errors by the size of the count, predicted and measured, and by value."""
    measured = evidence.utility or ()
    computed = [errors for errors in evidence.predicted if isinstance(errors, ExpectedErrors)]
    names = {"median": "middle value", "best": "best value", "worst": "worst value"}
    rows: list[tuple[Cell, ...]] = [
        (f"{found.column}, predicted, {name}", sizes.count, None, getattr(sizes, which), None)
        for found in computed
        for which, name in names.items()
        for sizes in found.by_count
    ]
    caption = (
        "Relative error of a count by its size. Predicted from the release alone, for a "
        "condition that has nothing to do with the sensitive column."
    )
    for utility in measured:
        for least, most, asked, error, covered in map(dict.values, utility.by_count):
            middle = round((least * (most or 3 * least)) ** 0.5)
            rows.append((f"{utility.column}, measured", middle, asked, error, covered))
    if measured:
        caption += (
            f" Measured: means over at least {QUESTIONS} questions each of {measured[0].workload}, "
            "placed at the middle of their class; their conditions may hold for more people, "
            "which makes the error larger."
        )
        if measured[0].rehearsed:
            caption += (
                " Measured in a rehearsal: rows of the people were drawn again and published "
                "under the same settings, because nobody knows which rows were published."
            )
        held = [f"{u.covered:.0%} about {u.column}" for u in measured if u.covered is not None]
        if held:
            caption += f" The 95 % intervals held the truth in {', '.join(held)}; by size the table"
            caption += " has it."
    charts = []
    if rows:
        head = ("line", "size of the count", "questions", "relative error", "truth inside 95 %")
        points = [(str(line), float(n or 0), float(e or 0)) for line, n, _, e, _ in rows]
        charts.append(error_by_count(points, caption, untitled(head, rows, head[3:])))
    for found in computed:
        errors = {value: {"predicted": error} for value, error in found.by_value.items()}
        caption = (
            f"Predicted relative error of a count of {found.count:,} people with each "
            f"{found.column}, from the release alone."
        )
        charts.append(error_by_value(errors, caption, name=f"value-{found.column}"))
    return charts
