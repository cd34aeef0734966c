"""Where a PostgreSQL table is: the address that libpq gets, and what may be shown of it.

`postgresql://user@host:port/database?table=schema.name`, or `?query=SELECT …` up to the end. All
that libpq understands may stand there too (`sslmode`, `connect_timeout` …). Nothing of an address
that might be a password is ever shown, so an address that cannot be read is not quoted at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from sfumato.columns import quoted
from sfumato.errors import DataError

HOW = (
    "Write postgresql://user@host:port/database?table=NAME (or ?query=SELECT …), with every "
    "character of the password that is no letter or digit percent-encoded; better, leave the "
    "password to PGPASSWORD or ~/.pgpass."
)
_PORT = r"(?:\[[0-9a-fA-F:.%]*\]|[^:\[\]@/?,]*)(?::[0-9]*)?"
_SHAPE = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?"
    rf"(?P<hosts>{_PORT}(?:,{_PORT})*)"
    r"(?:/(?P<database>[^/?@:]*))?"
    # SQL holds '&' and '=' as it likes, so `query=` reaches to the end of the address
    r"(?:\?(?P<parameters>(?:(?!query=)[a-z_]+=[^&]*(?:&|$))*)(?:query=(?P<query>.*))?)?",
    re.DOTALL,
)
_SECRET = ("password", "passfile", "sslkey", "sslpassword")


@dataclass(frozen=True)
class Address:
    """A readable address. Its text form shows host, database and table, never who connects."""

    uri: str = field(repr=False)  # for libpq alone
    place: str
    label: str  # how messages name the table
    rows: str = field(repr=False)  # what SQL selects from
    secrets: tuple[str, ...] = field(repr=False)


def is_address(text: str) -> bool:
    """Whether somebody meant a database: also where they mistyped it, so that no message for
    files quotes a password.

    >>> is_address("postgresql://host/db?table=t"), is_address("Postgres:/me:secret@host")
    (True, True)
    >>> is_address("postgres.parquet")
    False
    """
    return re.match(r"\s*postgres\w*(\+\w+)?\s*:", text, re.IGNORECASE) is not None


def parse_address(text: str) -> Address:
    """Read an address.

    >>> address = parse_address("postgresql://me:secret@host:5433/clinic?table=public.admissions")
    >>> address.label
    'postgresql://host:5433/clinic?table=public.admissions'
    >>> address.rows
    '"public"."admissions"'
    """
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise DataError(f"Cannot read the address of a PostgreSQL table. {HOW}")
    parts = [part for part in (shape["parameters"] or "").split("&") if part]
    parameters = {name: unquote(value) for name, _, value in (p.partition("=") for p in parts)}
    table, query = parameters.pop("table", None), shape["query"]
    if (table is None) == (query is None):
        raise DataError(
            "The address of a PostgreSQL table names one thing to read, 'table' or 'query'; this "
            f"one names {'neither' if table is None else 'table and query'}. {HOW}"
        )
    hosts = parameters.get("host", shape["hosts"])
    hosts += f":{parameters['port']}" if "port" in parameters else ""
    place = f"postgresql://{hosts}/{parameters.get('dbname', unquote(shape['database'] or ''))}"
    written = [shape["password"], *(parameters.get(name) for name in _SECRET)]
    secrets = {secret for secret in written if secret}
    passed = "&".join(part for part in parts if not part.startswith("table="))
    return Address(
        uri=text.strip().partition("?")[0] + (f"?{passed}" if passed else ""),
        place=place,
        label=f"the query on {place}" if table is None else f"{place}?table={table}",
        rows=f"(\n{_query(unquote(query))}\n) AS q" if table is None else _relation(table),
        secrets=tuple(sorted(secrets | {unquote(secret) for secret in secrets})),
    )


def _relation(text: str) -> str:
    """`table` or `schema.table`, exactly as they are written."""
    parts = text.split(".")
    if not all(parts) or len(parts) > 2 or "\x00" in text:
        raise DataError(
            f"Cannot read the table name {text!r}. Write table=NAME or table=SCHEMA.NAME; where "
            'a name has a dot, ?query=SELECT * FROM "na.me".'
        )
    return ".".join(map(quoted, parts))


def _query(text: str) -> str:
    sql = text.strip().rstrip(";").strip()
    if not sql or "\x00" in sql:
        raise DataError("The query of a PostgreSQL address is empty. Write ?query=SELECT ….")
    return sql
