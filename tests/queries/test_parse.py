"""What the dialect reads, and how it refuses the rest."""

from __future__ import annotations

import pytest

from sfumato.columns import Column
from sfumato.errors import QueryError
from sfumato.queries.parse import parse

COLUMNS = (
    Column("age", "quasi", "numeric", "int64", None),
    Column("Sex", "quasi", "categorical", "string", None),
    Column("disease", "sensitive", "categorical", "string", None),
)

REFUSALS = {
    "SELECT COUNT(*) FROM release JOIN release AS b ON true": (
        "The dialect does not support a join. A release is one table, `release`; ask it alone."
    ),
    "SELECT COUNT(*) FROM release WHERE age = (SELECT MAX(age) FROM release)": (
        "The dialect does not support a sub-query. Ask it as a question of its own."
    ),
    "SELECT COUNT(*) FROM release WHERE age IN (SELECT age FROM release)": (
        "The dialect does not support IN with a sub-query or a list column. Write the values out: "
        "IN ('a', 'b')."
    ),
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM release)": (
        "The dialect does not support EXISTS with a sub-query. Ask it as a question of its own."
    ),
    "SELECT COUNT(*) FROM release UNION SELECT COUNT(*) FROM release": (
        "The dialect does not support UNION. Ask each SELECT as a question of its own."
    ),
    "SELECT DISTINCT disease FROM release": (
        "The dialect does not support SELECT DISTINCT. Use GROUP BY with COUNT(*)."
    ),
    "SELECT * FROM release": (
        "The dialect does not support SELECT *. `complete` makes tables with likely values for "
        "every record, and `release.to_pandas()` gives the published rows as they are."
    ),
    "SELECT COUNT_IF(age > 3) FROM release": (
        "The dialect does not support COUNT_IF. Write COUNT(*) FILTER (WHERE …)."
    ),
    "SELECT COUNT(*) OVER () FROM release": (
        "The dialect does not support a window function (OVER). Use GROUP BY, and compare the rows "
        "of the answer outside."
    ),
    "SELECT SUM(COUNT(*)) FROM release": (
        "The dialect does not support an aggregate in SUM(…). Conditions on aggregates belong into "
        "HAVING; an aggregate of an aggregate has to be computed from the answer."
    ),
    "SELECT COUNT(*) FROM release WHERE COUNT(*) > 3": (
        "The dialect does not support an aggregate in WHERE. Conditions on aggregates belong into "
        "HAVING; an aggregate of an aggregate has to be computed from the answer."
    ),
    "SELECT age, COUNT(*) FROM release": (
        "'age' in SELECT is neither a GROUP BY key nor an aggregate. Add it to GROUP BY, or select "
        "COUNT(*), SUM or AVG."
    ),
    "SELECT age FROM release GROUP BY age": (
        "The question selects no aggregate, so there is nothing to estimate. Add COUNT(*), SUM(x) "
        "or AVG(x) to the SELECT."
    ),
    "SELECT COUNT(*) FROM release WHERE zip = 3": (
        "The release has no column 'zip'. Columns there are: age, Sex, disease."
    ),
    "SELECT COUNT(*) FROM release GROUP BY age HAVING disease = 'flu'": (
        "Column 'disease' in HAVING or ORDER BY is neither a GROUP BY key nor inside an aggregate. "
        "Keys there are: \"age\"."
    ),
    "SELECT COUNT(*) FROM patients": (
        "There is no table 'patients'. A question reads one table, `release`: write for example "
        "SELECT disease, COUNT(*) FROM release WHERE age > 40 GROUP BY disease."
    ),
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')": (
        "There is no table \"READ_CSV('/etc/passwd')\". A question reads one table, `release`: "
        "write for example SELECT disease, COUNT(*) FROM release WHERE age > 40 GROUP BY disease."
    ),
    "SELECT COUNT(*)": (
        "The dialect does not support a SELECT without FROM. Write for example: SELECT disease, "
        "COUNT(*) FROM release WHERE age > 40 GROUP BY disease."
    ),
    "SELECT COUNT(*) FROM release; SELECT COUNT(*) FROM release": (
        "The dialect does not support several statements at once. Ask them one by one."
    ),
    "COPY release TO 'x.csv'": (
        "The dialect does not support a statement that starts with COPY. Write for example: SELECT "
        "disease, COUNT(*) FROM release WHERE age > 40 GROUP BY disease."
    ),
    "  -- nothing\n": (
        "The dialect does not support an empty statement. Write for example: SELECT disease, "
        "COUNT(*) FROM release WHERE age > 40 GROUP BY disease."
    ),
    "SELECT COUNT(*) FROM release WHERE regexp_matches(disease, 'f.*')": (
        "The dialect does not support a regular expression. Use LIKE, starts_with, contains or IN."
    ),
    "SELECT COUNT(*) FROM release WHERE age > ?": (
        "The dialect does not support a parameter. Write the value into the SQL."
    ),
    "SELECT COUNT(*) FROM release WHERE CAST(age AS STRUCT(a INT)) IS NULL": (
        "The dialect does not support a cast to STRUCT(a INT). Cast to integer, bigint, double, "
        "decimal(p, s), varchar, boolean, date, time or timestamp."
    ),
    "SELECT COUNT(*) FROM release WHERE extract(epoch FROM age) > 3": (
        "The dialect does not support the date part 'EPOCH'. Date parts there are: day, dow, doy, "
        "hour, isodow, minute, month, quarter, second, week, year."
    ),
    "SELECT COUNT(*) FROM release LIMIT 10 PERCENT": (
        "The dialect does not support LIMIT with anything but a whole number. Write LIMIT 10."
    ),
    "SELECT age, COUNT(*) FROM release GROUP BY ALL": (
        "The dialect does not support GROUP BY ALL. List the keys: GROUP BY a, b."
    ),
    "SELECT COUNT(*) FROM release GROUP BY 3": (
        "Cannot read the SQL: Unknown output column: 3. Write names, or the numbers of what is "
        "selected."
    ),
    "SELECT COUNT(*) FROM release ORDER BY ALL": (
        "The dialect does not support ORDER BY ALL. List the columns: ORDER BY a, b."
    ),
    "SELECT COUNT(*) FROM release QUALIFY 1 = 1": (
        "The dialect does not support QUALIFY. Use HAVING."
    ),
    "SELECT COUNT(*) AS c, SUM(age) AS c FROM release": (
        "Two columns of the answer would be called 'c' (an aggregate c also brings c_stderr, c_low "
        "and c_high). Rename one with AS."
    ),
    "SELECT SUM(*) FROM release": (
        "The dialect does not support SUM(*). Only COUNT(*) may use *; name the column."
    ),
    "SELECT COUNT(*) FROM release AS r WHERE b.age > 3": (
        "There is no table 'b' in this question. Write age alone."
    ),
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSALS)
def test_refusals_say_what_and_what_instead(sql: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(sql, COLUMNS)
    assert str(caught.value) == REFUSALS[sql]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT COUNT(*) FROM release WHERE read_text('x') = ''", "the function read_text"),
        ("SELECT COUNT(*) FROM release WHERE current_date > '2020-01-01'", "current_date"),
        ("SELECT STRING_AGG(disease) FROM release", "GROUP_CONCAT"),
        ("SELECT COUNT(*) FROM release WHERE [1, 2] = age", "[…]"),
        ("SELECT COUNT(*) FROM release WHERE (age, 1) = (1, 1)", "a tuple"),
        ("SELECT COUNT(*) FROM release WHERE age = ANY (SELECT 1)", "ANY"),
        ("SELECT COUNT(*) FROM release WHERE list_filter([1], x -> x > 1) = 1", "function"),
        ("SELECT COUNT(*) FROM release WHERE Sex COLLATE nocase = 'f'", "COLLATE"),
        ("SELECT COUNT(*) FROM release WHERE age & 1 = 1", "BITWISE AND"),
        ("SELECT COUNT(*) FROM release WHERE disease SIMILAR TO 'f.*'", "SIMILAR TO"),
        ("SELECT COUNT(*) FROM release USING SAMPLE 10", "SAMPLE"),
        ("SELECT COUNT(*) FROM release AS r(a, b)", "column names after the table"),
        ("SELECT COUNT(*) INTO x FROM release", "INTO"),
        ("SELECT COUNT(age ORDER BY age) FROM release", "ORDER BY inside an aggregate"),
        ("SELECT COUNT(age, age) FROM release", "COUNT with several arguments"),
        ("SELECT COUNT(*) FROM release PIVOT (COUNT(*) FOR Sex IN ('F'))", "PIVOT"),
        ("SELECT COUNT(*) FROM release FOR UPDATE", "LOCKS"),
        ("VALUES (1)", "VALUES"),
    ],
)
def test_whatever_is_not_listed_is_refused_by_name(sql: str, named: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(sql, COLUMNS)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(* FROM release",
        "SELECT COUNT(*) FROM release WHERE",
        "SELECT COUNT(*) FROM release WHERE age = 'unclosed",
        "SELECT COUNT(*) FROM release " + "(" * 3000,
        "SELECT COUNT(*) FROM release WHERE " + "NOT " * 20_000 + "true",
        "SELECT COUNT(*) FROM release WHERE age IN (" + "1," * 60_000 + "1)",
        "SELECT\x00",
    ],
)
def test_unreadable_sql_is_a_query_error(sql: str) -> None:
    with pytest.raises(QueryError):
        parse(sql, COLUMNS)


