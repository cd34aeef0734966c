"""A rerun as data: steps that print named tables and charts, and the paper's claims about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from papers.tables import Points, Series
from sfumato.errors import UsageError
from sfumato.results import ResultTable

Outcome = tuple[list[ResultTable], list[Series]]
Verdict = Literal["reproduced", "better", "not reproduced"]
Progress = Callable[[str, float], None]  # what is being done, and the share done so far


@dataclass(frozen=True)
class Step:
    """One piece of work on a paper's data; `prints` names the tables and charts that it makes."""

    prints: tuple[str, ...]
    work: Callable[[Any], Outcome]


@dataclass(frozen=True)
class Found:
    """What the steps made, as claims look at it."""

    tables: Sequence[ResultTable]
    series: Sequence[Series]

    @property
    def names(self) -> set[str]:
        return {table.name for table in self.tables} | {each.name for each in self.series}

    def table(self, name: str) -> ResultTable:
        return next(table for table in self.tables if table.name == name)

    def column(self, table: str, column: str, **where: object) -> list[Any]:
        """The cells of a column, of the rows whose other columns are as told."""
        made = self.table(table)
        index = made.columns.index(column)
        tests = [(made.columns.index(name), value) for name, value in where.items()]
        return [row[index] for row in made.rows if all(row[k] == value for k, value in tests)]

    def lines(self, name: str, title: str = "") -> Mapping[str, Points]:
        """The lines of the first chart of that name whose title has the text."""
        return next(s.lines for s in self.series if s.name == name and title in s.title)


@dataclass(frozen=True)
class Claim:
    """What a paper prints or says about one of its figures, and the test of it on our numbers.

    `test` gives our number as text and the verdict; `why` is said where it is not reproduced.
    """

    about: str
    paper: str
    test: Callable[[Found], tuple[str, Verdict]]
    why: str = ""


def reproduced(holds: object) -> Verdict:
    return "reproduced" if holds else "not reproduced"


def within(ours: Sequence[float], printed: Sequence[float], share: float) -> tuple[str, Verdict]:
    """The largest relative difference of numbers that are printed; all within a share, or not.

    >>> within([1.02, 2.0], [1.0, 2.0], 0.05)
    ('off by 2.0 % at most', 'reproduced')
    """
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, printed, strict=True))
    return f"off by {100 * worst:.1f} % at most", reproduced(worst <= share)


def below(ours: float, printed: float, slack: float, text: str) -> tuple[str, Verdict]:
    """An error that is to be as small as printed: better where it is much smaller.

    >>> below(0.03, 0.10, 1.2, "3 %")
    ('3 %', 'better')
    """
    if ours < printed / slack:
        return text, "better"
    return text, reproduced(ours <= printed * slack)


def run_steps(
    steps: Sequence[Step], made: object, only: Sequence[str], progress: Progress
) -> Found:
    """Do the steps that print what is asked for, all without `only`; progress by step."""
    wanted = [step for step in steps if not only or any(chosen(n, only) for n in step.prints)]
    tables: list[ResultTable] = []
    series: list[Series] = []
    for number, step in enumerate(wanted):
        progress(", ".join(step.prints), number / len(wanted))
        more_tables, more_series = step.work(made)
        tables += more_tables
        series += more_series
    if only:
        tables = [table for table in tables if chosen(table.name, only)]
        series = [each for each in series if chosen(each.name, only)]
    return Found(tables, series)


def chosen(name: str, only: Iterable[str]) -> bool:
    """Whether a name is asked for: itself, or a part of it.

    >>> chosen("Figure 2(a)", ["Figure 2"]), chosen("Figure 20", ["Figure 2"])
    (True, False)
    """
    return any(name.startswith(asked) and not name[len(asked) :][:1].isalnum() for asked in only)


def check_names(only: Iterable[str], steps: Sequence[Step]) -> None:
    """Refuse names that nothing prints, and say which there are."""
    prints = [name for step in steps for name in step.prints]
    for asked in only:
        if not any(chosen(name, [asked]) for name in prints):
            raise UsageError(f"Nothing is called {asked!r}. There is: {', '.join(prints)}.")


def beside_the_paper(claims: Sequence[Claim], found: Found) -> ResultTable | None:
    """Every claim about what was made: the paper, our number, the verdict."""
    rows = []
    for claim in claims:
        if claim.about not in found.names:
            continue
        text, verdict = claim.test(found)
        why = f": {claim.why}" if verdict == "not reproduced" and claim.why else ""
        rows.append((claim.about, claim.paper, text, f"{verdict}{why}"))
    if not rows:
        return None
    columns = ("about", "the paper", "here", "verdict")
    return ResultTable("Verdicts", "The paper beside this run", columns, rows, ("the paper",))
