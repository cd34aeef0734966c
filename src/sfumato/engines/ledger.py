"""The ledger: an accountant per person of what all releases of the same people tell together.

An *account* is a sensitive column of the ledger's first release; a person's holds the operators of
their distinct draws. A draw under a key file is a function of file, operator, person and value:
where all are as before, nothing new is drawn. Where one is another, the change would show, and no
change be evidence, so that release is refused, and fresh draws are what is left.

The file is Parquet, a row for every person, sorted by `who`, a hash under the ledger's secret: the
number of what the person's accounts hold and, for every column under a key file, a mark of the
draw, which nothing but that file makes again; 0 where there was none.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace as changed

from sfumato.draws import Draws
from sfumato.engines.charges import Charge, charge_of, used
from sfumato.engines.ledger_rows import Met, State, joined, marks_of, says_who
from sfumato.engines.run import Run
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.private import MODE, outside_release, private_file, require_private, writing_errors

_HEADER = b"sfumato ledger 3"


class Ledger(msgspec.Struct, frozen=True):
    """What stands in the file beside its rows."""

    promise: str
    secret: str
    accounts: dict[str, str] = {}  # by column
    charges: tuple[Charge, ...] = ()
    everybody: State = ()  # held by all, from releases that do not say who is who
    marks: tuple[str, ...] = ()  # columns under key files
    states: tuple[State, ...] = ((),)  # by number

    def __repr__(self) -> str:
        return f"<Ledger for {self.promise}>"  # never the secret

    def used(self, held: Iterable[State], account: str) -> Fraction | float:
        """The largest part of a value's limit that is used up in an account."""
        lists = [[self.charges[number] for number in (*self.everybody, *one)] for one in held]
        return max(used([c for c in charges if c.account == account]) for charges in lists)

    def account_of(self, column: str, named: Mapping[str, str]) -> str:
        if column in self.accounts or not self.accounts:
            return self.accounts.get(column, column)
        old, account = sorted({*self.accounts.values()}), named.get(column)
        if account in old or account == "new":
            return account if account in old else column
        raise UsageError(
            f"The ledger has no column {column!r} but {', '.join(old)}. Say --ledger-column "
            f"'{column}={old[0]}' if it shows the same of a person, '{column}=new' if it does not."
        )

    def with_release(self, run: Run, named: Mapping[str, str]) -> tuple[Ledger, list[int]]:
        """The ledger with one release more, and the charges of its columns."""
        accounts = {column: self.account_of(column, named) for column in run.table.sensitive}
        drawn = [charge_of(run, *pair, self.promise) for pair in accounts.items()]
        charges = tuple(dict.fromkeys((*self.charges, *drawn)))
        numbers = [charges.index(charge) for charge in drawn]
        return changed(
            self,
            accounts=self.accounts | accounts,
            charges=charges,
            everybody=self.everybody if says_who(run) else (*self.everybody, *numbers),
            marks=tuple(dict.fromkeys((*self.marks, *marks_of(run)))),
        ), numbers

    def checked(self, before: Ledger, columns: Sequence[str], met: Met) -> str:
        """What the steward is told; refused where somebody is drawn otherwise than before, or more
        than is left."""
        left = []
        for column in columns:
            account = self.accounts[column]
            if met.another[column]:
                raise InfeasibleGuarantee(
                    f"Under this key file {met.another[column]:,} of {met.people:,} people would "
                    f"be drawn another time in column {column!r}: their value is not that of an "
                    "earlier release, or their row, the operator or the domain is another. A "
                    "visible change would prove that the value changed, and no change be evidence "
                    "that it did not, so no promise holds of these releases together. Publish "
                    "without --key-file: draws are fresh then, and charged to everybody in the "
                    "table.",
                    witness=column,
                )
            if over := [move for move in met.moves if self.used([move[1]], account) > 1]:
                people = f"{sum(met.moves[move] for move in over):,} of {met.people:,} people"
                raise InfeasibleGuarantee(
                    "The ledger has no room for this release: for "
                    f"{people if met.people else 'everybody'} it draws more in column {column!r} "
                    f"than '{self.promise}' leaves, "
                    f"{_left(before.used([held for held, _ in over], account))}. Give a stricter "
                    "guarantee, leave these people out, or publish as before under the key file "
                    "of an earlier release, which draws nothing new.",
                    witness=column,
                )
            left.append(f"{_left(self.used([m[1] for m in met.moves], account))} in {column!r}")
        told = f"Ledger: left of '{self.promise}' for whoever was drawn most: {', '.join(left)}."
        if met.new and before.charges:
            told += f" {met.new:,} of {met.people:,} people are new to it: under another key than "
            told += "before somebody is another person, charged with nothing from before."
        return told


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
        header = pq.read_metadata(path).metadata[_HEADER]
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
    met, states = Met(moves=Counter({((), ()): 0})), dict[State, int]({(): 0})
    schema = pa.schema([(name, pa.uint64()) for name in ("who", "held", *after.marks)])
    stored = path if before.charges else None
    with private_file(path, "ledger", again=True) as file:
        with (
            writing_errors(path, "ledger"),
            pq.ParquetWriter(file, schema, compression="none", use_dictionary=["held"]) as writer,
        ):
            for rows, kind_of_row in joined(stored, run, before.secret, after.marks, met):
                kinds, place = np.unique(kind_of_row, return_inverse=True)
                come_to = []
                for kind, people in zip(kinds.tolist(), np.bincount(place).tolist(), strict=True):
                    held = before.states[kind >> len(numbers)]
                    added = (number for k, number in enumerate(numbers) if kind >> k & 1)
                    move = held, tuple(sorted((*held, *added)))
                    met.moves[move] += people
                    come_to.append(states.setdefault(move[1], len(states)))
                rows[:, 1] = np.array(come_to, np.uint64)[place]
                writer.write_batch(pa.RecordBatch.from_arrays(list(rows.T), schema=schema))
            after = changed(after, states=tuple(states))
            note = after.checked(before, run.table.sensitive, met)
            writer.add_key_value_metadata({_HEADER: msgspec.json.encode(after, enc_hook=str)})
        yield replace(run, notes=(*run.notes, note))


def _left(used: Fraction | float) -> str:
    return f"a factor of {float(1 / used):.4g}" if used else "all of it"
