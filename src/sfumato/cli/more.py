"""crosstab, complete, generate, keygen, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sfumato.cli import options
from sfumato.cli.options import Flag, Shown, command
from sfumato.errors import DataError
from sfumato.pace import Progress


@command(
    options.RELEASE,
    Flag("rows", str, "The column down, or an expression of columns.", ..., argument=True),
    Flag("columns", str, "The column across.", ..., argument=True),
    Flag("where", str, "Only records that satisfy this, in SQL."),
    options.CONFIDENCE,
    options.ESTIMATOR,
    options.THREADS,
    options.PLOT,
    stage="counting",
)
def crosstab(
    release: Path,
    rows: str,
    columns: str,
    plot: Path | None,
    progress: Progress,
    **settings: Any,
) -> Shown:
    """Count two columns against each other."""
    from sfumato.queries import open_release
    from sfumato.queries.estimators import estimated_by

    table = open_release(release).crosstab(rows, columns, **settings)
    if plot is not None:
        table.plot(plot)
    note = estimated_by(table.estimator)
    return Shown(f"{table}\n{note}" if note else table, table)


@command(
    options.RELEASE,
    Flag("out", Path, "Folder for the copies; must not exist.", ...),
    Flag("copies", int, "How many completed tables.", 5),
    Flag("seed", int, "Repeatable draws. They hide nothing: that is safe here."),
    options.THREADS,
    stage="reading",
)
def complete(release: Path, out: Path, copies: int, **settings: Any) -> Shown:
    """Write tables in which every record has a likely sensitive value, for any other tool.

    Made from the release alone, so what it promises holds. Analyse every copy and put the results
    together by Rubin's rules (`sf.combine`).
    """
    from sfumato.queries import open_release

    opened = open_release(release)
    paths = opened.complete(copies, to=out, **settings)
    return Shown(
        f"Wrote {len(paths)} completed tables of {opened.rows:,} rows to {out}\n"
        "A value in them is a draw, not the person's: analyse every copy, and combine.",
        {"files": [str(path) for path in paths], "rows": opened.rows},
    )


@command(
    Flag("name", str, "census or hospital.", ..., argument=True),
    Flag("rows", int, "How many people.", ...),
    Flag("out", Path, "The Parquet file to write.", ...),
    Flag("seed", int, "The same seed gives the same table.", 0),
    Flag("stays", int, "hospital: patients have up to so many rows.", 1, least=1),
)
def generate(name: str, rows: int, out: Path, seed: int, stays: int) -> Shown:
    """Write a realistic table without real people, to try things on."""
    from sfumato.datasets import GENERATORS, PATIENT, write_dataset

    write_dataset(name, rows, out, seed, stays)
    (quasi, sensitive), person = GENERATORS[name], PATIENT if stays > 1 else None
    whose = f" --person {person}" if person else ""
    return Shown(
        f"Wrote {rows:,} rows to {out}\n"
        f"  --quasi {','.join(quasi)} --sensitive {sensitive}{whose}",
        {"file": str(out), "rows": rows, "quasi": quasi, "sensitive": [sensitive],
         "person": person},
    )  # fmt: skip


@command(Flag("file", Path, "Where to write the key; must not exist.", ..., argument=True))
def keygen(file: Path) -> Shown:
    """Make a key for --key-file. Keep it secret: it undoes the draws."""
    import secrets

    from sfumato.draws import KEY_BYTES
    from sfumato.private import private_file

    with private_file(file, "key") as opened:
        opened.write(f"{secrets.token_hex(KEY_BYTES)}\n".encode())
    return Shown(f"Wrote a new key to {file}, readable by you alone.", {"key_file": str(file)})


_DEMO = (  # what a steward does, and an analyst
    ("init", "people.parquet", "--yes"),
    ("publish",),
    (
        "query",
        "SELECT occupation, COUNT(*) FROM release WHERE education >= 14 AND age >= 45 "
        "GROUP BY occupation ORDER BY COUNT(*) DESC LIMIT 5",
    ),
    ("audit",),
    ("report", "--out", "report", "--attack", "linkage", "--attack", "naive-bayes",
     "--targets", "500", "--questions", "200"),
)  # fmt: skip
_MARK = ".sfumato-demo"  # only a folder that a demo made is emptied by the next one


@command(
    Flag("out", Path, "Folder for everything the demo makes.", Path("demo")),
    Flag("rows", int, "How many people to generate.", 50_000),
)
def demo(out: Path, rows: int) -> Shown:
    """Generate a census-like table and run five commands on it: the whole round."""
    import shlex
    import shutil
    import subprocess
    import sys

    from sfumato.datasets import write_dataset

    if out.exists():
        if not (out / _MARK).is_file():
            raise DataError(
                f"{str(out)!r} exists and was not made by a demo. Choose another --out."
            )
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / _MARK).touch()
    write_dataset("census", rows, out / "people.parquet", 0)
    program = [sys.executable, "-c", "from sfumato.cli import main; main()"]
    for words in _DEMO:
        print(f"\n$ {shlex.join(['sfumato', *words])}", flush=True)
        done = subprocess.run([*program, *words], cwd=out, stdout=sys.stdout, check=False)
        if done.returncode:
            raise typer.Exit(done.returncode)
    return Shown(
        f"\nAll of it lies in {out}: open {out / 'report' / 'report.html'}.\n"
        "With a file of your own: sfumato init people.csv",
        {"folder": str(out)},
    )
