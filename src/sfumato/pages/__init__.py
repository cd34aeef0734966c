"""Self-contained HTML pages with charts: no network, no further file, readable in print.

`templates/` holds their markup, `vendor/` the JavaScript that charts run on.
"""

from sfumato.pages.render import Block, Chart, render, sections_page, write_whole

__all__ = ["Block", "Chart", "render", "sections_page", "write_whole"]
