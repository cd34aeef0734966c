"""One row of a person is published, chosen at random, and the promise says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import _whole_program
from sfumato.datasets import hospital
from sfumato.draws import Draws
from sfumato.engines.ranking import rank_rows
from sfumato.errors import DataError, UsageError
from sfumato.guarantees.odds import root_below
from sfumato.release import Release

ROLES = {"quasi": "age,sex,region,admission", "sensitive": "diagnosis", "person": "patient"}
FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def stays() -> pa.Table:
    """Numbered rows of patients with one to twenty stays."""
    made = hospital(3000, seed=4, stays=20)
    return made.append_column("row", pa.array(range(made.num_rows)))


def test_everybody_has_one_row(stays: pa.Table) -> None:
    table = sf.read(stays, **{**ROLES, "quasi": "row"}, drop="age,sex,region,admission")
    ranked = rank_rows(table, Draws.from_seed(1))
    chosen = pa.Table.from_batches(ranked.chosen().batches(["patient", "row"]))
    sizes = np.bincount(stays["patient"].to_numpy())
    shown = np.bincount(chosen["patient"].to_numpy(), minlength=len(sizes))
    assert (shown == np.minimum(sizes, 1)).all()
    assert (ranked.people, ranked.most) == ((sizes > 0).sum(), sizes.max())
    assert ranked.withheld == stays.num_rows - chosen.num_rows
    assert chosen["row"].to_pylist() == sorted(chosen["row"].to_pylist())  # as they came


def test_every_row_of_a_person_is_as_likely() -> None:
    """Three rows of ten thousand people, one kept: 1/3 each. False alarm 1e-6; a rule that took
    the first row with a chance of 0.36 would be noticed with a chance above 0.99."""
    who = np.tile(np.arange(10_000), 3)
    table = sf.read(
        pa.table({"who": who, "s": np.repeat(["a", "b", "c"], 10_000)}),
        quasi="", sensitive="s", person="who",
    )  # fmt: skip
    for batch_rows in (1 << 17, 999):
        chosen = rank_rows(table, Draws.from_seed(2)).chosen()
        shown = pa.Table.from_batches(chosen.batches(["s"], batch_rows))["s"].to_pylist()
        counts = [shown.count(value) for value in "abc"]
        assert sum(counts) == 10_000
        assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_rows_without_a_value_are_not_among_a_persons_rows() -> None:
    people = pa.table({"who": [1, 1, 2], "s": ["a", None, "b"], "q": [1, 2, 3]})
    table = sf.read(people, quasi="q", sensitive="s", person="who", missing="drop")
    for seed in range(6):  # the null row would have been chosen in half of them
        ranked = rank_rows(table, Draws.from_seed(seed))
        assert ranked.first.tolist() == [True, True]


def test_a_release_says_whose_rows_it_has(stays: pa.Table, tmp_path: Path) -> None:
    done = sf.publish(
        stays, "rho-privacy(0.1, 0.5)", mechanism="uniform", to=tmp_path / "release",
        drop="row", **ROLES,
    )  # fmt: skip
    release = Release(tmp_path / "release")
    assert done.manifest.rows == len(np.unique(stays["patient"].to_numpy()))
    assert done.manifest.rows + done.manifest.suppressed == done.rows == stays.num_rows
    assert done.manifest.person == release.manifest.person
    assert "patient" not in release.records[0].read_bytes().decode("latin-1")
    told = " ".join(done.manifest.statement)
    assert f"{done.manifest.suppressed:,} rows are suppressed" in told
    assert "the promise holds for the person" in told


def test_the_root_is_exact() -> None:
    from fractions import Fraction

    for number in (Fraction(1), Fraction(12, 5), Fraction(10**30), Fraction(1000001, 1000000)):
        for k in range(1, 9):
            root = root_below(number, k)
            assert root**k <= number < (root + Fraction(1, 2**40)) ** k


def test_rows_of_nobody_are_refused(tmp_path: Path) -> None:
    nobody = pa.table({"who": [1, None], "s": ["a", "b"]})
    with pytest.raises(DataError, match="missing in 1 rows"):
        sf.publish(nobody, "l-diversity(2)", to=tmp_path / "r", quasi="", sensitive="s",
                   person="who")  # fmt: skip


def test_a_key_file_publishes_the_same_rows_of_a_person_alike(
    stays: pa.Table, tmp_path: Path
) -> None:
    """In another order, and beside somebody with a row more, whose row may be another one."""
    key = tmp_path / "key"
    CliRunner().invoke(_whole_program(), ["keygen", str(key)])
    marked = stays.append_column("region2", stays["row"])  # shows which row is published
    roles = {**ROLES, "quasi": "region2", "drop": "age,sex,region,admission"}
    last = marked.slice(marked.num_rows - 1)
    more = last.set_column(last.column_names.index("row"), "row", pa.array([10**6]))
    told = []
    shuffled = marked.take(np.random.default_rng(1).permutation(marked.num_rows))
    for number, table in enumerate((marked, pa.concat_tables([more, shuffled]))):
        sf.publish(
            table, "rho-privacy(0.1, 0.5)", to=tmp_path / str(number), key="row", key_file=key,
            mechanism="uniform", **roles,
        )  # fmt: skip
        shown = pq.read_table(tmp_path / str(number) / "records").to_pydict()
        told.append(dict(zip(shown["region2"], shown["diagnosis"], strict=True)))
    first, second = told
    assert len(first) == len(second)
    assert sum(second.get(row) != value for row, value in first.items()) <= 1


def test_repeated_keys_point_to_people(stays: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Say person= patient instead of key="):
        sf.publish(stays, "l-diversity(3)", to=tmp_path / "r", quasi="age", sensitive="diagnosis",
                   key="patient", drop="row,sex,region,admission")  # fmt: skip


def test_describe_shows_rows_per_person(stays: pa.Table) -> None:
    shown = str(sf.describe(stays, drop="row", **ROLES))
    people = len(np.unique(stays["patient"].to_numpy()))
    assert f"patient: {people:,} people, 20 rows at most" in shown
    told = str(sf.describe(stays, "rho-privacy(0.1, 0.5)", "uniform", drop="row", **ROLES))
    assert "A person is whoever has one value of 'patient'" in told


def test_rows_are_counted_where_one_of_each_person_is_published(tmp_path: Path) -> None:
    """Sums of the counted rows are the numbers of rows, but for which row of a person was drawn."""
    rng = np.random.default_rng(4)
    many = rng.choice([1, 2, 3, 30], 4000, p=[0.5, 0.3, 0.198, 0.002])
    who = np.repeat(np.arange(4000), many)
    ill = np.where(rng.random(len(who)) < many[who] / 40 + 0.2, "flu", "cold")
    stays = pa.table({"who": who, "age": who % 50, "ill": ill})
    roles = {"quasi": "age", "sensitive": "ill", "person": "who", "count_rows": "stays"}
    to, receipt = tmp_path / "r", tmp_path / "receipt"
    made = sf.publish(
        stays, "rho-privacy(0.6, 0.9)", to=to, mechanism="uniform", left_out=1, receipt=receipt,
        **roles,
    )  # fmt: skip
    shown = pq.read_table(to / "records").column("stays").to_numpy()
    assert sorted(set(shown.tolist())) == [1, 2, 3]  # who has 30 shows the mean of 3 and more
    top = many >= 3
    assert abs(int(shown.sum()) - len(who)) <= int(top.sum()) / 2 + 1
    assert made.manifest.person is not None
    assert made.manifest.person.counted == "stays"
    assert "'stays' says how many rows a person has" in " ".join(made.manifest.statement)
    assert "% of the rows and" in "".join(made.notes)
    assert sf.audit(stays, to).holds
    assert sf.audit(stays, to, receipt=receipt).holds
    answer = sf.open(to).sql("SELECT SUM(stays) AS n FROM release WHERE ill = 'flu'").rows()[0]
    assert abs(answer["n"] - (ill == "flu").sum()) <= 5 * answer["n_stderr"] + 100
    exact = sf.publish(
        stays, "rho-privacy(0.6, 0.9)", to=tmp_path / "s", mechanism="uniform", left_out=1,
        bins={"stays": "1,2,10,inf"}, **roles,
    )  # fmt: skip
    (column,) = [c for c in exact.manifest.columns if c.name == "stays"]
    assert column.bins is not None
    for wrong in ({"person": None}, {"count_rows": "age"}):
        with pytest.raises(UsageError, match=r"count_rows|--count-rows"):
            sf.read(stays, **{**roles, "drop": "who" if "person" in wrong else "", **wrong})
