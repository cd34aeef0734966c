"""Rerun "Small sum privacy and large sum utility in data publishing": Section 6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.compute as pc

from papers.coded import People, census, coded
from papers.splu import figures
from papers.splu.claims import CLAIMS
from papers.splu.figures import Setting, section_6_2_1, section_8
from papers.splu.methods import Pool
from papers.steps import Outcome, Step
from sfumato import datasets
from sfumato.draws import Draws

__all__ = ["CLAIMS", "NOTES", "STEPS", "TITLE", "prepare"]

TITLE = "Small sum privacy and large sum utility in data publishing, rerun"
MEDICAL_ROWS = 42_264  # records of CADRMP
GROUPS = 5  # the paper's default c
MEDICAL_GROUPS = 9  # the paper's c for CADRMP

NOTES = (
    "'SPLU, ours': well-mixed groups and the exact operator in closed form. 'SPLU, paper': greedy "
    "groups with ties by draw, the printed matrix, start at the published counts, stop at 1 % "
    "(errata S2, S4, S5); where more than half of its small answers are 0, its median error is 1.",
    "The paper prints Figures 7 to 12 as pictures; verdicts are on what its text says.",
    "DBR redraws every value from the overall distribution; Anatomy answers with the greedy "
    "groups of the same size.",
    "Figure 8 at its own size, Figure 9 and Section 6.5: generated CENSUS-like records.",
    f"Figures 10 and 11: CADRMP cannot be had; {MEDICAL_ROWS:,} generated hospital records stand "
    "in. Figure 11 takes the chapters of the diagnoses, so that counts reach 9 %, and the largest "
    "c that they allow.",
)
QUICK = Setting(conditions=300, queries=300, runs=1, groups=(2, 5, 8))
FULL = Setting(conditions=2000, queries=5000, runs=3, groups=tuple(range(2, 11)))


@dataclass(frozen=True, eq=False)
class Made:
    """What the figures share, made when first used."""

    census: People
    setting: Setting
    sizes: tuple[int, ...]
    notes: list[str]

    @cached_property
    def pool(self) -> Pool:
        return self._pool(Pool.of, self.census, 7)

    @cached_property
    def grown(self) -> People:
        return coded(datasets.census(max(self.sizes), seed=3), "occupation")

    @cached_property
    def medical(self) -> People:
        return coded(datasets.hospital(MEDICAL_ROWS, seed=7), "diagnosis")

    @cached_property
    def chapters(self) -> People:
        table = datasets.hospital(MEDICAL_ROWS, seed=7)
        index = table.schema.names.index("diagnosis")
        chapter = pc.utf8_slice_codeunits(table.column("diagnosis").cast("string"), 0, 1)
        return coded(table.set_column(index, "diagnosis", chapter), "diagnosis")

    def figure_8_grown(self) -> Outcome:
        some = self.grown.first(min(300_000, self.grown.rows))
        pool = self._pool(Pool.of, some, 8)
        return figures.large_counts("Figure 8, generated", some, pool, GROUPS, self.setting)

    def figure_10(self) -> Outcome:
        pool = self._pool(Pool.of, self.medical, 10)
        return figures.small_counts("Figure 10", self.medical, pool, self.setting)

    def figure_11(self) -> Outcome:
        groups = min(MEDICAL_GROUPS, self.chapters.largest_groups)
        pool = self._pool(Pool.wide, self.chapters, 11)
        edges = figures.WIDE_SELECTIVITIES
        return figures.large_counts("Figure 11", self.chapters, pool, groups, self.setting, edges)

    def two_columns(self) -> Outcome:
        table, observed = figures.figure_12(self.census, self.setting.groups, self.setting.queries)
        return [table, figures.iterations(observed)], []

    def _pool(self, make: Callable[..., Pool], people: People, seed: int) -> Pool:
        return make(people, self.setting.conditions, self.setting.queries, Draws.from_seed(seed))


STEPS = (
    Step(("Figure 4", "Figure 5"), lambda made: figures.curves()),
    Step(
        ("Section 6.2.1",),
        lambda made: ([section_6_2_1(made.census, GROUPS, made.setting.runs)], []),
    ),
    Step(
        ("Figure 7",),
        lambda made: figures.small_counts("Figure 7", made.census, made.pool, made.setting),
    ),
    Step(
        ("Figure 8",),
        lambda made: figures.large_counts("Figure 8", made.census, made.pool, GROUPS, made.setting),
    ),
    Step(("Figure 8, generated",), Made.figure_8_grown),
    Step(
        ("Figure 9(a)", "Figure 9(a′)", "Figure 9(b)", "Figure 9(c)"),
        lambda made: figures.sizes(made.grown, GROUPS, made.sizes, made.setting),
    ),
    Step(("Figure 10",), Made.figure_10),
    Step(("Figure 11",), Made.figure_11),
    Step(("Figure 12", "Section 6.5, queries"), Made.two_columns),
    Step(("Section 6.5",), lambda made: figures.overhead(made.grown, made.setting)),
    Step(("Section 8",), lambda made: ([section_8(made.census)], [])),
)


def prepare(*, quick: bool, data_dir: Path | None) -> Made:
    """CENSUS and what stands in for the rest; `quick` asks fewer queries of smaller tables."""
    table, note = census(data_dir, 100_000)
    people, notes = coded(table, "occupation"), [note]
    if quick:
        return Made(people, QUICK, (50_000, 100_000), notes)
    return Made(people, FULL, (100_000, 200_000, 300_000, 400_000, 500_000), notes)
