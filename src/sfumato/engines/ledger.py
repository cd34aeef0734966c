"""The ledger of releases of the same people: what all of them together let anybody conclude.

Every release with fresh draws is another look at the same true values: if the i-th lets the odds of
a value rise γᵢ times, all of them let them rise Π γᵢ times. A ledger is a private file of the
steward with the promise for all releases together and the γ of each; a release that would break
that promise is refused. What is summed are the odds that could have been raised for one person, so
two looks count as one only where they repeat one draw: the same key file, key column, sensitive
column, operator and domain, and keys of which most were seen before. Columns of other names are
counted too, unless they are known to be others.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from msgspec import convert

from sfumato.columns import Value, value_to_json
from sfumato.engines.run import Run
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, OddsGuarantee, parse_guarantee
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators import Operator
from sfumato.operators.retention import RetentionOperator
from sfumato.private import MODE, outside_release, require_private
from sfumato.profile import Histogram, Profile

FORMAT = 2
SKETCH = 256  # hashes of keys that are remembered of a release
ASSUMED = (
    "(One draw is counted once where key file, key column, sensitive column, operator and domain "
    "are the same and most keys were seen before. Everything else multiplies, columns of other "
    "names too, unless both were published together or have other values.)"
)


@dataclass(frozen=True)
class Look:
    """What one release tells about one column; looks with the same draws tell it once."""

    column: str
    gamma: str  # a fraction
    draws: str  # equal for equal draws
    release: str  # the folder's name, for the steward
    number: int  # of the release: columns of one release are different columns
    values: tuple[str, ...]  # hashes of the domain's values
    keys: tuple[int, ...] = ()  # the smallest keyed hashes of the people's keys


def sketch_of(run: Run) -> tuple[int, ...]:
    """The smallest keyed hashes of the people's keys, in one pass; none where nobody is repeated.

    Without the key file nobody can try whether somebody is among them. Of people with several rows
    another row may be drawn another time: a fresh look.
    """
    table = run.table
    if table.key is None or run.draws.origin != "key-file" or run.rule is not None:
        return ()
    smallest = np.empty(0, np.uint64)
    for batch in table.batches([table.key]):
        keys = [f"{key}".encode() for key in batch.column(table.key).to_pylist()]
        hashed = run.draws.persons("ledger", keys).blocks[:, 0]
        smallest = np.unique(np.concatenate([smallest, hashed]))[:SKETCH]
    return tuple(smallest.tolist())


def mostly_seen(now: Sequence[int], before: Sequence[int]) -> bool:
    """Whether more than half of the keys now were there before, by the smallest hashes of both.

    Below the largest hash of a full sketch it has every hash there is.

    >>> mostly_seen([1, 5, 9], [1, 5, 7, 9]), mostly_seen([2, 5, 9], [1, 5, 7]), mostly_seen([], [])
    (True, False, False)
    """
    full = [hashes for hashes in (now, before) if len(hashes) >= SKETCH]
    end = min((max(hashes) for hashes in full), default=None)
    sampled = [key for key in now if end is None or key <= end]
    return 2 * len(set(sampled) & set(before)) > len(sampled)


@dataclass(frozen=True)
class Ledger:
    """The promise for all releases together, and what each of them told.

    >>> ledger = Ledger(parse_guarantee("rho-privacy(0.1, 0.5)"), ())
    >>> one, two = (Look("ill", "2", d, "spring", n, ("x", "y")) for n, d in enumerate("ab"))
    >>> other = Look("sick", "2", "c", "fall", 2, ("y", "x"))  # perhaps the same column
    >>> looks = (one,), (one, one), (one, two), (one, two, other)
    >>> [int(replace(ledger, looks=each).told("ill")) for each in looks]
    [2, 2, 4, 8]
    """

    promise: OddsGuarantee
    looks: tuple[Look, ...]

    def told(self, column: str) -> Fraction:
        """How often the odds of a value of the column may have been multiplied."""
        gammas = {
            look.draws: Fraction(look.gamma) for look in self.looks if self._about(look, column)
        }
        return prod(gammas.values(), start=Fraction(1))

    def _about(self, look: Look, column: str) -> bool:
        """Whether a look may be one at this column, perhaps under another name.

        It is not where both were published together, or where neither a value nor the number of
        values is the same.
        """
        if look.column == column:
            return True
        named = [look for look in self.looks if look.column == column]
        together = {name.number for name in named}
        if any(e.column == look.column and e.number in together for e in self.looks):
            return False
        return any(
            set(name.values) & set(look.values) or len(name.values) == len(look.values)
            for name in named
        )

    def with_release(self, run: Run) -> Ledger:
        """The ledger with one release more; refused beyond the promise."""
        operators = run.plan.operators if isinstance(run.plan, PerturbedPlan) else {}
        drawn = [isinstance(operator, RetentionOperator) for operator in operators.values()]
        if not drawn or not all(drawn):
            raise UsageError(
                f"A ledger adds up how far releases raise odds, and '{run.chosen}' limits "
                "something else: two releases by it can be intersected. With --ledger use a "
                "mechanism that draws each record by itself: uniform or fine-grain."
            )
        name, sketch = run.options.release.name, sketch_of(run)
        number = 1 + max((look.number for look in self.looks), default=-1)
        looks = list(self.looks)
        for column, operator in operators.items():
            values = tuple(_hashed(value) for value in run.profile.histograms[column].values)
            try:
                gamma = operator.amplification()
            except ZeroDivisionError:
                raise UsageError(
                    f"A published value of column {column!r} may exclude true ones, so no ledger "
                    "can count what it tells. Use uniform."
                ) from None
            look = Look(column, str(gamma), "", name, number, values, sketch)
            looks.append(replace(look, draws=self._draws_of(look, operator, run)))
        after = replace(self, looks=tuple(looks))
        # a look at one column may be one at another under its old name
        for column in {look.column: None for look in looks}:
            self._refuse(after, column, run.profile)
        return after

    def _refuse(self, after: Ledger, column: str, profile: Profile) -> None:
        odds, before = after.told(column), self.told(column)
        if odds == before:
            return
        histogram = profile.histograms.get(column) or next(iter(profile.histograms.values()))
        limit = self.promise.common_limit(column, histogram.values)
        if odds > limit:
            raise InfeasibleGuarantee(
                f"The ledger has no room for this release: those before may have raised the "
                f"odds of a value of column {column!r} {float(before):.4g} times, with this "
                f"one it would be {float(odds):.4g} times, and '{self.promise}' allows "
                f"{float(limit):.4g}. What is left is a factor of {float(limit / before):.4g}: "
                "give a stricter guarantee, or publish as before with --key-file and "
                f"--previous, which tells nothing new. {ASSUMED}",
                witness=column,
            )

    def _draws_of(self, look: Look, operator: Operator, run: Run) -> str:
        """The same for draws that are the same: see the top of this module.

        It follows from the key by a one-way function, so that the ledger does not betray the key.
        """
        fresh = len(self.looks)
        if not look.keys:
            return f"fresh {fresh} {look.column}"
        drawn = [run.table.key, look.column, operator.to_json(), list(look.values)]
        key = run.draws.child("ledger").reveal()
        identity = hashlib.sha256((key + json.dumps(drawn, sort_keys=True)).encode()).hexdigest()
        for earlier in self.looks:
            if earlier.draws.startswith(identity) and mostly_seen(look.keys, earlier.keys):
                return earlier.draws
        return f"{identity} {fresh}"

    def note(self, columns: Mapping[str, Histogram]) -> str:
        """What the steward is told."""
        limits = {name: self.promise.common_limit(name, h.values) for name, h in columns.items()}
        used = ", ".join(
            f"{float(self.told(column)):.4g} of {float(limit):.4g} times for {column!r}"
            for column, limit in limits.items()
        )
        releases = len({look.release for look in self.looks})
        who = "one release" if releases == 1 else f"{releases} releases together"
        return f"Ledger: {who} may have raised odds {used}. {ASSUMED}"

    def to_text(self) -> str:
        looks = [asdict(look) for look in self.looks]
        written = {"ledger": FORMAT, "promise": str(self.promise), "looks": looks}
        return json.dumps(written, indent=2) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Ledger:
        written = json.loads(text)
        promise, looks = parse_guarantee(written["promise"]), written["looks"]
        ledger = cls(promise, convert(looks, tuple[Look, ...]))  # type: ignore[arg-type]
        gammas = [Fraction(look.gamma) for look in ledger.looks]
        if written["ledger"] != FORMAT or not isinstance(promise, OddsGuarantee):
            raise ValueError
        if min(gammas, default=1) < 1:
            raise ValueError
        return ledger


@contextmanager
def open_ledger(
    path: str | Path | None, promise: str | Guarantee | None, usual: Guarantee, release: Path
) -> Iterator[Callable[[Run], AbstractContextManager[Run]]]:
    """What counts a run in the ledger of a file, or in a new one under `promise`, by default that
    of its first release.

    The file stays locked: two runs never spend the same room.
    """
    if path is None:
        if promise is not None:
            raise UsageError("A promise for all releases together needs its --ledger.")
        yield nullcontext
        return
    location = Path(path)
    outside_release(location, release, "ledger")
    with _locked(location.with_name(f".{location.name}.lock")):
        if location.exists():
            yield partial(_entered, location, _read(location, promise))
            return
        stated = usual if promise is None else parse_guarantee(promise)
        if not isinstance(stated, OddsGuarantee):
            raise UsageError(
                f"A ledger adds up how far releases raise odds; '{stated}' limits something else. "
                "Use rho-privacy or fine-rho-privacy."
            )
        yield partial(_entered, location, Ledger(stated, ()))


@contextmanager
def _entered(path: Path, ledger: Ledger, run: Run) -> Iterator[Run]:
    """Refuse a run for which there is no room, and write it down once its records are written,
    before the release is there: what was counted in vain protects too much, what was not counted
    too little."""
    ledger = ledger.with_release(run)
    yield replace(run, notes=(*run.notes, ledger.note(run.profile.histograms)))
    hidden = path.with_name(f".{path.name}.partial")
    hidden.unlink(missing_ok=True)
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(ledger.to_text())
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)


def _read(place: Path, promise: str | Guarantee | None) -> Ledger:
    require_private(place, "the ledger")
    try:
        ledger = Ledger.from_text(place.read_text(encoding="ascii"))
    except (OSError, ValueError, TypeError, KeyError, UsageError):
        raise DataError(
            f"Cannot use the ledger {str(place)!r}: it is not a file that 'publish --ledger' wrote."
        ) from None
    if promise is not None and str(parse_guarantee(promise)) != str(ledger.promise):
        raise UsageError(
            f"The ledger {str(place)!r} is for '{ledger.promise}' and cannot be for another "
            "promise. Leave --ledger-promise out, or begin another ledger for other people."
        )
    return ledger


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, MODE)
    except OSError as error:
        raise DataError(
            f"Cannot write the ledger beside {str(path)!r}: {error.strerror}."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _hashed(value: Value) -> str:
    return hashlib.sha256(repr(value_to_json(value)).encode()).hexdigest()[:16]
