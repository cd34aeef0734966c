"""`compare`: candidates published, asked, audited and attacked alike, on one page."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.columns import value_to_json
from sfumato.draws import Draws
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.evidence.compare.candidates import (
    Candidate,
    listed,
    short_names,
    usual_candidates,
)
from sfumato.evidence.compare.comparison import Comparison, Row
from sfumato.evidence.compare.measure import WHOLE, Trial, measure
from sfumato.evidence.compare.pages import comparison_page
from sfumato.evidence.places import report_folder
from sfumato.guarantees import parse_guarantee
from sfumato.pace import part_of
from sfumato.pages import write_whole
from sfumato.profile import Histogram
from sfumato.results import as_json
from sfumato.table import as_table
from sfumato.workloads import CountQuestion, Workload, generate_workload, people_of, true_counts


def compare(
    table: Any,
    candidates: Sequence[Candidate | str] = (),
    *,
    out: str | Path,
    workload: Workload | None = None,
    questions: int = 1000,
    column: str | None = None,
    attacks: Sequence[str] | str = "all",
    targets: int | None = None,
    fresh: bool = True,
    seed: int = 0,
    progress: Progress = no_progress,
    **roles: Any,
) -> Comparison:
    """Publish, ask, audit and attack every candidate alike, and write one page about it.

    `table` comes from `read`, or is anything that `read` takes, with its roles. A candidate is
    `GUARANTEE by MECHANISM`, or a guarantee alone; four usual promises by default. `workload` are
    questions made before; by default `questions` are made, about every sensitive column in equal
    parts, or about `column`, which alone is attacked then. `seed` decides
    questions, targets and ties; releases are made with fresh draws, in a private folder, and
    removed. A candidate that fails is a row with its reason. `out` then holds report.html,
    report.json and workload.sql; the page shows true counts and is for the steward.

    >>> import tempfile, pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 40, "ill": ["a", "b", "c", "d"] * 20})
    >>> found = compare(people, ["l-diversity(2)", "l-diversity(9)"], quasi="sex",
    ...                 sensitive="ill", out=tempfile.mkdtemp() + "/page", questions=20,
    ...                 attacks=[])
    >>> [(row.name, row.kept) for row in found.rows]
    [('l-diversity(2)', True), ('l-diversity(9)', None)]
    """
    table = one_row_each(as_table(table, roles), Draws.from_seed(seed))
    began = time.perf_counter()
    chosen = listed(candidates or usual_candidates())
    if column is not None and column not in table.sensitive:
        raise UsageError(
            f"{column!r} is not a sensitive column. Those are: {', '.join(table.sensitive)}."
        )
    columns = tuple(table.sensitive) if column is None else (column,)
    whole = len(chosen) * WHOLE
    with report_folder(out) as folder:
        progress("reading the table", 0, whole)
        histograms = take_profile(table).histograms
        people = people_of(table)
        if workload is None:
            by_column = [
                generate_workload(
                    people, count=-(-questions // len(columns)), seed=seed, column=name
                )
                for name in columns
            ]
            asked = tuple(question for one in by_column for question in one.questions)
            workload = Workload(asked, by_column[0].source)
        labels = tuple(_label(question, len(columns) > 1) for question in workload.questions)
        truth, count = true_counts(workload, people), people.rows
        del people  # the candidates need the memory
        tried = (attacks,) if isinstance(attacks, str) else tuple(attacks)
        trial = Trial(table, workload, labels, truth, column, tried, targets, fresh, seed)
        rows = []
        for number, (name, candidate) in enumerate(zip(short_names(chosen), chosen, strict=True)):
            part = part_of(progress, number * WHOLE, WHOLE, whole)
            result = measure(
                trial, candidate, lambda stage, *done, n=name, p=part: p(f"{n}: {stage}", *done)
            )
            asked_about = [] if "failed" in result else [histograms[one] for one in columns]
            rows.append(Row(name, candidate, result, *_ceiling(candidate, asked_about)))
        comparison = Comparison(
            folder,
            table.label.rsplit("/", 1)[-1],
            count,
            columns,
            workload.source,
            truth.tolist(),
            rows,
            time.perf_counter() - began,
        )
        progress("writing the report", whole, whole)
        workload.save(comparison.workload)
        text = json.dumps(as_json(comparison.to_json()), ensure_ascii=False, allow_nan=False)
        write_whole(comparison.data, text + "\n")
        write_whole(comparison.page, comparison_page(comparison))
    return comparison


def _label(question: CountQuestion, several: bool) -> str:
    """What a question asks for, as charts name it."""
    asked = question.value
    value = "(missing)" if asked is None else str(value_to_json(asked))
    return f"{question.column}: {value}" if several else value


def _ceiling(
    candidate: Candidate, histograms: Sequence[Histogram]
) -> tuple[float | None, int | None]:
    """The largest chance that the promise allows among the values it covers; those it does not."""
    promise = parse_guarantee(candidate.guarantee)
    ceilings = [ceiling for h in histograms for ceiling in promise.ceilings(h)]
    covered = [ceiling for ceiling in ceilings if ceiling < 1]
    return (float(max(covered)), len(ceilings) - len(covered)) if covered else (None, None)


__all__ = ["Candidate", "Comparison", "compare"]
