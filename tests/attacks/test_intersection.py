"""Two bucketed releases of the same people: what they tell together, attacked and audited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Everybody is singled out, and knows nothing of their value by it."""
    rng = np.random.default_rng(1)
    return pa.table({"age": np.arange(600), "ill": [f"i{c}" for c in rng.choice(10, 600)]})


@pytest.fixture(scope="module")
def twice(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("twice")
    for number in (1, 2, 3):
        sf.publish(people, "l-diversity(5)", to=folder / str(number), mechanism="optimal",
                   quasi="age", sensitive="ill")  # fmt: skip
    return [folder / str(number) for number in (1, 2, 3)]


def test_every_release_more_tells_more(people: pa.Table, twice: list[Path]) -> None:
    """Lists of five of ten values share the true one, and 4/9 · 4 others: about 1/2.5 are right.

    600 people at 0.37 or more: 0.3 is beyond three standard errors of 0.02.
    """
    first, *others = twice
    (alone,) = sf.attack(people, first, attacks="linkage", fresh=False)
    (both,) = sf.attack(people, first, attacks="intersection", others=others[:1])
    (three,) = sf.attack(people, first, attacks="intersection", others=others)
    assert alone.success.value < 0.26 < 0.3 < both.success.value < three.success.value
    assert both.figures["people beyond the promise"] > 0.5
    assert both.figures["largest chance of a value"] == pytest.approx(1)
    assert "not computed" in (both.note or "")


def test_what_cannot_be_intersected_is_one_sentence(
    people: pa.Table, twice: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="name it with with="):
        sf.attack(people, twice[0], attacks="intersection", fresh=False)
    with pytest.raises(UsageError, match="intersection alone"):
        sf.attack(people, twice[0], attacks="linkage", others=twice[1:])
    sf.publish(people, "rho-privacy(0.2, 0.5)", to=tmp_path / "drawn", mechanism="uniform",
               quasi="age", sensitive="ill")  # fmt: skip
    with pytest.raises(UsageError, match="does not list values by bucket or range"):
        sf.attack(people, twice[0], attacks="intersection", others=[tmp_path / "drawn"])


def test_ranges_of_two_releases_tell_beyond_the_promise_of_one(
    people: pa.Table, tmp_path: Path
) -> None:
    """The composition attack: values that both releases' ranges hold.

    About fifty records hold a person, most by accident, so little is learned of most people; but
    for many of them the products go beyond 1/5, which no list of one release does.
    """
    for number in (1, 2):
        sf.publish(people, "l-diversity(5)", to=tmp_path / str(number), mechanism="heterogeneous",
                   quasi="age", sensitive="ill")  # fmt: skip
    (both,) = sf.attack(
        people, tmp_path / "1", attacks="intersection", others=[tmp_path / "2"], targets=200
    )
    assert both.figures["releases"] == 2
    assert both.figures["largest chance of a value"] > 0.2
    assert both.figures["people beyond the promise"] > 0.02
