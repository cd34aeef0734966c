"""Advice that is put to the test: what it recommends is published and measured.

python -m benchmarks.advise [TARGET…]; needs occ100k.parquet in $SFUMATO_DATA. Besides the
recommended release, those of all families that reach the target are made. A target (mean error of
counts of at least 500) should be met within 15 %.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.measure import print_table
from benchmarks.prediction import table_of
from sfumato.engines.publishing import publish
from sfumato.outlook.advise import advise
from sfumato.workloads import (
    SizeClass,
    generate_workload,
    people_of,
    release_answers,
    true_counts,
)

TARGETS = (0.02, 0.05, 0.1, 0.2)
LEAST, RELEASES = 500, 3


def main() -> None:
    warnings.simplefilter("ignore")
    table = table_of("occ100k", "occupation")
    people = people_of(table)
    classes = [SizeClass("large", LEAST, people.rows)]
    # the questions of the advice, and others of the same sizes
    pools = [generate_workload(people, count=300, seed=seed, classes=classes) for seed in (0, 1)]
    truths = [true_counts(pool, people) for pool in pools]
    lines = []
    for target in map(float, sys.argv[1:] or TARGETS):
        begin = time.perf_counter()
        advice = advise(table, target_error=target, min_count=LEAST)
        spent = time.perf_counter() - begin
        for option in advice.options:
            if not option.reached:
                lines.append((target, option.family, "–", "not reached", option.error, *[None] * 4))
                continue
            measured: list[list[float]] = [[], []]
            for seed in range(RELEASES):
                with tempfile.TemporaryDirectory() as folder:
                    to = Path(folder) / "r"
                    publish(
                        table, option.guarantee, to=to, mechanism=option.mechanism, seed=seed + 10
                    )
                    for found, pool, truth in zip(measured, pools, truths, strict=True):
                        answers = release_answers(pool, to).estimates
                        found.append(float(np.mean(np.abs(answers - truth) / truth)))
            lines.append(
                (
                    target,
                    str(option.guarantee),
                    str(option.mechanism),
                    "recommended" if option is advice.recommended else "",
                    option.error,
                    float(np.mean(measured[0])),
                    float(np.mean(measured[0])) / target,
                    max(measured[0]) / target,
                    float(np.mean(measured[1])) / target,
                )
            )
        print(f"target {target:g}: advice in {spent:.1f} s", file=sys.stderr)
    print_table(
        f"Advice on occ100k, counts of {LEAST} or more; measured on {RELEASES} releases",
        (
            "target",
            "guarantee",
            "mechanism",
            "",
            "predicted",
            "measured",
            "measured / target",
            "worst release",
            "other questions",
        ),
        lines,
    )


if __name__ == "__main__":
    main()
