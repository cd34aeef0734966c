"""Rerun Figure 11 of "One-off Disclosure Control by Heterogeneous Generalization".

Naive Bayes against beta, with and without Laplace's correction, on the first 10,000 records of
CENSUS: generalized, bucketed and perturbed releases under the same ceilings, and
Laplace-answered counts at epsilon = ln(1 + beta) (a comparison, not an equivalence: errata H20).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from papers.coded import census, laplace_noise
from papers.steps import Claim, Found, Step, Verdict, reproduced
from papers.tables import Series
from sfumato.attacks.people import People, read_people
from sfumato.attacks.protocol import Outcome, judge
from sfumato.attacks.readers import NaiveBayes
from sfumato.attacks.running import attack, knowledge_of
from sfumato.attacks.views import View
from sfumato.draws import Draws
from sfumato.engines.publishing import publish
from sfumato.errors import SfumatoError, UsageError
from sfumato.operators.base import FloatArray
from sfumato.results import Cell, ResultTable
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

TITLE = "Naive Bayes against beta (Figure 11), rerun"

NOTES = (
    "Right guesses of all people, in percent, with Wilson's 95 % interval. 'uniform' keeps "
    "theta = 1 + beta, the same ceilings; its adversary uses unbiased estimates of the counts or, "
    "in a second line, the counts as they are shown. The paper's PrivBayes is among the peers of "
    "`python -m benchmarks.peers`, not here.",
    "epsilon = ln(1 + beta) puts differential privacy, a promise about inclusion, beside a promise "
    "about posteriors; they are not the same (errata H20).",
)


@dataclass(frozen=True)
class Point:
    """One attacked release."""

    method: str
    beta: int | None
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, eq=False)
class Made:
    """The table, and what was attacked of it: once for all panels."""

    table: pa.Table
    betas: tuple[int, ...]
    notes: list[str]

    @cached_property
    def points(self) -> list[Point]:
        return list(measure(self.table, self.betas, skipped=self.notes))

    def panel(self, form: int) -> tuple[list[ResultTable], list[Series]]:
        return [_panel(self.points, self.betas, form)], [_lines(self.points, form)]


def prepare(*, quick: bool, data_dir: Path | None) -> Made:
    """The first records of CENSUS; `quick` takes fewer, and fewer betas."""
    rows = 1_000 if quick else 10_000
    table, note = census(data_dir, rows)
    some = table.slice(0, rows).select([*QUASI, SENSITIVE])
    return Made(some, (1, 3, 5) if quick else BETAS, [f"{note} The first {some.num_rows:,}."])


def measure(table: pa.Table, betas: tuple[int, ...], *, skipped: list[str]) -> Iterator[Point]:
    """Publish and attack every method at every beta; what cannot be done goes to `skipped`."""
    declared, people = _declared(table)
    yield Point("raw table", None, tuple(attack(declared, None, attacks=FORMS, fresh=False)))
    steps = [(method, beta) for method in (*METHODS, "Laplace counts") for beta in betas]
    for method, beta in steps:
        if method == "Laplace counts":
            yield Point(method, beta, _noisy_counts(beta, declared, people))
        else:
            try:
                outcomes = _attacked(method, beta, table, declared)
            except SfumatoError as error:
                skipped.append(f"Skipped: {method} at beta = {beta}: {error}")
                continue
            yield Point(method, beta, outcomes[: len(FORMS)])
            if len(outcomes) > len(FORMS):
                yield Point(f"{method}, as shown", beta, outcomes[len(FORMS) :])


def _attacked(method: str, beta: int, table: pa.Table, declared: Table) -> tuple[Outcome, ...]:
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "release"
        promise = METHODS[method].format(beta=beta, theta=1 + beta)
        publish(declared, promise, to=to, mechanism=method, seed=beta)
        forms = FORMS if method != "uniform" else (*FORMS, *SHOWN_FORMS)
        return tuple(attack(table, to, attacks=forms, fresh=False))


def _declared(table: pa.Table) -> tuple[Table, People]:
    declared = read(
        table,
        quasi=QUASI,
        sensitive=SENSITIVE,
        numeric=NUMERIC,
        categorical=[name for name in (*QUASI, SENSITIVE) if name not in NUMERIC],
    )
    return declared, read_people(declared, SENSITIVE)


def _noisy_counts(beta: int, declared: Table, people: People) -> tuple[Outcome, ...]:
    """Attack Laplace-answered counts at epsilon = ln(1 + beta)."""
    draws = Draws.from_seed(beta)
    view = answered_counts(people, math.log1p(beta), draws)
    knowledge = knowledge_of(people, None, declared, view)
    return tuple(
        judge(form, people, people.prior, form.guess(knowledge, people, draws), None)
        for form in FORMS
    )


def _panel(points: list[Point], betas: tuple[int, ...], form: int) -> ResultTable:
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
    return ResultTable(
        names[form], titles[form], ("method", *[f"beta = {beta}" for beta in betas]), rows
    )


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


def _unaffected(found: Found) -> tuple[str, Verdict]:
    """Classic naive Bayes on heterogeneous releases, by beta."""
    shares = [y for _, y in found.lines("Figure 11(a)").get("heterogeneous", [])]
    text = f"{min(shares):.1f} to {max(shares):.1f} %"
    return text, reproduced(max(shares) - min(shares) < 3)


def _correction(found: Found) -> tuple[str, Verdict]:
    one, other = (
        [y for _, y in found.lines(f"Figure 11({panel})").get("heterogeneous", [])]
        for panel in "ab"
    )
    more = [b - a for a, b in zip(one, other, strict=True)]
    return f"{min(more):+.1f} to {max(more):+.1f} points", reproduced(max(more) < 3)


def _resistant(found: Found) -> tuple[str, Verdict]:
    lines = found.lines("Figure 11(b)")
    ours, theirs = (lines[name][-1][1] for name in ("heterogeneous", "burel"))
    return f"{ours:.1f} % against {theirs:.1f} % (burel)", reproduced(ours <= theirs)


STEPS = (
    Step(("Figure 11(a)",), lambda made: made.panel(0)),
    Step(("Figure 11(b)",), lambda made: made.panel(1)),
)
CLAIMS = (
    Claim("Figure 11(a)", "beta does not matter to heterogeneous releases", _unaffected),
    Claim("Figure 11(b)", "the correction adds not much for heterogeneous ones", _correction),
    Claim(
        "Figure 11(b)",
        "heterogeneous resists more than BuReL",
        _resistant,
        "see docs/audit-and-attack.md",
    ),
)


@dataclass(frozen=True, eq=False)
class CountsView(View):
    """No records, but answered counts: naive Bayes alone learns from them."""

    answered: list[FloatArray]
    prior: FloatArray
    values: int

    def tables(self, sizes: list[int], *, estimated: bool) -> list[FloatArray]:
        return self.answered

    def near(self, targets: People) -> NoReturn:
        raise TypeError("there are no records")

    evidence = weigh = near  # type: ignore[assignment]


def answered_counts(people: People, epsilon: float, draws: Draws) -> CountsView:
    """The tables that a naive Bayes classifier needs, with noise; negative answers become 0."""
    if not epsilon > 0:
        raise UsageError(f"'epsilon' must be above 0. Got {epsilon} instead.")
    scale = (len(people.codes) + 1) / epsilon
    tables = []
    for number, (codes, size) in enumerate(zip(people.codes, people.domains.sizes, strict=True)):
        flat = np.bincount(codes * people.values + people.truth, minlength=size * people.values)
        noise = laplace_noise(scale, flat.size, draws, f"laplace {number}")
        table = np.maximum(flat + noise, 0.0).reshape(size, people.values)
        table[-1] = 0.0  # the row of values that the table does not have is not asked for
        tables.append(table)
    totals = np.bincount(people.truth, minlength=people.values)
    noise = laplace_noise(scale, people.values, draws, "laplace totals")
    counts = np.maximum(totals + noise, 0.0)
    return CountsView(tables, counts / max(float(counts.sum()), 1e-300), people.values)
