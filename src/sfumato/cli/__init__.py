"""The command line: parse, call, show. Heavy imports stay inside the commands."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the `sfumato` program."""
    # typer's pydantic would look for plugins among all packages that are installed
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # matrices are small: OpenBLAS's threads would mostly wait for each other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if set(sys.argv) & {"query", "crosstab"} and "--help" not in sys.argv:
            from sfumato.cli.loading import load_little

            load_little()
        from sfumato.cli.app import run

        run()
    except KeyboardInterrupt:  # while the program was still being loaded
        sys.stderr.write("sfumato: Stopped by SIGINT. Nothing was left behind.\n")
        sys.exit(130)
