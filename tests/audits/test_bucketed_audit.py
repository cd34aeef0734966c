"""The audit of bucketed releases finds what is wrong, and where."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.audits import audit
from sfumato.audits.catalogue import POSTERIOR
from sfumato.engines.publishing import publish
from sfumato.table import read

RNG = np.random.default_rng(8)
TABLE = pa.table(
    {
        "zip": RNG.integers(0, 400, 900),
        "sex": np.where(RNG.random(900) < 0.5, "F", "M"),
        "disease": np.array(list("abcdefgh"))[RNG.integers(0, 8, 900)],
    }
)


@pytest.fixture
def release(tmp_path):
    publish(
        read(TABLE, quasi=["zip", "sex"], sensitive="disease"),
        "l-diversity(4)",
        to=tmp_path / "r",
        mechanism="optimal",
    )
    return tmp_path / "r"


def rewrite(folder, name, change, plan=None):
    """Change a file of a release and sign it anew, as a forger would."""
    path = folder / name
    table = change(pq.read_table(path))
    pq.write_table(table, path, store_schema=False)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
    }
    manifest.update(plan or {})
    (folder / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )


def failing(folder):
    verdict = audit(TABLE, folder)
    return {finding.check.name: finding for finding in verdict.findings if not finding.holds}


def test_a_good_release_passes_and_names_posteriors(release):
    verdict = audit(TABLE, release)
    assert verdict.holds, str(verdict)
    posteriors = [f for f in verdict.findings if f.check is POSTERIOR]
    assert len(posteriors) == 8
    assert all(f.value <= 0.25 and "bucket" in f.witness for f in posteriors)


def test_swapped_buckets_of_two_records_are_found(release):
    def swap(records):
        bucket = records["bucket"].to_numpy().copy()
        bucket[:450] = np.roll(bucket[:450], 1)
        return records.set_column(records.column_names.index("bucket"), "bucket", pa.array(bucket))

    rewrite(release, "records/part-00000.parquet", swap)
    assert "members" in failing(release)


def test_a_bucket_above_its_ceiling_is_found_exactly(release):
    """Turn one listed value of bucket 0 into another of its values: 2 of 4."""

    def double(listed):
        first = pc.equal(listed["bucket"], listed["bucket"][0])
        rows = listed.filter(first)
        rest = listed.filter(pc.invert(first))
        counts = rows["count"].to_pylist()
        counts[0] += counts[1]
        rows = rows.set_column(2, "count", pa.array(counts, listed["count"].type))
        return pa.concat_tables([rows.slice(0, 1), rows.slice(2), rest])

    rewrite(release, "sensitive.parquet", double)
    found = failing(release)
    assert "ceilings" in found
    assert "bucket 0" in found["ceilings"].witness
    assert "bucket-histogram" in found


def test_missing_and_surplus_values_are_found(release):
    rewrite(release, "sensitive.parquet", lambda listed: listed.slice(1))
    found = failing(release)
    assert {"bucket-sizes", "bucket-histogram"} <= set(found)


def test_a_foreign_release_with_larger_buckets_is_judged_by_its_own_promise(release):
    rewrite(release, "sensitive.parquet", lambda t: t, plan={"guarantee": "l-diversity(6)"})
    found = failing(release)
    assert "ceilings" in found
    assert found["ceilings"].value == 8


def test_fakes_are_audited_too(tmp_path):
    publish(
        read(TABLE, quasi=["zip", "sex"], sensitive="disease"),
        "l-diversity(4)",
        to=tmp_path / "r",
        mechanism="optimal(fakes=2)",
    )
    assert audit(TABLE, tmp_path / "r").holds
