"""Operators: how a true sensitive value turns into a published one, and back.

An operator is small and public. It draws (`apply`), it undoes itself on average (`weights`), and
it says how much it tells (`amplification`) and how well it can be undone (`condition`). It stands
in the manifest as it is: `AnyOperator` is what a manifest may hold.
"""

from sfumato.operators.base import Operator
from sfumato.operators.decoy import Decoy, ObservedDecoy
from sfumato.operators.parts import Parts, SubTable
from sfumato.operators.retention import FineGrain, Uniform

AnyOperator = Uniform | FineGrain | Decoy | Parts

__all__ = [
    "AnyOperator",
    "Decoy",
    "FineGrain",
    "ObservedDecoy",
    "Operator",
    "Parts",
    "SubTable",
    "Uniform",
]
