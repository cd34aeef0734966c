"""Range and prefix counts: seeded, different, and as selective as they should be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from papers.range_questions import RangeCounts


def table(rows: int) -> sf.Table:
    rng = np.random.default_rng(1)
    frame = pa.table({c: rng.integers(0, 20, rows) for c in ("a", "b", "s")})
    return sf.read(frame, quasi="a,b", sensitive="s")


def test_ranges_have_the_expected_selectivity() -> None:
    """On independent, uniform columns a share θ qualifies: the mean of 60 lies within 10 %."""
    people = table(20_000)
    for columns, selectivity in ((1, 0.05), (2, 0.25)):
        counts = RangeCounts.of(
            people, "ranges", count=60, seed=1, columns=columns, selectivity=selectivity
        )
        length = round(20 * selectivity ** (1 / (columns + 1)))
        expected = (length / 20) ** (columns + 1)
        assert counts.truth.mean() / 20_000 == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("kind", ["ranges", "prefixes"])
def test_a_seed_repeats_different_questions(kind: str) -> None:
    people = table(500)
    one, same = (RangeCounts.of(people, kind, count=12, seed=7) for _ in range(2))
    texts = [[question.sql() for question in counts.questions] for counts in (one, same)]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 12
    assert one.truth.min() > 0
