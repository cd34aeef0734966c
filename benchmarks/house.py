"""How many rooms a publish and a query walk through, and how large each room is.

python -m benchmarks.house [--list]

Counts the distinct functions and modules of sfumato that are called by one
`publish --guarantee 'l-diversity(5)'` of a small CSV file and by one `query` of that release, from
the command line's entrance on (imports excluded). `--list` names them. Then the packages, with
their modules and lines.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import sfumato as sf
from benchmarks.measure import print_table
from sfumato.cli import main as main_program
from sfumato.datasets import GENERATORS, census

HOUSE = Path(sf.__file__).parent
PROMISE = "l-diversity(5)"
QUESTION = (
    "SELECT occupation, COUNT(*) FROM release WHERE age BETWEEN 30 AND 40 GROUP BY occupation"
)


def passed(run: Callable[[], object]) -> set[tuple[str, str]]:
    """The functions of sfumato that a run calls, as (module, function)."""
    found: set[tuple[str, str]] = set()
    inside = str(HOUSE)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside):
            name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
            # a comprehension is part of its function; the body of a class is its import
            if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
                found.add((str(Path(code.co_filename).relative_to(HOUSE)), name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def command(*words: str) -> Callable[[], None]:
    """A command of sfumato in this process, its output thrown away."""

    def run() -> None:
        sys.argv = ["sfumato", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main_program()

    return run


def packages() -> list[tuple[str, int, int]]:
    """Every package of the house with its modules and lines."""
    modules: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted(HOUSE.rglob("*.py")):
        inside = path.relative_to(HOUSE).parts
        room = inside[0] if len(inside) > 1 else "(the entrance)"
        modules[room] += 1
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    rows = [(room, modules[room], lines[room]) for room in sorted(modules)]
    return [*rows, ("all", modules.total(), lines.total())]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    import pyarrow.csv as pc

    roles = GENERATORS["census"]
    walks: list[tuple[str, set[tuple[str, str]]]] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people, release = f"{folder}/people.csv", f"{folder}/release"
        table = census(20_000, seed=1)
        decoded = [c.cast("string") if "dict" in str(c.type) else c for c in table.columns]
        pc.write_csv(table.from_arrays(decoded, names=table.column_names), people)
        flags = ["--quasi", ",".join(roles.quasi), "--sensitive", roles.sensitive]
        flags += ["--guarantee", PROMISE, "--out"]
        command("publish", people, *flags, f"{folder}/first")()  # imports are not counted
        command("query", f"{folder}/first", QUESTION)()
        publish = command("publish", people, *flags, release)
        walks.append((f"publish {PROMISE}", passed(publish)))
        walks.append(("query", passed(command("query", release, QUESTION))))
    print_table(
        "What one command passes",
        ("command", "functions", "modules"),
        [(name, len(found), len({module for module, _ in found})) for name, found in walks],
    )
    if given.list:
        for name, found in walks:
            print(f"\n{name}:")
            for module, function in sorted(found):
                print(f"  {module}: {function}")
    print_table("Packages", ("package", "modules", "lines"), packages())


if __name__ == "__main__":
    main()
