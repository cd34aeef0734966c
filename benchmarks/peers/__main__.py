"""sfumato beside MST, PrivBayes, Mondrian, full-domain generalization and Anatomy.

    SFUMATO_DATA=… SFUMATO_DPMM_PYTHON=… python -m benchmarks.peers [census] [adult] [--write]
        [--rows 5000] [--questions 120] [--targets 5000] [--only MST]

All publish the same records, are asked the same counts and attacked by the same readers. MST and
PrivBayes are skipped by name where the variable names no Python with dpmm. `--only` takes the
publications whose names have that text. `--write` puts the tables into benchmarks/RESULTS.md and
docs/peers.md, and draws docs/peers.svg.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa

import sfumato as sf
from benchmarks.measure import markdown, own_cpu, write_between
from benchmarks.peers.chart import CHART, PAGE, points, svg
from benchmarks.peers.homogeneous import FullDomain, Mondrian
from benchmarks.peers.questions import Accuracy, Asked, ask_records, ask_release
from benchmarks.peers.risk import Risk, risk_of_records, risk_of_release
from benchmarks.peers.synthetic import DPMM, Synthesizer, domains_of
from benchmarks.peers.tables import NAMES, declared, records
from sfumato.errors import SfumatoError
from sfumato.mechanisms import MECHANISMS
from sfumato.workloads import size_classes

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
OURS = (
    ("l-diversity(5)", "local"),
    ("l-diversity(5)", "optimal"),
    ("beta-likeness(3)", "optimal"),
    ("rho-privacy(0.08, 1/3)", "uniform"),
    ("rho-privacy(0.08, 1/3)", "partitioned"),
    ("small-sum(groups=5)", "splu"),
    ("l-diversity(5)", "heterogeneous"),
)
THEIRS = (
    ("l-diversity(5)", "anatomy"),
    ("l-diversity(5)", Mondrian.name),
    ("l-diversity(5)", FullDomain.name),
)
SYNTHETIC = (("MST", 1.0), ("PrivBayes", 1.0))
BRIEF = (
    "publication",
    "counts of 11 and more, 1 condition",
    "2 conditions",
    "3 conditions",
    "ranges, 3 columns",
    "intervals hold",
    "best attack right",
    "without the person",
    "own record",
    "CPU s",
)


@dataclass(frozen=True)
class Line:
    """One publication."""

    title: str
    accuracy: Accuracy
    risk: Risk
    seconds: float


def measured(table: pa.Table, questions: int, targets: int, only: str = "") -> Iterator[Line | str]:
    """Line by line, of those whose names have a text; a text where a program was not run."""
    people = declared(table)
    asked = Asked.of(people, questions)
    # an attack publishes tables without the person, by the name of the mechanism
    with mock.patch.dict(MECHANISMS, {cls.name: cls for cls in (Mondrian, FullDomain)}):
        for promise, mechanism in (*OURS, *THEIRS):
            if only not in f"{promise} by {mechanism}":
                continue
            try:
                yield _released(people, asked, promise, mechanism, targets)
            except SfumatoError as error:
                yield f"{promise} by {mechanism}: {error}"
    for model, epsilon in SYNTHETIC:
        synthesizer = Synthesizer(model, epsilon, domains_of(table))
        if only not in synthesizer.title:
            continue
        if not DPMM.available():
            yield f"{synthesizer.title}: {DPMM.missing}."
            continue
        try:
            yield _synthesized(people, table, asked, synthesizer, targets)
        except SfumatoError as error:
            yield f"{synthesizer.title}: {error}"


def _released(people: sf.Table, asked: Asked, promise: str, mechanism: str, targets: int) -> Line:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place, began = Path(folder) / "release", own_cpu()
        sf.publish(people, promise, to=place, mechanism=mechanism, seed=1)
        seconds = own_cpu() - began
        accuracy = Accuracy.of(asked, ask_release(asked, place))
        risk = risk_of_release(people, place, targets)
    return Line(f"`{promise}`, {mechanism}", accuracy, risk, seconds)


def _synthesized(
    people: sf.Table, table: pa.Table, asked: Asked, synthesizer: Synthesizer, targets: int
) -> Line:
    made = synthesizer(table)
    accuracy = Accuracy.of(asked, ask_records(asked, made))
    risk = risk_of_records(people, made, synthesizer, targets)
    return Line(synthesizer.title, accuracy, risk, synthesizer.seconds[0])


def brief(lines: list[Line]) -> str:
    """The table of the documents, from which the chart is drawn."""
    rows = []
    for line in lines:
        accuracy, risk = line.accuracy, line.risk
        rows.append(
            (
                line.title,
                *map(_percent, accuracy.by_conditions),
                _percent(accuracy.ranges[2]),
                _percent(accuracy.held),
                f"{_percent(risk.right)} ({risk.attack})",
                _percent(risk.without),
                _percent(risk.own[1]),
                f"{line.seconds:.1f}",
            )
        )
    return markdown(BRIEF, rows)


def whole(title: str, rows: int, lines: list[Line]) -> str:
    """Everything that was measured of one table."""
    small, middle, large = size_classes(rows)
    columns = len(lines[0].accuracy.ranges)
    errors = markdown(
        (
            "publication",
            *(f"{each.least:,} to {each.most:,}" for each in (small, middle)),
            f"{large.least:,} and more",
            *("1 condition", "2 conditions", "3 conditions"),
            *(f"ranges over {number}" for number in range(1, columns + 1)),
            "intervals hold",
        ),
        [
            (
                line.title,
                *map(_percent, line.accuracy.by_class),
                *map(_percent, line.accuracy.by_conditions),
                *map(_percent, line.accuracy.ranges),
                _percent(line.accuracy.held),
            )
            for line in lines
        ],
    )
    guesses = markdown(
        (
            *("publication", "best attack of who has it alone", "right", "without the person"),
            *("own record (95 %)", "links of others alone", "with the publication", "CPU s"),
        ),
        [
            (
                line.title,
                line.risk.attack,
                _percent(line.risk.right),
                _percent(line.risk.without),
                f"{_percent(line.risk.own[1])} ({_percent(line.risk.own[0])} … "
                f"{_percent(line.risk.own[2])})",
                _percent(line.risk.links),
                _percent(line.risk.links_and_release),
                f"{line.seconds:.1f}",
            )
            for line in lines
        ],
    )
    prior = _percent(lines[0].risk.prior)
    return (
        f"### {title}: errors in percent\n\n{errors}\n\n### {title}: right guesses in percent\n\n"
        f"The commonest value has {prior}.\n\n{guesses}"
    )


def _percent(share: float | None) -> str:
    return "–" if share is None or share != share else f"{100 * share:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--targets", type=int, default=5_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name in given.names:
        title, table = records(name, given.rows)
        lines, skipped = [], []
        for found in measured(table, given.questions, given.targets, given.only):
            if isinstance(found, str):
                skipped.append(f"Skipped: {found}")
                print(skipped[-1], flush=True)
            else:
                lines.append(found)
                print(brief([found]).splitlines()[-1], flush=True)
        told = "\n\n".join([whole(title, len(table), lines), *skipped])
        print(f"\n{told}\n", flush=True)
        if given.write:
            marks = (f"<!-- peers on {name} -->", f"<!-- end of {name} -->")
            write_between(RESULTS, marks, told)
            write_between(PAGE, marks, brief(lines))
            CHART.write_text(svg(points(PAGE.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
