"""How far off are large counts, and do their intervals hold?

    python -m benchmarks.large_counts [conditions] [publications]  # 40 and 2: 20 CPU seconds

`occ100k`, conjunctions of one to three quasi columns that some person satisfies, no two alike;
for each the count of every occupation. The mean of |estimate − truth| / truth by size of the
truth, and the share of true counts that their 95 % interval holds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.measure import own_cpu, print_table

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
QUASI = ["age", "gender", "education", "marital", "race", "workclass", "country"]
RELEASES = (
    ("beta-likeness(2)", "optimal"),
    ("beta-likeness(2)", "two-size"),
    ("beta-likeness(2)", None),
    ("small-sum(groups=5)", "splu"),
)
CLASSES = (("501–2,000", 501, 2000), ("above 2,000", 2001, 10**9))


def main(conditions: int, publications: int) -> None:
    table = pq.read_table(DATA / "occ100k.parquet")
    raw = {name: table[name].to_numpy() for name in table.column_names}
    values = np.unique(raw["occupation"])
    draw, asked = np.random.default_rng(7), dict[str, np.ndarray]()
    while len(asked) < conditions:
        person = int(draw.integers(table.num_rows))
        names = sorted(draw.choice(QUASI, draw.integers(1, 4), replace=False))
        meets = np.logical_and.reduce([raw[name] == raw[name][person] for name in names])
        where = " AND ".join(f"{name} = {raw[name][person]}" for name in names)
        asked[where] = (raw["occupation"][meets, None] == values).sum(axis=0)
    rows = []
    for promise, mechanism in RELEASES:
        before = own_cpu()
        found = [_answers(table, promise, mechanism, list(asked), n) for n in range(publications)]
        truth = np.array(list(asked.values()))
        for name, least, most in CLASSES:
            there = (truth >= least) & (truth <= most)
            off = [np.abs(value - truth)[there] / truth[there] for value, _, _ in found]
            held = [((low <= truth) & (truth <= high))[there] for _, low, high in found]
            error, share = float(np.mean(off)), float(np.mean(held))
            rows.append((promise, mechanism or "(chosen)", name, int(there.sum()), f"{error:.1%}",
                         f"{share:.1%}", f"{own_cpu() - before:.0f}"))  # fmt: skip
    title = f"Large counts: occ100k, {conditions} conditions, {publications} publications each"
    columns = ("promise", "mechanism", "true count", "counts", "mean error", "held", "CPU s")
    print_table(title, columns, rows)


def _answers(
    table: object, promise: str, mechanism: str | None, asked: list[str], seed: int
) -> tuple[np.ndarray, ...]:
    """Estimates and ends of intervals, conditions by occupations."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seeded; values that buckets cannot tell apart
        place = Path(folder) / "release"
        sf.publish(table, promise, to=place, mechanism=mechanism, quasi=QUASI,
                   sensitive="occupation", seed=seed)  # fmt: skip
        release = sf.open(place, verify=False)
        found = []
        for where in asked:
            sql = f"SELECT occupation, COUNT(*) AS n FROM release WHERE {where} GROUP BY occupation"
            answer = release.sql(f"{sql} ORDER BY occupation").to_arrow()
            found.append([answer[name].to_numpy() for name in ("n", "n_low", "n_high")])
    return tuple(np.array(found).transpose(1, 0, 2))


if __name__ == "__main__":
    main(*(int(given) for given in (sys.argv[1:] + ["40", "2"][len(sys.argv) - 1 :])))
