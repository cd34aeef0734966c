"""fine-rho-privacy: text form, limits files, exact limits, messages."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.columns import usual_text
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import FineRhoPrivacy, parse_guarantee
from sfumato.guarantees.value_table import ChanceLimits, Limit
from sfumato.profile import Histogram


def histogram(*counts: int, values: tuple[object, ...] | None = None) -> Histogram:
    named = values or tuple(f"v{k}" for k in range(len(counts)))
    return Histogram("s", named, np.array(counts, np.int64))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=8)
            .map(usual_text)
            .filter(lambda t: t.strip() == t and t not in ("", "*")),
            st.fractions(Fraction(1, 1000), Fraction(1, 2)),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda row: row[0],
    )
)
def test_any_value_survives_the_text_form(rows) -> None:
    limits = ChanceLimits(tuple(Limit(v, rho, (rho + 1) / 2) for v, rho in rows))
    promise = FineRhoPrivacy(limits=limits)
    assert parse_guarantee(str(promise)) == promise


def test_theta_limits() -> None:
    promise = FineRhoPrivacy(theta=Fraction(3))
    gammas = promise.odds_limits(histogram(40, 40, 15, 5, 0))
    assert gammas[:2] == [None, None]  # 3 · 0.4 ≥ 1: nothing is promised (T13)
    assert gammas[2] == Fraction(45, 100) * Fraction(85, 100) / (
        Fraction(15, 100) * Fraction(55, 100)
    )
    assert gammas[4] == 3  # the limit as the share goes to 0 (T17)
    assert promise.ceilings(histogram(40, 40, 15, 5, 0))[2:] == [
        Fraction(45, 100),
        Fraction(15, 100),
        0,
    ]


def test_limits_file(tmp_path: Path) -> None:
    path = tmp_path / "limits.csv"
    path.write_text("value, rho1 ,rho2\n1,0.1,0.3\n(missing),1/13,1/6\n*,,\n")
    promise = parse_guarantee(f"fine-rho-privacy(@{path})")
    assert isinstance(promise, FineRhoPrivacy)
    counts = histogram(5, 80, 10, values=(1, 2, None))
    assert promise.odds_limits(counts)[1] is None
    assert promise.odds_limits(counts)[2] == Fraction(12, 5)
    assert str(tmp_path) not in str(promise)


def test_dates_are_named_by_their_text() -> None:
    promise = FineRhoPrivacy(limits=ChanceLimits.of("2026-11-15:0.5:0.9;*:0.6:0.9"))
    day = datetime.date(2026, 11, 15)
    assert promise.odds_limits(histogram(1, 1, values=(day, None)))[0] == 9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("value,rho1\na,0.1\n", r"needs the columns value, rho1, rho2"),
        ("value,rho1,rho2\n", r"and rows"),
        ("value,rho1,rho2\na,0.3,0.2\n", r"'a' needs rho1 < rho2"),
        ("value,rho1,rho2\na,0.3,\n", r"'a' needs rho1 < rho2 .* or neither"),
        ("value,rho1,rho2\na,x,0.2\n", r"'rho1' parameter of 'a' must be a number"),
        ("value,rho1,rho2\na,.1,.2\na,.1,.2\n", r"'a' stands twice"),
        (None, r"Cannot read the limits file .*limits\.csv"),
    ],
)
def test_bad_limits_files(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        parse_guarantee(f"fine-rho-privacy(@{path})")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fine-rho-privacy", "needs either theta or limits"),
        ("fine-rho-privacy(theta=1)", "must be a number above 1. Got 1"),
        ("fine-rho-privacy(theta=2, limits=a:.1:.2)", "either theta or limits"),
        ("fine-rho-privacy(limits=a:.1:.2:3)", "Write value:rho1:rho2"),
        ("fine-rho-privacy(@a.csv, limits=b)", "must be a number"),
    ],
)
def test_bad_texts(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_guarantee(text)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("v0:0.1:0.2", r"have no row for 'v1'.*add a row for '\*'"),
        ("v0:0.1:0.2;typo:0.1:0.2;*", r"name 'typo', which the column does not have"),
    ],
)
def test_limits_and_values_have_to_fit(limits: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FineRhoPrivacy(limits=limits).require_feasible(histogram(1, 1))


def test_infeasible_promises_have_a_witness_and_a_nearest() -> None:
    with pytest.raises(InfeasibleGuarantee, match="would protect nobody") as caught:
        FineRhoPrivacy(theta=Fraction(5)).require_feasible(histogram(6, 4))
    assert caught.value.witness == "'v1'"
    assert caught.value.nearest is not None
    parse_guarantee(caught.value.nearest).require_feasible(histogram(6, 4))
    with pytest.raises(InfeasibleGuarantee, match="only one value"):
        FineRhoPrivacy(theta=Fraction(5)).require_feasible(histogram(6))


def test_statements_say_what_is_not_covered() -> None:
    counts = histogram(90, 9, 1)
    promise = FineRhoPrivacy(theta=Fraction(4))
    text = promise.statement(counts)
    assert "at most 4 times that share" in text
    assert "Where that is 1 or more, nothing is promised." in text
    assert promise.left_out(counts) == [0]
    limited = FineRhoPrivacy(limits=ChanceLimits.of("v2:0.02:0.1;v1:0.05:0.2;*"))
    stated = limited.statement(counts)
    assert "'v2' 0.02 → 0.1" in stated
    assert "Nor is anything promised about: 'v0'." in stated
    assert limited.left_out(counts) == [0, 1]  # and the sentence does not tell of v1
