"""keygen, sign, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Folder, Json
from sfumato.cli.show import show_json


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="Where to write the key; must not exist.")],
    signing: Annotated[
        bool, typer.Option("--signing", help="A key to sign releases with, and FILE.pub.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key for --key-file, or for --sign. Keep it secret: --key-file undoes the draws."""
    if signing:
        from sfumato.release.signing import make_keys

        public, fingerprint = make_keys(file)
        told = {"signing_key": str(file), "public_key": str(public), "fingerprint": fingerprint}
        sentence = (
            f"Wrote a new signing key to {file}, readable by you alone, and its public half to "
            f"{public}: give that to whoever reads your releases.\nIts fingerprint is "
            f"{fingerprint}."
        )
    else:
        _write_draws_key(file)
        told = {"key_file": str(file)}
        sentence = f"Wrote a new key to {file}, readable by you alone."
    if as_json:
        show_json(told)
    else:
        print(sentence)


def _write_draws_key(file: Path) -> None:
    import os
    import secrets

    from sfumato.draws import KEY_BYTES
    from sfumato.private import create_private

    with os.fdopen(create_private(file, "key"), "w", encoding="ascii") as opened:
        opened.write(secrets.token_hex(KEY_BYTES) + "\n")


@app.command()
def sign(
    release: Folder,
    key: Annotated[Path, typer.Option(help="The private key that 'keygen --signing' wrote.")],
    as_json: Json = False,
) -> None:
    """Sign a release, so that readers can tell that it is yours and as you left it."""
    from sfumato.release.signing import sign as sign_release

    signature = sign_release(release, key)
    if as_json:
        show_json(signature.to_json())
    else:
        print(signature)


@app.command()
def verify(
    release: Folder,
    key: Annotated[Path, typer.Option(help="The steward's public key, from a place you trust.")],
    as_json: Json = False,
) -> None:
    """Check a release's signature and every file of it. Exit code 2 where anything differs."""
    from sfumato.release.signing import verify as verify_release

    signature = verify_release(release, key)
    if as_json:
        show_json(signature.to_json())
    else:
        print(signature)
