"""Bad input tables: the message, the exit code, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tables import first_problem

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")
PROMISE = ("--guarantee", "rho-privacy(0.3, 0.6)")


def refused(cli: Any, tmp_path: Path, leftovers: Any, *arguments: object, code: int = 2) -> str:
    """Publish something that must be refused; gives the message back."""
    before = leftovers(tmp_path)
    outcome = cli("publish", *arguments, "--out", tmp_path / "deep" / "release")
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert leftovers(tmp_path) == before
    assert "Traceback" not in outcome.err
    return first_problem(outcome.err)


def test_missing_file(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "nowhere.parquet"
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message == f"There is no file '{path}'."


def test_no_file_matches_the_glob(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    message = refused(cli, tmp_path, leftovers, f"{tmp_path}/*.parquet", *ROLES, *PROMISE)
    assert message == f"No file matches '{tmp_path}/*.parquet'."


def test_folder_instead_of_a_file(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    message = refused(cli, tmp_path, leftovers, tmp_path, *ROLES, *PROMISE)
    assert message == f"'{tmp_path}' is a folder. Name files, for example '{tmp_path}/*.parquet'."


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_empty_file(cli: Any, tmp_path: Path, leftovers: Any, ending: str) -> None:
    path = tmp_path / f"empty.{ending}"
    path.touch()
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message == f"The file '{path}' is empty."


def test_not_parquet(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "letter.parquet"
    path.write_text("Dear all, please find attached ...", "utf-8")
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message.startswith(f"Cannot read '{path}' as Parquet: ")


def test_truncated_parquet(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(people_file.read_bytes()[:-200])
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message.startswith(f"Cannot read '{path}' as Parquet: ")


def test_not_arrow(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "letter.arrow"
    path.write_text("Dear all, please find attached ...", "utf-8")
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message.startswith(f"Cannot read '{path}' as an Arrow stream: ")


def test_table_without_rows(cli: Any, tmp_path: Path, leftovers: Any, people: Any) -> None:
    path = tmp_path / "nobody.parquet"
    pq.write_table(people(0), path)
    message = refused(cli, tmp_path, leftovers, path, *ROLES, *PROMISE)
    assert message == f"{path} has no rows."


def test_missing_column(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    message = refused(
        cli, tmp_path, leftovers, people_file,
        "--quasi", "age,sexe,region", "--sensitive", "disease", *PROMISE,
    )  # fmt: skip
    assert message == (
        f"{people_file} has no column 'sexe' (named as quasi). "
        "The columns are: age, sex, region, disease."
    )


def test_duplicated_column_in_parquet(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "twice.parquet"
    arrays = [pa.array([1, 2]), pa.array([3, 4]), pa.array(["a", "b"])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["age", "age", "disease"]), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age", "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"{path} has more than one column named 'age'. "
        "Rename them so that every column has a name of its own."
    )


@pytest.mark.parametrize("header", ["age,age,disease", '"age";age;disease', "age\tage\tdisease"])
def test_duplicated_column_in_csv(cli: Any, tmp_path: Path, leftovers: Any, header: str) -> None:
    path = tmp_path / "twice.csv"
    separator = next(c for c in ",;\t" if c in header)
    rows = [separator.join(row) for row in (("1", "2", "a"), ("3", "4", "b"))]
    path.write_text("\n".join([header, *rows, ""]), "utf-8")
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age", "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"{path} has more than one column named 'age'. "
        "Rename them so that every column has a name of its own."
    )


def test_columns_that_differ_in_case_only(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "case.parquet"
    pq.write_table(pa.table({"age": [1, 2], "Age": [1, 2], "disease": ["a", "b"]}), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age,Age", "--sensitive", "disease", *PROMISE
    )
    assert "'age' and 'Age'" in message
    assert "apart" in message


def test_undeclared_columns(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    message = refused(
        cli, tmp_path, leftovers, people_file, "--quasi", "age", "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"{people_file} has columns without a role: sex, region. Declare each as quasi, sensitive, "
        "key, person or drop; nothing is published by accident. --drop-rest drops them all."
    )


def test_column_in_two_roles(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    message = refused(
        cli, tmp_path, leftovers, people_file,
        "--quasi", "age,sex,region,disease", "--sensitive", "disease", *PROMISE,
    )  # fmt: skip
    assert message == (
        "Column 'disease' is named as quasi and as sensitive. Every column has one role."
    )


def test_no_sensitive_column(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    message = refused(
        cli, tmp_path, leftovers, people_file, "--quasi", "age,sex,region,disease", *PROMISE
    )
    assert message == (
        "Name at least one sensitive column. The columns are: age, sex, region, disease."
    )


def test_nested_column(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"visits": [[1], [2]], "disease": ["a", "b"]}), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "visits", "--sensitive", "disease", *PROMISE
    )
    assert message.startswith(f"Column 'visits' of {path} is list<")
    assert message.endswith("Convert it first, or drop it.")


def test_null_sensitive_value(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3, 4, 5], "disease": ["a", None, "b", "c", "d"]}), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age", "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"Column 'disease' of {path} has 1 rows without a sensitive value. Choose --missing value "
        "(missing counts as a value of its own) or --missing drop."
    )


def test_nan_sensitive_value_is_missing_too(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "nan.parquet"
    pq.write_table(
        pa.table({"age": [1, 2, 3, 4, 5], "cost": [1.0, float("nan"), 2.0, 3.0, 4.0]}), path
    )
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age", "--sensitive", "cost", *PROMISE
    )
    assert message.startswith(f"Column 'cost' of {path} has 1 rows without a sensitive value.")


def test_every_sensitive_value_missing(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"age": [1, 2], "disease": pa.nulls(2, pa.string())}), path)
    message = refused(
        cli, tmp_path, leftovers, path,
        "--quasi", "age", "--sensitive", "disease", "--missing", "drop", *PROMISE,
    )  # fmt: skip
    assert message == f"No row of {path} has every sensitive value."


def test_a_column_without_any_value(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"age": pa.nulls(6), "disease": list("aabbcc")}), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", "age", "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"Column 'age' of {path} has no value in any row, so nothing says what its values would "
        "be. Drop it."
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--domain", f"age=20,{10**30}", "--categorical", "age"),
            "The domain stated for column 'age' does not fit its type int64.",
        ),
        (
            ("--domain", "age=0..1e300", "--categorical", "age"),
            "The domain '0..1e300' is a range, but column 'age' is categorical. List its values.",
        ),
        (
            ("--domain", "age=0..99999999", "--categorical", "age"),
            "The domain '0..99999999' of column 'age' has 100,000,000 values; state at most "
            "1,048,576.",
        ),
    ],
)
def test_domains_of_huge_numbers(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path, flags: tuple[str], message: str
) -> None:
    assert refused(cli, tmp_path, leftovers, people_file, *ROLES, *PROMISE, *flags) == message


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("mechanism", ["uniform", "heterogeneous"])
def test_a_range_of_huge_numbers_opens_again(
    cli: Any, tmp_path: Path, people_file: Path, mechanism: str
) -> None:
    """JSON holds 1e300 as a float; as a whole number DuckDB could not compare with it."""
    promise = "rho-privacy(0.3, 0.6)" if mechanism == "uniform" else "l-diversity(3)"
    out = tmp_path / "release"
    made = cli(
        "publish", people_file, *ROLES, "--guarantee", promise, "--mechanism", mechanism,
        "--domain", "age=-1e300..1e300", "--out", out,
    )  # fmt: skip
    assert made.code == 0, made.err
    asked = cli("query", out, "SELECT COUNT(*) FROM release WHERE age > 30")
    assert asked.code == 0, asked.err


def test_unknown_way_with_missing_values(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    message = refused(cli, tmp_path, leftovers, people_file, *ROLES, *PROMISE, "--missing", "guess")
    assert message == "'missing' must be refuse, value or drop. Got 'guess' instead."


def test_values_outside_the_stated_domain(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    message = refused(
        cli, tmp_path, leftovers, people_file, *ROLES, *PROMISE, "--domain", "age=20..60"
    )
    assert message == (
        f"Column 'age' of {people_file} has values outside its stated domain. Widen the domain "
        "(--domain), or leave it out."
    )
    message = refused(
        cli, tmp_path, leftovers, people_file, *ROLES, *PROMISE, "--domain", "disease=flu,ulcer"
    )
    assert message.startswith(f"Column 'disease' of {people_file} has ")
    assert message.endswith(
        "rows with values outside the stated domain. State them too, or drop the rows."
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--domain", "age"),
            "--domain takes COLUMN=…, for example --domain age=16..93. Got 'age'.",
        ),
        (("--domain", "age=90..18"), "The domain '90..18' of column 'age' ends before it begins."),
        (("--domain", "age=a..b"), "Cannot read the domain 'a..b': write for example 16..93."),
        (
            ("--domain", "sex=1..2"),
            "The domain '1..2' is a range, but column 'sex' is string. List its values.",
        ),
        (("--domain", "sex=F,F"), "The domain stated for column 'sex' names a value twice."),
        (
            ("--domain", "age=young,old"),
            "The domain stated for column 'age' does not fit its type int64.",
        ),
        (
            ("--domain", "height=1..2"),
            "A domain is stated for 'height', which is not a published column.",
        ),
        (("--bins", "id=0,50,100"), "A recode is given for 'id', which is not published."),
        (("--recode", "age=bin(0, 1)"), None),
        (("--recode", "age=prefix(0)"), None),
        (("--recode", "age=round(x)"), None),
        (("--recode", "sex=month"), None),
        (("--recode", "sex=groups(F:1)"), None),
        (("--bins", "disease=0,1,2"), None),
        (("--numeric", "sex"), None),
        (("--numeric", "id"), "'id' is not a quasi or sensitive column, so it has no kind."),
    ],
)
def test_bad_domains_bins_and_kinds(
    cli: Any,
    tmp_path: Path,
    leftovers: Any,
    people_file: Path,
    flags: tuple[str, str],
    message: str | None,
) -> None:
    found = refused(cli, tmp_path, leftovers, people_file, *ROLES, *PROMISE, *flags)
    if message is None:
        assert any(
            each in found
            for each in (
                f"of {people_file} is string, not numeric",
                f"Column 'disease' of {people_file} is string; bins needs numbers.",
                f"Column 'sex' of {people_file} is string; month needs dates.",
                "There is no recode 'bin'. There are: bins(0, 18, 65, inf), round(5), top(90)",
                "The 'length' parameter must be a whole number, at least 1. Got 0 instead.",
                "The 'step' parameter must be a number such as 0.3 or 1/13.",
                "Column 'sex' has values without a group, in ",
            )
        )
    else:
        assert found == message


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("0,1", "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
         "(inf and -inf are allowed). Got 0, 1."),
        ("0,2,1", "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
         "(inf and -inf are allowed). Got 0, 2, 1."),
        ("0,x,1", "Bins need numbers between commas. Got '0,x,1'."),
    ],
)  # fmt: skip
def test_bad_bins(cli: Any, tmp_path: Path, leftovers: Any, edges: str, message: str) -> None:
    path = tmp_path / "costs.parquet"
    pq.write_table(pa.table({"cost": [1.0, 2.0]}), path)
    flags = ("--sensitive", "cost", "--bins", f"cost={edges}")
    assert refused(cli, tmp_path, leftovers, path, *flags, *PROMISE) == message


def test_values_outside_the_bins(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    path = tmp_path / "costs.parquet"
    pq.write_table(pa.table({"cost": [1.0, 20.0, 30.0]}), path)
    flags = ("--sensitive", "cost", "--bins", "cost=0,5,10")
    assert refused(cli, tmp_path, leftovers, path, *flags, *PROMISE) == (
        "Column 'cost' has values outside its bins, 2 among 3 rows. Widen them; -inf and inf are "
        "allowed as edges."
    )


def test_files_with_different_columns(
    cli: Any, tmp_path: Path, leftovers: Any, people: Any
) -> None:
    pq.write_table(people(20), tmp_path / "a.parquet")
    pq.write_table(people(20).drop_columns(["sex"]), tmp_path / "b.parquet")
    message = refused(cli, tmp_path, leftovers, f"{tmp_path}/*.parquet", *ROLES, *PROMISE)
    assert message == (
        f"The files do not have the same columns: {tmp_path}/a.parquet has age int64, sex string, "
        f"region string, disease string; {tmp_path}/b.parquet has age int64, region string, "
        "disease string."
    )


@pytest.mark.parametrize("name", ["part", "bucket", "Part"])
def test_column_names_that_a_release_uses(
    cli: Any, tmp_path: Path, leftovers: Any, name: str
) -> None:
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table({name: [1, 2], "disease": ["a", "b"]}), path)
    message = refused(
        cli, tmp_path, leftovers, path, "--quasi", name, "--sensitive", "disease", *PROMISE
    )
    assert message == (
        f"A release uses the column name {name.lower()!r} itself. Rename that column of {path}."
    )


@pytest.mark.parametrize("role", ["quasi", "sensitive"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
@pytest.mark.parametrize("year", [-200, 10_000])
def test_dates_that_no_calendar_has(
    cli: Any, tmp_path: Path, leftovers: Any, role: str, kind: pa.DataType, year: int
) -> None:
    path = tmp_path / "dates.parquet"
    days = pa.array([(year - 1970) * 366] * 6, pa.int32()).cast(pa.date32())
    whole = days if kind == pa.date32() else days.cast(pa.timestamp("s")).cast(kind)
    pq.write_table(pa.table({"day": whole, "disease": list("aabbcc")}), path)
    roles = {"quasi": "", "sensitive": "disease"} | {role: "day"}
    drop = ("--drop-rest",) if role == "sensitive" else ()
    flags = (
        "--quasi",
        roles["quasi"] if role == "quasi" else "",
        "--sensitive",
        roles["sensitive"],
    )
    promise = ("--guarantee", "rho-privacy(0.34, 0.6)")
    message = refused(cli, tmp_path, leftovers, path, *flags, *drop, *promise)
    assert message == (
        "Column 'day' has dates before the year 1 or after the year 9999. Repair them, for example "
        "as missing values, or drop the column."
    )
    assert cli("describe", path).code == 2


def test_instants_as_sensitive_values(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "instants.parquet"
    hours = pa.array([n % 5 * 3_600_000_000 for n in range(400)]).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"age": [n % 50 for n in range(400)], "since": hours}), path)
    roles = ("--quasi", "age", "--sensitive", "since")
    assert cli("describe", path).code == 0
    published = cli(
        "publish", path, *roles, "--guarantee", "rho-privacy(0.25, 0.6)", "--mechanism",
        "partitioned", "--out", tmp_path / "release",
    )  # fmt: skip
    assert published.code == 0, published.err
    assert cli("audit", path, tmp_path / "release").code == 0


def test_drop_rest(cli: Any, tmp_path: Path, people_file: Path) -> None:
    out = tmp_path / "release"
    told = cli(
        "publish", people_file, "--quasi", "age", "--sensitive", "disease", "--drop-rest",
        *PROMISE, "--out", out,
    )  # fmt: skip
    assert told.code == 0, told.err
    assert set(pq.read_schema(out / "records/part-00000.parquet").names) <= {
        "age",
        "disease",
        "part",
    }


def test_a_kdd_file_with_flags_alone(cli: Any, tmp_path: Path) -> None:
    """No names, leading blanks, `?`, Latin-1, semicolons: published and audited as it comes."""
    path = tmp_path / "census.data"
    ills = ["grippe", "rhume", "fi\u00e8vre", "toux", "otite"]
    lines = [
        f" {20 + n % 50}; {'MF'[n % 2] if n % 9 else '?'}; {ills[n % 5]}; x" for n in range(500)
    ]
    path.write_text("\n".join(lines), encoding="latin-1")
    written = (
        "--columns", "age,sex,ill,rest", "--encoding", "latin-1", "--trim",
        "--missing-markers", "?", "--separator", ";",
    )  # fmt: skip
    out = tmp_path / "release"
    told = cli(
        "publish", path, *written, "--quasi", "age,sex", "--sensitive", "ill", "--drop-rest",
        "--guarantee", "l-diversity(3)", "--out", out,
    )  # fmt: skip
    assert told.code == 0, told.err
    assert cli("audit", path, out, *written).code == 0
    asked = cli("query", out, "SELECT COUNT(*) FROM release WHERE sex IS NULL", "--json")
    assert '"count": 56' in asked.out
    assert "fi\u00e8vre" in cli("query", out, "SELECT ill, COUNT(*) FROM release GROUP BY ill").out


def test_the_job_file_may_stand_anywhere(cli: Any, tmp_path: Path, people_file: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[table]\nquasi = ["age"]\nsensitive = "disease"\ndrop-rest = true\n')
    first = cli("--job", job, "describe", people_file)
    last = cli("describe", people_file, "--job", job)
    assert first.code == last.code == 0
    assert first.out == last.out
    assert "Histogram. disease" in last.out
    job.write_text("[table]\nsensitiv = 3\n")
    wrong = cli("describe", people_file, f"--job={job}")
    assert wrong.code == 2
    assert "sets 'sensitiv' under [table], which nothing says of a table" in wrong.err
