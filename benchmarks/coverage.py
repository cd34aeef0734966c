"""Are answers unbiased and intervals honest? (needs SFUMATO_DATA)

    python -m benchmarks.coverage [--publications 200] [--questions 40] [--mechanism uniform]

Publishes `occ100k` again and again with seeds 0, 1, …, asks the same random count questions of
every release through SQL, and compares with the truth: every question's mean should lie within 4.5
standard errors of it, and 95 % intervals should cover 93 to 97 % of all answers.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import duckdb
import numpy as np

import sfumato as sf
from benchmarks.measure import print_table

QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")


def questions(path: Path, how_many: int, seed: int) -> list[str]:
    """Random conjunctions of 1–3 quasi conditions and one occupation, on at least 100 people."""
    generator = np.random.default_rng(seed)
    connection = duckdb.connect()
    people = connection.execute(f"SELECT * FROM '{path}'").fetchnumpy()
    found: list[str] = []
    while len(found) < how_many:
        conditions = []
        mask = np.ones(len(people["age"]), bool)
        for column in generator.choice(QUASI, generator.integers(1, 4), replace=False):
            values = np.unique(people[column])
            low, high = np.sort(generator.choice(values, 2))
            conditions.append(f"{column} BETWEEN {low} AND {high}")
            mask &= (people[column] >= low) & (people[column] <= high)
        if mask.sum() < 100:
            continue
        occupation = generator.choice(np.unique(people["occupation"]))
        conditions.append(f"occupation = {occupation}")
        found.append(f"SELECT COUNT(*) FROM release WHERE {' AND '.join(conditions)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--publications", type=int, default=200)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--mechanism", default="uniform")
    parser.add_argument("--guarantee", default="rho-privacy(0.075, 1/3)")
    given = parser.parse_args()
    path = Path(os.environ.get("SFUMATO_DATA", "../shared/data")) / "occ100k.parquet"
    if not path.exists():
        raise SystemExit(f"{path} is not there: set SFUMATO_DATA.")
    asked = questions(path, given.questions, 1)
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW release AS SELECT * FROM '{path}'")
    truth = np.array([connection.execute(sql).fetchall()[0][0] for sql in asked], float)
    table = sf.read(path, quasi=QUASI, sensitive="occupation")
    values = np.empty((given.publications, len(asked)))
    errors = np.empty_like(values)
    covered = np.empty_like(values, bool)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.publications):
            place = Path(folder) / str(number)
            sf.publish(
                table,
                given.guarantee,
                to=place,
                mechanism=given.mechanism,
                seed=number,
                order="keep",
            )
            release = sf.open(place)
            for index, sql in enumerate(asked):
                answer = release.sql(sql)
                values[number, index], errors[number, index] = answer.value, answer.stderr
                covered[number, index] = answer.low <= truth[index] <= answer.high
    spread = values.std(axis=0, ddof=1)
    off = (values.mean(axis=0) - truth) / (spread / np.sqrt(given.publications))
    stated = np.sqrt((errors**2).mean(axis=0))
    print_table(
        f"{given.guarantee} by {given.mechanism} on occ100k: {given.publications} publications × "
        f"{len(asked)} questions",
        ("figure", "value", "bar"),
        [
            ("largest |mean − truth| in standard errors", float(np.abs(off).max()), "≤ 4.5"),
            ("coverage of 95 % intervals, %", float(100 * covered.mean()), "93 … 97"),
            ("smallest coverage of one question, %", float(100 * covered.mean(axis=0).min()), ""),
            ("stated / actual standard error, median", float(np.median(stated / spread)), "1"),
        ],
    )


if __name__ == "__main__":
    main()
