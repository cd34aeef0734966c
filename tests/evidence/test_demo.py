"""What `sfumato demo` prints beside the truth."""

from __future__ import annotations

import pytest

from sfumato.evidence.demo import Asked, _beside_truth

ROW = {"job": "nurse", "count": 3.0, "count_stderr": 4.0, "count_low": 0.0, "count_high": 9.0}


@pytest.mark.parametrize(
    ("truth", "row", "ends"),
    [
        ({"count": 5}, {}, "truth 5, inside"),
        ({"count": 10}, {}, "truth 10, outside"),
        (None, {}, "truth 0, inside"),  # a group that the raw table does not have
        ({"count": 7}, {"count_low": 7.0000000001, "count_high": 7.0000000001}, "truth 7, inside"),
    ],
)
def test_an_answer_beside_the_truth(truth: dict[str, int] | None, row: dict, ends: str) -> None:
    asked = Asked("SELECT …", list(ROW), [ROW | row], [truth])
    (line,) = _beside_truth(asked)
    assert line.endswith(ends), line
