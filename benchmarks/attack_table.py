"""Naive Bayes against beta on CENSUS: which release resists, and which does not.

    SFUMATO_DATA=… SFUMATO_PRIVBAYES_PYTHON=… python -m benchmarks.attack_table [--quick]

Both environment variables are optional: without data, generated records stand in; without a Python
that has DataSynthesizer, PrivBayes is skipped by name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from papers import reproduce


def main() -> None:
    folder = Path(os.environ.get("SFUMATO_DATA", "../shared/data"))
    report = reproduce(
        "attacks",
        quick="--quick" in sys.argv,
        data_dir=folder if folder.is_dir() else None,
        progress=lambda what, share: print(f"{share:4.0%} {what}", file=sys.stderr, flush=True),
    )
    print(report.to_text())
    print(f"{report.seconds:.0f} seconds of processor time")


if __name__ == "__main__":
    main()