def test_conditions_are_split_and_sorted_by_the_columns_they_use() -> None:
    question = parse(
        "SELECT COUNT(*) FROM release r WHERE (age > 3 AND (disease = 'flu')) AND "
        "(r.SEX = 'F' OR disease = 'HIV') AND 1 = 1",
        COLUMNS,
    )
    assert [(sorted(t.quasi), sorted(t.sensitive)) for t in question.where] == [
        (["age"], []),
        ([], ["disease"]),
        (["Sex"], ["disease"]),
        ([], []),
    ]
    assert [t.is_mixed for t in question.where] == [False, False, True, False]
    assert question.where[2].text == "\"Sex\" = 'F' OR \"disease\" = 'HIV'"


def test_a_column_goes_before_an_alias_in_group_by_and_after_it_in_order_by() -> None:
    sql = "SELECT age, COUNT(*) AS Sex FROM release GROUP BY age, sex ORDER BY sex"
    question = parse(sql, COLUMNS)
    assert [key.text for key in question.keys] == ['"age"', '"Sex"']
    assert question.order[0].tree.sql() == "o.a0"


def test_default_names_are_made_unique() -> None:
    question = parse(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE age > 3), SUM(age), AVG(age + 1), COUNT(age), "
        "AVG(age), COUNT(*) AS count_2, Sex FROM release GROUP BY Sex",
        COLUMNS,
    )
    assert [output.name for output in question.outputs] == [
        "count", "count_3", "sum_age", "avg", "count_age", "avg_age", "count_2", "Sex",
    ]  # fmt: skip
    assert len(question.aggregates) == 6  # COUNT(*) is computed once


