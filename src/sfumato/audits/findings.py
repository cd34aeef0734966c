"""What an audit says: findings as data, and the verdict over all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.audits.catalogue import PERSON_TOGETHER, Check, Disclosure
from sfumato.engines.exposure import Exposure
from sfumato.results import Result as Shown
from sfumato.results import html_paragraphs, html_table

Figure = float | int | Fraction | str

SHOWN = 12  # findings of one check that the text shows; JSON has all of them
LISTED = 5  # names of one finding that the text shows
_SELDOM = 0.01  # limits of tests are below: so seldom may an honest release fail one


class Result(Enum):
    """How a check ended."""

    HOLDS = "ok"
    FAILS = "fails"
    UNSEEN = "not looked at"
    TOLD = "told"  # a figure that nothing was promised about


class Direction(Enum):
    """On which side of its limit a figure has to lie."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    EXACTLY = "exactly"
    ONE_OF = "one of"

    def allows(self, value: Figure, limit: Figure) -> bool:
        """Whether a figure keeps its limit.

        >>> Direction.AT_MOST.allows(3, 2), Direction.ONE_OF.allows("system", "system, key-file")
        (False, True)
        """
        if self is Direction.ONE_OF:
            return str(value) in str(limit).split(", ")
        if self is Direction.EXACTLY or isinstance(value, str) or isinstance(limit, str):
            return value == limit
        return value <= limit if self is Direction.AT_MOST else value >= limit


@dataclass(frozen=True)
class Finding:
    """One check of one thing: what was measured, what is allowed, and where it was worst.

    `column` is the sensitive column that the finding is about, `about` a further subject: a value,
    a side, a number. `listed` are names that belong to it. `limited`, `failed`, `unseen` and `told`
    make findings, so that a figure beyond its limit is never called fine.
    """

    check: Check
    result: Result
    column: str | None = None
    value: Figure | None = None
    limit: Figure | None = None
    direction: Direction | None = None
    about: str | None = None
    witness: str | None = None
    listed: tuple[str, ...] = ()
    disclosure: Disclosure | None = None  # where it is not the check's

    def __post_init__(self) -> None:
        if self.value is None or self.limit is None:
            return
        if self.direction is None:
            raise ValueError(f"The limit of {self.title!r} needs a direction.")
        kept = self.direction.allows(self.value, self.limit)
        if self.result is Result.HOLDS and not kept:
            raise ValueError(f"{self.title!r} is beyond its limit and cannot be called fine.")

    @classmethod
    def limited(
        cls, check: Check, value: Figure, direction: Direction, limit: Figure, **more: Any
    ) -> Finding:
        """Holds where the value keeps its limit.

        >>> from sfumato.audits.catalogue import ROWS
        >>> print(Finding.limited(ROWS, 9, Direction.EXACTLY, 10))
        FAILS rows: 9 (exactly 10)
        """
        result = Result.HOLDS if direction.allows(value, limit) else Result.FAILS
        return cls(check, result, value=value, limit=limit, direction=direction, **more)

    @classmethod
    def none(cls, check: Check, number: int, **more: Any) -> Finding:
        """Holds where nothing of what is counted was found."""
        return cls.limited(check, number, Direction.AT_MOST, 0, **more)

    @classmethod
    def plain(cls, check: Check, holds: bool, **more: Any) -> Finding:
        """A yes or no without a figure."""
        return cls(check, Result.HOLDS if holds else Result.FAILS, **more)

    @classmethod
    def unseen(cls, check: Check, **more: Any) -> Finding:
        """What could not be looked at; the witness says what would be needed."""
        return cls(check, Result.UNSEEN, **more)

    @classmethod
    def told(cls, check: Check, value: Figure, **more: Any) -> Finding:
        """A figure that nothing was promised about."""
        return cls(check, Result.TOLD, value=value, **more)

    @property
    def title(self) -> str:
        return self.check.title_of(self.column, self.about)

    @property
    def holds(self) -> bool | None:
        """None where it was not looked at."""
        if self.result is Result.UNSEEN:
            return None
        return self.result is not Result.FAILS

    @property
    def shown_to(self) -> Disclosure:
        return self.check.disclosure if self.disclosure is None else self.disclosure

    def bare(self) -> Finding:
        """The finding without figures and people."""
        return Finding(self.check, self.result, self.column, about=self.about)

    @property
    def tests(self) -> bool:
        """Whether the figure is how many honest releases look no better: then small is bad."""
        small = isinstance(self.limit, float) and self.limit < _SELDOM
        return small and self.direction is Direction.AT_LEAST

    def value_text(self) -> str:
        """What was measured, in words where a number alone would not tell which way is good."""
        if not self.tests or not isinstance(self.value, (int, float)):
            return number_text(self.value)
        return f"{_share_text(float(self.value))} of honest releases look no better"

    def limit_text(self) -> str:
        if self.limit is None or self.direction is None:
            return ""
        if self.tests:
            return f"alarm below {_share_text(float(self.limit))}"
        return f"{self.direction.value} {number_text(self.limit)}"

    def where_text(self) -> str:
        """The witness and the first of the names that belong to it."""
        if not self.listed:
            return self.witness or ""
        some = ", ".join(self.listed[:LISTED])
        more = len(self.listed) - LISTED
        some += f" and {more:,} more (--json)" if more > 0 else ""
        return f"{self.witness} {some}" if self.witness else some

    def __str__(self) -> str:
        mark = _mark(self)
        measured = "" if self.value is None else f": {self.value_text()}"
        limit = f" ({self.limit_text()})" if self.limit_text() else ""
        where = f"; {self.where_text()}" if self.where_text() else ""
        promised = " (not promised)" if self.result is Result.TOLD else ""
        return f"{mark:<5} {self.title}{promised}{measured}{limit}{where}"

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check.name,
            "title": self.title,
            "column": self.column,
            "about": self.about,
            "result": self.result.value,
            "holds": self.holds,
            "value": _plain(self.value),
            "value_text": self.value_text(),
            "limit": _plain(self.limit),
            "limit_text": self.limit_text(),
            "direction": None if self.direction is None else self.direction.value,
            "witness": self.witness,
            "listed": list(self.listed),
        }


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """All findings of an audit. It holds where every check was made and none failed.

    `tested` says what was looked at, for the headline; `exposure` what a release that keeps its
    promise shows of people all the same.

    >>> from sfumato.audits.catalogue import ROWS
    >>> print(Verdict((Finding.limited(ROWS, 10, Direction.EXACTLY, 10),), "l-diversity(2) of s"))
    The release keeps its promise as far as 1 check can tell: l-diversity(2) of s.
      ok    rows: 10 (exactly 10)
    """

    findings: tuple[Finding, ...]
    tested: str
    exposure: Exposure | None = None

    @property
    def holds(self) -> bool | None:
        """False where a check failed; else None where something was not looked at."""
        return joined(finding.holds for finding in self.findings)

    @property
    def headline(self) -> str:
        if self.holds is False:
            failed = sum(finding.holds is False for finding in self.findings)
            return (
                f"The release does NOT keep its promise: {_checks(failed)} of "
                f"{len(self.findings):,} failed. Tested: {self.tested}."
            )
        if self.holds is None:
            unseen = sum(finding.holds is None for finding in self.findings)
            return (
                f"Not everything was looked at ({_checks(unseen)} could not be made); nothing that "
                f"was looked at failed. Tested: {self.tested}."
            )
        told = _checks(sum(f.result is not Result.TOLD for f in self.findings))
        if any(f.check is PERSON_TOGETHER and f.value for f in self.findings):
            return (
                f"Each record keeps the promise as far as {told} can tell; people may have several "
                f"records, which tell more together: {self.tested}."
            )
        return f"The release keeps its promise as far as {told} can tell: {self.tested}."

    def to_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "headline": self.headline,
            "tested": self.tested,
            "findings": [f.to_json() for f in self.findings],
            "exposure": None if self.exposure is None else self.exposure.to_json(),
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for group in _together(self.findings):
            # those that fail first, the others in the order of the check
            ranked = sorted(group, key=lambda finding: finding.holds is not False)
            lines += [str(finding) for finding in ranked[:SHOWN]]
            left = ranked[SHOWN:]
            if left:
                failed = sum(finding.holds is False for finding in left)
                said = f", {failed:,} of which fail" if failed else ""
                lines.append(f"      and {len(left):,} more of the same check{said} (--json)")
        lines = [self.headline, *(f"  {line}" for line in lines)]
        if self.exposure is not None:
            lines += ["What it shows of people all the same:"]
            lines += [f"  {line}" for line in str(self.exposure).splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (_mark(f), f.title, f.value_text(), f.limit_text(), f.where_text())
            for f in self.findings
        ]
        head = ("", "check", "measured", "limit", "where")
        exposed = [] if self.exposure is None else str(self.exposure).splitlines()
        return html_paragraphs([self.headline]) + html_table(head, rows) + html_paragraphs(exposed)


