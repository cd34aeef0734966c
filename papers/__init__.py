"""Rerun the papers: one module each, all with the same `run` and the same report.

A module `papers.<module>` offers
`run(*, quick: bool, data_dir: Path | None, progress: Progress) -> Reproduction`.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from papers.report_html import report_html
from sfumato.errors import UsageError
from sfumato.pages.tables import Reproduction

Progress = Callable[[str, float], None]  # what is being done, and the share done so far

# name on the command line -> module, imported only when asked for
PAPERS: dict[str, str] = {
    "f-privacy": "f_privacy",
    "attacks": "attacks",
    "heterogeneous": "heterogeneous",
    "perturbation": "perturbation",
    "splu": "splu",
    "reconstruction": "reconstruction",
}


def reproduce(
    name: str,
    *,
    out: Path | None = None,
    quick: bool = False,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Rerun a paper; with `out`, write `<name>.json` and `<name>.html` into that folder.

    `data_dir` holds the public data sets, where the user has them; without it generated data
    stand in, and the notes say so.
    """
    if name not in PAPERS:
        raise UsageError(
            f"There is no reproduction {name!r}. Choose one of: {', '.join(sorted(PAPERS))}."
        )
    module = importlib.import_module(f"papers.{PAPERS[name]}")
    start = time.perf_counter()
    result: Reproduction = module.run(
        quick=quick, data_dir=data_dir, progress=progress or (lambda what, share: None)
    )
    result = replace(result, seconds=time.perf_counter() - start)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        (out / f"{name}.html").write_text(report_html(result), encoding="utf-8")
    return result
