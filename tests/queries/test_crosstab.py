"""Cross tables: counts and shares beside DuckDB's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.queries import OpenedRelease

from .conftest import MakeRelease

VALUES = ["cold", "cough", "flu", "gout", "HIV", "none"]


def people(rows: int, seed: int, tied: float = 0.0) -> pa.Table:
    """`tied` of the people have one of three diseases, by their sex."""
    draw = np.random.default_rng(seed)
    sex, region = draw.integers(0, 2, rows), draw.integers(0, 3, rows)
    disease = draw.choice(6, rows, p=[0.2, 0.15, 0.2, 0.15, 0.15, 0.15])
    disease = np.where(draw.random(rows) < tied, 3 * sex + draw.integers(0, 3, rows), disease)
    return pa.table(
        {
            "sex": np.array(["F", "M"])[sex],
            "region": region,
            "disease": np.array(VALUES)[disease],
        }
    )


@pytest.fixture(scope="module")
def exact_people() -> pa.Table:
    return people(400, 1, 0.1)


def published(table: pa.Table, place: Path, kind: str, seed: int = 5) -> OpenedRelease:
    guarantee, mechanism = {
        "uniform": ("rho-privacy(0.3, 0.6)", "uniform"),
        "partitioned": ("rho-privacy(0.3, 0.6, reader=shares)", "partitioned"),
        "splu": ("small-sum(groups=2)", "splu"),
        "buckets": ("l-diversity(3)", "optimal"),
        "local": ("l-diversity(3)", "local(min=100, columns=region)"),
    }[kind]
    quasi = [name for name in table.column_names if name != "disease"]
    sf.publish(
        table,
        guarantee,
        to=place,
        mechanism=mechanism,
        quasi=quasi,
        sensitive="disease",
        seed=seed,
    )
    return sf.open(place, verify=False)


def test_where_nothing_was_perturbed_the_table_is_the_true_one(
    make_release: MakeRelease, exact_people: pa.Table
) -> None:
    found = make_release(exact_people, ["disease"]).crosstab("region", "disease")
    frame = exact_people.to_pandas()
    counts = frame.groupby(["region", "disease"]).size().unstack(fill_value=0)
    counts = counts[sorted(VALUES)]
    assert found.keys == ([0, 1, 2], sorted(VALUES))
    np.testing.assert_allclose(found.measure(), counts)
    np.testing.assert_allclose(
        found.measure("share_of_row"), counts.div(counts.sum(axis=1), axis=0)
    )
    np.testing.assert_allclose(found.measure("share_of_column"), counts / counts.sum())
    np.testing.assert_allclose(found.measure("share_of_all"), counts / len(frame))
    np.testing.assert_allclose(found.measure(part="stderr"), 0, atol=1e-9)


@pytest.mark.parametrize("kind", ["uniform", "partitioned", "splu", "buckets", "local"])
def test_shares_are_what_sql_answers(tmp_path: Path, kind: str) -> None:
    release = published(people(600, 2, 0.3), tmp_path / kind, kind)
    found = release.crosstab("sex", "disease", where="region > 0")
    where = "FROM release WHERE region > 0"
    for column, value in enumerate(found.keys[1][:2]):
        share = release.sql(
            f"SELECT COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) AS s {where} "
            f"AND disease = '{value}'"
        )
        assert found.measure("share_of_column")[0, column] == pytest.approx(share.value)
        assert found.measure("share_of_column", "stderr")[0, column] == pytest.approx(share.stderr)
        assert found.measure("share_of_column", "high")[0, column] == pytest.approx(share.high)
        count = release.sql(f"SELECT COUNT(*) {where} AND sex = 'F' AND disease = '{value}'")
        assert found.measure(part="high")[0, column] == pytest.approx(count.high)


def test_a_sensitive_condition_has_shares_of_its_own_total(tmp_path: Path) -> None:
    release = published(people(600, 2, 0.3), tmp_path / "release", "uniform")
    found = release.crosstab("sex", "region", where="disease <> 'none'", estimator="inverse")
    whole = release.sql(
        "SELECT COUNT(*) FILTER (WHERE sex = 'M' AND region = 1) / COUNT(*) AS s FROM release "
        "WHERE disease <> 'none'",
        estimator="inverse",
    )
    assert found.measure("share_of_all")[1, 1] == pytest.approx(whole.value)
    assert found.measure("share_of_all", "stderr")[1, 1] == pytest.approx(whole.stderr)
    assert found.measure("share_of_all").sum() == pytest.approx(1)


def test_a_comment_ends_with_its_line(make_release: MakeRelease, exact_people: pa.Table) -> None:
    """It swallowed the GROUP BY, and the cross table was refused."""
    release = make_release(exact_people, ["disease"])
    noted, plain = (
        release.crosstab("sex", "disease", where=f"region > 1{note}") for note in (" -- note", "")
    )
    assert noted.rows() == plain.rows()
    with pytest.raises(QueryError, match="Cannot read the SQL"):
        release.crosstab("sex", "disease", where="region > 1; SELECT 1")


def test_what_cannot_be_a_cross_table_is_refused(
    make_release: MakeRelease, exact_people: pa.Table
) -> None:
    release = make_release(exact_people, ["disease"])
    with pytest.raises(QueryError, match="two different columns"):
        release.crosstab("sex", "sex")
    with pytest.raises(QueryError, match="no column 'six'"):
        release.crosstab("six", "sex")
    with pytest.raises(QueryError, match="has the measures count"):
        release.crosstab("sex", "disease").measure("mean")


def test_what_is_not_a_number_is_one_key(tmp_path: Path) -> None:
    numbers = [1.5, float("nan"), None, 2.5] * 100
    table = pa.table({"dose": numbers, "disease": VALUES[:4] * 100})
    crosstab = published(table, tmp_path / "r", "buckets").crosstab("dose", "disease")
    assert [str(key) for key in crosstab.keys[0]] == ["1.5", "2.5", "nan", "None"]
    assert crosstab.measure().sum(axis=1).round(6).tolist() == [100.0] * 4