def test_hidden_aggregates_and_errors_can_be_used_in_having_and_order_by() -> None:
    question = parse(
        "SELECT disease, COUNT(*) FROM release GROUP BY disease HAVING count_low > 10 AND "
        "AVG(age) * 2 > 50 ORDER BY SUM(age) DESC NULLS FIRST, count_stderr, 2, disease",
        COLUMNS,
    )
    assert question.having is not None
    assert question.having.sql() == "o.a0_low > 10 AND o.a1 * 2 > 50"
    assert [each.tree.sql() for each in question.order] == ["o.a2", "o.a0_stderr", "o.a0", "o.k0"]
    assert [(each.descending, each.nulls_first) for each in question.order][:2] == [
        (True, True),
        (False, False),
    ]
    assert len(question.outputs) == 2


def test_names_that_differ_in_case_only_have_to_be_exact() -> None:
    twins = (
        Column("a", "quasi", "numeric", "int64", None),
        Column("A", "quasi", "numeric", "int64", None),
    )
    assert parse('SELECT SUM("A") FROM release', twins).aggregates[0].text == 'sum("A")'
    for name in ("a", "A"):
        assert (
            parse(f"SELECT SUM({name}) FROM release", twins).aggregates[0].text == f'sum("{name}")'
        )
    third = (
        *twins,
        Column("Bb", "quasi", "numeric", "int64", None),
        Column("bB", "quasi", "numeric", "int64", None),
    )
    with pytest.raises(QueryError, match="could mean Bb or bB"):
        parse("SELECT SUM(bb) FROM release", third)


def test_comments_do_not_reach_the_database() -> None:
    question = parse(
        "SELECT /* a */ COUNT(*) -- b\n FROM release WHERE age > 3 /* c */ AND age /* d */ < 9",
        COLUMNS,
    )
    assert [term.text for term in question.where] == ['"age" > 3', '"age" < 9']
