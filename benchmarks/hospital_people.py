"""A hospital whose patients have 1 to 20 stays: publish, query, audit, attack, and average.

    nice python -m benchmarks.hospital_people [rows]  # into RESULTS.md

Records carry their row number as a quasi column, so that the reader knows whose they are.
*Averaging* multiplies what all rows of a patient show, for a reader who takes it that the rows of
a patient share a value: odds may rise γ times by the promise. In buckets the patient is anybody of
the bucket, so the largest share of holders over its ceiling is told instead; the promise is 1.
Intervals are of counts of published rows by age group and diagnosis, 20 rows at least. The attack
is `naive-bayes`, on 500 rows, withheld ones among them.
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
from benchmarks.measure import own_cpu, report_table
from sfumato.datasets import hospital
from sfumato.guarantees import CeilingGuarantee, parse_guarantee
from sfumato.profile import Holders

ROUNDING = 1e-6  # of an interval that is a single number
CASES = (
    ("rho-privacy(0.1, 0.4)", "uniform", (None, 1, 2, 3)),
    ("beta-likeness(4)", "optimal", (1, 2, 3)),
    ("beta-likeness(4)", "local", (2, 3)),
)


def stays(rows: int) -> pd.DataFrame:
    """Diagnoses by their first letter, ages in groups of twenty years."""
    frame = hospital(rows, seed=11, stays=20).to_pandas()
    frame["diagnosis"] = frame["diagnosis"].astype(str).str[:1]
    frame["age"] = frame["age"].astype(int) // 20
    return frame.assign(row=np.arange(len(frame)))[["patient", "row", "age", "sex", "diagnosis"]]


def odds_by_averaging(frame: pd.DataFrame, records: pd.DataFrame, release: Any) -> float:
    """How often, at most, the odds of a value rise by all rows of a patient."""
    domain = release.domain("diagnosis").to_pylist()
    matrix = np.log(release.operators["diagnosis"].matrix())
    shown = records.set_index("row")["diagnosis"].map({v: c for c, v in enumerate(domain)})
    whose = frame.set_index("row")["patient"].loc[shown.index].to_numpy()
    likely = np.zeros((int(whose.max()) + 1, len(domain)))
    np.add.at(likely, whose, matrix[:, shown.to_numpy()].T)
    likely = np.exp(likely[np.unique(whose)])
    share = frame["diagnosis"].value_counts(normalize=True).reindex(domain).to_numpy()
    belief = share * likely / (likely @ share)[:, None]
    return float((belief / (1 - belief) / (share / (1 - share))).max())


def worst_share(frame: pd.DataFrame, release: Any, promise: CeilingGuarantee, rows: int) -> float:
    """The largest share of holders of a value in a bucket, over its ceiling."""
    listed = pq.read_table(release.file("sensitive")).to_pandas()
    whole = pq.read_table(release.records[0], columns=["row", "bucket"]).to_pandas()
    whole = whole.merge(frame[["row", "patient", "diagnosis"]], on="row")
    people = whole.groupby("bucket")["patient"].nunique()
    if rows == 1:
        held = listed.set_index(["bucket", "diagnosis"])["count"]
    else:
        held = listed.groupby(["bucket", "diagnosis"])["holder"].nunique()
    values = release.domain("diagnosis").to_pylist()
    holders = whole.groupby("diagnosis")["patient"].nunique().reindex(values, fill_value=0)
    column = Holders(
        "diagnosis", tuple(values), holders.to_numpy(), int(whole["patient"].nunique())
    )
    ceilings = dict(zip(values, map(float, promise.ceilings(column)), strict=True))
    share = held / people.reindex(held.index.get_level_values(0)).to_numpy()
    limit = np.array([ceilings[value] for value in held.index.get_level_values(1)])
    return float((share.to_numpy() / limit).max())


def intervals_held(frame: pd.DataFrame, records: pd.DataFrame, release: Any) -> tuple[int, int]:
    """How many intervals of counts by age and diagnosis hold, and of how many."""
    published = frame[frame["row"].isin(records["row"])]
    truth = published.groupby(["age", "diagnosis"]).size()
    sql = "SELECT age, diagnosis, COUNT(*) AS n FROM release GROUP BY age, diagnosis"
    held = of = 0
    for row in release.sql(sql).rows():
        true = int(truth.get((row["age"], row["diagnosis"]), 0))
        if true >= 20:
            inside = row["n_low"] - ROUNDING <= true <= row["n_high"] + ROUNDING
            held, of = held + inside, of + 1
    return held, of


def main(rows: int) -> None:
    frame, found = stays(rows), []
    for promise, way, numbers in CASES:
        for number in numbers:
            began = own_cpu()
            named = {"drop": ["patient"]} if number is None else {"person": "patient"}
            roles: dict[str, Any] = {
                "quasi": ["row", "age", "sex"], "sensitive": "diagnosis",
                "rows_per_person": number, **named,
            }  # fmt: skip
            people = pa.Table.from_pandas(frame, preserve_index=False)
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sf.publish(people, promise, to=f"{folder}/r", mechanism=way, left_out=1, **roles)
                release: Any = sf.open(f"{folder}/r")
                kept = sf.audit(people, f"{folder}/r").holds
                attacked = sf.attack(people, f"{folder}/r", attacks="naive-bayes", targets=500)
                records = pq.read_table(release.records[0]).to_pandas()
                guarantee = parse_guarantee(promise)
                if isinstance(guarantee, CeilingGuarantee):
                    worst = worst_share(frame, release, guarantee, number or 1)
                else:
                    worst = odds_by_averaging(frame, records, release)
                held, of = intervals_held(frame, records, release)
            found.append(
                (
                    f"{promise}, {way}",
                    "without --person" if number is None else number,
                    f"{len(records):,}",
                    "holds" if kept else "fails",
                    f"{worst:.2f}",
                    f"{attacked[0].success.value:.3f}",
                    f"{held} of {of}",
                    f"{own_cpu() - began:.0f}",
                )
            )
    report_table(
        f"{rows:,} stays of {frame['patient'].nunique():,} patients",
        ("promise", "rows a person", "published", "audit", "averaging", "naive Bayes right",
         "intervals held", "CPU s"),
        found,
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8_000)
