"""Rerun Figure 11 of "One-off Disclosure Control by Heterogeneous Generalization".

Naive Bayes against beta, with and without Laplace's correction, on the first 10,000 records of
CENSUS: generalized, bucketed and perturbed releases under the same ceilings, and PrivBayes and
Laplace-answered counts at epsilon = ln(1 + beta) (a comparison, not an equivalence: errata H20).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from papers import Progress
from papers.noisy_counts import answered_counts
from papers.privbayes import PYTHON, available, epsilon_for, privbayes
from sfumato import datasets
from sfumato.attacks.naive_bayes import NaiveBayes
from sfumato.attacks.people import People, read_people
from sfumato.attacks.protocol import Knowledge, Outcome, judge
from sfumato.attacks.running import attack, knowledge_of
from sfumato.attacks.views import View, records_view
from sfumato.draws import Draws
from sfumato.engines.publishing import publish
from sfumato.errors import SfumatoError
from sfumato.mechanisms import MECHANISMS
from sfumato.pages.tables import Cell, ReportTable, Reproduction, Series
from sfumato.table import Table, read

QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
NUMERIC = ("age", "education")
SENSITIVE = "occupation"
BETAS = (1, 2, 3, 4, 5)
# mechanism -> the promise with the ceilings of beta-likeness
METHODS = {
    "heterogeneous": "beta-likeness({beta})",
    "burel": "beta-likeness({beta})",
    "optimal": "beta-likeness({beta})",
    "uniform": "fine-rho-privacy(theta={theta})",
}
FORMS = (NaiveBayes(alpha=0), NaiveBayes(alpha=1))
SHOWN_FORMS = (NaiveBayes(alpha=0, counts="published"), NaiveBayes(alpha=1, counts="published"))
PRIVBAYES_FORMS = (NaiveBayes(alpha=0, delta=0.1), NaiveBayes(alpha=1, delta=0.0495))

NOTES = (
    "Right guesses of all people, in percent, with Wilson's 95 % interval. 'uniform' keeps "
    "theta = 1 + beta, the same ceilings; its adversary uses unbiased estimates of the counts or, "
    "in a second line, the counts as they are shown. PrivBayes: networks of degree 1, the paper's "
    "deltas.",
    "'without the person': the same attack on releases of fresh tables that do not have the "
    "person. An attack that is as good without the person has learned a rule about everybody.",
    "epsilon = ln(1 + beta) puts differential privacy, a promise about inclusion, beside a promise "
    "about posteriors; they are not the same (errata H20).",
)


@dataclass(frozen=True)
class Point:
    """One attacked release."""

    method: str
    beta: int | None
    outcomes: tuple[Outcome, ...]


def run(*, quick: bool, data_dir: Path | None, progress: Progress) -> Reproduction:
    """Both panels with intervals, and what is left without the person at beta = 3."""
    table, notes = _census(data_dir, 2_000 if quick else 10_000)
    betas = (1, 3, 5) if quick else BETAS
    points = list(measure(table, betas, fresh_at=3, progress=progress, skipped=notes))
    progress("done", 1.0)
    return Reproduction(
        "attacks",
        "Naive Bayes against beta (Figure 11), rerun",
        [_panel(points, betas, k) for k in (0, 1)] + [_without(points)],
        [_lines(points, k) for k in (0, 1)],
        (*NOTES, *notes),
    )


def measure(
    table: pa.Table,
    betas: tuple[int, ...],
    *,
    fresh_at: int | None,
    progress: Progress,
    skipped: list[str],
) -> Iterator[Point]:
    """Publish and attack every method at every beta; what cannot be done goes to `skipped`."""
    declared = read(
        table,
        quasi=QUASI,
        sensitive=SENSITIVE,
        numeric=NUMERIC,
        categorical=[name for name in (*QUASI, SENSITIVE) if name not in NUMERIC],
    )
    people = read_people(declared, SENSITIVE)
    yield Point("raw table", None, tuple(attack(declared, None, attacks=FORMS, fresh=False)))
    peers = ["Laplace counts"]
    if available():
        peers.append("PrivBayes")
    else:
        skipped.append(
            f"Skipped: PrivBayes, because {PYTHON} names no Python with DataSynthesizer."
        )
    steps = [(method, beta) for method in (*METHODS, *peers) for beta in betas]
    for number, (method, beta) in enumerate(steps):
        progress(f"{method}, beta = {beta}", number / len(steps))
        if method in peers:
            yield Point(method, beta, _peer(method, beta, table, declared, people))
        elif method not in MECHANISMS:
            if beta == betas[0]:
                skipped.append(f"Skipped: {method}, which this version does not have.")
        else:
            try:
                outcomes = _attacked(method, beta, table, declared, fresh=beta == fresh_at)
            except SfumatoError as error:
                skipped.append(f"Skipped: {method} at beta = {beta}: {error}")
                continue
            yield Point(method, beta, outcomes[: len(FORMS)])
            if len(outcomes) > len(FORMS):
                yield Point(f"{method}, as shown", beta, outcomes[len(FORMS) :])


def _attacked(
    method: str, beta: int, table: pa.Table, declared: Table, fresh: bool
) -> tuple[Outcome, ...]:
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "release"
        promise = METHODS[method].format(beta=beta, theta=1 + beta)
        publish(declared, promise, to=to, mechanism=method, seed=beta)
        forms = FORMS if method != "uniform" else (*FORMS, *SHOWN_FORMS)
        return tuple(attack(table, to, attacks=forms, fresh=fresh))


def _peer(
    method: str, beta: int, table: pa.Table, declared: Table, people: People
) -> tuple[Outcome, ...]:
    """Attack Laplace-answered counts or PrivBayes's records."""
    epsilon, draws = epsilon_for(beta), Draws.from_seed(beta)
    view: View
    if method == "Laplace counts":
        view, forms = answered_counts(people, epsilon, draws), FORMS
    else:
        values = pa.array(sorted(table.column(SENSITIVE).unique().to_pylist()))
        made = privbayes(table, epsilon, degree=1, seed=beta)
        values = values.cast(table.schema.field(SENSITIVE).type)
        view, forms = records_view(made, people, values), PRIVBAYES_FORMS
    numeric = knowledge_of(people, None, declared).numeric
    knowledge = Knowledge(view, people, numeric)
    return tuple(
        judge(form, people, people.prior, form.guess(knowledge, people, draws), None)
        for form in forms
    )


