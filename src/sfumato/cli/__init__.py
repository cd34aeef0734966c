"""The command line: parse, call, show. Heavy imports stay inside the commands."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `sfumato` program."""
    from sfumato.cli.app import run

    run()
