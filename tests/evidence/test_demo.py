"""What `sfumato demo` prints beside the truth."""

from __future__ import annotations

import pytest

from sfumato.evidence.demo import _beside

ROW = {"count": 3.0, "count_stderr": 4.0, "count_low": 0.0, "count_high": 9.0}


@pytest.mark.parametrize(
    ("truth", "row", "ends"),
    [
        (5, {}, "truth 5, inside"),
        (10, {}, "truth 10, outside"),
        (0, {}, "truth 0, inside"),  # a group that the raw table does not have
        (7, {"count_low": 7.0000000001, "count_high": 7.0000000001}, "truth 7, inside"),
    ],
)
def test_an_answer_beside_the_truth(truth: int, row: dict, ends: str) -> None:
    assert _beside(ROW | row, "count", {"count": truth}).endswith(ends)
