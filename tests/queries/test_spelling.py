"""A misspelt value is refused, with the value that was meant; so is a literal of another type."""

from __future__ import annotations

import pytest

from sfumato.errors import QueryError
from sfumato.queries import OpenedRelease, ask

MISSPELT = (
    "disease = 'flue'",
    "'flue' = disease",
    "disease <> 'flue'",
    "(disease) = ('flue')",
    "disease IN ('HIV', 'flue')",
    "disease NOT IN ('flue')",
    "disease IS DISTINCT FROM 'flue'",
    "age > 40 OR NOT (disease = 'flue')",
    "CASE disease WHEN 'flue' THEN true END",
    "CASE WHEN disease = 'flue' THEN true END",
)
FINE = (
    "disease = 'flu'",
    "disease IN ('flu', 'HIV', NULL)",
    "disease LIKE 'flue'",
    "disease > 'flue'",
    "lower(disease) = 'hiv'",
    "city = 'Oslo'",
    "city LIKE 'Olso'",
    "disease = city",
    "cost = 11",
    "disease IS NULL",
)


@pytest.mark.parametrize("condition", MISSPELT)
def test_misspelt_values_are_refused(release: OpenedRelease, condition: str) -> None:
    for sql in (
        f"SELECT COUNT(*) FROM release WHERE {condition}",
        f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM release",
        f"SELECT ({condition}) AS k, COUNT(*) FROM release GROUP BY k",
    ):
        with pytest.raises(QueryError, match=r"has no value 'flue'\. Did you mean 'flu'\?"):
            ask(release, sql)


@pytest.mark.parametrize("condition", FINE)
def test_what_is_no_misspelling_is_answered(release: OpenedRelease, condition: str) -> None:
    ask(release, f"SELECT COUNT(*) FROM release WHERE {condition}")


def test_what_the_message_says(release: OpenedRelease) -> None:
    with pytest.raises(QueryError) as refused:
        ask(release, "SELECT COUNT(*) FROM release WHERE disease = 'Hiv'")
    assert str(refused.value) == (
        "Column 'disease' has no value 'Hiv'. Did you mean 'HIV'? Values there are: 'HIV', 'flu', "
        "'none'. LIKE takes any text."
    )
    with pytest.raises(QueryError, match=r"has no value 'measles'\. Values there are: 'HIV'"):
        ask(release, "SELECT COUNT(*) FROM release WHERE disease = 'measles'")


@pytest.mark.parametrize(
    "condition", ["city = 'Olso'", "city IN ('Rome', 'OSLO')", "city = ' oslo '"]
)
def test_a_misspelt_quasi_value_is_no_confident_nothing(
    release: OpenedRelease, condition: str
) -> None:
    with pytest.raises(QueryError, match=r"Column 'city' has no value .* Did you mean 'Oslo'\?"):
        ask(release, f"SELECT COUNT(*) FROM release WHERE {condition}")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("city = 5", "Column 'city' holds texts; 5 is a number. Put it in single quotes: '5'."),
        ("disease > 3", "Column 'disease' holds texts; 3 is a number"),
        ("age = 'old'", "Column 'age' holds numbers; 'old' is none"),
        ("age BETWEEN 'a' AND 9", "Column 'age' holds numbers; 'a' is none"),
    ],
)
def test_a_literal_of_another_type_is_said_to_be_one(
    release: OpenedRelease, condition: str, said: str
) -> None:
    with pytest.raises(QueryError, match=said.replace(".", r"\.")):
        ask(release, f"SELECT COUNT(*) FROM release WHERE {condition}")


def test_numbers_in_quotes_are_numbers(release: OpenedRelease) -> None:
    ask(release, "SELECT COUNT(*) FROM release WHERE age > '40'")
