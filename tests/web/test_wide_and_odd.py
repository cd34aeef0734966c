"""Tables with very many columns or values, and the words and ends of parameters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.outlook.catalogue import allowed_guarantees
from sfumato.profile import Histogram, Profile
from tests.web.conftest import Site


@pytest.mark.slow
def test_120_columns_and_2000_rows_can_be_published(site: Site) -> None:
    """DuckDB had 512 MB for every table: this one "may be damaged", the page said."""
    rng = np.random.default_rng(5)
    wide = {
        f"c{k}": pa.array([f"v{v}" for v in rng.integers(0, 30 if k % 2 else 900, 2000)])
        for k in range(119)
    }
    wide["ill"] = pa.array(np.array(list("abcd"))[rng.integers(0, 4, 2000)])
    pq.write_table(pa.table(wide), site.data / "wide.parquet")
    table = site.table("wide.parquet")
    assert len(table["columns"]) == 120
    roles = dict.fromkeys(wide, "quasi") | {"ill": "sensitive"}
    profile = site.counted(table["table"], roles)["profile"]
    job = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(3)"))
    assert job["state"] == "done", job["error"]


def test_too_many_values_are_refused_before_anything_is_green(site: Site) -> None:
    """73,440 values gave green promises, and then a publication without memory."""
    values = 73_440
    names = pa.array([f"v{k}" for k in range(values)])
    pq.write_table(pa.table({"age": [1] * values, "ill": names}), site.data / "crowd.parquet")
    table = site.table("crowd.parquet")["table"]
    profile = site.counted(table, {"age": "quasi", "ill": "sensitive"})
    assert not any(each["allowed"] for each in profile["allowed"])
    assert "'ill' has 73,440 different values" in profile["allowed"][0]["limit"]
    for guarantee in ("l-diversity(2)", "beta-likeness(3)", "rho-privacy(0.1, 0.3)"):
        found = site.post("/api/predict", profile=profile["profile"], guarantee=guarantee).json()
        assert found["feasible"] is False
        assert "coarser form" in found["reason"]


@pytest.fixture(scope="module")
def uneven() -> Profile:
    """A rarest value of one in 101,766."""
    counts = np.array([50_000, 30_000, 21_765, 1])
    return Profile(101_766, {"ill": Histogram("ill", ("a", "b", "c", "d"), counts)})


def test_sliders_end_where_the_data_end(uneven: Profile) -> None:
    ends = {each.guarantee: dict(each.ends) for each in allowed_guarantees(uneven)}
    assert ends["l-diversity"] == {"l": (2, 2)}
    assert ends["beta-likeness"]["beta"][1] == 101_765
    assert ends["f-privacy"]["theta"] == (1, 101_766)
    assert ends["rho-privacy"]["rho1"][0] == pytest.approx(1 / 101_766)


def test_numbers_are_written_in_full_and_l_is_no_one(uneven: Profile) -> None:
    """ "1.018e+05 times", and "1 in l", which was read as 1 in 1."""
    limits = [each.limit for each in allowed_guarantees(uneven)]
    (histogram,) = uneven.histograms.values()
    texts = ("beta-likeness(101764)", "f-privacy(theta=101766)", "fine-rho-privacy(theta=101765)")
    said = [parse_guarantee(text).statement(histogram) for text in texts]
    words = [cls.title + cls.sentence for cls in GUARANTEES.values()]
    assert not [text for text in (*limits, *said) if "e+" in text]
    assert any("101,76" in text for text in said)
    assert not [text for text in words if "1 in l" in text]
