"""The auditor accepts honest generalized releases and rejects mutated ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.audits import audit
from sfumato.audits.findings import Finding, Verdict
from sfumato.audits.replay import Matches
from sfumato.engines.publishing import publish, repeat
from sfumato.engines.receipts import Receipt
from sfumato.release import Release
from sfumato.table import Table, read


def finding(verdict: Verdict, part: str) -> Finding:
    return next(f for f in verdict.findings if part in f.title)


@pytest.fixture
def eleven() -> Table:
    """Eleven values of a hundred people each: no ten buckets hold whole values evenly."""
    rng = np.random.default_rng(3)
    columns = {
        "age": rng.integers(18, 80, 1100),
        "sex": rng.choice(["f", "m"], 1100),
        "s": rng.permutation(np.repeat([f"v{k:02}" for k in range(11)], 100)),
    }
    return read(pa.table(columns), quasi="age,sex", sensitive="s")


def test_nobody_is_above_one_in_ten(eleven: Table, tmp_path: Path) -> None:
    receipt = tmp_path / "t"
    made = publish(
        eleven, "l-diversity(10)", to=tmp_path / "r", mechanism="heterogeneous", receipt=receipt
    )
    assert made.manifest.suppressed == 0
    assert "xcept" not in " ".join(made.manifest.statement)
    verdict = audit(eleven, tmp_path / "r", receipt=receipt)
    assert verdict.holds, str(verdict)
    share, above = recounted(eleven, tmp_path / "r", receipt, tmp_path / "again")
    assert (share, above) == (Fraction(1, 10), 0)
    assert finding(verdict, "one original record").value == Fraction(1, 10)


def matches_of(table: Table, release: Path, receipt: Path, again: Path) -> Matches:
    seen: list[Matches] = []
    opened = Release(release)
    repeat(Receipt.read(receipt), table, opened, again, lambda *m: seen.append(Matches.of(*m)))
    return seen[0]


def recounted(table: Table, release: Path, receipt: Path, again: Path) -> tuple[Fraction, int]:
    """By hand, from the files: the largest share of a value among anybody's published matches, and
    how many people have some value above one in ten."""
    shown = pq.read_table(Release(release).records[0])["s"].to_pylist()
    found = matches_of(table, release, receipt, again)
    carried: dict[int, list[str]] = defaultdict(list)
    for row in range(len(shown)):
        for record in found.matches[found.starts[row] : found.starts[row + 1]]:
            carried[int(record)].append(shown[row])
    shares = [Fraction(max(Counter(v).values()), len(v)) for v in carried.values()]
    return max(shares), sum(share > Fraction(1, 10) for share in shares)


@pytest.mark.parametrize("people", [1, 7])
def test_a_value_twice_among_somebodys_matches_is_caught(
    eleven: Table, tmp_path: Path, mutate: Callable[..., Path], people: int
) -> None:
    """Rows exchange their values, so that some people meet one twice: the audit counts them."""
    way = "heterogeneous"
    publish(eleven, "l-diversity(10)", to=tmp_path / "r", mechanism=way, receipt=tmp_path / "t")
    found = matches_of(eleven, tmp_path / "r", tmp_path / "t", tmp_path / "one")
    rows_of: dict[int, list[int]] = defaultdict(list)
    for row in range(1100):
        for record in found.matches[found.starts[row] : found.starts[row + 1]]:
            rows_of[int(record)].append(row)

    def exchange(records: pa.Table) -> pa.Table:
        shown = records.column("s").to_pylist()
        for record in range(people):
            one, other = rows_of[record][:2]
            strange = next(r for r in range(len(shown)) if shown[r] == shown[one] and r != one)
            shown[other], shown[strange] = shown[strange], shown[other]
        return records.set_column(records.column_names.index("s"), "s", pa.array(shown))

    broken = mutate(tmp_path / "r", tmp_path / "b", records=exchange)
    share, above = recounted(eleven, broken, tmp_path / "t", tmp_path / "two")
    assert share >= Fraction(2, 10)
    assert above >= people
    judged = finding(audit(eleven, broken, receipt=tmp_path / "t"), "one original record")
    assert not judged.holds
    assert judged.value == share
    assert f"broken for {above:,}" in str(judged.witness)