def joined(holds: Iterable[bool | None]) -> bool | None:
    """Several answers as one: no beats not known, not known beats yes.

    >>> joined([True, None]), joined([None, False]), joined([])
    (None, False, True)
    """
    seen = set(holds)
    return False if False in seen else None if None in seen else True


def _together(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Neighbours of the same check and column."""
    groups: list[list[Finding]] = []
    for finding in findings:
        if groups and (groups[-1][0].check, groups[-1][0].column) == (
            finding.check,
            finding.column,
        ):
            groups[-1].append(finding)
        else:
            groups.append([finding])
    return groups


def _checks(number: int) -> str:
    return f"{number:,} check{'' if number == 1 else 's'}"


def _mark(finding: Finding) -> str:
    return "FAILS" if finding.result is Result.FAILS else finding.result.value


def _plain(figure: Figure | None) -> float | int | str | None:
    if isinstance(figure, float) and math.isinf(figure):
        return "infinite"
    return float(figure) if isinstance(figure, Fraction) else figure


def _share_text(share: float) -> str:
    """
    >>> _share_text(0.8267), _share_text(1.0), _share_text(1e-6), _share_text(0.0)
    ('82.7 %', '100 %', '1 in 1,000,000', '0 %')
    """
    if 0 < share < 0.001:
        return f"1 in {min(round(1 / share), 10**15):,}"
    return f"{100 * share:.3g} %"


def number_text(number: Figure | None) -> str:
    """A number as a message shows it.

    >>> number_text(12345), number_text(0.123456789), number_text(Fraction(1, 3)), number_text(None)
    ('12,345', '0.1235', '0.3333', '')
    """
    if number is None:
        return ""
    if isinstance(number, (float, Fraction)):
        return f"{float(number):.4g}"
    return f"{number:,}" if isinstance(number, int) else number
