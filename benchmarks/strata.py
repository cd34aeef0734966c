"""Do default intervals of buckets hold, by size of count and by how far it lies from independence?

Publishes rows of CENSUS several times and asks for every occupation within conditions that random
people satisfy: counts, sums and means, each with its 95 % interval, held against the raw rows. The
binomial error of a share p of n intervals is √(p(1−p)/n), and more where one release's intervals
hang together.

    .venv/bin/python -m benchmarks.strata [--rows N] [--first N] [--publications N] [GUARANTEE …]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.measure import print_table

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
GUARANTEES = ("l-diversity(5)", "f-privacy(theta=2, floor=0.05)", "beta-likeness(2)")
SIZES = ((0, 0), (1, 10), (11, 50), (51, 200), (201, 500), (501, 2_000))
STRATA = ((0, 1 / 3), (1 / 3, 3), (3, 10), (10, np.inf))
SENSITIVE, CONDITIONS, FEWEST = "occupation", 60, 40


def condition(table: dict[str, np.ndarray], quasi: list[str], draw: np.random.Generator) -> str:
    """What a random person satisfies: one to three columns, half of the numeric ones as ranges."""
    person = draw.integers(len(table[SENSITIVE]))
    found = []
    for column in draw.choice(quasi, draw.integers(1, 4), replace=False):
        value = table[column][person]
        if column in ("age", "education") and draw.random() < 0.5:
            width = draw.integers(2, 12)
            found.append(f"{column} BETWEEN {value - width} AND {value + width}")
        else:
            found.append(f"{column} = {value}")
    return " AND ".join(found)


def held(people: pa.Table, guarantee: str, publications: int) -> list[tuple[float, ...]]:
    """(true count, count under independence, held of COUNT, SUM and AVG) for every answer."""
    quasi = [name for name in people.column_names if name != SENSITIVE]
    columns = {name: people[name].to_numpy().astype(int) for name in people.column_names}
    shares = np.bincount(columns[SENSITIVE]) / len(people)
    raw = duckdb.connect()
    raw.register("release", people)
    draw = np.random.default_rng(11)
    found = []
    for _ in range(publications):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            sf.publish(people, guarantee, to=place, quasi=quasi, sensitive=SENSITIVE)
            release = sf.open(place)
            for _ in range(CONDITIONS):
                where = condition(columns, quasi, draw)
                sql = (
                    f"SELECT {SENSITIVE}, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM release "
                    f"WHERE {where} GROUP BY {SENSITIVE}"
                )
                truth = {value: rest for value, *rest in raw.execute(sql).fetchall()}
                matching = sum(n for n, _, _ in truth.values())
                for row in release.sql(sql).rows():
                    n, s, a = truth.get(row[SENSITIVE], (0, 0, None))
                    inside = [
                        row[f"{name}_low"] - 1e-6 <= true <= row[f"{name}_high"] + 1e-6
                        if true is not None and row[f"{name}_low"] is not None
                        else np.nan
                        for name, true in (("n", n), ("s", s), ("a", a))
                    ]
                    found.append((n, matching * shares[row[SENSITIVE]], *inside))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("guarantees", nargs="*", default=GUARANTEES)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--first", type=int, default=50_000)
    parser.add_argument("--publications", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    people = pq.read_table(DATA / "occ100k.parquet")[asked.first : asked.first + asked.rows]
    for guarantee in asked.guarantees:
        count, independent, *inside = np.array(held(people, guarantee, asked.publications)).T
        ratio = count / np.maximum(independent, 1e-9)
        groups = {
            f"counts {low} to {high}": (count >= low) & (count <= high) for low, high in SIZES
        }
        for low, high in STRATA:
            name = f"{low:.2g} to {high:.2g} × independence"
            groups[name] = (ratio >= low) & (ratio < high) & (count > 0)
        lines = []
        for name, chosen in groups.items():
            if chosen.sum() >= FEWEST:
                shares = [each[chosen & ~np.isnan(each)] for each in inside]
                shown = [f"{each.mean():.1%}" if len(each) >= FEWEST else "" for each in shares]
                lines.append((name, int(chosen.sum()), *shown))
        print_table(
            f"{guarantee}: held by 95 % intervals, {asked.publications} publications",
            ("answers", "number", "COUNT", "SUM(age)", "AVG(age)"),
            lines,
        )


if __name__ == "__main__":
    main()
