"""Fifty occupations with rough leanings: invented figures with a familiar shape.

Order matters: the k-th occupation has the k-th largest overall share.
"""

from __future__ import annotations

from typing import NamedTuple

from sfumato.datasets.network import listed


class Occupation(NamedTuple):
    """What the model knows of an occupation.

    `schooling` is the education code where it is most common; `men` > 0 leans to men, < 0 to
    women; `years` is the age where it is most common; `employer` names a row of `EMPLOYERS`.
    """

    name: str
    schooling: float
    men: float
    years: float
    employer: str


WORKCLASSES = (
    "private company",
    "self-employed",
    "incorporated business",
    "local government",
    "state government",
    "federal government",
    "family business, unpaid",
)

# relative weight of each work class, in the order of WORKCLASSES
EMPLOYERS: dict[str, tuple[float, ...]] = {
    "company": (88, 4, 3, 2, 1.2, 1.5, 0.3),
    "trade": (68, 22, 7, 1.5, 0.6, 0.4, 0.5),
    "owner": (42, 26, 30, 0.6, 0.3, 0.3, 0.8),
    "school": (24, 2, 0.5, 56, 15, 2, 0.5),
    "state": (12, 0.6, 0.3, 42, 24, 21, 0.1),
    "post": (6, 0.8, 0.4, 1, 1.5, 90, 0.3),
    "care": (72, 4, 3, 9, 8, 3.7, 0.3),
    "farm": (38, 48, 6, 0.8, 0.8, 0.6, 5.8),
    "profession": (52, 19, 20, 3, 3, 2.8, 0.2),
}

OCCUPATIONS = tuple(Occupation(*row) for row in listed("occupations"))
