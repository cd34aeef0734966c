"""What a page is made of: plain data that `render` turns into one HTML text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.results import ResultTable, Tone


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Formula:
    """Text that is shown as it stands, in the letters of formulas and code."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and what they are: parameters, hashes, versions."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Notice:
    """A sentence that must not be overlooked."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Chart:
    """Vega-Lite panels, what they show in a sentence, and the figures that they were drawn from.

    `panels` are headings (empty for a single panel) and specifications.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[tuple[str, Mapping[str, Any]]]
    table: ResultTable


Block = Paragraph | Heading | Formula | Bullets | Facts | Notice | ResultTable | Chart


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole page. `lead` is the sentence under the title."""

    title: str
    lead: str
    sections: Sequence[Section]
    notices: Sequence[Notice] = ()
    footer: str = ""

    @property
    def charts(self) -> list[Chart]:
        """Every chart of the page, in order."""
        return [b for s in self.sections for b in s.blocks if isinstance(b, Chart)]
