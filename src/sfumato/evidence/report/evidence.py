"""Collect the evidence about a release, discreetly: see `discreet`."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from sfumato.attacks import attack, parse_attack
from sfumato.attacks.registry import ALL
from sfumato.audits import Finding, audit
from sfumato.audits.case import raw_table
from sfumato.audits.findings import joined
from sfumato.columns import in_json
from sfumato.draws import Draws
from sfumato.engines.exposure import Exposure, exposure_of
from sfumato.engines.person_rows import one_row_each
from sfumato.engines.publishing import publish
from sfumato.errors import SfumatoError
from sfumato.evidence.accuracy import EDGES, ClassError, measure_accuracy
from sfumato.evidence.report.discreet import (
    QUESTIONS,
    ShownAttack,
    shown_attack,
    shown_finding,
    two_digits,
)
from sfumato.evidence.report.expected import ExpectedErrors, expected_errors
from sfumato.guarantees import parse_guarantee
from sfumato.operators import Uniform
from sfumato.pace import Progress, part_of
from sfumato.release import Release
from sfumato.release.manifest import NAME, FileEntry
from sfumato.results import as_json
from sfumato.scratch import scratch_space
from sfumato.table import Table
from sfumato.version import __version__
from sfumato.workloads import (
    generate_workload,
    people_of,
    release_answers,
    true_counts,
)

Found = TypeVar("Found")
# how far the evidence is once each of its parts is there, in thousandths
_AUDITED, _ATTACKED, WHOLE = 250, 850, 1000

SEEDS = {
    "system": "Draws came from the operating system's randomness. Their key stands nowhere in the "
    "release; unless the steward keeps a receipt, it is gone, and nobody can repeat or undo them.",
    "key-file": "Draws follow the steward's key file and each person's key: a person is published "
    "alike each time. Whoever has the key file can undo the draws; keep it secret.",
    "seeded": "Draws came from a seed: whoever guesses it can undo them. This release protects "
    "nobody and is for experiments only.",
}


@dataclass(frozen=True)
class Utility:
    """Mean relative errors by class of true counts, each over many questions.

    `rehearsed` where rows of people were drawn again, and published, to measure them.
    """

    column: str
    rehearsed: bool
    workload: str
    covered: float | None
    by_count: tuple[dict[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything a report shows. What was measured with the table is None without one.

    `about` are names, the date and the SHA-256 of the manifest; `table` and `author` are the
    steward's words.
    """

    release: Release
    about: dict[str, str]
    formula: str
    predicted: tuple[ExpectedErrors | str, ...]
    exposure: Exposure  # told from the release alone
    findings: tuple[Finding, ...] | None = None
    headline: str | None = None
    attacks: tuple[ShownAttack, ...] | None = None
    attack_seed: int = 0
    utility: tuple[Utility, ...] | None = None  # by sensitive column
    problems: tuple[str, ...] = ()
    reasons: tuple[
        str, ...
    ] = ()  # of the problems, for the steward alone: they may name raw values
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether the audit found the promise kept; None where it could not look at everything."""
        return None if self.findings is None else joined(finding.holds for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        manifest, audited = self.release.manifest, None
        names = ("kind", "guarantee", "mechanism", "rows", "suppressed", "missing", "statement",
                 "does_not_protect", "caveats")  # fmt: skip
        measured = ("about", "formula", "exposure", "predicted", "attacks", "utility", "problems",
               "versions")  # fmt: skip
        if self.findings is not None:
            audited = {"holds": self.holds, "headline": self.headline, "findings": self.findings}
        described: dict[str, Any] = as_json(
            {
                "release": {
                    **{name: getattr(manifest, name) for name in names},
                    "columns": [
                        {name: getattr(column, name) for name in ("name", "role", "kind", "type")}
                        for column in manifest.columns
                    ],
                    "files": {name: file.sha256 for name, file in files_of(self.release).items()},
                    "parameters": dict(parameters_of(self.release)),
                },
                "randomness": {"origin": manifest.randomness, "policy": SEEDS[manifest.randomness]},
                "audit": audited,
                **{name: getattr(self, name) for name in measured},
            }
        )
        return described


def collect(
    release: Release,
    table: Any | None,
    about: dict[str, str],
    *,
    receipt: str | Path | None,
    attacks: str | Sequence[str],
    targets: int | None,
    questions: int,
    seed: int,
    progress: Progress,
) -> Evidence:
    """Look at the release and, where a table is given, measure with it."""
    manifest = release.manifest
    promise = parse_guarantee(manifest.guarantee)
    sensitive = [column.name for column in release.columns if column.role == "sensitive"]
    for text in [attacks] if isinstance(attacks, str) else attacks:
        if text != ALL:
            parse_attack(text)  # a misspelling is refused before anything takes long
    progress("reading the release", 0, WHOLE)
    expected = tuple(expected_errors(release, column) for column in sensitive)
    exposed = exposure_of(release)
    versions = {
        "sfumato, when published": manifest.sfumato,
        "sfumato, for this report": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "pyarrow", "duckdb")},
    }
    told = Evidence(release, about, promise.formula(), expected, exposed, versions=versions)
    if table is None:
        progress("done", WHOLE, WHOLE)
        return told
    declared = raw_table(table, release)
    reasons: dict[str, str] = {}
    auditing = part_of(progress, 0, _AUDITED, WHOLE)
    # not the table with the manifest's roles: what it was declared as is for the audit to ask
    verdict = audit(table, release, receipt=receipt, progress=auditing)
    findings = tuple(map(shown_finding, verdict.findings))
    attacking = part_of(progress, _AUDITED, _ATTACKED - _AUDITED, WHOLE)
    outcomes = _or_reason(
        lambda: attack(
            declared, release, attacks=attacks, targets=targets, seed=seed, progress=attacking
        ),
        "attacks",
        reasons,
    )
    asking = part_of(progress, _ATTACKED, WHOLE - _ATTACKED, WHOLE)
    utility = _or_reason(
        lambda: _measure(declared, release, sensitive, questions, seed, asking),
        "questions",
        reasons,
    )
    progress("done", WHOLE, WHOLE)
    return replace(
        told,
        findings=findings,
        headline=verdict.headline,
        attacks=None if outcomes is None else tuple(map(shown_attack, outcomes)),
        attack_seed=seed,
        utility=utility,
        problems=tuple(
            f"There are no figures on {what}: they could not be had." for what in reasons
        ),
        reasons=tuple(reasons.values()),
    )


def _or_reason(look: Callable[[], Found], what: str, reasons: dict[str, str]) -> Found | None:
    """Evidence that could not be had is named in the report; the rest stands."""
    try:
        return look()
    except SfumatoError as error:
        reasons[what] = f"No figures on {what}: {error.with_flags}"
        return None


def _measure(
    table: Table,
    release: Release,
    columns: Sequence[str],
    questions: int,
    seed: int,
    progress: Progress,
) -> tuple[Utility, ...]:
    """What answers about each column are worth; questions in equal parts."""
    count, measured = -(-questions // len(columns)), list[Utility]()
    with _asked_of(table, release) as (asked, shown):
        people = people_of(asked)
        for place, column in enumerate(columns):
            asking = part_of(progress, place * WHOLE, WHOLE, len(columns) * WHOLE)
            asking("asking", 0, count)
            workload = generate_workload(people, count=count, seed=seed, column=column)
            truth = true_counts(workload, people)
            answers = release_answers(workload, shown, progress=asking)
            accuracy = measure_accuracy(truth, answers, [""] * len(workload), people.rows)
            by_count = tuple(_discreet(one, people.rows) for one in accuracy.by_count
                             if one.questions >= QUESTIONS)  # fmt: skip
            covered = None if accuracy.covered is None else round(accuracy.covered, 2)
            rehearsed = shown is not release
            measured.append(Utility(column, rehearsed, workload.source, covered, by_count))
    return tuple(measured)


def _discreet(size_class: ClassError, people: int) -> dict[str, Any]:
    above = EDGES[EDGES.index(size_class.least) + 1]
    return {
        "from": size_class.least,
        "to": None if above > people else above - 1,
        "questions": size_class.questions,
        "mean_relative_error": two_digits(size_class.mean),
        "covered": None if size_class.covered is None else round(size_class.covered, 2),
    }


@contextmanager
def _asked_of(table: Table, release: Release) -> Iterator[tuple[Table, Release]]:
    """What questions are measured on: the table and its release, or a rehearsal of both.

    Which rows of people with several were published, nobody knows. So rows are drawn again, in
    private, and published under the same settings.
    """
    manifest = release.manifest
    if manifest.person is None or not manifest.suppressed:
        yield table, release
        return
    drawn = one_row_each(table, Draws.system())
    with scratch_space() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of was said when the release was made
        to = folder / "rehearsal"
        publish(
            drawn,
            manifest.guarantee,
            to=to,
            mechanism=manifest.mechanism,
            joint=manifest.joint,
            left_out=1,
        )
        yield drawn, Release(to, verify=False)


def files_of(release: Release) -> dict[str, FileEntry]:
    """Every file of the release with its hash, the manifest's own among them."""
    return {NAME: FileEntry.of(release.path / NAME), **release.manifest.files}


def parameters_of(release: Release) -> list[tuple[str, str]]:
    """The public parameters of the plan, in words."""
    parameters: list[tuple[str, str]] = []
    for name, value in in_json(release.plan).items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            shown = f"{value:,}" if isinstance(value, int) else str(value)
            parameters.append((name.replace("_", " "), shown))
    for column, operator in release.operators.items():
        text = f"{operator.form}, {operator.domain_size:,} values"
        if isinstance(operator, Uniform):
            text += f", each kept with probability {float(operator.retention):.4g}"
        if not operator.needs_counts:
            text += f", undoing the draws multiplies errors by up to {operator.condition():.3g}"
            with suppress(ZeroDivisionError):  # without an end
                epsilon = math.log(operator.amplification())
                text += f", {epsilon:.4g}-locally differentially private"
        parameters.append((f"operator of {column}", text))
    return parameters
