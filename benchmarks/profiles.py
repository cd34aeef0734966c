"""Sets of illnesses, a yes/no column each: do intervals about one, two and three of them hold?

    python -m benchmarks.profiles [publications]  # 200: 40 CPU seconds

People and their illnesses are generated: obesity goes with age, diabetes with obesity. Every
release keeps the promise for what all columns tell together.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import own_cpu, print_table

PROMISE = "rho-privacy(0.3, 0.8)"
ILLNESSES = ("obesity", "diabetes", "flu", "cancer", "asthma")
ASKED = (
    "obesity = 'yes'",
    "obesity = 'yes' AND diabetes = 'yes'",
    "flu = 'yes' AND cancer = 'yes'",
    "flu = 'yes' OR cancer = 'yes'",
    "obesity = 'yes' AND diabetes = 'yes' AND flu = 'no'",
)


def people(rows: int, seed: int = 2) -> pa.Table:
    draw = np.random.default_rng(seed)
    age, chance = draw.integers(0, 4, rows), draw.random((rows, 5))
    obese = chance[:, 0] < 0.15 + 0.05 * age
    limits = (0.15 + 0.05 * age, np.where(obese, 0.35, 0.06), 0.1, 0.02 + 0.03 * age, 0.12)
    has = {name: chance[:, k] < limits[k] for k, name in enumerate(ILLNESSES)}
    return pa.table({"age": age, **{name: np.where(who, "yes", "no") for name, who in has.items()}})


def main(publications: int) -> None:
    table = people(6000)
    raw = duckdb.connect()
    raw.register("release", table)
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {where}) AS a{k}" for k, where in enumerate(ASKED))
    sql = f"SELECT age, {counts} FROM release GROUP BY age ORDER BY age"
    truth = raw.sql(sql).to_arrow_table().to_pydict()
    held = np.zeros((len(ASKED), publications, 4), bool)
    spread = np.zeros(len(ASKED))
    for number in range(publications):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seeded
            place = Path(folder) / "release"
            sf.publish(
                table,
                PROMISE,
                to=place,
                mechanism="uniform",
                quasi="age",
                sensitive=ILLNESSES,
                joint=True,
                seed=number,
            )
            answer = sf.open(place, verify=False).sql(sql).to_arrow().to_pydict()
        for k in range(len(ASKED)):
            low, high = np.array(answer[f"a{k}_low"]), np.array(answer[f"a{k}_high"])
            held[k, number] = (low <= truth[f"a{k}"]) & (truth[f"a{k}"] <= high)
            spread[k] += np.mean(answer[f"a{k}_stderr"]) / publications
    print_table(
        f"Profiles: {PROMISE} of five yes/no columns together, 6,000 people, {publications} "
        f"publications, four age bands each, {own_cpu():.0f} CPU s",
        ("asked", "true counts", "standard error", "held"),
        [
            (
                where,
                ", ".join(map(str, truth[f"a{k}"])),
                f"{spread[k]:.0f}",
                f"{held[k].mean():.1%} ± {2 * held[k].mean(axis=1).std() / publications**0.5:.1%}",
            )
            for k, where in enumerate(ASKED)
        ],
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
