"""One promise for each column: what goes together in one release, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.errors import UsageError
from sfumato.guarantees import DEFAULT_PROMISE, parse_guarantee


def test_what_follows_and_is_read_as_a_promise_unless_it_is_quoted() -> None:
    text = "a: l-diversity(5, open='(mild) and other;b') and b: beta-likeness(2)"
    assert str(parse_guarantee(text)) == text
    with pytest.raises(UsageError, match="k-anonymity"):
        parse_guarantee("a: l-diversity(3) and b: k-anonymity(5)")
    with pytest.raises(UsageError, match="of enhanced-beta-likeness must be a number above 0"):
        parse_guarantee("a: l-diversity(5) and b: enhanced-beta-likeness(0)")


@pytest.mark.parametrize(
    "stated",
    [
        "l-diversity(3) and beta-likeness(2)",
        "a: l-diversity(3) and a: beta-likeness(2)",
        "a: l-diversity(3) and l-diversity(2)",
        {"a": "rho-privacy(0.1, 0.3) and fine-rho-privacy(theta=2)"},
    ],
)
def test_a_column_has_one_promise(stated: Any) -> None:
    with pytest.raises(UsageError, match=r"one promise since 0\.4 \(.* sfumato 0\.3\)"):
        parse_guarantee(stated)


@pytest.mark.parametrize(
    ("promises", "nearest"),
    [
        (("l-diversity(5)", "reconstruction-privacy(0.3, 0.3)"), "l-diversity(5)"),
        (("rho-privacy(0.1, 0.3)", "small-sum(groups=3)"), DEFAULT_PROMISE),
        (("beta-likeness(2)", "small-sum(groups=3)"), "beta-likeness(2)"),
        (("l-diversity(5)", "rho-privacy(0.1, 0.3)"), "l-diversity(5)"),
        (("small-sum(groups=3)", "small-sum(groups=10)"), "small-sum(groups=10)"),
    ],
)
def test_what_cannot_be_kept_together_is_refused_with_what_can(
    promises: tuple[str, str], nearest: str
) -> None:
    for pair in (promises, promises[::-1]):
        with pytest.raises(UsageError, match="cannot be kept by one release") as refused:
            parse_guarantee(dict(zip("ab", pair, strict=True)))
        named = str(refused.value).rpartition("works: ")[2].strip("'.")
        assert nearest in named
        parse_guarantee(named)
