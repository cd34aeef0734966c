"""Rerun "On the Utility of Randomization Approaches …": Chapters 4 and 5 of the thesis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from papers import Progress
from papers.perturbation import chapter4, chapter5
from papers.perturbation.data import Setting, load
from sfumato.pages.tables import ReportTable, Reproduction, Series

Outcome = tuple[list[ReportTable], list[Series]]
TITLE = "On the Utility of Randomization Approaches for Privacy Preserving Data Publishing, rerun"

NOTES = (
    "Corrections to the thesis are those of errata T1 to T18: privacy is promised as 'at most' "
    "(T1); the uniform row of Table 3 takes rho1 as the largest share (T3); the partitioned row "
    "is the unweighted mean over sub-tables (T3).",
    "The thesis prints Figures 17 to 30 as pictures, so no figures of it stand beside our series.",
    "Fine-grain errors depend on how close the linear program drives the rarest values to 0 (T12): "
    "'thesis' is its optimum with p_min = 0, 'p_min' ours with a quarter of the uniform retention.",
)


def run(*, quick: bool, data_dir: Path | None, progress: Progress) -> Reproduction:
    """Tables 1, 3, 4, 5, 6, 8, 9, 10 and the series of Figures 17 to 20 and 24 to 30."""
    setting = Setting(runs=3 if quick else 10, conditions=100 if quick else 200)
    sizes = (100_000, 300_000) if quick else (100_000, 200_000, 300_000, 400_000, 500_000)
    progress("reading data", 0.0)
    occupations, educations, notes = load(data_dir, max(sizes))
    steps: list[Callable[[], Outcome]] = [
        lambda: chapter4.retention_tables(occupations, sizes),
        lambda: chapter4.zipf_tables(setting),
        lambda: chapter4.inside_table(occupations, educations),
        lambda: chapter4.occupation_queries(occupations, sizes, setting),
        lambda: chapter4.education_queries(educations, sizes, setting),
        lambda: chapter4.runtimes(occupations, sizes, setting),
        lambda: chapter5.occupation_utility(occupations, sizes, setting),
        lambda: chapter5.education_utility(educations, sizes, setting),
        lambda: chapter5.zipf_utility(setting),
        lambda: chapter5.runtimes(occupations, sizes),
    ]
    tables: list[ReportTable] = []
    series: list[Series] = []
    for number, step in enumerate(steps):
        progress("rerunning the thesis", number / len(steps))
        more_tables, more_series = step()
        tables += more_tables
        series += more_series
    progress("done", 1.0)
    return Reproduction("perturbation", TITLE, tables, series, (*NOTES, *notes))
