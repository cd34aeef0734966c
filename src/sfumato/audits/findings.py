"""What an audit says."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One check: what was measured (`worst`), what is allowed (`limit`), where it was worst."""

    check: str
    holds: bool
    worst: float | int | str | None = None
    limit: float | int | str | None = None
    witness: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "holds": self.holds,
            "worst": self.worst,
            "limit": self.limit,
            "witness": self.witness,
        }


@dataclass(frozen=True)
class Verdict:
    """All findings of an audit; it holds when every one of them does.

    >>> print(Verdict((Finding("rows", True, 10, 10),)))
    The release keeps its promise.
      ok    rows: 10 (limit 10)
    """

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {"holds": self.holds, "findings": [f.to_json() for f in self.findings]}

    def __str__(self) -> str:
        head = "keeps its promise" if self.holds else "does NOT keep its promise"
        return "\n".join([f"The release {head}.", *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Sequence[str]:
        lines = []
        for finding in self.findings:
            measured = "" if finding.worst is None else f": {number_text(finding.worst)}"
            limit = "" if finding.limit is None else f" (limit {number_text(finding.limit)})"
            where = "" if finding.witness is None else f"; {finding.witness}"
            lines.append(
                f"{'ok   ' if finding.holds else 'FAILS'} {finding.check}{measured}{limit}{where}"
            )
        return lines

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'ok' if f.holds else '<b>fails</b>'}</td><td>{html.escape(f.check)}</td>"
            f"<td>{html.escape(number_text(f.worst))}</td>"
            f"<td>{html.escape(number_text(f.limit))}</td>"
            f"<td>{html.escape(f.witness or '')}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th></th><th>check</th><th>worst</th><th>limit</th><th>witness</th></tr>"
        return f"<table>{head}{rows}</table>"


def number_text(number: float | int | str | None) -> str:
    """A number as a message shows it.

    >>> number_text(12345), number_text(0.123456789), number_text(None)
    ('12,345', '0.1235', '')
    """
    if number is None:
        return ""
    if isinstance(number, float):
        return f"{number:.4g}"
    return f"{number:,}" if isinstance(number, int) else number
