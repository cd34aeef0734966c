"""The ledger: an accountant per person of what all releases of the same people tell together.

An *account* is a sensitive column of the ledger's first release; a person's holds the operators of
their distinct draws. A draw under a key file is a function of file, operator, person and value:
where all are as before, nothing new is drawn. Where one is another, the change would show, and no
change be evidence, so that release is refused, and fresh draws are what is left.

The file is Parquet, a row for each account of a person, sorted by `who`, a hash under the ledger's
secret: what it holds, and for every key file a mark of the draw, which only that file makes again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.columns import value_to_json
from sfumato.draws import Draws, Persons
from sfumato.engines.charges import Charge, charge_of, used
from sfumato.engines.run import Run
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.private import MODE, outside_release, private_file, require_private, writing_errors
from sfumato.scratch import scratch_database
from sfumato.table.staging import staged

_HEADER = b"sfumato ledger 3"
_BATCH = 1 << 17
_ROWS = pa.schema([("who", pa.uint64()), ("held", pa.string())])
_NOW = pa.schema([("who", pa.uint64()), ("charge", pa.int32()), ("mark", pa.uint64())])


class Met(NamedTuple):
    """Accounts that a release charges alike, and that held and come to hold the same."""

    charge: int | None
    held: str  # numbers of charges
    after: str
    another: bool  # whether the mark is not that of before
    accounts: int


class Ledger(msgspec.Struct, frozen=True):
    """What stands in the file beside its rows."""

    promise: str
    secret: str
    accounts: dict[str, str] = {}  # by column
    charges: tuple[Charge, ...] = ()
    everybody: str = ""  # held by all, from releases that do not say who is who

    def __repr__(self) -> str:
        return f"<Ledger for {self.promise}>"  # never the secret

    def used(self, held: Iterable[str], account: str) -> Fraction | float:
        """The largest part of a value's limit that is used up in an account."""
        numbers = [f"{self.everybody} {one}".split() for one in held]
        charges = [[self.charges[int(number)] for number in one] for one in numbers]
        return max(used([c for c in one if c.account == account]) for one in charges)

    def account_of(self, column: str, named: Mapping[str, str]) -> str:
        if column in self.accounts or not self.accounts:
            return self.accounts.get(column, column)
        old, account = sorted({*self.accounts.values()}), named.get(column)
        if account in old or account == "new":
            return column if account == "new" else account
        raise UsageError(
            f"The ledger has no column {column!r} but {', '.join(old)}. Say --ledger-column "
            f"'{column}={old[0]}' if it shows the same of a person, '{column}=new' if it does not."
        )

    def with_release(self, run: Run, named: Mapping[str, str]) -> tuple[Ledger, list[int]]:
        """The ledger with one release more, and the charges of its columns."""
        accounts = {column: self.account_of(column, named) for column in run.table.sensitive}
        if len({*accounts.values()}) < len(accounts):
            raise UsageError("Two columns of one release cannot be one column of the ledger.")
        drawn = [charge_of(run, *pair, self.promise) for pair in accounts.items()]
        charges = tuple(dict.fromkeys((*self.charges, *drawn)))
        numbers = [charges.index(charge) for charge in drawn]
        everybody = " ".join([self.everybody, *([] if _whose(run) else map(str, numbers))])
        accounts = self.accounts | accounts
        return Ledger(self.promise, self.secret, accounts, charges, everybody), numbers

    def checked(self, before: Ledger, columns: Sequence[str], met: Sequence[Met]) -> str:
        """What the steward is told; a release that redraws somebody, or draws more than is left, is
        refused."""
        said = []
        for column in columns:
            account = self.accounts[column]
            own = {n for n, charge in enumerate(self.charges) if charge.account == account}
            here = [m for m in met if m.charge in own]
            people = sum(m.accounts for m in here)
            if another := sum(m.accounts for m in here if m.another):
                raise InfeasibleGuarantee(
                    f"Under this key file {another:,} of {people:,} people would be drawn another "
                    f"time in column {column!r}: their value is not that of an earlier release, or "
                    "the operator or domain is another. A visible change would prove that the "
                    "value changed, and no change be evidence that it did not, so no promise holds "
                    "of these releases together. Publish without --key-file: draws are fresh then, "
                    "and charged to everybody in the table.",
                    witness=column,
                )
            over = [m for m in here or met if self.used([m.after], account) > 1]
            if over:
                who = f"{sum(m.accounts for m in over):,} of {people:,} people"
                raise InfeasibleGuarantee(
                    f"The ledger has no room for this release: for {who if here else 'everybody'} "
                    f"it draws more in column {column!r} than is left of '{self.promise}', "
                    f"{_left(before.used([m.held for m in over], account))}. Give a stricter "
                    "guarantee, leave these people out, or publish as before under the key file "
                    "of an earlier release, which draws nothing new.",
                    witness=column,
                )
            left = _left(self.used([m.after for m in met], account))
            said.append(f"Ledger: {left} is left of '{self.promise}' in column {column!r} for")
            said.append("whoever was drawn most.")
            new = sum(m.accounts for m in here if not m.held)
            if new and before.charges:
                said.append(f"{new:,} of {people:,} people are new to it: under another key than")
                said.append("before somebody is another person, charged with nothing from before.")
        return " ".join(said)


