"""Rerun "Reconstruction Privacy: Enabling Statistical Learning": Tables 1, 2, 4, 5, Figures 1–5."""

from __future__ import annotations

from pathlib import Path

from papers import Progress
from papers.reconstruction import figures, ratios
from papers.reconstruction.data import Study, adult, census, census_sizes
from sfumato.pages.tables import ReportTable, Reproduction, Series

TITLE = "Reconstruction Privacy: Enabling Statistical Learning, rerun"

NOTES = (
    "Table 1 cannot come from Laplace noise of scale 2/ε (errata R11): the expected errors b/x and "
    "b/y stand beside the printed ones. E[Y/X] does not exist, so medians and quartiles are given "
    "instead of means (R10).",
    "Tables 4 and 5: the paper counts |G| as the product of the domains, we count groups that have "
    "records (R9); its χ² test has a degree of freedom too many (R6) and can merge more. The "
    "printed 331 records a group in Table 5 are 500,000/1512, not 300,000/1512 (R9).",
    "Figures: lines 'paper' use s_g as printed, lines 'sps' ours, whose levels keep copies "
    "from giving the largest share away (R2), at some cost. 'exact' tests the chances themselves; "
    "Chernoff's bound calls groups private whose chances are 7 to 250 times smaller than δ (R1).",
    "The paper's claim of less than 10 % additional error on CENSUS is not reproduced (R12): "
    "sampling inflates the variance by Σ|g|·max(1, |g|/s_g)/Σ|g|.",
)


def run(*, quick: bool, data_dir: Path | None, progress: Progress) -> Reproduction:
    """All tables and figures; `quick` asks fewer queries, of fewer releases and parameters."""
    effort = figures.Effort(queries=200, runs=2) if quick else figures.Effort(queries=5000, runs=10)
    progress("reading data", 0.0)
    small, adult_note = adult(data_dir)
    large, census_note = census(data_dir, 60_000 if quick else 300_000)
    tables: list[ReportTable] = [
        ratios.table_1(),
        ratios.table_2(),
        figures.merging(small, "Table 4", figures.PRINTED_ADULT),
        figures.merging(large, "Table 5", figures.PRINTED_CENSUS),
    ]
    series: list[Series] = figures.limits()
    progress("ADULT", 0.1)
    lines, summary = figures.violations_and_errors(small, "Figure 2", "Figure 3", effort)
    series += lines
    tables.append(summary)
    progress("CENSUS", 0.4)
    lines, summary = figures.violations_and_errors(large, "Figure 4", "Figure 5", effort)
    series += lines
    tables.append(summary)
    progress("sizes", 0.8)
    sizes = (20_000, 60_000) if quick else (100_000, 200_000, 300_000, 400_000, 500_000)
    studies: list[Study] = census_sizes(sizes)
    series += figures.by_size(studies, effort)
    progress("done", 1.0)
    return Reproduction("reconstruction", TITLE, tables, series, (*NOTES, adult_note, census_note))
