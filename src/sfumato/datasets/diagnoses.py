"""Several hundred readable diagnoses, made from chapters: leading ones, then site × condition.

The codes look like ICD-10 (a letter and two digits) and are not: numbers are handed out in order.
"""

from __future__ import annotations

from typing import NamedTuple

from sfumato.datasets.network import listed


class Chapter(NamedTuple):
    """One chapter: its share of all stays, whom it befalls, and the diagnoses in it.

    `by_age` has one weight for each age band of the hospital model (0, 1–14, 15–29, 30–44,
    45–59, 60–74, 75+); 0 means never. `women` is the weight of women against men.
    """

    letter: str
    share: float
    by_age: tuple[float, ...]
    women: float
    leading: tuple[str, ...]
    sites: tuple[str, ...]
    conditions: tuple[str, ...]


class Diagnosis(NamedTuple):
    """A value of the diagnosis column, with its chapter and its overall share."""

    name: str
    chapter: Chapter
    share: float


WOMEN_ONLY = ("ovarian", "uterine", "vaginal")
MEN_ONLY = ("prostate", "testicular")
# words that mean "at once": such stays begin as emergencies, the others are mostly planned
SUDDEN = (
    *("acute", "bleeding", "crisis", "fracture", "rupture", "obstruction", "perforation", "burn"),
    *("infarction", "haemorrhage", "poisoning", "wound", "sepsis", "seizures", "pneumonia"),
    *("failure", "attack", "collapse", "dislocation", "infection", "embolism", "stroke"),
)

CHAPTERS = tuple(
    Chapter(letter, share, tuple(by_age), women, *map(tuple, names))
    for letter, share, by_age, women, *names in listed("diagnoses")
)


def diagnoses() -> tuple[Diagnosis, ...]:
    """All diagnoses: the k-th of a chapter has a share proportional to 1/k within it.

    >>> every = diagnoses()
    >>> len(every), every[0].name, every[24].name
    (466, 'A00 sepsis', 'C04 lung carcinoma')
    """
    total = sum(chapter.share for chapter in CHAPTERS)
    catalogue: list[Diagnosis] = []
    for chapter in CHAPTERS:
        # conditions outside: the first rare ones differ in site before they differ in condition
        crossed = (f"{s} {c}" for c in chapter.conditions for s in chapter.sites)
        names = (*chapter.leading, *crossed)
        harmonic = sum(1 / rank for rank in range(1, len(names) + 1))
        catalogue += (
            Diagnosis(
                f"{chapter.letter}{4 * index:02d} {name}",
                chapter,
                chapter.share / total / (index + 1) / harmonic,
            )
            for index, name in enumerate(names)
        )
    return tuple(catalogue)