@contextmanager
def open_ledger(
    path: str | Path | None,
    promise: str | Guarantee | None,
    columns: Mapping[str, str],
    usual: Guarantee,
    release: Path,
) -> Iterator[Callable[[Run], AbstractContextManager[Run]]]:
    """What enters a run in the ledger of a file, or in a new one under `promise`, by default that
    of its first release. The file stays locked: two runs never spend the same room."""
    if path is None:
        if promise is not None or columns:
            raise UsageError("What is said of a ledger needs its --ledger.")
        yield nullcontext
        return
    place = Path(path)
    outside_release(place, release, "ledger")
    with writing_errors(place, "ledger"):
        lock = os.open(place.with_name(f".{place.name}.lock"), os.O_RDWR | os.O_CREAT, MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stated = str(usual if promise is None else parse_guarantee(promise))
        ledger = _read(place) if place.exists() else Ledger(stated, Draws.system().reveal())
        if promise is not None and stated != ledger.promise:
            raise UsageError(
                f"The ledger {str(place)!r} is for '{ledger.promise}' and cannot be for another "
                "promise. Leave --ledger-promise out, or begin another ledger for other people."
            )
        yield partial(_entered, place, ledger, columns)
    finally:
        os.close(lock)


def _read(path: Path) -> Ledger:
    require_private(path, "the ledger")
    try:
        header = pq.read_schema(path).metadata[_HEADER]
        return msgspec.json.decode(header, type=Ledger, dec_hook=lambda kind, text: kind(text))
    except (OSError, TypeError, ValueError, KeyError, pa.ArrowException, msgspec.MsgspecError):
        raise DataError(
            f"Cannot use the ledger {str(path)!r}: it is not a file that 'publish --ledger' of "
            "this version wrote."
        ) from None


@contextmanager
def _entered(path: Path, before: Ledger, named: Mapping[str, str], run: Run) -> Iterator[Run]:
    """Enter a run, or refuse it before anything is written. The ledger takes its place before the
    release does: what was counted in vain protects too much, what was not counted too little."""
    after, numbers = before.with_release(run, named)
    rows = _ROWS.empty_table().to_reader()
    if before.charges:
        file = pq.ParquetFile(path)
        rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(_BATCH))
    now = pa.RecordBatchReader.from_batches(_NOW, _arriving(run, after, numbers))
    with private_file(path, "ledger", again=True) as written:
        with closing(scratch_database(columns=len(rows.schema), counting=True)) as database:
            database.register("before", rows)
            database.register("now", now)
            database.execute(_joined(rows.schema.names, _key(run)))
            kinds = "SELECT charge, held, after, another, count(*) FROM joined GROUP BY ALL"
            met = [Met(*row) for row in database.sql(kinds).fetchall()]
            nobody = Met(None, "", "", False, 0)
            note = after.checked(before, run.table.sensitive, met or [nobody])
            found = database.sql(
                "SELECT * EXCLUDE (charge, held, another) RENAME (after AS held) FROM joined "
                "ORDER BY who"
            ).to_arrow_reader(_BATCH)
            header = {_HEADER: msgspec.json.encode(after, enc_hook=str)}
            schema, plain = found.schema.with_metadata(header), {"compression": "none"}
            with (
                writing_errors(path, "ledger"),
                pq.ParquetWriter(written, schema, use_dictionary=["held"], **plain) as writer,
            ):
                for batch in found:
                    writer.write_batch(batch)
        yield replace(run, notes=(*run.notes, note))


