"""How exposed people are: numbers against a slow count, wherever they are shown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import exposure as exposure_module
from sfumato.engines.exposure import exposure_of
from sfumato.release import Release

PROMISES = {
    "optimal": "l-diversity(3, open='none')",
    "optimal(fakes=1)": "l-diversity(2, open='none')",
    "uniform": "rho-privacy(0.2, 0.5)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "heterogeneous": "l-diversity(3, open='none')",
}


def people(rows: int = 900) -> pa.Table:
    rng = np.random.default_rng(15)
    values = np.array(["none", "a", "b", "c", "d", "e"])
    ill = rng.choice(values, rows, p=[0.75, 0.05, 0.05, 0.05, 0.05, 0.05]).astype(object)
    ill[:4] = ["one", "two", "two", "none"]
    ill[10:21] = None
    return pa.table(
        {"age": rng.integers(18, 90, rows), "zip": rng.integers(0, 9, rows), "ill": ill}
    )


TABLE = people()
KNOWN = [row for row in TABLE.to_pylist() if row["ill"] is not None]
ROLES: dict[str, Any] = {"quasi": ["age", "zip"], "sensitive": "ill", "missing": "drop"}


@pytest.mark.parametrize("mechanism", PROMISES)
def test_numbers_against_a_slow_count(tmp_path: Path, mechanism: str) -> None:
    made = sf.publish(TABLE, PROMISES[mechanism], to=tmp_path / "r", mechanism=mechanism, **ROLES)
    told = made.exposure
    counts = Counter(row["ill"] for row in KNOWN)
    assert (told.rows, told.dropped, made.rows) == (len(KNOWN), 11, TABLE.num_rows)
    (column,) = told.columns
    assert column.rare_values == sum(count < 5 for count in counts.values()) == 2
    assert column.without_promise == counts["none"]
    alike = Counter((row["age"], row["zip"]) for row in KNOWN)
    exact = mechanism != "heterogeneous"
    assert told.alone == (sum(n == 1 for n in alike.values()) if exact else None)
    if mechanism.startswith("optimal"):
        records = pq.read_table(made.release / "records").to_pylist()
        sizes = Counter(row["bucket"] for row in records)
        assert told.smallest_bucket == min(sizes.values())
        held: dict[int, list[str]] = {}
        for row in pq.read_table(made.release / "sensitive.parquet").to_pylist():
            held.setdefault(row["bucket"], []).append(row["ill"])
        single = sum(sizes[bucket] for bucket, values in held.items() if len(values) == 1)
        assert column.shown_as_it_is == single
        assert (single > 0) == (mechanism == "optimal")
    else:
        assert told.smallest_bucket is None
    assert sf.audit(TABLE, made.release).exposure == told
    alone = exposure_of(Release(made.release))
    assert alone.dropped is None
    assert alone.alone == told.alone
    if mechanism in ("uniform", "partitioned"):  # the release does not tell the counts
        assert (alone.columns[0].rare_values, alone.columns[0].without_promise) == (None, None)
    else:
        assert alone.columns == told.columns


def test_of_many_rows_a_part_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth hash, times four: within 5 standard deviations, which a false alarm of 1e-6
    leaves room for; with the fixed table it cannot change."""
    made = sf.publish(
        TABLE, "rho-privacy(0.2, 0.5)", to=tmp_path / "r", mechanism="uniform", **ROLES
    )
    exact = made.exposure.alone
    monkeypatch.setattr(exposure_module, "_COUNTED", 250)
    told = exposure_of(Release(made.release))
    assert not told.alone_exact
    assert exact is not None
    assert told.alone is not None
    assert abs(told.alone - exact) <= 5 * np.sqrt(exact * 3)
    assert any(line.startswith("About ") for line in told.lines())


def test_the_report_shows_what_the_release_tells(tmp_path: Path) -> None:
    from sfumato.evidence.report import report

    made = sf.publish(TABLE, PROMISES["optimal"], to=tmp_path / "r", **ROLES)
    report(made.release, out=tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "Remaining exposure" in page
    assert "are shown with their value of" in page
