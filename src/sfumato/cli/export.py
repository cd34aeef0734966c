"""export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Folder, Json
from sfumato.cli.show import show_json


@app.command()
def export(
    release: Folder,
    form: Annotated[str, typer.Option("--format", help="croissant or dictionary.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is written; else it is printed.")
    ] = None,
    title: Annotated[str, typer.Option(help="What the release is called.")] = "",
    creator: Annotated[str, typer.Option(help="Who publishes it.")] = "",
    license: Annotated[str, typer.Option(help="Its licence, best as an address.")] = "",
    url: Annotated[
        str, typer.Option(help="Where the release will be; its folder's name by default.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Describe a release for catalogues (Croissant) or people (a dictionary)."""
    from sfumato.export import export_metadata

    described = {"title": title, "creator": creator, "license": license, "url": url}
    done = export_metadata(release, form, out=out, **described)
    if as_json:
        show_json(done.to_json())
    else:
        print(done)
