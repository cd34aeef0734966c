"""Where a PostgreSQL table is: the address that libpq gets, and what may be shown of it.

`postgresql://user@host:port/database?table=schema.name`, or `?query=SELECT …` up to the end. All
that libpq understands may stand there too (`sslmode`, `connect_timeout` …). Nothing of an address
that might be a password is ever shown, so an address that cannot be read is not quoted at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from sfumato.errors import DataError

HOW = (
    "Write postgresql://user@host:port/database?table=NAME (or ?query=SELECT …), with every "
    "character of the password that is no letter or digit percent-encoded; better, leave the "
    "password to PGPASSWORD or ~/.pgpass."
)
_SHAPE = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?"
    r"(?P<hosts>[A-Za-z0-9._%,:\[\]-]*)"
    r"(?:/(?P<database>[^/?@:]*))?"
    r"(?:\?(?P<parameters>.*))?",
    re.DOTALL,
)
_PORTS = re.compile(r"(\[[0-9a-fA-F:.%]*\]|[^:\[\]]*)(:[0-9]*)?")
_SECRET = ("password", "passfile", "sslkey", "sslpassword")
_IDENTIFIER = r'"(?:[^"\x00]|"")+"|[^".\x00]+'


@dataclass(frozen=True)
class Address:
    """A readable address. Its text form shows host, database and table, never who connects."""

    uri: str = field(repr=False)  # for libpq alone
    place: str
    relation: tuple[str, ...] | None  # schema and table as they are written
    query: str | None = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def label(self) -> str:
        """How messages name the table."""
        if self.relation is None:
            return f"the query on {self.place}"
        return f"{self.place}?table={'.'.join(self.relation)}"


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
    >>> address
    Address(place='postgresql://host:5433/clinic', relation=('public', 'admissions'))
    """
    match_ = _SHAPE.fullmatch(text.strip())
    if match_ is None or not all(_PORTS.fullmatch(h) for h in match_["hosts"].split(",")):
        raise DataError(f"Cannot read the address of a PostgreSQL table. {HOW}")
    kept, own_parameters, parameters = _parameters(match_["parameters"] or "")
    if len(own_parameters) != 1:
        raise DataError(
            "The address of a PostgreSQL table names one thing to read, 'table' or 'query'; this "
            f"one names {' and '.join(own_parameters) or 'neither'}. {HOW}"
        )
    hosts = parameters.get("host", match_["hosts"])
    if "port" in parameters:
        hosts += f":{parameters['port']}"
    database = parameters.get("dbname", unquote(match_["database"] or ""))
    secrets = [match_["password"], *(parameters.get(name) for name in _SECRET)]
    written = {secret for secret in secrets if secret}
    return Address(
        uri=text.strip().partition("?")[0] + (f"?{'&'.join(kept)}" if kept else ""),
        place=f"postgresql://{hosts}/{database}",
        relation=_relation(own_parameters["table"]) if "table" in own_parameters else None,
        query=_query(own_parameters["query"]) if "query" in own_parameters else None,
        secrets=tuple(sorted(written | {unquote(secret) for secret in written})),
    )


def _parameters(text: str) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The parameters for libpq as they stand, our own ones, and all of libpq's as read."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    known: dict[str, str] = {}
    before, query, sql = _cut_query(text)
    for part in before.split("&") if before else []:
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[a-z_]+", name):
            raise DataError(f"Cannot read the parameters of a PostgreSQL address. {HOW}")
        if name == "table":
            parameters[name] = unquote(value)
        else:
            kept.append(part)
            known[name] = unquote(value)
    if query:
        parameters["query"] = unquote(sql)
    return kept, parameters, known


def _cut_query(text: str) -> tuple[str, bool, str]:
    """SQL holds '&' and '=' as it likes, so `query=` reaches to the end of the address."""
    match_ = re.search(r"(?:^|&)query=", text)
    if match_ is None:
        return text, False, ""
    return text[: match_.start()], True, text[match_.end() :]


def _relation(text: str) -> tuple[str, ...]:
    """`table`, `schema.table` or `"Odd.Name".table`; names are taken exactly as written."""
    if not re.fullmatch(rf"(?:{_IDENTIFIER})(?:\.(?:{_IDENTIFIER}))?", text):
        raise DataError(
            f"Cannot read the table name {text!r}. Write table=NAME or table=SCHEMA.NAME; names "
            "with dots stand in double quotes."
        )
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else part
        for part in re.findall(_IDENTIFIER, text)
    )


def _query(text: str) -> str:
    sql = text.strip().rstrip(";").strip()
    if not sql or "\x00" in sql:
        raise DataError("The query of a PostgreSQL address is empty. Write ?query=SELECT ….")
    return sql
