"""Rerun "Inferential or Differential: Privacy Laws Dictate": Section 7, Figures 2 to 7."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from papers.coded import People, census, coded
from papers.f_privacy import figures
from papers.f_privacy.claims import CLAIMS
from papers.f_privacy.figures import Effort
from papers.steps import Step
from sfumato.draws import IntArray

__all__ = ["CLAIMS", "NOTES", "STEPS", "TITLE", "prepare"]

TITLE = "Inferential or Differential: Privacy Laws Dictate, rerun"

NOTES = (
    "'TwoSize' and 'MultiSize' are the paper's algorithms with exact floors (errata F4, F7, F8, "
    "F11). 'optimal, ours' cuts a linear program over the numbers of buckets and tells its gap; "
    "'integer program' is the paper's 'Optimal' of Figure 4, with any number of sizes.",
    "'Anatomy' ignores the promise, as in the paper: its loss follows from N and l alone (F14).",
    "That TwoSize is 'only slightly' above MultiSize and Optimal depends on the histogram (F13).",
    "Figure 5: plain columns use the paper's estimate, which is drawn towards independence; "
    "'shrunk' is ours, from the same buckets, which are mixed.",
)

QUICK = Effort(30, 100_000, (50_000, 100_000), (2, 4), 1.0, (2, 8, 32))
FULL = Effort(
    5000, 300_000, (100_000, 200_000, 300_000, 400_000, 500_000), (2, 4, 8, 16, 32, 64), 60.0
)


@dataclass(frozen=True, eq=False)
class Made:
    """What the figures share."""

    tables: dict[str, People]
    effort: Effort
    notes: list[str]

    @property
    def counts(self) -> dict[str, IntArray]:
        return {name: people.counts for name, people in self.tables.items()}


STEPS = (
    Step(("Figure 2",), lambda made: figures.distributions(made.counts)),
    Step(("Figure 3",), lambda made: figures.diversity(made.counts)),
    Step(("Figure 4",), lambda made: figures.loss_figure(made.counts, made.effort)),
    Step(("Figure 5",), lambda made: figures.error_figure(made.tables, made.effort)),
    Step(("Figure 6",), lambda made: figures.cardinality_figure(made.counts, made.effort)),
    Step(("Figure 7",), lambda made: figures.values_figure(made.counts, made.effort)),
)


def prepare(*, quick: bool, data_dir: Path | None) -> Made:
    """OCC and EDU; `quick` asks fewer queries and gives the integer programs less time."""
    table, note = census(data_dir, 100_000)
    table = table.slice(0, 20_000) if quick else table
    people = {"OCC": coded(table, "occupation"), "EDU": coded(table, "education")}
    notes = [
        f"{note} {table.num_rows:,} for Figures 2, 3 and 5; their histogram scaled to the stated "
        "sizes for Figures 4, 6 and 7."
    ]
    return Made(people, QUICK if quick else FULL, notes)
