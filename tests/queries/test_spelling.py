"""A misspelt sensitive value is refused, with the value that was meant."""

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
    "city = 'Olso'",
    "city IN ('Olso')",
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
