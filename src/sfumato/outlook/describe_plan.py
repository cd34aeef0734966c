"""What a plan shows its steward, whatever plan it is."""

from __future__ import annotations

from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Plan
from sfumato.profile import Profile
from sfumato.results import ResultTable


def describe_plan(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ResultTable], list[str]]:
    """The tables and sentences of the plan itself."""
    tables, notes = plan.description()
    return [ResultTable(*table[:4], note=table.note) for table in tables], notes
