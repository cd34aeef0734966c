"""Self-contained HTML pages with charts: no network, no further file, readable in print.

`vendor/` holds the JavaScript that charts run on, inlined into every page that has one.
"""

from sfumato.pages.parts import (
    Block,
    Bullets,
    Chart,
    Facts,
    Formula,
    Heading,
    Notice,
    Page,
    Paragraph,
    Section,
)
from sfumato.pages.render import render, write_page, write_whole

__all__ = [
    "Block",
    "Bullets",
    "Chart",
    "Facts",
    "Formula",
    "Heading",
    "Notice",
    "Page",
    "Paragraph",
    "Section",
    "render",
    "write_page",
    "write_whole",
]
