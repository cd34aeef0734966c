"""What many sensitive values cost after publishing: questions, `describe`, `advise`.

python -m benchmarks.many_values [VALUES …]: 100,000 generated people with 717 and 5,000 values
under `l-diversity(10)` and `beta-likeness(3)`, with default flags. CPU seconds and peak megabytes,
each in a process of its own. At 717 values a first question may take 2 CPU seconds, a later one
0.3, `describe` 2, `advise` over all families 20, and each of them 500 MB; at 5,000 values five
times that. A first question includes starting the program and opening the release. A later one is
the dearest of eight that follow it in one process, and `ten groups` is one more of these, a
condition on two values by ten ages, which asks for ten estimates at once: held to the same bar.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measure import cost_of, own_cpu, print_table
from sfumato.datasets import write_dataset

ROWS = 100_000
EXPONENT = 0.7  # of Zipf's law: the most common value may not be above the ceiling
VALUES = (717, 5_000)
PROMISES = ("l-diversity(10)", "beta-likeness(3)")
BARS = {
    "first question": 2.0,
    "later question": 0.3,
    "ten groups": 0.3,
    "describe": 2.0,
    "advise": 20.0,
}
MEGABYTES = 500.0
ROLES = ["--quasi", "age,group,city", "--sensitive", "value"]
SFUMATO = [sys.executable, "-c", "from sfumato.cli import main; main()"]


def questions(values: list[str]) -> list[str]:
    """A common, a middling and a rare value, with and without conditions; some averages."""
    common, middling, rare = values[0], values[len(values) // 2], values[-1]
    return [
        *(
            f"SELECT COUNT(*) FROM release WHERE value = {each}{more}"
            for each in (common, middling, rare)
            for more in ("", " AND age > 40")
        ),
        f"SELECT AVG(age) FROM release WHERE value = {common}",
        f"SELECT COUNT(*) FROM release WHERE value <> {common}",
        "SELECT value, COUNT(*) FROM release GROUP BY value",
    ]


def ten_groups(values: list[str]) -> str:
    some = f"{values[0]}, {values[len(values) // 2]}"
    return f"SELECT age, COUNT(*) FROM release WHERE value IN ({some}) AND age < 30 GROUP BY age"


def later(folder: str) -> None:
    """In a process of its own: the dearest of the questions after the first, and of ten groups."""
    import resource

    from sqlglot import exp

    import sfumato as sf
    from sfumato.queries.dialect import sql_text

    release = sf.open(folder)
    domain = release.domain("value").to_pylist()
    texts = [sql_text(exp.convert(value)) for value in domain]
    costs = []
    for question in [*questions(texts), ten_groups(texts)]:
        began = own_cpu()
        release.sql(question)
        costs.append(own_cpu() - began)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([[max(costs[1:-1]), most], [costs[-1], most]]))


def measured(
    table: Path, value: str, promise: str, folder: Path, *, first: bool
) -> dict[str, list[float]]:
    release = str(folder / "release")
    made = [*SFUMATO, "publish", str(table), *ROLES, "--guarantee", promise, "--out", release]
    found = {"publish": made}
    found["first question"] = [
        *SFUMATO,
        *("query", release, f"SELECT COUNT(*) FROM release WHERE age > 40 AND value = '{value}'"),
    ]
    found["describe"] = [*SFUMATO, "describe", str(table), *ROLES, "--guarantee", promise]
    if first:  # it looks at all families, whatever was published
        found["advise"] = [*SFUMATO, "advise", str(table), *ROLES]
    costs = {}
    for name, command in found.items():
        cost = cost_of(command)
        costs[name] = [cost.cpu, cost.megabytes]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.many_values", "--later", release],
        capture_output=True,
        text=True,
        check=True,
    )
    costs["later question"], costs["ten groups"] = json.loads(done.stdout)
    return costs


def main() -> None:
    if sys.argv[1:2] == ["--later"]:
        later(sys.argv[2])
        return
    lines: list[list[object]] = []
    for values in [int(given) for given in sys.argv[1:]] or VALUES:
        allowed = 1 if values <= VALUES[0] else 5
        with tempfile.TemporaryDirectory() as place:
            table = Path(place) / "people.parquet"
            write_dataset("zipf", ROWS, table, 0, values=values, exponent=EXPONENT)
            value = pq.read_table(table, columns=["value"]).column(0)[0].as_py()
            for number, promise in enumerate(PROMISES):
                folder = Path(place) / str(number)
                folder.mkdir()
                for name, (cpu, most) in measured(
                    table, value, promise, folder, first=not number
                ).items():
                    bar = BARS.get(name)
                    held = "" if bar is None else "yes" if cpu <= allowed * bar else "no"
                    if bar is not None and most > allowed * MEGABYTES:
                        held = "no"
                    asked = "" if bar is None else f"{allowed * bar:g}"
                    lines.append([f"{values:,}", promise, name, cpu, asked, round(most), held])
                    print(lines[-1], file=sys.stderr)
    columns = ("values", "guarantee", "what", "CPU s", "allowed", "MB", "held")
    print_table("Many values", columns, lines)


if __name__ == "__main__":
    main()
