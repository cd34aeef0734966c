"""`python -m papers NAME`: rerun a paper's tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from papers import PAPERS, reproduce
from papers.page import write_index
from sfumato.cli.app import run
from sfumato.cli.show import show_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    paper: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(PAPERS)}, all.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON file and the HTML page with charts.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Smaller tables and fewer runs: under a minute of processor."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A table or figure, such as 'Figure 4'; may be given several times."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with the papers' public data sets."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Rerun a paper beside its printed figures; `all` reruns every one and lists the verdicts."""
    if paper == "all":
        folder = out or Path("pages")
        for name in PAPERS:
            reproduce(name, out=folder, quick=quick, data_dir=data, progress=_line)
        print(f"Every section, table and figure with its verdict: {write_index(folder)}")
        return
    report = reproduce(
        paper,
        out=out,
        quick=quick,
        only=only or (),
        data_dir=data,
        progress=_bar if sys.stderr.isatty() else _line,
    )
    if as_json:
        show_json(report.to_json())
        return
    print(report.to_text())
    print(f"\n{report.seconds:.0f} seconds of processor time.")
    if out is not None:
        print(f"Written: {out / paper}.json and {out / paper}.html", file=sys.stderr)


def _line(what: str, share: float) -> None:
    sys.stderr.write(f"{share:4.0%} {what}\n")
    sys.stderr.flush()


def _bar(what: str, share: float) -> None:
    end = "\r\x1b[K" if share >= 1 else ""
    sys.stderr.write(f"\r\x1b[K{what} {share:4.0%} {'█' * int(30 * share):<30}{end}")
    sys.stderr.flush()


if __name__ == "__main__":
    run(app, "python -m papers")
