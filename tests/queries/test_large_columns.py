"""Sensitive columns of very many values: O(m) rows of weights give what m² rows give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.queries import OpenedRelease, open_release


def test_ten_thousand_values(tmp_path: Path) -> None:
    """As with few values: whatever is asked of everybody adds up to everybody."""
    rng = np.random.default_rng(4)
    values = np.concatenate([np.arange(10_000), np.minimum(rng.zipf(1.5, 20_000), 9_999)])
    table = pa.table(
        {
            "sex": np.array(["F", "M"])[rng.integers(0, 2, 30_000)],
            "code": [f"c{v:04}" for v in values],
        }
    )
    data = sf.read(table, quasi="sex", sensitive="code")
    sf.publish(data, "rho-privacy(0.3, 0.9)", to=tmp_path / "r", mechanism="uniform")
    release: OpenedRelease = open_release(tmp_path / "r")
    many = len(release.domain("code"))
    assert many == 10_000
    answer = release.sql("SELECT sex, code, COUNT(*) AS n FROM release GROUP BY sex, code")
    assert len(answer) == 2 * many
    assert sum(row["n"] for row in answer.rows()) == pytest.approx(30_000)
    one = release.sql("SELECT COUNT(*) FROM release WHERE code = 'c0001'")
    truth = int((values == 1).sum())
    assert abs(one.value - truth) < 5 * one.stderr
    assert one.stderr > 0
