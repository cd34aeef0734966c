"""The ledger of releases of the same people: what all of them together let anybody conclude.

Every release with fresh draws is another look at the same true values: if the i-th lets the odds of
a value rise γᵢ times, all of them let them rise Π γᵢ times. A ledger is a private file of the
steward with the promise for all releases together and the γ of each, column by column; a release
that would break that promise is refused. Draws that a key file repeats are the same look again and
count once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

from sfumato.columns import value_to_json
from sfumato.draws import Draws
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees import Guarantee, OddsGuarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators import General, Operator
from sfumato.operators.retention import RetentionOperator
from sfumato.private import MODE, outside_release, require_private
from sfumato.profile import Histogram, Profile

FORMAT = 1


@dataclass(frozen=True)
class Look:
    """What one release tells about one column; looks with the same draws tell it once."""

    column: str
    gamma: str  # a fraction
    draws: str  # equal for equal draws
    release: str  # the folder's name, for the steward


@dataclass(frozen=True)
class Ledger:
    """The promise for all releases together, and what each of them told.

    >>> ledger = Ledger(parse_guarantee("rho-privacy(0.1, 0.5)"), ())
    >>> one, two = (Look("ill", "2", draws, "spring") for draws in ("a", "b"))
    >>> [replace(ledger, looks=looks).told("ill") for looks in ((one,), (one, one), (one, two))]
    [Fraction(2, 1), Fraction(2, 1), Fraction(4, 1)]
    """

    promise: OddsGuarantee
    looks: tuple[Look, ...]

    def told(self, column: str) -> Fraction:
        """How often the odds of a value of the column may have been multiplied."""
        own = {look.draws: Fraction(look.gamma) for look in self.looks if look.column == column}
        return prod(own.values(), start=Fraction(1))

    def with_release(
        self,
        name: str,
        mechanism: Mechanism,
        plan: Plan,
        profile: Profile,
        draws: Draws,
        rows: int,
        *,
        chosen_rows: bool = False,
    ) -> Ledger:
        """The ledger with one release more, of so many `rows` of a person, `chosen_rows` among more
        perhaps; refused beyond the promise."""
        operators = plan.operators if isinstance(plan, PerturbedPlan) else {}
        kinds = (RetentionOperator, General)
        if not operators or not all(isinstance(each, kinds) for each in operators.values()):
            raise UsageError(
                f"A ledger adds up how far releases raise odds, and '{mechanism}' limits something "
                "else: two releases by it can be intersected. With --ledger use a mechanism that "
                "draws each record by itself: uniform, fine-grain or general."
            )
        looks = list(self.looks)
        for column, operator in operators.items():
            histogram = profile.histograms[column]
            limit = self.promise.common_limit(histogram.values)
            try:
                gamma = operator.amplification() ** rows
            except ZeroDivisionError:
                raise UsageError(
                    f"A published value of column {column!r} may exclude true ones, so no ledger "
                    "can count what it tells. Use uniform."
                ) from None
            identity = _identity(draws, operator, histogram, len(looks), chosen_rows)
            before = self.told(column)
            looks.append(Look(column, str(gamma), identity, name))
            after = replace(self, looks=tuple(looks)).told(column)
            if after > limit:
                raise InfeasibleGuarantee(
                    f"The ledger has no room for this release: those before may have raised the "
                    f"odds of a value of column {column!r} {float(before):.4g} times, with this "
                    f"one it would be {float(after):.4g} times, and '{self.promise}' allows "
                    f"{float(limit):.4g}. What is left is a factor of {float(limit / before):.4g}: "
                    "give a stricter guarantee, or publish as before with --key-file and "
                    "--previous, which tells nothing new.",
                    witness=column,
                )
        return replace(self, looks=tuple(looks))

    def note(self, columns: Mapping[str, Histogram]) -> str:
        """What the steward is told."""
        used = ", ".join(
            f"{float(self.told(column)):.4g} of {float(self.promise.common_limit(h.values)):.4g} "
            f"times for {column!r}"
            for column, h in columns.items()
        )
        releases = len({look.release for look in self.looks})
        who = "one release" if releases == 1 else f"{releases} releases together"
        return f"Ledger: {who} may have raised odds {used}."

    def to_text(self) -> str:
        described = {
            "ledger": FORMAT,
            "promise": str(self.promise),
            "looks": [asdict(look) for look in self.looks],
        }
        return json.dumps(described, indent=2) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Ledger:
        found = json.loads(text)
        promise = parse_guarantee(found["promise"])
        looks = tuple(Look(**look) for look in found["looks"])
        if found["ledger"] != FORMAT or not isinstance(promise, OddsGuarantee):
            raise ValueError
        if any(Fraction(look.gamma) < 1 for look in looks):
            raise ValueError
        return cls(promise, looks)


class OpenLedger:
    """A ledger's file, locked: two runs never spend the same room."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path, self.ledger = path, ledger

    def enter(self, ledger: Ledger) -> None:
        """Write it down, before the release is there: what was counted in vain protects too much,
        what was not counted too little."""
        partial = self.path.with_name(f".{self.path.name}.partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(ledger.to_text())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)
        self.ledger = ledger


@contextmanager
def open_ledger(
    path: str | Path | None, promise: str | Guarantee | None, usual: Guarantee, release: Path
) -> Iterator[OpenLedger | None]:
    """The ledger in a file, or a new one under `promise`, by default that of its first release."""
    if path is None:
        if promise is not None:
            raise UsageError("A promise for all releases together needs its --ledger.")
        yield None
        return
    place = Path(path)
    outside_release(place, release, "ledger")
    with _locked(place.with_name(f".{place.name}.lock")):
        if place.exists():
            yield OpenLedger(place, _read(place, promise))
            return
        stated = usual if promise is None else parse_guarantee(promise)
        if not isinstance(stated, OddsGuarantee):
            raise UsageError(
                f"A ledger adds up how far releases raise odds; '{stated}' limits something else. "
                "Use rho-privacy or fine-rho-privacy."
            )
        yield OpenLedger(place, Ledger(stated, ()))


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


def _identity(
    draws: Draws, operator: Operator, histogram: Histogram, number: int, chosen_rows: bool
) -> str:
    """The same for draws that are the same: those of one key file, operator and domain.

    Of people with several rows another row may be published once they have more: that is a draw of
    its own. The identity follows from the key by a one-way function, so that the ledger does not
    betray the key.
    """
    if draws.origin != "key-file" or chosen_rows:
        return f"fresh {number}"
    values = [value_to_json(value) for value in histogram.values]
    text = json.dumps([histogram.column, operator.to_json(), values], sort_keys=True)
    return hashlib.sha256((draws.child("ledger").reveal() + text).encode()).hexdigest()
