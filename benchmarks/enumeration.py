"""All tables of 4 to 8 people and 2 to 4 values: what a reader ends with, over what is stated.

    nice python -m benchmarks.enumeration            # every mechanism that keeps a guarantee
    nice python -m benchmarks.enumeration --offered  # those that `publish` chooses by itself

Operators, sub-tables and listed buckets are looked at exactly, over all that they can show; that
buckets are dealt evenly is sampled (tables of up to five people, all worlds, 30 keys each), and its
largest excess is printed in standard errors. A ratio above 1 is a breach. The readers are those of
the statements; `tests/enumeration/readers.py` says how each is computed. Ranges and sets are in
`tests/enumeration/test_ranges_and_sets.py`: their releases must be sampled.
"""

from __future__ import annotations

import sys
from collections import defaultdict

from sfumato.errors import UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import mechanisms_for, mechanisms_on_request
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.partitioned import PartitionedPlan
from sfumato.mechanisms.perturbed import PerturbedPlan
from tests.enumeration.readers import GUARANTEES, placed_ratio, planned, tables, worst_ratio


def main() -> None:
    worst: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, "-"))
    looked_at: dict[str, int] = defaultdict(int)
    excess: dict[str, float] = defaultdict(float)
    for text in GUARANTEES:
        guarantee = parse_guarantee(text)
        mechanisms = mechanisms_for(guarantee)
        if "--offered" not in sys.argv:
            mechanisms += mechanisms_on_request(guarantee)
        for mechanism in mechanisms:
            name = str(mechanism)
            for counts in tables():
                try:
                    made = planned(mechanism, guarantee, counts)
                except UsageError:  # this mechanism cannot plan for so few
                    continue
                if made is None:
                    continue
                promised, plan = made
                if not isinstance(plan, PerturbedPlan | PartitionedPlan | BucketedPlan):
                    continue
                found = (worst_ratio(plan, promised, counts), f"{promised} on {counts}")
                worst[name] = max(worst[name], found)
                looked_at[name] += 1
                if isinstance(plan, BucketedPlan) and sum(counts) <= 5:
                    _, above = placed_ratio(plan, promised, counts, seeds=30)
                    excess[name] = max(excess[name], above)
    print("| mechanism | tables and guarantees | worst ratio | excess of dealing, s.e. | where |")
    print("| --- | --- | --- | --- | --- |")
    for name, (ratio, where) in worst.items():
        dealt = f"{excess[name]:.1f}" if name in excess else "-"
        print(f"| `{name}` | {looked_at[name]} | {ratio:.6f} | {dealt} | {where} |")


if __name__ == "__main__":
    main()