def _joined(columns: Sequence[str], key: Draws | None) -> str:
    """SQL: the accounts of the ledger and of a run, what they held and come to hold."""
    marks = {name: name for name in columns[2:]}
    adds, another = "charge IS NOT NULL", "false"
    if key is not None:
        name = f"k{key.child('name').reveal()}"  # which does not betray the key
        known = marks.get(name, "NULL::UBIGINT")
        marks[name] = f"coalesce({known}, mark) AS {name}"
        adds, another = f"{adds} AND {known} IS NULL", f"coalesce({known} <> mark, false)"
    return (
        "CREATE TABLE joined AS SELECT coalesce(now.who, before.who) AS who, charge, "
        f"coalesce(before.held, '') AS held, {another} AS another, CASE WHEN {adds} THEN "
        "concat_ws(' ', before.held, charge) ELSE before.held END AS after"
        + "".join(f", {mark}" for mark in marks.values())
        + " FROM now FULL JOIN before ON now.who = before.who"
    )


def _arriving(run: Run, ledger: Ledger, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The accounts of a run's people, what they are charged and, under a key file, a mark of the
    draw: of operator, domain, key and value, so equal values of two people differ."""
    whose, columns, rows = _whose(run), run.table.sensitive, staged(run.table)
    key, secret = _key(run), Draws.repeated(ledger.secret, "system")
    if not whose:
        return
    drawn = {}
    if key is not None and isinstance(run.plan, PerturbedPlan):
        for column in columns:
            values = [value_to_json(value) for value in run.profile.histograms[column].values]
            operator = [column, run.plan.operators[column].to_json(), values]
            blocks = key.persons("value", [repr(value).encode() for value in values]).blocks
            drawn[column] = partial(key.words, json.dumps(operator, sort_keys=True)), blocks
    names = [rows.columns[name] for name in (*whose, *columns)]
    for batch in rows.people.sql(f"SELECT {', '.join(names)} FROM people", *names):
        people = [
            secret.persons("person", [str(one).encode() for one in array.to_pylist()])
            for array in batch.columns[: len(whose)]
        ]
        for column, number, codes in zip(
            columns, numbers, batch.columns[len(whose) :], strict=True
        ):
            mark = pa.nulls(batch.num_rows, pa.uint64())
            if column in drawn:
                words, blocks = drawn[column]
                mark = pa.array(words(Persons(people[-1].blocks ^ blocks[codes.to_numpy()])))
            who = pa.array(secret.words(ledger.accounts[column], people[0]))
            charge = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([who, charge, mark], schema=_NOW)


def _whose(run: Run) -> list[str]:
    """The columns that say whose a row is: the person, and the key of the row."""
    return [name for name in (run.table.person, run.table.key) if name]


def _key(run: Run) -> Draws | None:
    """The subkey of the key file that marks are made with."""
    return run.draws.child("ledger") if run.draws.origin == "key-file" else None


def _left(used: Fraction | float) -> str:
    return f"a factor of {float(1 / used):.4g}" if used else "all"
