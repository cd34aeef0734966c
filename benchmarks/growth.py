"""How publishing, asking and planning grow with records and with values.

python -m benchmarks.growth [records] [values] [--most 50000000] [--write]

`records`: `publish` and one `query` of generated census records from 0.5 to 50 million, CPU per
million over that of the smallest. `values`: 100,000 people with 50 to 5,000 values; what each
command costs over its cost at 50 values. Every command runs in a process of its own.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measure import SFUMATO, cost_of, generated, report, zipf
from benchmarks.publish_speed import publish_command

RECORDS = (500_000, 5_000_000, 20_000_000, 50_000_000)
VALUES = (50, 717, 5_000)
GUARANTEES = (
    "l-diversity(5)",
    "beta-likeness(3)",
    "rho-privacy(0.08, 1/3)",
    "small-sum(groups=5)",
)
ROLES = ["--quasi", "age,group,city", "--sensitive", "value"]
BARS = {"query": (2.0, 500), "describe": (2.0, 400)}  # CPU s and MB at 717 values
HEADS = ("what", "of", "CPU s", "ratio", "MB", "at most")


def records(most: int) -> Iterator[list[object]]:
    question = "SELECT occupation, COUNT(*) FROM release WHERE age < 40 GROUP BY occupation"
    for guarantee in ("rho-privacy(0.08, 1/3)", "l-diversity(5)"):
        first: dict[str, float] = {}
        for rows in [number for number in RECORDS if number <= most]:
            source = generated("census", rows)
            with tempfile.TemporaryDirectory(dir=source.parent) as folder:
                release = Path(folder, "release")
                commands = {
                    "publish": publish_command(source, release, "--guarantee", guarantee),
                    "query": [*SFUMATO, "query", str(release), question],
                }
                for name, command in commands.items():
                    cost = cost_of(command)
                    each = cost.cpu / rows
                    ratio = each / first.setdefault(name, each)
                    yield [f"{name}, {guarantee}", f"{rows / 1e6:g} M records", cost.cpu, ratio,
                           round(cost.megabytes), ""]  # fmt: skip


def values() -> Iterator[list[object]]:
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in VALUES:
            table = Path(folder, f"people{number}.parquet")
            pq.write_table(zipf(100_000, number), table)
            for guarantee in GUARANTEES:
                release = Path(folder, "release")
                named = [str(table), *ROLES, "--guarantee", guarantee]
                question = "SELECT COUNT(*) FROM release WHERE age > 40 AND value = 'v00003'"
                commands = {
                    "publish": [*SFUMATO, "publish", *named, "--out", str(release)],
                    "query": [*SFUMATO, "query", str(release), question],
                    "describe": [*SFUMATO, "describe", *named],
                    "audit": [*SFUMATO, "audit", str(table), str(release)],
                }
                for name, command in commands.items():
                    try:
                        cost = cost_of(command)
                    except RuntimeError as error:
                        yield [f"{name}, {guarantee}", f"{number:,} values", "failed",
                               str(error).strip().splitlines()[-1][:80], "", ""]  # fmt: skip
                        continue
                    ratio = cost.cpu / first.setdefault(f"{name} {guarantee}", cost.cpu)
                    bar = BARS.get(name) if number == 717 else None
                    allowed = "" if bar is None else f"{bar[0]:g} s, {bar[1]} MB"
                    yield [f"{name}, {guarantee}", f"{number:,} values", cost.cpu, ratio,
                           round(cost.megabytes), allowed]  # fmt: skip
                shutil.rmtree(release, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["records", "values"])
    parser.add_argument("--most", type=int, default=RECORDS[-1])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if "records" in options.parts:
        note = "CPU per record over that of the smallest table."
        rows = list(records(options.most))
        report("Growth with records", note, HEADS, rows, options.write)
    if "values" in options.parts:
        note = "100,000 generated people; CPU over that at 50 values."
        report("Growth with values", note, HEADS, list(values()), options.write)


if __name__ == "__main__":
    main()
