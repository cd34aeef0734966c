"""Three promises for a wish: each keeps its error, and none leaves people out in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.outlook.advise.cards import cards


@pytest.fixture(scope="module")
def table() -> sf.Table:
    rng = np.random.default_rng(4)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    people = {
        "sex": np.array(["F", "M"])[rng.integers(0, 2, 6000)],
        "region": rng.integers(0, 5, 6000),
        "ill": np.array(["none", "flu", "gout", "asthma", "ulcer", "HIV"])[
            rng.choice(6, 6000, p=shares)
        ],
    }
    return sf.read(pa.table(people), quasi="sex,region", sensitive="ill")


@pytest.fixture(scope="module")
def found(table: sf.Table) -> list[dict[str, Any]]:
    return cards(table, error=0.1)


def test_three_ways_each_within_its_error(found: list[dict[str, Any]]) -> None:
    assert [card["way"] for card in found] == ["safer", "balanced", "sharper"]
    assert [card["wished"] for card in found] == pytest.approx([0.2, 0.1, 0.05])
    for card in found:
        assert card["guarantee"] is not None
        assert card["error"] is not None
        assert card["error"] <= card["wished"]
        assert card["count"] == 500


def test_nobody_is_left_out_in_silence(found: list[dict[str, Any]]) -> None:
    """Two in five people have one value: a promise without a ceiling for them would be easier."""
    for card in found:
        (column,) = card["columns"]
        assert column["without_promise"] == 0, card
        assert column["share"] < column["ceiling"] < 1
        assert card["against"]


@pytest.mark.slow
def test_protected_values_keep_their_ceiling(table: sf.Table) -> None:
    from sfumato.engines.counting import take_profile

    histogram = take_profile(table).histograms["ill"]
    code = histogram.values.index("HIV")
    for card in cards(table, error=0.3, protected=["HIV"]):
        if card["guarantee"] is not None:
            ceiling = sf.parse_guarantee(card["guarantee"]).ceilings(histogram)[code]
            assert float(ceiling) <= max(0.1, 3 * float(histogram.shares[code])) + 1e-12
    with pytest.raises(UsageError, match="which column 'ill' does not have"):
        cards(table, protected=["plague"])


def test_what_holds_against_anybody_is_asked_for(table: sf.Table) -> None:
    for card in cards(table, error=0.3, anybody=True):
        assert card["against"] is None or card["against"].startswith("anybody")


def test_an_error_that_is_none_is_refused(table: sf.Table) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        cards(table, error=1.5)
