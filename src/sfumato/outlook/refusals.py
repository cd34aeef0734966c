"""All that is wrong with a table and what was said of it, found in one go.

A refusal that can be repaired says by what (`SfumatoError.repair`). The repair is made, without
publishing anything, and the next refusal looked for, until nothing is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.choosing import left_out_share, possible_mechanisms, refuse_left_out
from sfumato.engines.counting import take_profile
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.guarantees import DEFAULT_PROMISE, Guarantee, parse_guarantee
from sfumato.mechanisms import given_mechanism
from sfumato.mechanisms.buckets.feasible import require_feasible
from sfumato.profile import Profile
from sfumato.table import as_table

_MOST = 20  # refusals that are followed


def diagnose(
    origin: Any,
    guarantee: str | None,
    roles: Mapping[str, Any],
    left_out: str | float = "1/4",
    mechanism: str | None = None,
) -> tuple[list[SfumatoError], dict[str, Any] | None]:
    """Every refusal of this table under these roles and this promise, in the order in which it
    would be refused, and the options under which nothing is; None where none were found.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 50, "ill": [None, "a", "a", "a"] * 25})
    >>> roles = {"quasi": "sexx", "sensitive": "ill"}
    >>> problems, repairs = diagnose(people, "l-diversity(3)", roles)
    >>> len(problems), [repairs["quasi"], repairs["missing"]], repairs["guarantee"]
    (3, [['sex'], 'value'], 'f-privacy(theta=2, floor=0.05, doubt=0.25)')
    """
    said, problems, repairs = dict(roles), list[SfumatoError](), dict[str, Any]()
    while len(problems) < _MOST:
        try:
            _try(origin, repairs.get("guarantee", guarantee), said, left_out, mechanism)
            break
        except SfumatoError as error:
            repair = dict(error.repair)
            if isinstance(error, InfeasibleGuarantee) and "guarantee" in repairs:
                repair = {"guarantee": DEFAULT_PROMISE}
            again = str(error) in map(str, problems)
            problems += [] if again else [error]
            if again or not repair:
                return problems, None
            repairs |= repair
            said |= {option: value for option, value in repair.items() if option != "guarantee"}
    return problems, repairs


def _try(
    origin: Any,
    guarantee: str | None,
    roles: Mapping[str, Any],
    left_out: str | float,
    mechanism: str | None,
) -> None:
    table = one_row_each(as_table(origin, roles), Draws.system())
    profile = take_profile(table)
    if guarantee is None:
        return
    promise = parse_guarantee(guarantee).for_columns(table.sensitive, table.drop)
    possible_mechanisms(promise, given_mechanism(mechanism))
    _require_feasible(profile, promise)
    refuse_left_out(profile, promise, left_out_share(left_out))


def _require_feasible(profile: Profile, promise: Guarantee) -> None:
    """Refuse a promise that a column does not allow; the repair is one that all columns allow."""
    histograms = list(profile.histograms.values())
    try:
        require_feasible(promise, histograms)
    except InfeasibleGuarantee as error:
        nearest = parse_guarantee(error.nearest or DEFAULT_PROMISE)
        try:
            require_feasible(nearest, histograms)
        except InfeasibleGuarantee:
            nearest = parse_guarantee(DEFAULT_PROMISE)
        raise error.repaired_by(guarantee=str(nearest)) from None
