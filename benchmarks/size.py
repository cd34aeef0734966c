"""How large sfumato is, and how much of it one publish and one query pass.

python -m benchmarks.size [--list] [--write]

Lines and files of every package, of tests, benchmarks, papers and documents, options of
`publish --help`, and the functions and modules of sfumato that one `sf.publish` of a CSV file and
one question call (in a warm process: imports and caches are not counted), beside version 0.2 and
beside what version 0.3 was to have at most. `--list` names the functions.
"""

from __future__ import annotations

import argparse
import inspect
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import sfumato as sf
from benchmarks.measure import report

PACKAGE = Path(sf.__file__).parent
ROOT = PACKAGE.parent.parent
# commit 5419454, measured by this script
BEFORE: dict[str, tuple[int, int]] = {
    "src": (76674, 502),
    "tests": (40579, 246),
    "benchmarks": (7539, 60),
    "papers": (6346, 51),
    "docs": (8037, 54),
    "README": (133, 1),
    "src: top modules": (2418, 19),
    "src: attacks": (3097, 27),
    "src: audits": (5454, 30),
    "src: checks": (1051, 6),
    "src: cli": (2000, 17),
    "src: datasets": (1520, 10),
    "src: engines": (6658, 38),
    "src: evidence": (2913, 20),
    "src: guarantees": (3141, 23),
    "src: learn": (2032, 17),
    "src: mechanisms": (13893, 92),
    "src: metadata": (609, 7),
    "src: operators": (9274, 51),
    "src: outlook": (3404, 25),
    "src: pages": (1197, 7),
    "src: queries": (7781, 45),
    "src: release": (2349, 17),
    "src: table": (3662, 19),
    "src: web": (2933, 22),
    "src: workloads": (1288, 10),
    "options of publish --help": (52, 1),
    "publish": (286, 53),
    "publish buckets": (548, 83),
    "query": (279, 38),
    "query buckets": (321, 42),
    "count without a sensitive column": (227, 34),
}
# lines and files, or functions and modules
AT_MOST: dict[str, tuple[int, int | None]] = {
    "src": (42_000, 270),
    "tests": (25_000, None),
    "benchmarks": (2_500, None),
    "papers": (5_500, None),
    "docs": (4_200, 24),
    "README": (120, 1),
    "options of publish --help": (25, None),
    "publish": (170, 35),
    "query": (120, 22),
    "count without a sensitive column": (40, 12),
    "src: top modules": (1_400, None),
    "src: cli": (1_200, None),
    "src: web": (2_300, None),
    "src: evidence": (1_400, None),
    "src: outlook": (1_600, None),
    "src: workloads": (500, None),
    "src: export": (350, None),
    "src: learn": (1_000, None),
    "src: pages": (700, None),
    "src: attacks": (1_600, None),
    "src: checks": (600, None),
    "src: audits": (2_400, None),
    "src: queries": (4_600, None),
    "src: engines": (3_000, None),
    "src: release": (1_300, None),
    "src: datasets": (600, None),
    "src: mechanisms": (7_500, None),
    "src: guarantees": (1_700, None),
    "src: operators": (4_300, None),
    "src: table": (1_800, None),
}
QUESTION = (
    "SELECT occupation, COUNT(*) FROM release WHERE age BETWEEN 30 AND 40 GROUP BY occupation"
)
NOTE = (
    "Lines and files of each part; functions and modules that one command passes in a warm process."
)
PLAIN_QUESTION = "SELECT COUNT(*) FROM release WHERE age BETWEEN 30 AND 40"


def lines_and_files(paths: Iterable[Path]) -> tuple[int, int]:
    files = [path for path in paths if "__pycache__" not in path.parts]
    return sum(len(path.read_text("utf-8").splitlines()) for path in files), len(files)


