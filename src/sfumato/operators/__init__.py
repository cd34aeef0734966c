"""Operators: how a true sensitive value turns into a published one, and back.

An operator is small and public. It draws (`apply`), it undoes itself on average (`weights`), and
it says how much it tells (`amplification`) and how well it can be undone (`condition`). Its
JSON form stands in the manifest; `operator_from_json` reads it back, trusting nothing.
"""

from __future__ import annotations

from typing import Any

from sfumato.errors import BundleError
from sfumato.operators.base import Operator
from sfumato.operators.decoy import Decoy
from sfumato.operators.general import General
from sfumato.operators.parts import Parts, SubTable
from sfumato.operators.retention import FineGrain, Uniform

OPERATORS: dict[str, type[Operator]] = {
    cls.form: cls for cls in (Uniform, FineGrain, General, Parts, Decoy)
}


def operator_from_json(described: dict[str, Any]) -> Operator:
    """Rebuild an operator from a manifest.

    >>> operator_from_json({"form": "uniform", "values": 3, "retention": "1/10"})
    Uniform(values=3, retention=Fraction(1, 10))
    """
    form = described.get("form")
    if not isinstance(form, str) or form not in OPERATORS:
        raise BundleError(
            f"The manifest names an operator of the form {form!r}, which this version does not "
            f"know. Known: {', '.join(sorted(OPERATORS))}."
        )
    return OPERATORS[form].from_json(described)


__all__ = [
    "OPERATORS",
    "Decoy",
    "FineGrain",
    "General",
    "Operator",
    "Parts",
    "SubTable",
    "Uniform",
    "operator_from_json",
]