def _panel(points: list[Point], betas: tuple[int, ...], form: int) -> ReportTable:
    methods = list(dict.fromkeys(point.method for point in points))
    found = {(point.method, point.beta): point.outcomes[form] for point in points}
    rows: list[tuple[Cell, ...]] = []
    for method in methods:
        cells = [_text(found.get((method, beta)) or found.get((method, None))) for beta in betas]
        rows.append((method, *cells))
    prior = points[0].outcomes[form].prior
    rows.append(("best guess without a release", *[f"{100 * prior:.1f}" for _ in betas]))
    names = ("Figure 11(a)", "Figure 11(b)")
    titles = ("Classic naive Bayes, alpha = 0", "With Laplace's correction, alpha = 1")
    return ReportTable(
        names[form], titles[form], ("method", *[f"beta = {beta}" for beta in betas]), rows
    )


def _without(points: list[Point]) -> ReportTable:
    rows: list[tuple[Cell, ...]] = []
    for point in points:
        for outcome in point.outcomes:
            if outcome.fresh is not None and outcome.over_fresh is not None:
                difference = outcome.over_fresh
                rows.append(
                    (
                        point.method,
                        outcome.attack,
                        _text(outcome),
                        f"{100 * outcome.fresh.value:.1f}",
                        f"{100 * difference.value:.1f} ({100 * difference.low:.1f} … "
                        f"{100 * difference.high:.1f})",
                    )
                )
    columns = ("method", "attack", "right", "without the person", "difference")
    return ReportTable("Own records", "The same attack without the person, beta = 3", columns, rows)


def _lines(points: list[Point], form: int) -> Series:
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        if point.beta is not None:
            share = 100 * point.outcomes[form].success.value
            lines.setdefault(point.method, []).append((float(point.beta), share))
    prior = 100 * points[0].outcomes[form].prior
    lines["no release"] = [(float(b), prior) for b in sorted({p.beta for p in points if p.beta})]
    title = ("Classic naive Bayes", "With Laplace's correction")[form]
    return Series(f"Figure 11({'ab'[form]})", title, "beta", "right guesses, %", lines)


def _text(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    share = outcome.success
    return f"{100 * share.value:.1f} ({100 * share.low:.1f} … {100 * share.high:.1f})"


def _census(data_dir: Path | None, rows: int) -> tuple[pa.Table, list[str]]:
    path = data_dir / "occ100k.parquet" if data_dir else None
    if path is not None and path.is_file():
        table = datasets.read_census(path).slice(0, rows)
        return table, [f"CENSUS, the first {table.num_rows:,} records."]
    generated = datasets.census(rows, seed=1).select([*QUASI, SENSITIVE])
    return generated, [f"{rows:,} generated CENSUS-like records stand in for CENSUS."]
