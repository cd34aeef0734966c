"""Publishing a table again so that the history tells no more than the release before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sfumato.columns import Range, Value, Values
from sfumato.errors import DataError, UsageError
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism, parse_mechanism
from sfumato.mechanisms.perturbed import PerturbingMechanism
from sfumato.mechanisms.pinned import AsBefore
from sfumato.release import PerturbedRelease, Release
from sfumato.table import Table


def as_before(
    table: Table,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    key_file: str | Path | None,
    previous: Release | str | Path,
) -> tuple[Table, Mechanism]:
    """The table with the domains, and the mechanism with the operators, of an earlier release."""
    release = previous if isinstance(previous, Release) else Release(previous)
    folder, manifest = str(release.path), release.manifest
    if key_file is None:
        raise UsageError(
            "To publish as before, the draws must be those of before: give --key-file too."
        )
    if not isinstance(release, PerturbedRelease) or manifest.randomness != "key-file":
        raise DataError(
            f"{folder!r} was not published with a key file, so nobody can be shown as before."
        )
    if manifest.guarantee != str(guarantee):
        raise UsageError(
            f"{folder!r} keeps '{manifest.guarantee}', not '{guarantee}'. Give the same guarantee "
            "to publish as before."
        )
    if mechanism is not None and str(mechanism) != manifest.mechanism:
        raise UsageError(
            f"{folder!r} was made by '{manifest.mechanism}', not by '{mechanism}'. Leave "
            "--mechanism out to publish as before."
        )
    operators, domains = {}, {}
    pinned = dict(table.domains)
    for column in release.columns:
        if column.role != "sensitive" or column.name not in table.sensitive:
            continue
        now = table.column(column.name, "sensitive", None)
        if now.bins != column.bins or (column.recode and now.recode != column.recode):
            raise UsageError(
                f"Column {column.name!r} is recoded otherwise than in {folder!r}. Give the same "
                "bins or recode to publish as before."
            )
        values = tuple(release.domain(column.name).to_pylist())
        listed = tuple(value for value in values if value is not None)
        if now.bins is None:
            stated = pinned.setdefault(column.name, Values(listed))
            if _listed(stated) != listed:
                raise UsageError(
                    f"The domain stated for column {column.name!r} is not that of {folder!r}. "
                    "Leave it out to publish as before."
                )
        operators[column.name] = release.operators[column.name]
        domains[column.name] = values
    mechanism = parse_mechanism(manifest.mechanism)
    assert isinstance(mechanism, PerturbingMechanism)  # no other draws for people
    return replace(table, domains=pinned), AsBefore(mechanism, operators, domains)


def _listed(domain: Values | Range) -> tuple[Value, ...]:
    if isinstance(domain, Values):
        return domain.values
    assert isinstance(domain.low, int)
    assert isinstance(domain.high, int)
    return tuple(range(domain.low, domain.high + 1))
