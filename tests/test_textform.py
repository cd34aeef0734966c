"""The one language of promises and mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.textform import TextForm, decimal_text, rational, split_call


@dataclass(frozen=True)
class Demo(TextForm):
    share: Fraction
    groups: int = 5
    mode: str = "plain"

    name: ClassVar[str] = "demo-form"
    what: ClassVar[str] = "demo"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", rational(self.share, "share"))
        object.__setattr__(self, "groups", int(self.groups))


def read(text: str) -> Demo:
    name, positional, keywords = split_call(text, "demo")
    assert name == Demo.name
    return Demo.from_arguments(positional, keywords)


@given(
    share=st.fractions(-1000, 1000, max_denominator=10**9),
    groups=st.integers(1, 10**6),
    mode=st.sampled_from(["plain", "fancy"]),
)
def test_text_forms_round_trip(share: Fraction, groups: int, mode: str) -> None:
    promise = Demo(share, groups, mode)
    assert read(str(promise)) == promise
    assert str(read(str(promise))) == str(promise)


def test_defaults_are_left_out() -> None:
    assert str(Demo(Fraction(1, 13))) == "demo-form(1/13)"
    assert str(Demo(Fraction(1, 2), mode="fancy")) == "demo-form(0.5, mode=fancy)"
    assert read(" demo-form ( 0.5 , mode = fancy ) ") == Demo(Fraction(1, 2), mode="fancy")


@given(st.fractions(max_denominator=10**15))
def test_decimal_text_is_exact(value: Fraction) -> None:
    assert rational(decimal_text(value), "x") == value


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e90, max_value=1e90))
def test_floats_count_as_the_decimal_they_print_as(value: float) -> None:
    if value == 0 or abs(value) > 1e-90:
        assert rational(value, "x") == Fraction(repr(value))


@pytest.mark.parametrize(
    "given_value", ["", "a", "1/0", "1//2", "nan", "inf", "1e101", "1e-999999999", "9" * 201, None]
)
def test_what_is_no_number(given_value: object) -> None:
    with pytest.raises(UsageError, match="The 'x' parameter must be a number"):
        rational(given_value, "x")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_floats_that_are_no_numbers(value: float) -> None:
    with pytest.raises(UsageError, match="must be a number"):
        rational(value, "x")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        name, positional, keywords = split_call(text, "guarantee")
    except UsageError:
        return
    assert name
    assert all(positional)
    assert all(keywords)


def test_exact_thresholds() -> None:
    """Errata F4: 0.29 · 100 is 29, not 28."""
    for text, size in (("0.29", 100), ("0.57", 100), ("0.58", 50), ("0.58", 100), ("0.70", 90)):
        share = rational(text, "x")
        assert share * size == int(share * size)
        assert rational(float(text), "x") == share
