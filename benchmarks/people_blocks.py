"""People with several rows in local buckets, beside buckets of the whole table.

    nice python -m benchmarks.people_blocks            # 24,000 stays, three tables; into RESULTS.md
    nice python -m benchmarks.people_blocks 6000 2

Stays of the generated hospital, diagnoses by their first letter. Records carry their row number as
a quasi column, so that it is known which were published. Counts by diagnosis and by age group, sex
or region (the same in all rows of a patient), or by the last digit of the row number (which is
not), of 20 rows at least: the median error relative to the count, and how many 95 % intervals hold.
Questions about one release have their draws in common.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.hospital_people import ROUNDING
from benchmarks.measure import own_cpu, report_table
from sfumato.datasets import hospital

PROMISE = "l-diversity(3)"
ASKED = {"age": "age // 20", "sex": "sex", "region": "region", "row": "row % 5"}


def stays(rows: int, seed: int) -> pd.DataFrame:
    frame = hospital(rows, seed=seed, stays=20).to_pandas()
    frame["diagnosis"] = frame["diagnosis"].astype(str).str[:1]
    frame["age"] = frame["age"].astype(int)
    return frame.assign(row=np.arange(len(frame))).drop(columns="admission")


def answers(frame: pd.DataFrame, way: str, rows: int, to: str) -> tuple[int, dict[str, list[Any]]]:
    """How many blocks there are; by condition, for every count its error and whether it held."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    done = sf.publish(
        table, PROMISE, to=to, mechanism=way, person="patient", rows_per_person=rows,
        quasi=["row", "age", "sex", "region"], sensitive="diagnosis",
    )  # fmt: skip
    if not sf.audit(table, to).holds:
        raise AssertionError(f"the audit of {way} fails")
    release: Any = sf.open(to)
    published = frame[frame["row"].isin(pq.read_table(release.records[0])["row"].to_pylist())]
    groups = {
        "age": published["age"] // 20,
        "sex": published["sex"].astype(str),
        "region": published["region"].astype(str),
        "row": published["row"] % 5,
    }
    found: dict[str, list[Any]] = {}
    for name, sql in ASKED.items():
        truth = published.groupby([groups[name], published["diagnosis"]]).size()
        asked = (
            f"SELECT {sql} AS k, diagnosis, COUNT(*) AS n FROM release GROUP BY {sql}, diagnosis"
        )
        for row in release.sql(asked).rows():
            true = int(truth.get((row["k"], row["diagnosis"]), 0))
            if true >= 20:
                held = row["n_low"] - ROUNDING <= true <= row["n_high"] + ROUNDING
                found.setdefault(name, []).append((abs(row["n"] - true) / true, held))
    blocks = [each for each in done.manifest.plan.get("blocks", []) if "buckets" in each]
    return max(len(blocks), 1), found


def main(rows: int, tables: int) -> None:
    lines = []
    for number in (2, 3):
        for way in ("optimal", "local"):
            began, blocks = own_cpu(), []
            every: dict[str, list[Any]] = {name: [] for name in ASKED}
            for seed in range(tables):
                with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    many, found = answers(stays(rows, 100 + seed), way, number, f"{folder}/r")
                blocks.append(many)
                for name, each in found.items():
                    every[name] += each
            told = [
                f"{np.median([error for error, _ in each]):.3f} "
                f"({np.mean([held for _, held in each]):.0%} of {len(each)})"
                for each in every.values()
            ]
            lines.append(
                (number, way, ", ".join(map(str, blocks)), *told, f"{own_cpu() - began:.0f}")
            )
    report_table(
        f"{tables} tables of {rows:,} stays, {PROMISE}",
        ("rows a person", "buckets", "blocks", *(f"by {name}" for name in ASKED), "CPU s"),
        lines,
    )


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*(given if given else (24_000, 3)))
