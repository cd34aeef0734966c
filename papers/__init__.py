"""Rerun the papers: one module each, all with the same parts and the same report.

A module `papers.<module>` offers

- `TITLE`, and `NOTES` that hold for every run;
- `STEPS`, what is printed and how;
- `CLAIMS`, what the paper says of it;
- `prepare(*, quick: bool, data_dir: Path | None)`, the data that the steps share, with `notes`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from papers.page import write_paper
from papers.steps import Progress, beside_the_paper, check_names, run_steps
from papers.tables import Reproduction
from sfumato.errors import UsageError

# name on the command line -> module, imported only when asked for
PAPERS: dict[str, str] = {
    "f-privacy": "f_privacy",
    "attacks": "attacks",
    "heterogeneous": "heterogeneous",
    "perturbation": "perturbation",
    "splu": "splu",
    "reconstruction": "reconstruction",
}


def paper(name: str) -> ModuleType:
    """The module of a paper, by its name on the command line."""
    if name not in PAPERS:
        raise UsageError(
            f"There is no reproduction {name!r}. Choose one of: {', '.join(sorted(PAPERS))}."
        )
    return importlib.import_module(f"papers.{PAPERS[name]}")


def reproduce(
    name: str,
    *,
    out: Path | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Rerun a paper; with `out`, write `<name>.json` and `<name>.html` into that folder.

    `only` names tables and figures; without it all are made. `data_dir` holds the public data sets,
    where the user has them; without it generated data stand in, and the notes say so.
    """
    module = paper(name)
    check_names(only, module.STEPS)
    show = progress or (lambda what, share: None)
    start = time.process_time()
    show("reading data", 0.0)
    made = module.prepare(quick=quick, data_dir=data_dir)
    found = run_steps(module.STEPS, made, only, show)
    verdicts = beside_the_paper(module.CLAIMS, found)
    tables = [*found.tables, *([verdicts] if verdicts else [])]
    show("done", 1.0)
    seconds = time.process_time() - start
    result = Reproduction(
        name, module.TITLE, tables, found.series, (*module.NOTES, *made.notes), seconds
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_paper(result, out)
    return result
