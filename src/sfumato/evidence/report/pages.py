"""The report as a page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.audits.catalogue import POSTERIOR
from sfumato.evidence.compare.accuracy import LOW, held_by_class
from sfumato.evidence.report.discreet import QUESTIONS
from sfumato.evidence.report.evidence import SEEDS, Evidence, files_of, parameters_of
from sfumato.evidence.report.expected import SHARE, ExpectedErrors
from sfumato.evidence.report.shapes import shape_charts
from sfumato.pages import (
    Block,
    Bullets,
    Facts,
    Formula,
    Notice,
    Page,
    Paragraph,
    Section,
)
from sfumato.pages.charts import (
    ErrorPoint,
    attack_advantage,
    error_by_count,
    error_by_value,
)
from sfumato.results import Tone, untitled

MOST_CHECKS = 25  # in sight at once


def report_page(evidence: Evidence) -> Page:
    """What a steward shows to whoever asks how the people in a release are protected."""
    manifest = evidence.release.manifest
    return Page(
        "What this release promises, and how it was checked",
        f"{manifest.rows:,} records, published under {manifest.guarantee} by {manifest.mechanism}.",
        [
            Section("This report", [Facts(evidence.head.facts())]),
            _promise(evidence),
            _exposure(evidence),
            _published(evidence),
            _audit(evidence),
            _attacks(evidence),
            _utility(evidence),
            _making(evidence),
        ],
        _notices(evidence),
        "Made by sfumato. Nothing on this page tells about the raw table what the release does not "
        "tell: figures measured with it are coarse, and who is exposed is not named.",
    )


def _notices(evidence: Evidence) -> list[Notice]:
    found = []
    if evidence.headline is None:
        found.append(
            Notice(
                "Not audited: this report was made from the release alone. With the raw table, "
                "'sfumato report RELEASE --table TABLE' audits and attacks it."
            )
        )
    else:
        tones: dict[bool | None, Tone] = {True: "good", False: "bad", None: "plain"}
        found.append(Notice(f"Audit: {evidence.headline}", tones[evidence.holds]))
    if evidence.release.manifest.randomness == "seeded":
        found.append(Notice(SEEDS["seeded"], "bad"))
    found += [Notice(problem) for problem in evidence.problems]
    return found


def _promise(evidence: Evidence) -> Section:
    manifest = evidence.release.manifest
    blocks: list[Block] = [
        *(Paragraph(sentence) for sentence in manifest.statement),
        Formula(evidence.formula),
    ]
    if manifest.caveats:
        blocks += [Paragraph("Read beside it:"), Bullets(manifest.caveats)]
    blocks += [
        Paragraph("It does not protect against:"),
        Bullets(manifest.does_not_protect),
    ]
    return Section("The promise", blocks)


def _exposure(evidence: Evidence) -> Section:
    return Section(
        "Remaining exposure",
        [
            Paragraph("Told from the release alone, as anybody can who has it."),
            Bullets(tuple(str(evidence.exposure).splitlines())),
        ],
    )


def _published(evidence: Evidence) -> Section:
    release, manifest = evidence.release, evidence.release.manifest
    columns = untitled(
        ("column", "role", "kind", "type"),
        [(c.name, c.role, c.kind, c.type) for c in manifest.columns],
    )
    files = untitled(
        ("file", "bytes", "SHA-256"),
        [(name, entry.bytes, entry.sha256) for name, entry in files_of(release).items()],
        note="The release is the one that is reported on if these hashes agree.",
    )
    facts = Facts(
        [
            ("guarantee", manifest.guarantee),
            ("mechanism", manifest.mechanism),
            ("kind of release", manifest.kind),
            ("records", f"{manifest.rows:,} published, {manifest.suppressed:,} suppressed"),
            *parameters_of(release),
        ]
    )
    return Section("What was published", [facts, columns, files, *shape_charts(release)])


def _audit(evidence: Evidence) -> Section:
    if evidence.findings is None:
        return Section("Audit", [Paragraph("An audit needs the raw table; none was given.")])
    marks: dict[int, Tone] = {
        number: "bad" for number, each in enumerate(evidence.findings) if each.holds is False
    }
    rows = [
        (
            each.result.value,
            each.title,
            each.value_text() or None,
            each.limit_text() or None,
            each.where_text() or None,
        )
        for each in evidence.findings
    ]
    note = (
        "Where the draws are tested, the figure is a p-value, and only a very small one is an "
        "alarm. Checks without figures were made too; "
        "their figures tell about single values of the raw table, and 'sfumato audit' shows them "
        "to the steward."
    )
    columns = ("", "check", "measured", "limit", "where")
    table = untitled(columns, rows, note=note, marks=marks)
    if len(rows) <= MOST_CHECKS:
        return Section("Audit", [table])
    shown = [
        (row, each.holds is False)
        for row, each in zip(rows, evidence.findings, strict=True)
        if each.holds is False or each.check is not POSTERIOR  # which is made for every value
    ]
    failing: dict[int, Tone] = {k: "bad" for k, (_, fails) in enumerate(shown) if fails}
    return Section(
        "Audit",
        [
            untitled(columns, [row for row, _ in shown], marks=failing),
            replace(table, folded=f"All {len(rows):,} checks, value by value"),
        ],
    )


def _attacks(evidence: Evidence) -> Section:
    if evidence.attacks is None:
        text = "Attacks are judged by the raw table; none was given."
        return Section("Attacks", [Paragraph(text)] if not evidence.problems else [])
    blocks: list[Block] = []
    if evidence.attacks:
        several = len({a.column for a in evidence.attacks}) > 1
        by_attack = {
            f"{a.attack} on {a.column}" if several else a.attack: a for a in evidence.attacks
        }
        step = max(a.step for a in evidence.attacks)
        chart = attack_advantage(
            {"": {name: a.advantage for name, a in by_attack.items()}},
            "What each attack gains over the same attack on a release without the person (where "
            "that cannot be had: over the best guess without a release), with 95 % intervals. "
            f"Around 0 nothing is learned from a person's own record. In steps of {step:.0%}.",
            by="attack ",
        )
        rows = [
            (
                name,
                a.success.value,
                a.success.low,
                a.success.high,
                a.prior,
                a.advantage.value,
                a.advantage.low,
                a.advantage.high,
            )
            for name, a in by_attack.items()
        ]
        columns = (
            "attack",
            "right",
            "from",
            "to",
            "without a release",
            "advantage",
            "from ",
            "to ",
        )
        note = (
            f"Rounded to steps of {step:.0%}, intervals outwards, so that no count can be read "
            f"from them. The seed that chose the people attacked: {evidence.attack_seed}."
        )
        who = untitled(
            ("attack", "who it is", "the promise"),
            [(name, a.sentence, _standing(a.standing)) for name, a in by_attack.items()],
            note="Ceilings hold for adversaries inside the promise. Others know more than it "
            "speaks of, and may go beyond.",
        )
        blocks = [chart, who, untitled(columns, rows, frozenset(columns[1:]), note)]
    return Section("Attacks", blocks)


def _standing(standing: str | None) -> str | None:
    words = {"inside": "inside", "outside": "outside", "partly": "inside for some people"}
    return None if standing is None else words[standing]


def _utility(evidence: Evidence) -> Section:
    blocks: list[Block] = []
    short = evidence.utility is not None and [
        held
        for held in (evidence.utility.covered, *(each[-1] for each in evidence.utility.classes))
        if held is not None and held < LOW
    ]
    if short:
        blocks.append(
            Notice(
                f"Some 95 % intervals held the truth in only {min(short):.0%} of the questions: "
                "they promise more than they keep. The figures by size stand below.",
                "bad",
            )
        )
    points: list[ErrorPoint] = []
    for expected in evidence.expected:
        if isinstance(expected, str):
            blocks.append(Paragraph(expected))
            continue
        prefix = f"{expected.column}, " if len(evidence.expected) > 1 else ""
        for size, median, best, worst in expected.by_count:
            points.append(
                ErrorPoint(f"{prefix}predicted, middle value", size, float(f"{median:.3g}"))
            )
            points.append(
                ErrorPoint(f"{prefix}predicted, worst value", size, float(f"{worst:.3g}"))
            )
            points.append(ErrorPoint(f"{prefix}predicted, best value", size, float(f"{best:.3g}")))
    points.sort(key=lambda point: point.line)
    if evidence.utility is not None:
        for least, most, asked, error, _ in evidence.utility.classes:
            middle = (least * (most or 3 * least)) ** 0.5
            points.append(ErrorPoint("measured", round(middle), error, asked))
    if points:
        caption = (
            "Relative error of a count by its size. Predicted from the release alone, for a "
            f"condition that {SHARE} times as many people satisfy as are counted."
        )
        if evidence.utility is not None:
            covered = evidence.utility.covered
            caption += (
                f" Measured: means over at least {QUESTIONS} questions each of "
                f"{evidence.utility.source}, placed at the middle of their class; their conditions "
                "may hold for more people, which makes the error larger."
            )
            if evidence.utility.rehearsed:
                caption += (
                    " Measured in a rehearsal: rows of the people were drawn again and published "
                    "under the same settings, because nobody knows which rows were published."
                )
            if covered is not None:
                caption += f" The 95 % intervals held the truth in {covered:.0%} of the questions."
                caption += held_by_class(
                    [(least, most, held) for least, most, *_, held in evidence.utility.classes]
                )
        blocks.append(error_by_count(points, caption))
    blocks += [_by_value(each) for each in evidence.expected if isinstance(each, ExpectedErrors)]
    return Section("What answers are worth", blocks)


def _by_value(expected: ExpectedErrors) -> Block:
    errors = {
        value: {"predicted": float(f"{error:.3g}")}
        for value, error in zip(expected.values, expected.by_value, strict=True)
        if np.isfinite(error)
    }
    caption = (
        f"Predicted relative error of a count of {expected.size:,} people with each "
        f"{expected.column} among {SHARE * expected.size:,}, from the release alone."
    )
    return error_by_value(errors, caption, name=f"value-{expected.column}")


def _making(evidence: Evidence) -> Section:
    randomness = evidence.release.manifest.randomness
    facts = Facts([("randomness", randomness), *evidence.versions.items()])
    return Section("How it was made", [Paragraph(SEEDS[randomness]), facts])
