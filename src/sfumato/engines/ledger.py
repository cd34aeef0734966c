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
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace as changed

from sfumato.draws import Draws, IntArray
from sfumato.engines.charges import Charge, charge_of, used
from sfumato.engines.marks import Matrix, aligned, marked_people, names_of_marks, says_who
from sfumato.engines.run import Run
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.private import MODE, outside_release, private_file, require_private, writing_errors

_HEADER = b"sfumato ledger 3"
State = tuple[int, ...]  # numbers of charges


class Met(NamedTuple):
    """What happens to some people alike: what they held and come to hold, whether they are in the
    release, and as bit k whether column k is drawn otherwise than before."""

    held: State
    after: State
    here: bool
    another: int


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
            marks=tuple(dict.fromkeys((*self.marks, *names_of_marks(run)))),
        ), numbers

    def checked(self, before: Ledger, columns: Sequence[str], met: Mapping[Met, int]) -> str:
        """What the steward is told; refused where somebody is drawn otherwise than before, or more
        than is left."""
        said, people = [], sum(met[m] for m in met if m.here)
        for k, column in enumerate(columns):
            account = self.accounts[column]
            if another := sum(met[m] for m in met if m.another >> k & 1):
                raise InfeasibleGuarantee(
                    f"Under this key file {another:,} of {people:,} people would be drawn another "
                    f"time in column {column!r}: their value is not that of an earlier release, or "
                    "the operator or domain is another. A visible change would prove that the "
                    "value changed, and no change be evidence that it did not, so no promise holds "
                    "of these releases together. Publish without --key-file: draws are fresh then, "
                    "and charged to everybody in the table.",
                    witness=column,
                )
            if over := [m for m in met if self.used([m.after], account) > 1]:
                who = f"{sum(met[m] for m in over):,} of {people:,} people"
                raise InfeasibleGuarantee(
                    f"The ledger has no room for this release: for {who if people else 'everybody'}"
                    f" it draws more in column {column!r} than is left of '{self.promise}', "
                    f"{_left(before.used([m.held for m in over], account))}. Give a stricter "
                    "guarantee, leave these people out, or publish as before under the key file "
                    "of an earlier release, which draws nothing new.",
                    witness=column,
                )
            said.append(f"{_left(self.used([m.after for m in met], account))} in {column!r}")
        told = f"Ledger: left of '{self.promise}' for whoever was drawn most: {', '.join(said)}."
        new = sum(met[m] for m in met if m.here and not m.held)
        if new and before.charges:
            told += f" {new:,} of {people:,} people are new to it: under another key than before "
            told += "somebody is another person, charged with nothing from before."
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
    own = [2 + after.marks.index(name) for name in names_of_marks(run)]
    met, states = Counter({Met((), (), False, 0): 0}), dict[State, int]({(): 0})
    schema = pa.schema([(name, pa.uint64()) for name in ("who", "held", *after.marks)])
    streams = _stored(path, before), marked_people(run, before.secret)
    with private_file(path, "ledger", again=True) as file, writing_errors(path, "ledger"):
        with pq.ParquetWriter(file, schema, compression="none", use_dictionary=["held"]) as writer:
            for old, now in aligned(*streams):
                rows, kind = _joined(old, now, own, len(schema), len(numbers))
                kinds, place = np.unique(kind, return_inverse=True)
                come_to = []
                for code, people in zip(kinds.tolist(), np.bincount(place).tolist(), strict=True):
                    one = _met(code, before, numbers)
                    met[one] += people
                    come_to.append(states.setdefault(one.after, len(states)))
                rows[:, 1] = np.array(come_to, np.uint64)[place]
                writer.write_batch(pa.RecordBatch.from_arrays(list(rows.T), schema=schema))
            after = changed(after, states=tuple(states))
            note = after.checked(before, run.table.sensitive, met)
            writer.add_key_value_metadata({_HEADER: msgspec.json.encode(after, enc_hook=str)})
        yield replace(run, notes=(*run.notes, note))


def _stored(path: Path, ledger: Ledger) -> Iterator[Matrix]:
    """The rows of a ledger; first of all none."""
    yield np.zeros((0, 2 + len(ledger.marks)), np.uint64)
    if not ledger.charges:
        return
    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(1 << 17):
        yield np.column_stack([column.to_numpy() for column in batch.columns])


def _joined(
    old: Matrix, now: Matrix, own: Sequence[int], width: int, columns: int
) -> tuple[Matrix, Matrix]:
    """The rows of both, with the marks of both, and as a number what `_met` says of each."""
    both = np.sort(np.concatenate([old[:, 0], now[:, 0]]), kind="stable")  # merges two runs
    who = both[np.append(both[1:] != both[:-1], True)[: len(both)]]
    rows, here = np.zeros((len(who), width), np.uint64, "F"), _places(now[:, 0], who)
    rows[:, 0] = who
    rows[_places(old[:, 0], who), : old.shape[1]] = old
    drawn = np.full(len(now), 1 << 2 * columns, np.uint64)
    for k in range(columns):
        known = mark = np.zeros(len(now), np.uint64)
        if own:
            known, mark = rows[here, own[k]].copy(), now[:, 1 + k]
            rows[here, own[k]] = np.where(known == 0, mark, known)
        drawn += (known == 0).astype(np.uint64) << np.uint64(columns + k)
        drawn += ((known != 0) & (known != mark)).astype(np.uint64) << np.uint64(k)
    kind = rows[:, 1] << np.uint64(1 + 2 * columns)
    kind[here] += drawn
    return rows, kind


def _places(some: Matrix, who: Matrix) -> slice | IntArray:
    """Where some of the people stand among these."""
    return slice(None) if len(some) == len(who) else np.searchsorted(who, some)


def _met(kind: int, before: Ledger, numbers: Sequence[int]) -> Met:
    mask = (1 << len(numbers)) - 1
    held = before.states[kind >> 1 + 2 * len(numbers)]
    adds = kind >> len(numbers) & mask
    after = (*held, *(number for k, number in enumerate(numbers) if adds >> k & 1))
    return Met(held, tuple(sorted(after)), bool(kind >> 2 * len(numbers) & 1), kind & mask)


def _left(used: Fraction | float) -> str:
    return f"a factor of {float(1 / used):.4g}" if used else "all"
