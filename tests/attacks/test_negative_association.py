"""What quasi values rule out is learned from a release, and struck off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.attacks import parse_attack
from sfumato.attacks.negative_association import NegativeAssociation, ruled_out_of
from sfumato.attacks.people import read_people
from sfumato.attacks.range_views import view_of
from sfumato.errors import UsageError
from sfumato.release import Release
from sfumato.table import read


@pytest.fixture(scope="module")
def people() -> pa.Table:
    """Half the illnesses are women's and half are men's; city means nothing."""
    rng = np.random.default_rng(4)
    sex = rng.integers(0, 2, 4000)
    ill = 2 * rng.choice(5, 4000) + sex
    city = rng.integers(0, 1500, 4000)
    return pa.table({"sex": sex, "city": city, "ill": [f"i{code}" for code in ill]})


@pytest.fixture(scope="module")
def release(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("buckets") / "release"
    sf.publish(people, "l-diversity(5)", to=to, mechanism="optimal", quasi="sex,city",
               sensitive="ill", categorical="sex,city")  # fmt: skip
    return to


def test_what_is_ruled_out_is_what_the_table_rules_out(people: pa.Table, release: Path) -> None:
    """5 of 10 values for either sex, by 95 % each; a city of three people rules nothing out."""
    table = read(people, quasi="sex,city", sensitive="ill", categorical="sex,city")
    coded = read_people(table, "ill")
    view = view_of(Release(release), coded)
    struck = ruled_out_of(view, coded, 0.4)
    never = np.zeros_like(struck)
    for sex in (0, 1):
        mine = coded.codes[0] == sex
        never[mine] = np.bincount(coded.truth[mine], minlength=coded.values) == 0
    assert struck[never].mean() > 0.9
    assert struck[~never].mean() < 0.01


def test_striking_off_beats_the_list(people: pa.Table, release: Path) -> None:
    """One of five by the list, one of about two and a half by what is left of it."""
    plain, struck = (
        sf.attack(people, release, attacks=name, fresh=False)[0]
        for name in ("linkage", "negative-association(0.4)")
    )
    assert struck.success.value > plain.success.value + 0.05
    assert struck.figures["values struck off a list, on average"] > 1
    assert struck.over_fresh is None


def test_its_form_and_its_limits() -> None:
    assert str(parse_attack("negative-association(0.2)")) == "negative-association(threshold=0.2)"
    assert parse_attack("negative-association") == NegativeAssociation()
    with pytest.raises(UsageError, match="at least 0 and below 1"):
        parse_attack("negative-association(1)")
