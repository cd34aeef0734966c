"""A file in the manner of the KDD census, by flags alone, and every wrong guess about it.

    nice python -m benchmarks.kdd_file      # into RESULTS.md

No names, leading blanks, `?` for what is missing, Latin-1, semicolons. It is described, published,
audited and asked by the command line with `RIGHT`; then every flag of it is left out or wrong. What
a wrong one does must be an exit code above 0 with one sentence, or a table as the flags say: a `?`
that nobody names is a value, and blanks belong to texts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from benchmarks.measure import report_table
from sfumato.cli.app import _whole_program

ROWS = 5_000
ILLS = ("grippe", "rhume", "fièvre", "toux", "otite")
RIGHT = {
    "--columns": "age,sex,ill,rest",
    "--encoding": "latin-1",
    "--separator": ";",
    "--missing-markers": "?",
    "--trim": None,
}
WRONG = {
    "--columns": "age,sex,ill",
    "--encoding": "utf-8",
    "--separator": ",",
    "--missing-markers": "none",
}
ROLES = ("--quasi", "age,sex", "--sensitive", "ill", "--drop-rest")


def write(path: Path) -> None:
    rng = np.random.default_rng(5)
    lines = [
        f" {20 + n % 50}; {'MF'[n % 2] if n % 9 else '?'}; {ILLS[int(rng.integers(5))]}; x"
        for n in range(ROWS)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")


def flags(said: dict[str, str | None]) -> list[str]:
    return [each for name, value in said.items() for each in (name, value) if each is not None]


def told(*given: object) -> tuple[int, str]:
    """The exit code of a command, and the sentence that it ends with where that is not 0."""
    done = CliRunner().invoke(_whole_program(), [str(each) for each in given])
    told = str(done.exception).replace(str(given[1]), Path(str(given[1])).name)
    return done.exit_code, told if done.exit_code else ""


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path, release = Path(folder) / "census.data", Path(folder) / "release"
        write(path)
        right = flags(dict(RIGHT))
        for name, given in (
            ("describe", ("describe", path, *right, *ROLES)),
            ("publish", ("publish", path, *right, *ROLES, "--guarantee", "l-diversity(3)",
                         "--out", release)),
            ("audit", ("audit", path, release, *right)),
            ("query", ("query", release, "SELECT COUNT(*) FROM release WHERE ill = 'fièvre'")),
        ):  # fmt: skip
            code, _ = told(*given)
            lines.append((name, "all flags", code, ""))
        for flag in RIGHT:
            for how, value in (("left out", None), ("wrong", WRONG.get(flag))):
                said = {name: own for name, own in RIGHT.items() if name != flag}
                if how == "wrong" and value is None:
                    continue
                if value is not None:
                    said[flag] = value
                code, message = told("describe", path, *flags(said), *ROLES)
                shown = f"{flag} {value}" if value else f"{flag} left out"
                lines.append(("describe", shown, code, message if code else "as the flags say"))
    report_table(
        f"A headerless file of {ROWS:,} lines by flags alone",
        ("command", "flags", "exit code", "what is said"),
        lines,
    )


if __name__ == "__main__":
    main()
