"""`python -m papers NAME`: rerun a paper's tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from papers import PAPERS, reproduce
from sfumato.cli.app import run
from sfumato.cli.show import show_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    paper: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(PAPERS)}.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON file and the HTML page with charts.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller tables and fewer runs: under a minute.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with the papers' public data sets."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Rerun a paper beside its printed figures."""
    report = reproduce(
        paper, out=out, quick=quick, data_dir=data, progress=_show if sys.stderr.isatty() else None
    )
    if as_json:
        show_json(report.to_json())
        return
    print(report.to_text())
    if out is not None:
        print(f"Written: {out / paper}.json and {out / paper}.html", file=sys.stderr)


def _show(what: str, share: float) -> None:
    end = "\r\x1b[K" if share >= 1 else ""
    sys.stderr.write(f"\r\x1b[K{what} {share:4.0%} {'█' * int(30 * share):<30}{end}")
    sys.stderr.flush()


if __name__ == "__main__":
    run(app)
