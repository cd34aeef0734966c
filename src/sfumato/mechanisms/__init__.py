"""The ways to keep a promise, by name."""

from __future__ import annotations

from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets import LocalBuckets, OptimalBuckets
from sfumato.mechanisms.fine_grain import FineGrainPerturbation
from sfumato.mechanisms.generalized import TablePlan
from sfumato.mechanisms.grouped import Burel, Ring
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.partitioned import PartitionedPerturbation
from sfumato.mechanisms.protocol import Batch, CellPlan, Mechanism, Plan, Published, RecordPlan
from sfumato.mechanisms.splu import DecoyValues
from sfumato.mechanisms.sps import SamplingPerturbingScaling
from sfumato.mechanisms.uniform import UniformPerturbation
from sfumato.textform import split_call

MECHANISMS: dict[str, type[Mechanism]] = {
    cls.name: cls
    for cls in (
        UniformPerturbation,
        FineGrainPerturbation,
        PartitionedPerturbation,
        DecoyValues,
        SamplingPerturbingScaling,
        OptimalBuckets,
        LocalBuckets,
        HeterogeneousGeneralization,
        Ring,
        Burel,
    )
}

# what to name instead of a mechanism that releases of 0.3 may have
GONE = {
    "two-size": "optimal(objective=two-size)",
    "multi-size": "optimal(objective=multi-size)",
    "anatomy": "optimal",
    "general": "fine-grain(objective=counts)",
    "noise": "uniform",
}


def parse_mechanism(text: str) -> Mechanism:
    """Read a mechanism from its text form.

    >>> parse_mechanism("uniform")
    UniformPerturbation()
    """
    name, positional, keywords = split_call(text, "mechanism")
    if name in GONE:
        raise UsageError(f"The mechanism {name!r} left in 0.4: name '{GONE[name]}'.")
    if name not in MECHANISMS:
        raise UsageError(
            f"There is no mechanism {name!r}. Choose one of: {', '.join(sorted(MECHANISMS))}."
        )
    return MECHANISMS[name].from_arguments(positional, keywords)


def given_mechanism(text: str | Mechanism | None) -> Mechanism | None:
    """The mechanism that somebody named, in its text form or as it is, or none."""
    return parse_mechanism(text) if isinstance(text, str) else text


def mechanisms_for(guarantee: Guarantee) -> list[Mechanism]:
    """The mechanisms, in the forms that `publish` chooses from, that can keep a guarantee.

    One that holds against fewer readers than the guarantee is for must be asked for.
    """
    least = guarantee.against().strength
    able = [cls for cls in MECHANISMS.values() if isinstance(guarantee, cls.guarantees)]
    offered = [mechanism for cls in able for mechanism in cls.candidates()]
    kept = [mechanism for mechanism in offered if mechanism.keeps(guarantee)]
    return [
        mechanism for mechanism in kept if mechanism.promised(guarantee).against().strength >= least
    ]


def mechanisms_on_request(guarantee: Guarantee) -> list[Mechanism]:
    """The other mechanisms that can keep it, as they stand: run only when they are named."""
    offered = {mechanism.name for mechanism in mechanisms_for(guarantee)}
    able = [cls for cls in MECHANISMS.values() if isinstance(guarantee, cls.guarantees)]
    others = [cls for cls in able if cls.name not in offered]
    return [candidate for cls in others for candidate in cls.candidates() or [cls()]]


__all__ = [
    "MECHANISMS",
    "Batch",
    "CellPlan",
    "Mechanism",
    "Plan",
    "Published",
    "RecordPlan",
    "TablePlan",
    "given_mechanism",
    "mechanisms_for",
    "mechanisms_on_request",
    "parse_mechanism",
]
