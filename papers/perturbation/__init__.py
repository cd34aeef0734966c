"""Rerun "On the Utility of Randomization Approaches …": Chapters 4 and 5 of the thesis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from papers.coded import People
from papers.perturbation import chapter4, chapter5
from papers.perturbation.claims import CLAIMS
from papers.perturbation.data import Setting, load
from papers.steps import Step

__all__ = ["CLAIMS", "NOTES", "STEPS", "TITLE", "prepare"]

TITLE = "On the Utility of Randomization Approaches for Privacy Preserving Data Publishing, rerun"

NOTES = (
    "Corrections to the thesis are those of errata T1 to T18: privacy is promised as 'at most' "
    "(T1); the uniform row of Table 3 takes rho1 as the largest share (T3); the partitioned row "
    "is the unweighted mean over sub-tables (T3).",
    "The thesis prints Figures 15 to 30 as pictures; verdicts are on what its text says of them.",
    "Fine-grain errors depend on how close the linear program drives the rarest values to 0 (T12): "
    "'thesis' is its optimum with p_min = 0, 'p_min' ours with a quarter of the uniform retention.",
)


@dataclass(frozen=True, eq=False)
class Made:
    """What the tables and figures share."""

    occupations: People
    educations: People
    sizes: tuple[int, ...]
    setting: Setting
    notes: list[str]

    @property
    def tables(self) -> dict[str, People]:
        return {"OCC": self.occupations, "EDU": self.educations}


STEPS = (
    Step(
        ("Table 1", "Table 3", "Table 4"),
        lambda made: chapter4.retention_tables(made.occupations, made.sizes),
    ),
    Step(("Table 5", "Table 6"), lambda made: chapter4.zipf_tables(made.setting)),
    Step(("Figure 15",), lambda made: chapter4.shares_of_census(made.tables)),
    Step(("Figure 16",), lambda made: chapter4.zipfian()),
    Step(
        ("Figure 17", "Figure 18", "Figure 18, lines"),
        lambda made: chapter4.occupation_queries(made.occupations, made.sizes, made.setting),
    ),
    Step(
        ("Figure 19",),
        lambda made: chapter4.education_queries(made.educations, made.sizes, made.setting),
    ),
    Step(("Figure 20",), lambda made: chapter4.publishing(made.tables, made.sizes)),
    Step(
        ("Figure 24", "Figure 25"),
        lambda made: chapter5.occupation_utility(made.occupations, made.sizes, made.setting),
    ),
    Step(
        ("Table 8", "Table 9", "Figure 26"),
        lambda made: chapter5.education_utility(made.educations, made.sizes, made.setting),
    ),
    Step(("Table 10", "Figure 27", "Figure 28"), lambda made: chapter5.zipf_utility(made.setting)),
    Step(("Figure 29", "Figure 30"), lambda made: chapter4.planning(made.tables, made.sizes)),
)


def prepare(*, quick: bool, data_dir: Path | None) -> Made:
    """OCC and EDU; `quick` simulates less, at fewer sizes."""
    sizes = (100_000, 300_000) if quick else (100_000, 200_000, 300_000, 400_000, 500_000)
    occupations, educations, notes = load(data_dir, max(sizes))
    setting = Setting(runs=3 if quick else 10, conditions=100 if quick else 200)
    return Made(occupations, educations, sizes, setting, notes)
