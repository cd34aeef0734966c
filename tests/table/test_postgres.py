"""A real PostgreSQL server as the source: types, one snapshot, one order, no secrets, no halves."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError, SfumatoError, UsageError
from sfumato.table import Table
from sfumato.table.postgres import Address, PostgresSource
from sfumato.table.sources import find_source

PROMISE = "rho-privacy(0.3, 0.5)"
SECRETS = ("s3cret", "pa@ss", "pa%40ss", "w?rd", "w%3Frd")
ROLES = {"quasi": "age,sex,region", "sensitive": "disease"}


@pytest.fixture(scope="module")
def clinic(postgres: Any, people_of: Callable[[int], pa.Table]) -> Any:
    """The server with a table of people."""
    postgres.load("people", people_of(3_000))
    return postgres


@pytest.fixture(scope="session")
def people_of() -> Callable[[int], pa.Table]:
    def make(rows: int) -> pa.Table:
        diseases = ["angina", "asthma", "cancer", "flu"]
        return pa.table(
            {
                "id": pa.array(range(rows), pa.int32()),
                "age": pa.array([18 + i * 7 % 70 for i in range(rows)], pa.int32()),
                "sex": ["FM"[i * 13 % 5 % 2] for i in range(rows)],
                "region": ["north", "south", "west"] * (rows // 3),
                "disease": [diseases[i * i % 11 % 4] for i in range(rows)],
            }
        )

    return make


@pytest.fixture(scope="module")
def wide(postgres: Any) -> Any:
    """The server with a table that comes in several batches, of 16 MB each."""
    postgres.run(
        "CREATE TABLE wide AS SELECT i AS id, i % 7 AS age, repeat('s', 900) || i % 2 AS sex, "
        "repeat('d', 900) || i % 4 AS disease FROM generate_series(1, 60000) i"
    )
    return postgres


def whole(source: Any, *columns: str, rows: int = 1 << 17) -> pa.Table:
    names = columns or tuple(source.schema.names)
    return pa.Table.from_batches(list(source.batches(names, rows)))


def read(server: Any, what: str = "table=people", **roles: Any) -> Table:
    return sf.read(f"{server.address()}?{what}", **({"key": "id", **ROLES} | roles))


# -- types -----------------------------------------------------------------------------------------


def test_every_type_arrives_sensibly(postgres: Any) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN price AS numeric(12, 3) CHECK (value >= 0)",
        """CREATE TABLE kinds (small smallint, whole integer, big bigint, single real, twice double
        precision, flag boolean, words text, short varchar(9), padded char(5), mood mood,
        identity uuid, day date, noon time, stamp timestamp, instant timestamptz, raw bytea,
        free numeric, money2 numeric(10, 2), count0 numeric(12, 0), huge numeric(30, 0),
        price price, notes jsonb, list int[])""",
        """INSERT INTO kinds VALUES (1, 2, 3, 1.5, 2.5, true, 'ä', 'b', 'c', 'glad',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2020-02-03', '04:05:06', '2020-02-03 04:05:06.789',
        '2020-02-03 04:05:06+02', '\\x01', 12.345, 12.30, 77, 123456789012345678901234567890,
        1.125, '{}', '{1}')""",
        "INSERT INTO kinds (whole) VALUES (NULL)",
    )
    source = find_source(f"{postgres.address()}?table=kinds")
    readable = [name for name in source.schema.names if name not in source.foreign]
    assert source.foreign == {"notes": "jsonb", "list": "_int4"}
    found = whole(source, *readable)
    assert found.schema == pa.schema([source.schema.field(name) for name in readable])
    assert set(found.slice(1).to_pylist()[0].values()) == {None}
    assert found.slice(0, 1).to_pylist() == [
        {
            "small": 1, "whole": 2, "big": 3, "single": 1.5, "twice": 2.5, "flag": True,
            "words": "ä", "short": "b", "padded": "c", "mood": "glad",
            "identity": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "day": date(2020, 2, 3),
            "noon": time(4, 5, 6), "stamp": datetime(2020, 2, 3, 4, 5, 6, 789000),
            "instant": datetime(2020, 2, 3, 2, 5, 6, tzinfo=UTC), "raw": b"\x01",
            "free": 12.345, "money2": Decimal("12.30"), "count0": 77,
            "huge": Decimal("123456789012345678901234567890"), "price": Decimal("1.125"),
        }
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"Column 'notes' of .*kinds is jsonb: only numbers"):
        sf.read(source, quasi=[*readable[:-1], "notes"], sensitive="price", drop="list")
    with pytest.raises(DataError, match=r"Column 'list' of .* is _int4, which sfumato does not"):
        list(source.batches(["list"], 10))
    declared = sf.read(
        source, quasi=readable[:-1], sensitive="price", drop="notes,list", missing="value"
    )
    assert declared.kinds["money2"] == "numeric"


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("'infinity'::date", "after the year 9999"),
        ("'-infinity'::timestamp", "after the year 9999"),
        ("'infinity'::timestamptz", "after the year 9999"),
        ("'20000-01-01'::date", "after the year 9999"),
        ("'NaN'::numeric(10, 2)", "NaN"),
    ],
)
def test_values_that_nothing_here_can_hold(postgres: Any, expression: str, complaint: str) -> None:
    source = find_source(f"{postgres.address()}?query=SELECT {expression} AS odd")
    with pytest.raises(DataError, match=rf"Column 'odd' .*{complaint}"):
        list(source.batches(["odd"], 10))


def test_names_are_taken_as_they_are(postgres: Any) -> None:
    postgres.run(
        'CREATE SCHEMA "Odd.Schema"',
        'CREATE TABLE "Odd.Schema"."Ta""ble; DROP TABLE people" '
        '("col ""umn\' %s" int, "Select" text)',
        """INSERT INTO "Odd.Schema"."Ta""ble; DROP TABLE people" VALUES (1, 'x')""",
    )
    place = '"Odd.Schema"."Ta""ble; DROP TABLE people"'
    source = find_source(f"{postgres.address()}?query=SELECT * FROM {place}")
    assert whole(source).to_pylist() == [{"col \"umn' %s": 1, "Select": "x"}]
    with pytest.raises(DataError, match=r'relation "Ta""ble; DROP TABLE people" does not exist'):
        find_source(f'{postgres.address()}?table=Ta""ble; DROP TABLE people')


@pytest.mark.parametrize("how", ["partitioned", "view", "materialized", "empty"])
def test_other_relations(postgres: Any, how: str) -> None:
    postgres.run(
        *{
            "partitioned": (
                "CREATE TABLE partitioned (a int, b int) PARTITION BY LIST (b)",
                "CREATE TABLE one PARTITION OF partitioned FOR VALUES IN (1)",
                "CREATE TABLE two PARTITION OF partitioned FOR VALUES IN (2)",
                "INSERT INTO partitioned SELECT i, 1 + i % 2 FROM generate_series(1, 9) i",
            ),
            "view": ("CREATE VIEW view AS SELECT i AS a, 1 AS b FROM generate_series(1, 9) i",),
            "materialized": (
                "CREATE MATERIALIZED VIEW materialized AS SELECT i AS a, 1 AS b "
                "FROM generate_series(1, 9) i",
            ),
            "empty": ("CREATE TABLE empty (a int, b int)",),
        }[how]
    )
    address = f"{postgres.address()}?table={how}"
    if how == "empty":
        with pytest.raises(DataError, match=r"\?table=empty has no rows"):
            sf.read(address, quasi="a", sensitive="b")
    else:
        table = sf.read(address, quasi="a", sensitive="b")
        assert sorted(whole(table.source, "a").column("a").to_pylist()) == list(range(1, 10))


# -- the same rows, in the same order, in every pass -----------------------------------------------


def test_the_same_release_as_from_a_file(clinic: Any, tmp_path: Path, people_of: Any) -> None:
    pq.write_table(people_of(3_000), tmp_path / "people.parquet")
    file = sf.read(tmp_path / "people.parquet", key="id", **ROLES)
    for name, table in (("file", file), ("table", read(clinic))):
        sf.publish(table, PROMISE, to=tmp_path / name, mechanism="uniform", seed=3)
    sf.publish(
        read(clinic, "query=SELECT * FROM people ORDER BY id"),
        PROMISE, to=tmp_path / "query", mechanism="uniform", seed=3, batch_rows=777,
    )  # fmt: skip
    records = [pq.read_table(tmp_path / name / "records") for name in ("file", "table", "query")]
    assert records[0].equals(records[1])
    assert records[0].equals(records[2])
    findings = sf.audit(f"{clinic.address()}?table=people", tmp_path / "table").findings
    assert next(finding for finding in findings if finding.check.name == "rows").holds


def test_all_passes_see_one_snapshot(postgres: Any, tmp_path: Path, people_of: Any) -> None:
    """Rows come, go and change between the passes; the release is of the table as it was."""
    postgres.load("moving", people_of(3_000))
    table = read(postgres, "table=moving")
    changes = iter(
        [
            "DELETE FROM moving WHERE id % 3 = 0",
            "UPDATE moving SET disease = 'flu', age = 99 WHERE id % 3 = 1",
            "INSERT INTO moving SELECT id + 10000, age, sex, region, disease FROM moving",
        ]
    )

    def disturb(stage: str, done: int, total: int) -> None:
        for statement in changes:
            postgres.run(statement)

    disturb("before", 0, 0)
    sf.publish(table, PROMISE, to=tmp_path / "release", mechanism="uniform", progress=disturb)
    published = pq.read_table(tmp_path / "release" / "records")
    assert published.num_rows == 3_000
    assert max(published.column("age").to_pylist()) < 99
    again = whole(find_source(f"{postgres.address()}?table=moving"))
    assert again.num_rows == 4_000


def test_rows_keep_their_order_between_sources(postgres: Any) -> None:
    """Against a scan that is under way elsewhere, an index that holds a column, and workers."""
    postgres.run(
        "CREATE TABLE long AS SELECT (i * 7919) % 100003 AS a, repeat('x', 200) AS b "
        "FROM generate_series(1, 100000) i",
        "CREATE INDEX ON long (a)",
        "VACUUM ANALYZE long",
    )
    hint = {"adbc.postgresql.batch_size_hint_bytes": "100000"}
    with postgres.connect() as other, other.cursor(adbc_stmt_kwargs=hint) as cursor:
        cursor.execute("SELECT b FROM long")
        scan = cursor.fetch_record_batch()
        for what in ("table=long", "query=SELECT * FROM long WHERE a > 5"):
            orders = []
            for columns in (("a",), ("a", "b"), ("b", "a")):
                scan.read_next_batch()
                source = find_source(f"{postgres.address()}?{what}")
                orders.append(whole(source, *columns).column("a"))
            assert orders[0].equals(orders[1])
            assert orders[0].equals(orders[2])
        scan.close()


def test_passes_may_overlap_or_be_left(wide: Any) -> None:
    source = find_source(f"{wide.address()}?table=wide")
    left = source.batches(["sex"], 10)
    next(left)
    first, second = source.batches(["id", "sex"], 5_000), source.batches(["age", "disease"], 7_000)
    ids = next(first).column("id").to_pylist()
    ages = next(second).column("age").to_pylist()
    for batch in second:
        ages += batch.column("age").to_pylist()
    for batch in first:
        ids += batch.column("id").to_pylist()
    assert ages == [i % 7 for i in ids]
    assert sorted(ids) == list(range(1, 60_001))


def test_the_table_can_be_altered_after_close(postgres: Any) -> None:
    postgres.run("CREATE TABLE alterable (a int)")
    source = find_source(f"{postgres.address()}?table=alterable")
    assert isinstance(source, PostgresSource)
    with pytest.raises(Exception, match="lock timeout"):
        postgres.run("SET lock_timeout = '100ms'", "ALTER TABLE alterable ADD b int")
    source.close()
    postgres.run("SET lock_timeout = '5s'", "ALTER TABLE alterable ADD b int")


# -- only reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT spoil()", "it tries to write, and only reading is allowed"),
        ("WITH d AS (DELETE FROM kept RETURNING 1) SELECT * FROM d", "WITH clause"),
        ("DELETE FROM kept", "syntax error"),
        ("SELECT 1) AS q; DROP TABLE kept; --", "syntax error"),
        ("SELECT 1) AS q; DROP TABLE kept; SELECT (1", "multiple commands"),
        ("SELECT agee FROM kept", 'column "agee" does not exist'),
        ("SELECT * FROM nowhere", 'relation "nowhere" does not exist'),
        ("SELECT 1 / a FROM kept", "in the middle"),
        ("SELECT", "at least one sensitive column"),
    ],
)
def test_a_query_only_reads(postgres: Any, query: str, complaint: str) -> None:
    postgres.run(
        "CREATE TABLE IF NOT EXISTS kept (a int)",
        "CREATE OR REPLACE FUNCTION spoil() RETURNS int LANGUAGE sql AS "
        "'DELETE FROM kept RETURNING 1'",
        "DELETE FROM kept",
        "INSERT INTO kept VALUES (0)",
    )

    def attempt() -> None:
        source = find_source(f"{postgres.address()}?query={query}")
        sf.read(source, quasi=[], sensitive=source.schema.names[:1])
        whole(source)

    with pytest.raises(SfumatoError, match=complaint):
        attempt()
    kept = whole(find_source(f"{postgres.address()}?query=SELECT * FROM kept"))
    assert kept.to_pylist() == [{"a": 0}]


def test_a_query_may_hold_anything(postgres: Any) -> None:
    sql = "SELECT i & 1 AS odd, i%2 AS two, 'a%b' AS c -- a comment\nFROM generate_series(1, 3) i;"
    source = find_source(f"{postgres.address()}?connect_timeout=5&query={quote(sql)}")
    assert whole(source).to_pylist() == [
        {"odd": i & 1, "two": i % 2, "c": "a%b"} for i in (1, 2, 3)
    ]


# -- credentials -----------------------------------------------------------------------------------


def shown(error: BaseException) -> str:
    """All that any handler could show of an error, hidden causes included."""
    texts, seen = [], error
    while seen is not None:
        texts += [str(seen), repr(seen), *traceback.format_exception_only(seen)]
        seen = seen.__cause__ or seen.__context__  # type: ignore[assignment]
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        (
            "postgresql://steward:wrong-s3cret@127.0.0.1:{port}/postgres?table=people",
            "not let this user",
        ),
        ("postgresql://steward:s3cret@127.0.0.1:1/postgres?table=people", "nothing answers"),
        ("postgresql://steward:s3cret@nowhere.invalid/d?table=people", "nothing answers"),
        ("postgresql://steward:s3cret%zz@127.0.0.1:{port}/d?table=people", "connection failed"),
        ("postgresql://steward:pa@ss@127.0.0.1:{port}/d?table=people", "Cannot read the address"),
        ("postgresql://steward:s3/cret@127.0.0.1:{port}/d?table=people", "Cannot read the address"),
        ("postgresql://steward:s3?cret@127.0.0.1/d?table=people", "Cannot read the"),
        ("postgresql://steward:12?s3cret@127.0.0.1/d?table=people", "Cannot read the address"),
        ("postgresql://steward:12?s3=cret@127.0.0.1/d&table=people", "Cannot read the"),
        ("postgresql://127.0.0.1:{port}/d?user=x&password=s3cret&table=t", "not let this user"),
        ("postgresql://127.0.0.1:{port}/d?password=s3cret&foo=s3cret&table=t", "connection failed"),
        ("postgresql://steward:s3cret/d?table=people", "Cannot read the address"),
        ("postgresql:/steward:s3cret@127.0.0.1/d?table=people", "Cannot read the address"),
        ("postgresql+psycopg://steward:s3cret@127.0.0.1/d?table=t", "Cannot read the address"),
        ("Postgres://steward:s3cret@127.0.0.1:{port}/d?table=t", "not let this user"),
        ("mysql://steward:s3cret@127.0.0.1/d?table=t", "Cannot read from a mysql:// address"),
        ("postgresql://steward:s3cret@127.0.0.1/d", "one thing to read"),
        ("postgresql://steward:s3cret@127.0.0.1/d?table=a&query=SELECT 1", "one thing to read"),
        ("postgresql://steward:s3cret@127.0.0.1:{port}/d?table=a.b.c", "not let this user"),
        ("postgresql://steward:s3cret@127.0.0.1/d?query= ;", "one thing to read"),
    ],
)
def test_no_error_shows_a_password(postgres: Any, cli: Any, address: str, complaint: str) -> None:
    address = address.format(port=postgres.port)
    with pytest.raises(SfumatoError, match=complaint) as caught:
        sf.read(address, **ROLES)
    outcome = cli("publish", address, "--quasi", "age", "--sensitive", "disease", "--guarantee",
                  PROMISE, "--out", "never")  # fmt: skip
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    for text in (shown(caught.value), outcome.err):
        assert not re.search("cret|pa@|steward|ss@", text), text
    assert not Path("never").exists()


def test_an_address_in_the_wrong_place_is_not_quoted(postgres: Any, cli: Any) -> None:
    outcome = cli("audit", "release", f"{postgres.address()}?table=people")
    assert outcome.code == 2
    assert "There is no release folder 'postgresql:/…@127.0.0.1" in outcome.err
    assert not any(secret in outcome.err for secret in SECRETS)


def test_nothing_made_holds_a_credential(clinic: Any, cli: Any, tmp_path: Path) -> None:
    address = f"{clinic.address()}?table=people"
    release, receipt = tmp_path / "release", tmp_path / "receipt"
    texts = []
    for command in (
        ("describe", address, "--quasi", "age,sex,region", "--sensitive", "disease",
         "--drop", "id"),
        ("publish", address, "--quasi", "age,sex,region", "--sensitive", "disease", "--key", "id",
         "--guarantee", PROMISE, "--mechanism", "partitioned", "--out", release,
         "--receipt", receipt),
        ("audit", address, release),
        ("audit", address, release, "--json"),
        ("check", address, "--quasi", "age,sex,region", "--sensitive", "disease", "--drop", "id"),
        ("attack", address, release, "--targets", "200"),
    ):  # fmt: skip
        outcome = cli(*command)
        assert outcome.code == 0, outcome
        texts += [outcome.out, outcome.err]
    texts += [repr(read(clinic)), repr(Address.of(address)), str(vars(read(clinic)))]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2
    for secret in (*SECRETS, "steward"):
        assert not any(secret in text for text in texts), secret
        assert not any(secret.encode() in content for content in files), secret


def test_the_password_may_be_left_to_libpq(
    clinic: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = f"postgresql://steward@127.0.0.1:{clinic.port}/postgres?table=people"
    password = "s3cret/pa@ss:w?rd%"
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", password)
        assert whole(find_source(bare), "id").num_rows == 3_000
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:*:*:steward:{password.replace(':', chr(92) + ':')}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert whole(find_source(bare), "id").num_rows == 3_000


def test_the_driver_may_be_missing(clinic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    monkeypatch.delitem(sys.modules, "adbc_driver_postgresql", raising=False)
    with pytest.raises(UsageError, match=r"needs a driver: pip install 'sfumato\[postgres\]'"):
        read(clinic)


# -- a server that goes away -----------------------------------------------------------------------


def after_batches(count: int, strike: Callable[[], None]) -> Callable[..., Iterator[Any]]:
    """`PostgresSource._streamed` with something happening after so many batches."""
    streamed = PostgresSource._streamed

    def struck(self: PostgresSource, reader: Any) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(streamed(self, reader), 1):
            if number == count:
                strike()
            yield batch

    return struck


@pytest.mark.parametrize("at", [1, 2])
def test_a_connection_lost_at_any_batch(
    wide: Any, cli: Any, at: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    postgres = wide

    def end() -> None:
        postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )

    monkeypatch.setattr(PostgresSource, "_streamed", after_batches(at, end))
    outcome = cli(
        "publish", f"{postgres.address()}?table=wide", "--quasi", "age,sex", "--sensitive",
        "disease", "--key", "id", "--guarantee", "rho-privacy(0.3, 0.5)",
        "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2, outcome
    assert re.fullmatch(
        r"sfumato: Reading postgresql://127.0.0.1:\d+/postgres\?table=\w+ broke off: the server "
        r"closed the connection. What was read is thrown away.\n",
        outcome.err,
    ), outcome.err
    assert list(tmp_path.iterdir()) == []
