"""`compare`: candidates published, asked, audited and attacked alike, on one page."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.columns import value_to_json
from sfumato.draws import Draws
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.evidence.compare.candidates import Candidate, listed, short_names
from sfumato.evidence.compare.comparison import Comparison, Row
from sfumato.evidence.compare.measure import WHOLE, Trial, run_trials
from sfumato.evidence.compare.pages import comparison_page
from sfumato.evidence.places import report_folder
from sfumato.guarantees import parse_guarantee
from sfumato.pages import write_whole
from sfumato.profile import Histogram
from sfumato.results import as_json
from sfumato.scratch import scratch_space
from sfumato.table import Table, as_table
from sfumato.table.sources import ParquetSource
from sfumato.workloads import CountQuestion, Workload, generate_workload, people_of, true_counts


def compare(
    table: Any,
    candidates: Sequence[Candidate | str],
    *,
    out: str | Path,
    workload: Workload | str = "conjunctions",
    questions: int = 1000,
    column: str | None = None,
    attacks: Sequence[str] | str = "all",
    targets: int | None = None,
    fresh: bool = True,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress = no_progress,
    **roles: Any,
) -> Comparison:
    """Publish, ask, audit and attack every candidate alike, and write one page about it.

    `table` comes from `read`, or is anything that `read` takes, with its roles. A candidate is
    `GUARANTEE by MECHANISM`, or a guarantee alone. `workload` is a kind of question (conjunctions,
    ranges, prefixes) or questions made before; they are about every sensitive column in equal
    parts, or about `column`, which alone is attacked then. `seed` decides questions, targets and
    ties; releases are made with fresh draws, in a private folder, and removed. `jobs` candidates
    run at once, as many as there are processors by default. A candidate that fails is a row with
    its reason. `out` then holds report.html, report.json and workload.sql; the page shows true
    counts and is for the steward.

    >>> import tempfile, pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 40, "ill": ["a", "b", "c", "d"] * 20})
    >>> found = compare(people, ["l-diversity(2)", "l-diversity(9)"], quasi="sex",
    ...                 sensitive="ill", out=tempfile.mkdtemp() + "/page", questions=20,
    ...                 attacks=[], jobs=1)
    >>> [(row.name, row.kept) for row in found.rows]
    [('l-diversity(2)', True), ('l-diversity(9)', None)]
    """
    table = one_row_each(as_table(table, roles), Draws.from_seed(seed))
    began = time.perf_counter()
    chosen = listed(candidates)
    if jobs is not None and jobs < 1:
        raise UsageError(f"'jobs' must be at least 1. Got {jobs} instead.")
    if column is not None and column not in table.sensitive:
        raise UsageError(
            f"{column!r} is not a sensitive column. Those are: {', '.join(table.sensitive)}."
        )
    columns = tuple(table.sensitive) if column is None else (column,)
    with report_folder(out) as folder, scratch_space() as work:
        progress("reading the table", 0, len(chosen) * WHOLE)
        shared = _shared(table, work)
        histograms = take_profile(shared).histograms
        people = people_of(shared)
        if isinstance(workload, str):
            by_column = [
                generate_workload(
                    people, workload, count=-(-questions // len(columns)), seed=seed, column=name
                )
                for name in columns
            ]
            asked = tuple(question for one in by_column for question in one.questions)
            workload = Workload(asked, by_column[0].source)
        several = len(columns) > 1
        alike: dict[str, Any] = {
            "table": shared,
            "workload": workload,
            "values": tuple(_label(question, several) for question in workload.questions),
            "truth": tuple(true_counts(workload, people).tolist()),
            "column": column,
            "attacks": (attacks,) if isinstance(attacks, str) else tuple(attacks),
            "targets": targets,
            "fresh": fresh,
            "seed": seed,
        }
        rows, names = people.rows, short_names(chosen)
        del people  # the workers need the memory
        trials = {}
        for number, (name, candidate) in enumerate(zip(names, chosen, strict=True)):
            (work / str(number)).mkdir(mode=0o700)
            trials[name] = Trial(candidate, work / str(number), **alike)
        results = run_trials(trials, at_once=jobs, rows=rows, progress=progress)
        comparison = Comparison(
            folder,
            table.label.rsplit("/", 1)[-1],
            rows,
            columns,
            workload.source,
            alike["truth"],
            [
                Row(name, c, results[name], *_ceiling(c, [histograms[n] for n in columns]))
                for name, c in zip(names, chosen, strict=True)
            ],
            time.perf_counter() - began,
        )
        progress("writing the report", len(chosen) * WHOLE, len(chosen) * WHOLE)
        workload.save(comparison.workload)
        text = json.dumps(as_json(comparison.to_json()), ensure_ascii=False, allow_nan=False)
        write_whole(comparison.data, text + "\n")
        write_whole(comparison.page, comparison_page(comparison))
    return comparison


def _label(question: CountQuestion, several: bool) -> str:
    """What a question asks for, as charts name it."""
    first = question.values[0]
    value = "(missing)" if first is None else str(value_to_json(first))
    return f"{question.column}: {value}" if several else value


def _shared(table: Table, folder: Path) -> Table:
    """The table as processes can share it.

    Parquet files are read where they are. Everything else is copied once, so that every candidate
    sees the same records, however slow or fickle the source.
    """
    if isinstance(table.source, ParquetSource):
        return table
    names = (*table.quasi, *table.sensitive, *([table.key] if table.key else []))
    schema = pa.schema([pa.field(name, table.type_of(name)) for name in names])
    path = folder / "table.parquet"
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        for batch in table.batches(names):
            plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch]
            writer.write_batch(pa.RecordBatch.from_arrays(plain, schema=schema))
    return replace(table, source=ParquetSource([path]), drop=())


def _ceiling(
    candidate: Candidate, histograms: Sequence[Histogram]
) -> tuple[float | None, int | None]:
    """The largest chance that the promise allows among the values it covers; those it does not."""
    promise = parse_guarantee(candidate.guarantee)
    ceilings = [ceiling for h in histograms for ceiling in promise.ceilings(h)]
    covered = [ceiling for ceiling in ceilings if ceiling < 1]
    return (float(max(covered)), len(ceilings) - len(covered)) if covered else (None, None)


__all__ = ["Candidate", "Comparison", "Row", "compare"]