def sizes() -> dict[str, tuple[int, int]]:
    """Lines and files of every part."""
    parts = {
        "src": PACKAGE.rglob("*.py"),
        "tests": (ROOT / "tests").rglob("*.py"),
        "benchmarks": (ROOT / "benchmarks").rglob("*.py"),
        "papers": (ROOT / "papers").rglob("*.py"),
        "docs": (ROOT / "docs").rglob("*.md"),
        "README": [ROOT / "README.md"],
        "src: top modules": PACKAGE.glob("*.py"),
    }
    for folder in sorted(PACKAGE.iterdir()):
        if (folder / "__init__.py").exists():
            parts[f"src: {folder.name}"] = folder.rglob("*.py")
    return {name: lines_and_files(paths) for name, paths in parts.items()}


def options_of_publish() -> int:
    """The options that `publish --help` lists, without `--help` itself."""
    program = [sys.executable, "-c", "from sfumato.cli import main; main()", "publish", "--help"]
    text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    return len(set(re.findall(r"^\W*(--[a-z][a-z-]*)", text, re.MULTILINE)) - {"--help"})


def functions_called(run: Callable[[], object]) -> set[tuple[str, str]]:
    """The functions of sfumato that a run calls, as (module, function)."""
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        # a comprehension is part of its function; the body of a class is its import
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            module = str(Path(code.co_filename).relative_to(PACKAGE))
            functions.add((module, code.co_qualname))

    run()  # imports and caches
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return functions


def walks() -> dict[str, set[tuple[str, str]]]:
    """The functions that one publish, one query and one plain count call."""
    import pyarrow.csv as pc

    from sfumato.datasets import GENERATORS, census

    roles = GENERATORS["census"]
    table = census(20_000, seed=1)
    texts = [c.cast("string") if "dict" in str(c.type) else c for c in table.columns]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people = Path(folder, "people.csv")
        pc.write_csv(table.from_arrays(texts, names=table.column_names), people)

        def publish(guarantee: str, mechanism: str | None, name: str) -> Callable[[], object]:
            numbers = iter(range(9))
            options: dict[str, Any] = {"mechanism": mechanism} if mechanism else {}
            return lambda: sf.publish(
                people,
                quasi=list(roles.quasi),
                sensitive=roles.sensitive,
                guarantee=guarantee,
                to=Path(folder, f"{name}{next(numbers)}"),
                **options,
            )

        perturbed = functions_called(publish("rho-privacy(0.08, 1/3)", "uniform", "perturbed"))
        buckets = functions_called(publish("l-diversity(5)", None, "buckets"))
        return {
            "publish": perturbed,
            "publish buckets": buckets,
            "query": functions_called(
                lambda: sf.open(Path(folder, "perturbed0")).sql(QUESTION),
            ),
            "query buckets": functions_called(
                lambda: sf.open(Path(folder, "buckets0")).sql(QUESTION)
            ),
            "count without a sensitive column": functions_called(
                lambda: sf.open(Path(folder, "buckets0")).sql(PLAIN_QUESTION)
            ),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--store", action="store_true", help="print the figures as Python")
    options = parser.parse_args()
    passed = walks()
    figures = sizes()
    figures["options of publish --help"] = (options_of_publish(), 1)
    for name, functions in passed.items():
        figures[name] = (len(functions), len({module for module, _ in functions}))
    if options.store:
        for name, (lines, files) in figures.items():
            print(f'    "{name}": ({lines}, {files}),')
        return
    rows = []
    for name, (lines, files) in sorted(figures.items(), key=lambda pair: ":" in pair[0]):
        lines_before, files_before = BEFORE.get(name, (0, 0))
        most, most_files = AT_MOST.get(name, (None, None))
        over = (most is not None and lines > most) or (
            most_files is not None and files > most_files
        )
        allowed = "" if most is None else f"{most:,}" + (f" / {most_files}" if most_files else "")
        rows.append(
            (
                name,
                f"{lines_before:,} / {files_before}" if lines_before else "",
                f"{lines:,} / {files}",
                f"{lines / lines_before:.2f}" if lines_before else "",
                allowed,
                "" if most is None else "over" if over else "ok",
            )
        )
    columns = ("lines / files, or functions / modules", "0.2", "now", "ratio", "at most", "")
    report("Size", NOTE, columns, rows, options.write)
    if options.list:
        for name, functions in passed.items():
            print(f"\n{name}:")
            for module, function in sorted(functions):
                print(f"  {module}: {function}")


if __name__ == "__main__":
    main()
