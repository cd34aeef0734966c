"""keygen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Json
from sfumato.cli.show import show_json


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="Where to write the key; must not exist.")],
    as_json: Json = False,
) -> None:
    """Make a key for --key-file. Keep it secret: it undoes the draws."""
    import os
    import secrets

    from sfumato.draws import KEY_BYTES
    from sfumato.private import create_private

    with os.fdopen(create_private(file, "key"), "w", encoding="ascii") as opened:
        opened.write(secrets.token_hex(KEY_BYTES) + "\n")
    if as_json:
        show_json({"key_file": str(file)})
    else:
        print(f"Wrote a new key to {file}, readable by you alone.")
