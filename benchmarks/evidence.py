"""What evidence costs and finds: CPU and memory of the commands, false alarms, attacks.

python -m benchmarks.evidence [costs] [alarms] [attacks] [--releases 60] [--write]

`costs`: 100,000 generated people with 700 values; each command against publishing the same table.
`alarms`: honest releases of small tables, every mechanism, audited. `attacks`: the best attack on
each release of 10,000 people of `occ100k`, over guessing the commonest value.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.measure import CENSUS_QUASI, DATA, SFUMATO, census, cost_of, report, zipf
from sfumato import datasets

AT_MOST = {  # CPU s, MB
    "describe": (2, 400),
    "advise": (12, 500),
    "attack": (60, 1200),
    "report": (60, 1200),
    "compare": (90, None),
    "audit": (9, 700),
}
ROLES = ["--quasi", "age,group,city", "--sensitive", "value"]
COMPARED = ("l-diversity(5)", "beta-likeness(2)", "rho-privacy(0.08, 1/3)", "small-sum(groups=5)")
RELEASES = (
    ("rho-privacy(0.08, 1/3)", "uniform"),
    ("fine-rho-privacy(theta=8.5)", "fine-grain"),
    ("rho-privacy(0.08, 1/3)", "partitioned"),
    ("small-sum(groups=5)", "splu"),
    ("reconstruction-privacy(0.3, 0.3)", "sps"),
    ("l-diversity(5)", "optimal"),
    ("l-diversity(5)", "local"),
    ("beta-likeness(3)", "optimal"),
    ("f-privacy(theta=2, floor=0.05)", "optimal"),
    ("l-diversity(5)", "heterogeneous"),
    ("beta-likeness(3)", "burel"),
)


def costs() -> Iterator[list[object]]:
    with tempfile.TemporaryDirectory() as folder:
        table, release = Path(folder, "people.parquet"), Path(folder, "release")
        pq.write_table(zipf(100_000, 700), table)
        named = [str(table), *ROLES]
        compared = [word for candidate in COMPARED for word in ("--candidate", candidate)]
        promise = ["--guarantee", "beta-likeness(2)"]
        commands = {
            "publish": ["publish", *named, *promise, "--out", str(release)],
            "describe": ["describe", *named, *promise],
            "advise": ["advise", *named],
            "audit": ["audit", str(table), str(release)],
            "attack": ["attack", str(table), str(release)],
            "report": ["report", str(release), "--table", str(table), "--out", f"{folder}/page"],
            "compare": ["compare", *named, *compared, "--out", f"{folder}/compared"],
        }
        reference = 0.0
        for name, words in commands.items():
            cost = cost_of([*SFUMATO, *words], cwd=Path(folder))
            reference = reference or cost.cpu
            seconds, megabytes = AT_MOST.get(name, (None, None))
            over = (seconds is not None and cost.cpu > seconds) or (
                megabytes is not None and cost.megabytes > megabytes
            )
            allowed = "" if seconds is None else f"{seconds} s" + (
                f", {megabytes} MB" if megabytes else ""
            )  # fmt: skip
            yield [name, cost.cpu, cost.cpu / reference, round(cost.megabytes), allowed,
                   "over" if over else "ok" if allowed else ""]  # fmt: skip


def alarms(number: int) -> Iterator[list[object]]:
    """Honest releases of 600 people, by mechanism: how many an audit does not accept."""
    for guarantee, mechanism in RELEASES:
        failed: Counter[str] = Counter()
        for seed in range(number):
            table = datasets.census(600, seed=seed).select(["age", "gender", "occupation"])
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                path = Path(folder, "release")
                roles: dict[str, Any] = {"quasi": ["age", "gender"], "sensitive": "occupation"}
                try:
                    sf.publish(table, guarantee, to=path, mechanism=mechanism, **roles)
                except sf.InfeasibleGuarantee:
                    continue
                verdict = sf.audit(table, path)
                failed.update(f.check.name for f in verdict.findings if f.holds is False)
        told = ", ".join(f"{name} {times}" for name, times in failed.items()) or "none"
        yield [f"{mechanism}, {guarantee}", number, told]


def attacks() -> Iterator[list[object]]:
    table = sf.read(census(rows=10_000), quasi=CENSUS_QUASI, sensitive="occupation")
    for guarantee, mechanism in RELEASES:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder, "release")
            sf.publish(table, guarantee, to=path, mechanism=mechanism, seed=1)
            outcomes = list(sf.attack(table, path, fresh=False, targets=10_000))
        best = max(outcomes, key=lambda outcome: outcome.success.value)
        others = ", ".join(f"{o.attack} {o.success.value:.1%}" for o in outcomes if o is not best)
        right = best.success.value
        yield [f"{mechanism}, {guarantee}", best.attack, f"{right:.1%}", right / best.prior, others]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["costs", "alarms", "attacks"])
    parser.add_argument("--releases", type=int, default=60)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if "costs" in options.parts:
        note = (
            "100,000 generated people, 700 values; CPU over that of publishing `beta-likeness(2)`."
        )
        heads = ["command", "CPU s", "ratio", "MB", "at most", ""]
        report("Evidence", note, heads, costs(), options.write)
    if "alarms" in options.parts:
        note = "Honest releases of 600 generated people: checks that failed."
        heads = ["release", "audited", "failed"]
        report("False alarms", note, heads, alarms(options.releases), options.write)
    if "attacks" in options.parts and (DATA / "occ100k.parquet").is_file():
        note = "10,000 people of `occ100k`, right guesses; ratio to guessing the commonest value."
        heads = ["release", "best attack", "right", "ratio", "other attacks"]
        report("Attacks", note, heads, attacks(), options.write)


if __name__ == "__main__":
    main()
