"""The command line: parse, call, show. Heavy imports stay inside the commands."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `sfumato` program."""
    try:
        from sfumato.cli.app import run

        run()
    except KeyboardInterrupt:  # while the program was still being loaded
        import sys

        sys.stderr.write("sfumato: Stopped by SIGINT. Nothing was left behind.\n")
        sys.exit(130)
