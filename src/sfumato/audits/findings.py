"""What an audit says: findings as data, and the verdict over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import groupby
from typing import Any

from sfumato.audits.catalogue import PERSON_TOGETHER, AuditCheck, Direction, Disclosure, Figure
from sfumato.engines.exposure import Exposure
from sfumato.results import Result as Shown
from sfumato.results import ResultTable, Tone, as_json, cell_text, untitled

SHOWN = 12  # findings of one check that the text shows; JSON has all of them
EXPOSED = 5  # lines of what is shown of people all the same
LISTED = 5  # names of one finding that the text shows
_SELDOM = 0.01  # limits of tests are below: so seldom may an honest release fail one


class CheckResult(Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"  # could not be looked at
    INFO = "info"  # a figure that nothing was promised about


@dataclass(frozen=True)
class Finding:
    """One check of one thing: what was measured, what is allowed, and where it was worst.

    `column` is the sensitive column that the finding is about, `about` a further subject: a value,
    a side, a number. `listed` are names that belong to it. `limited`, `skipped` and `info` make
    findings, so that a figure beyond its limit is never called fine.
    """

    check: AuditCheck
    result: CheckResult
    column: str | None = None
    value: Figure | None = None
    limit: Figure | None = None
    about: str | None = None
    witness: str | None = None
    listed: tuple[str, ...] = ()
    disclosure: Disclosure | None = None  # where it is not the check's

    def __post_init__(self) -> None:
        if self.result is not CheckResult.OK or self.value is None or self.limit is None:
            return
        if not self.check.direction.allows(self.value, self.limit):
            raise ValueError(f"{self.title!r} is beyond its limit and cannot be called fine.")

    @classmethod
    def limited(
        cls,
        check: AuditCheck,
        value: Figure,
        limit: Figure = 0,
        *,
        wrong: str | None = None,
        **more: Any,
    ) -> Finding:
        """Holds where the value keeps its limit; of what is counted, where nothing was found. What
        is `wrong` is the witness of a check that fails.

        >>> from sfumato.audits.catalogue import ROWS
        >>> print(Finding.limited(ROWS, 9, 10))
        failed  rows: 9 (exactly 10)
        """
        if kept := check.direction.allows(value, limit):
            wrong = None
        result = CheckResult.OK if kept else CheckResult.FAILED
        return cls(check, result, value=value, limit=limit, **{"witness": wrong, **more})

    @classmethod
    def plain(cls, check: AuditCheck, wrong: str | None, **more: Any) -> Finding:
        """Without a figure to compare: holds where nothing is wrong."""
        result = CheckResult.OK if wrong is None else CheckResult.FAILED
        return cls(check, result, witness=wrong, **more)

    @classmethod
    def skipped(cls, check: AuditCheck, **more: Any) -> Finding:
        """What could not be looked at; the witness says what would be needed."""
        return cls(check, CheckResult.SKIPPED, **more)

    @classmethod
    def info(cls, check: AuditCheck, value: Figure, **more: Any) -> Finding:
        """A figure that nothing was promised about."""
        return cls(check, CheckResult.INFO, value=value, **more)

    @property
    def title(self) -> str:
        return self.check.title_of(self.column, self.about)

    @property
    def direction(self) -> Direction | None:
        """On which side of its limit, if it has one, the figure has to lie."""
        return None if self.limit is None else self.check.direction

    @property
    def holds(self) -> bool | None:
        """None where it was not looked at."""
        if self.result is CheckResult.SKIPPED:
            return None
        return self.result is not CheckResult.FAILED

    @property
    def warns_of_several(self) -> bool:
        """Whether people may have several records, about which together nothing is promised."""
        return self.check is PERSON_TOGETHER and bool(self.value)

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
        """What was measured."""
        return "" if self.value is None else ("p = " if self.tests else "") + _number(self.value)

    def limit_text(self) -> str:
        if self.limit is None:
            return ""
        if self.tests:
            return f"alarm below {_number(self.limit)}"
        return f"{self.check.direction.value} {_number(self.limit)}"

    def where_text(self) -> str:
        """The witness and the first of the names that belong to it."""
        if not self.listed:
            return self.witness or ""
        some = ", ".join(self.listed[:LISTED])
        more = len(self.listed) - LISTED
        some += f" and {more:,} more (--json)" if more > 0 else ""
        return f"{self.witness} {some}" if self.witness else some

    def __str__(self) -> str:
        measured = "" if self.value is None else f": {self.value_text()}"
        limit = f" ({self.limit_text()})" if self.limit_text() else ""
        where = f"; {self.where_text()}" if self.where_text() else ""
        return f"{self.result.value:<7} {self.title}{measured}{limit}{where}"

    def to_json(self) -> dict[str, Any]:
        fields = {"check": self.check.name, "title": self.title, "holds": self.holds}
        names = ("column", "about", "result", "value", "limit", "direction", "witness", "listed")
        texts = {"value_text": self.value_text(), "limit_text": self.limit_text()}
        return fields | {name: as_json(getattr(self, name)) for name in names} | texts


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """All findings of an audit. It holds where every check was made and none failed.

    `tested` says what was looked at, `unseen` what no audit of this kind could notice, `exposure`
    what a release that keeps its promise shows of people all the same. The text begins with the
    verdict, then says what failed or was skipped; `text(verbose=True)` has every check.

    >>> from sfumato.audits.catalogue import ROWS
    >>> print(Verdict((Finding.limited(ROWS, 10, 10),), "l-diversity(2) of s"))
    The release keeps its promise: l-diversity(2) of s.
    1 check: 1 ok (--verbose shows them).
    """

    more = ("holds", "headline")

    findings: tuple[Finding, ...]
    tested: str
    exposure: Exposure | None = None
    unseen: str = ""

    @property
    def holds(self) -> bool | None:
        """False where a check failed; else None where something was not looked at."""
        return joined(finding.holds for finding in self.findings)

    @property
    def headline(self) -> str:
        failed = sum(finding.holds is False for finding in self.findings)
        if failed:
            return (
                f"The release does NOT keep its promise ({_several(failed, 'check')} failed): "
                f"{self.tested}."
            )
        skipped = sum(finding.holds is None for finding in self.findings)
        if skipped:
            return f"Undecided ({_several(skipped, 'check')} skipped, none failed): {self.tested}."
        kept = (
            "Each record keeps the promise; people may have several, which tell more together"
            if any(f.warns_of_several for f in self.findings)
            else "The release keeps its promise"
        )
        return f"{kept}: {self.tested}." + (f" {self.unseen}" if self.unseen else "")

    def text(self, *, verbose: bool = False) -> str:
        """The verdict, what failed with its witness, what the release shows all the same."""
        shown = [f for f in self.findings if verbose or not f.holds or f.warns_of_several]
        lines = [self.headline]
        for _, group in groupby(shown, key=lambda finding: (finding.check, finding.column)):
            ranked = sorted(group, key=lambda finding: finding.holds is not False)
            lines += [f"  {finding}" for finding in ranked[:SHOWN]]
            if len(ranked) > SHOWN:
                lines.append(f"  and {len(ranked) - SHOWN:,} more of the same check (--json)")
        exposed = [] if self.exposure is None else list(self.exposure.lines())
        if exposed:
            some = exposed if verbose else exposed[:EXPOSED]
            lines += ["Remaining exposure:", *(f"  {line}" for line in some)]
            if len(some) < len(exposed):
                lines.append(f"  and {len(exposed) - len(some):,} more (--verbose shows them)")
        counted = Counter(finding.result.value for finding in self.findings)
        tally = ", ".join(f"{number:,} {result}" for result, number in sorted(counted.items()))
        more = "" if verbose or len(shown) == len(self.findings) else " (--verbose shows them)"
        return "\n".join([*lines, f"{_several(len(self.findings), 'check')}: {tally}{more}."])

    def __str__(self) -> str:
        return self.text()

    def parts(self) -> list[ResultTable | str]:
        exposed = [] if self.exposure is None else str(self.exposure).splitlines()
        return [self.headline, findings_table(self.findings), *exposed]


def findings_table(findings: Sequence[Finding], note: str = "", folded: str = "") -> ResultTable:
    """Findings side by side; those that failed are marked."""
    rows = [
        (f.result.value, f.title, *(text or None for text in (
            f.value_text(), f.limit_text(), f.where_text())))
        for f in findings
    ]  # fmt: skip
    marks: dict[int, Tone] = {k: "bad" for k, f in enumerate(findings) if f.holds is False}
    columns = ("", "check", "measured", "limit", "where")
    return untitled(columns, rows, note=note, marks=marks, folded=folded)


def joined(holds: Iterable[bool | None]) -> bool | None:
    """Several answers as one: no beats not known, not known beats yes.

    >>> joined([True, None]), joined([None, False]), joined([])
    (None, False, True)
    """
    seen = set(holds)
    return False if False in seen else None if None in seen else True


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _number(number: Figure) -> str:
    return cell_text(float(number) if isinstance(number, Fraction) else number)
