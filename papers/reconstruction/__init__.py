"""Rerun "Reconstruction Privacy: Enabling Statistical Learning": Tables 1, 2, 4, 5, Figures 1–5."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from papers.reconstruction import figures, ratios
from papers.reconstruction.claims import CLAIMS
from papers.reconstruction.figures import Study, adult, census, census_sizes
from papers.steps import Outcome, Step

__all__ = ["CLAIMS", "NOTES", "STEPS", "TITLE", "prepare"]

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


@dataclass(frozen=True, eq=False)
class Made:
    """What the figures share."""

    adult: Study
    census: Study
    sizes: tuple[int, ...]
    effort: figures.Effort
    notes: list[str]


def _by_parameters(study: Study, first: str, second: str, effort: figures.Effort) -> Outcome:
    series, summary = figures.violations_and_errors(study, first, second, effort)
    return [summary], series


def _prints(name: str, first: str, second: str) -> tuple[str, ...]:
    letters = [f"{figure}, {letter}" for figure in (first, second) for letter in "pλδ"]
    return (f"{name}, defaults", *letters)


STEPS = (
    Step(("Table 1",), lambda made: ([ratios.table_1()], [])),
    Step(("Table 2",), lambda made: ([ratios.table_2()], [])),
    Step(
        ("Table 4",),
        lambda made: ([figures.merging(made.adult, "Table 4", figures.PRINTED_ADULT)], []),
    ),
    Step(
        ("Table 5",),
        lambda made: ([figures.merging(made.census, "Table 5", figures.PRINTED_CENSUS)], []),
    ),
    Step(("Figure 1, ADULT", "Figure 1, CENSUS"), lambda made: ([], figures.limits())),
    Step(
        _prints("ADULT", "Figure 2", "Figure 3"),
        lambda made: _by_parameters(made.adult, "Figure 2", "Figure 3", made.effort),
    ),
    Step(
        _prints("CENSUS", "Figure 4", "Figure 5"),
        lambda made: _by_parameters(made.census, "Figure 4", "Figure 5", made.effort),
    ),
    Step(
        ("Figure 4, |D|", "Figure 5, |D|"),
        lambda made: ([], figures.by_size(census_sizes(made.sizes), made.effort)),
    ),
)


def prepare(*, quick: bool, data_dir: Path | None) -> Made:
    """ADULT and CENSUS; `quick` asks fewer queries, of fewer releases and parameters."""
    small, adult_note = adult(data_dir)
    large, census_note = census(data_dir, 60_000 if quick else 300_000)
    notes = [adult_note, census_note]
    if quick:
        return Made(small, large, (20_000, 60_000), figures.Effort(200, 2), notes)
    sizes = (100_000, 200_000, 300_000, 400_000, 500_000)
    return Made(small, large, sizes, figures.Effort(5000, 10), notes)
