"""Ceiling promises: exact ceilings, text forms, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import (
    BetaLikeness,
    EnhancedBetaLikeness,
    FPrivacy,
    LDiversity,
    parse_guarantee,
)
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.profile import Histogram

DISEASES = Histogram("disease", ("flu", "HIV", None), np.array([6, 1, 3]))


def test_ceilings_are_exact():
    assert LDiversity(3).ceilings(DISEASES) == [Fraction(1, 3)] * 3
    assert BetaLikeness("1/3").ceilings(DISEASES) == [
        Fraction(4, 5),
        Fraction(2, 15),
        Fraction(2, 5),
    ]
    assert FPrivacy(theta=2, floor="0.05").ceilings(DISEASES)[1:] == [
        Fraction(1, 4),
        Fraction(13, 20),
    ]


def test_limits_come_from_a_file_and_the_path_stays_out(tmp_path):
    path = tmp_path / "limits.csv"
    path.write_text("value,limit\nHIV,0.3\n(missing),2/5\n*,1\n", encoding="utf-8")
    promise = parse_guarantee(f"f-privacy(@{path})")
    assert promise.ceilings(DISEASES) == [Fraction(1), Fraction(3, 10), Fraction(2, 5)]
    assert str(tmp_path) not in str(promise)
    assert parse_guarantee(str(promise)) == promise
    assert "'HIV' 30.00 %" in promise.statement(DISEASES)
    assert "Nothing is promised about: 'flu'" in promise.statement(DISEASES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value,limit\nHIV,0.3\n", "no row for 'flu', (missing)"),
        ("value,limit\nHIV,0.3\nape,1\n*,1\n", "name 'ape'"),
        ("value,limit\nHIV,0.3\nHIV,1\n*,1\n", "stands twice"),
        ("value\nHIV\n", "needs the columns value, limit"),
        ("value,limit\n", "and rows"),
    ],
)
def test_wrong_limit_files_are_refused(tmp_path, text, message):
    path = tmp_path / "limits.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message.replace("(", r"\(").replace(")", r"\)")):
        parse_guarantee(f"f-privacy(@{path})").ceilings(DISEASES)


@pytest.mark.parametrize(
    "text",
    [
        "f-privacy(floor=0.1)",
        "f-privacy(limits=*:1, doubt=0.1)",
        "f-privacy(theta=2, doubt=1.1)",
        "f-privacy(theta=1, limits=*:1)",
        "f-privacy(floor=0.1, limits=a:1)",
        "f-privacy(limits=a:0)",
        "f-privacy(limits=a)",
    ],
)
def test_nonsense_is_refused(text):
    with pytest.raises(UsageError):
        parse_guarantee(text)


def test_infeasible_names_witness_and_nearest():
    with pytest.raises(InfeasibleGuarantee) as caught:
        LDiversity(2).require_feasible(DISEASES)
    assert caught.value.witness == "'flu'"
    assert caught.value.nearest is None
    counts = Histogram("s", ("a", "b", "c"), np.array([4, 4, 2]))
    with pytest.raises(InfeasibleGuarantee) as caught:
        LDiversity(3).require_feasible(counts)
    assert caught.value.nearest == "l-diversity(2)"
    with pytest.raises(InfeasibleGuarantee) as caught:
        FPrivacy(theta="1/2", floor="0.1").require_feasible(counts)
    parse_guarantee(caught.value.nearest).require_feasible(counts)
    BetaLikeness("0.001").require_feasible(counts)  # any beta above 0 leaves room


def test_limits_by_hand_beside_a_formula(tmp_path):
    """HIV has its own limit, the others theta times their share and a floor (paper, 3.2)."""
    promise = parse_guarantee("f-privacy(theta=1, floor=0.05, limits='HIV:0.12')")
    assert promise.ceilings(DISEASES) == [Fraction(13, 20), Fraction(3, 25), Fraction(7, 20)]
    told = promise.statement(DISEASES)
    assert "1 times its share in the table plus 5.00 %" in told
    assert "limit of their own: 'HIV' 12.00 %" in told
    with pytest.raises(DataError, match="gout"):  # a limit for what nobody can have
        parse_guarantee("f-privacy(theta=1, limits=gout:0.1)").ceilings(DISEASES)
    with pytest.raises(InfeasibleGuarantee) as refused:
        parse_guarantee("f-privacy(theta=1, limits=HIV:0.05)").require_feasible(DISEASES)
    assert refused.value.witness == "'HIV'"
    people = pa.table({"age": range(400), "ill": ["HIV", "flu", "flu", "cold", "gout"] * 80})
    made = sf.publish(people, "f-privacy(theta=1.5, floor=0.02, limits='HIV:0.21')",
                      to=tmp_path / "r", quasi="age", sensitive="ill")  # fmt: skip
    assert made.manifest.guarantee == "f-privacy(theta=1.5, floor=0.02, limits='HIV:0.21')"
    found = sf.audit(people, tmp_path / "r")
    assert found.holds
    hiv = next(f for f in found.findings if f.check.name == "posterior" and f.about == "'HIV'")
    assert hiv.value <= Fraction(21, 100)


def test_part_of_the_doubt_remains() -> None:
    """A rare value gets the floor, a common one keeps a quarter of the doubt, and any shares do."""
    promise = parse_guarantee("f-privacy(theta=2, floor=0.05, doubt=1/4)")
    assert str(promise) == "f-privacy(theta=2, floor=0.05, doubt=0.25)"
    assert parse_guarantee(str(promise)) == promise
    people = Histogram("ill", ("flu", "HIV", "gout"), np.array([98, 1, 1]))
    assert promise.ceilings(people) == [Fraction(199, 200), Fraction(7, 100), Fraction(7, 100)]
    assert "At least 25.00 % of the doubt" in promise.statement(people)
    assert "chance of at most 7 %, instead of 1 %" in meaning_for_a_person(promise, people)
    assert promise.does_not_protect[0].startswith("groups of values")
    for counts in ([1, 1], [999, 1], [9, 0, 1], [5]):
        column = Histogram("s", tuple("abc"[: len(counts)]), np.array(counts))
        promise.require_feasible(column)
        assert all(
            f < 1 or p == 1 for f, p in zip(promise.ceilings(column), column.shares, strict=True)
        )
    assert "has one value only" in promise.statement(column)


def test_enhanced_ceilings_are_never_above_the_definition() -> None:
    """f·(1 + min(beta, −ln f)), rounded down, and below 1 for whatever not everybody has."""
    counts = np.array([1, 2, 30, 467, 500, 0])
    histogram = Histogram("s", tuple("abcdef"), counts)
    ceilings = EnhancedBetaLikeness(2).ceilings(histogram)
    for share, ceiling in zip(counts / 1000, map(float, ceilings), strict=True):
        wanted = share * (1 + min(2, -math.log(share))) if share else 0.0
        assert ceiling == pytest.approx(wanted, rel=1e-14)
        assert share <= ceiling < 1
    assert ceilings[0] == Fraction(3, 1000)
    EnhancedBetaLikeness(2).require_feasible(histogram)
    assert EnhancedBetaLikeness(2).left_out(histogram) == []
    assert EnhancedBetaLikeness(2).ceilings(Histogram("s", ("a",), np.array([9]))) == [1]
