"""How much audits notice: false alarms, groups left unprotected, one changed record.

    nice python -m benchmarks.audit_power honest 250      # honest releases of every mechanism
    nice python -m benchmarks.audit_power groups 5        # releases of each that cheat
    nice python -m benchmarks.audit_power replay 1000000  # one record in so many, and its price

20,000 people of CENSUS (rows 20,000 to 40,000 of `occ100k`). `groups` shows everybody with one
quasi value, or one true value, as they are, in a release that is honest otherwise: the smallest
groups of 60 people or more of every column. An alarm is any finding of the whole audit that does
not hold.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.datasets import write_dataset
from sfumato.release import FileEntry

MECHANISMS = {
    "uniform": "rho-privacy(0.08, 1/3)",
    "fine-grain(objective=counts)": "fine-rho-privacy(theta=6)",
    "partitioned": "rho-privacy(0.08, 1/3)",
    "splu": "small-sum(groups=5)",
}
QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
SENSITIVE = "occupation"
LEAST = 60


def census() -> pa.Table:
    source = Path("../shared/data/occ100k.parquet")
    return pq.read_table(source).slice(20_000, 20_000)


def publish(table: pa.Table, mechanism: str, to: Path, **more: object) -> None:
    roles = {"quasi": list(QUASI), "sensitive": SENSITIVE}
    sf.publish(table, MECHANISMS[mechanism], to=to, mechanism=mechanism, **roles, **more)


def alarms(table: pa.Table, release: Path) -> list[str]:
    findings = sf.audit(table, release).findings
    return [finding.check.name for finding in findings if finding.holds is False]


def honest(number: int) -> None:
    table, seen, raised = census(), Counter[str](), Counter[str]()
    for _ in range(number):
        for mechanism in MECHANISMS:
            with tempfile.TemporaryDirectory() as folder:
                publish(table, mechanism, Path(folder) / "r")
                seen[mechanism] += 1
                for name in alarms(table, Path(folder) / "r"):
                    raised[f"{mechanism}: {name}"] += 1
        told = f"{seen.total():,} honest releases, {raised.total()} alarms"
        print(told, dict(raised), flush=True)


def small_groups(table: pa.Table) -> dict[str, np.ndarray]:
    """The smallest group of 60 or more people of every column."""
    found = {}
    for column in (*QUASI, SENSITIVE):
        values, codes = np.unique(table[column].to_numpy(zero_copy_only=False), return_inverse=True)
        sizes = np.bincount(codes)
        possible = np.flatnonzero(sizes >= LEAST)
        smallest = possible[sizes[possible].argmin()]
        found[f"{column} = {values[smallest]} ({sizes[smallest]} people)"] = codes == smallest
    return found


def show_truly(table: pa.Table, release: Path, who: np.ndarray) -> None:
    """Put true values into a release that kept the table's order."""
    shown = pq.read_table(release / "records.parquet", columns=[SENSITIVE])[SENSITIVE]
    put(release, pc.if_else(pa.array(who), table[SENSITIVE].cast(shown.type), shown))


def put(release: Path, shown: pa.ChunkedArray) -> None:
    """Show these values, with a manifest that agrees."""
    path = release / "records.parquet"
    records = pq.read_table(path)
    place = records.schema.get_field_index(SENSITIVE)
    changed = records.set_column(place, records.schema.field(place), shown)
    pq.write_table(changed, path)
    manifest = json.loads((release / "manifest.json").read_text())
    entry = FileEntry.of(path)
    manifest["files"]["records.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (release / "manifest.json").write_text(json.dumps(manifest))


def groups(number: int) -> None:
    table = census()
    print("| mechanism | group left unprotected | found |\n| --- | --- | --- |")
    for mechanism in MECHANISMS:
        for name, who in small_groups(table).items():
            found = 0
            for _ in range(number):
                with tempfile.TemporaryDirectory() as folder:
                    publish(table, mechanism, Path(folder) / "r", order="keep")
                    show_truly(table, Path(folder) / "r", who)
                    judged = alarms(table, Path(folder) / "r")
                    found += bool({"agreement", "subgroups"} & set(judged))
            print(f"| `{mechanism}` | {name} | {found} of {number} |", flush=True)


def replay(rows: int) -> None:
    """Publish with a receipt, change one record, audit with the receipt; CPU of both."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_dataset("census", rows, place / "people.parquet", seed=1)
        roles = {"quasi": ["age", "gender", "education"], "sensitive": SENSITIVE}
        dropped = ["marital", "race", "workclass", "country"]
        table = sf.read(place / "people.parquet", drop=dropped, **roles)
        began = time.process_time()
        sf.publish(
            table,
            "rho-privacy(0.08, 1/3)",
            to=place / "r",
            mechanism="uniform",
            receipt=place / "x",
        )
        published = time.process_time() - began
        began = time.process_time()
        verdict = sf.audit(table, place / "r", receipt=place / "x")
        audited = time.process_time() - began
        shown = pq.read_table(place / "r" / "records.parquet", columns=[SENSITIVE])[SENSITIVE]
        at = rows // 3
        other = next(value for value in shown[:1000] if value != shown[at])
        one = pa.chunked_array([pa.array([other.as_py()], shown.type)])
        pieces = (*shown[:at].chunks, *one.chunks, *shown[at + 1 :].chunks)
        put(place / "r", pa.chunked_array(pieces))
        found = sf.audit(table, place / "r", receipt=place / "x").holds is False
    print(
        f"{rows:,} records: honest {'passes' if verdict.holds else 'FAILS'}, one changed record "
        f"{'found' if found else 'MISSED'}; CPU of publishing {published:.1f} s, of the replay "
        f"{audited:.1f} s, {audited / published:.2f} times"
    )


if __name__ == "__main__":
    {"honest": honest, "groups": groups, "replay": replay}[sys.argv[1]](int(sys.argv[2]))
