"""Hospital stays: a sensitive column with several hundred values, many of them rare.

The diagnosis follows age, sex and admission, and some combinations are impossible (no man gives
birth, nobody of 70 is newborn), as in real records. All figures are invented.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.datasets.network import (
    FloatArray,
    Network,
    NetworkColumn,
    Parent,
    band_masses,
    bands,
    listed,
    rake,
    shares_of,
)

AGES = range(0, 100)
AGE_BAND = bands(AGES, (1, 15, 30, 45, 60, 75))


@cache
def network() -> Network:
    """The population of hospital stays; made once."""
    # by band of age: the share of women, and the weight of each admission, births at age 0 only.
    # A chapter: its letter, its share of all stays, its weight in each band, the weight of women
    # against men, then leading diagnoses, sites and conditions. Words say who has a diagnosis, and
    # which ones begin at once, as emergencies; the others are mostly planned.
    told = listed("hospital")
    age = _ages()
    band = band_masses(age, AGE_BAND)
    women = np.array(told.women_by_band)
    sex = np.stack([women, 1 - women], axis=1)
    admission = shares_of(np.array(told.admission_by_band, np.float64))
    stays = band[:, None, None] * sex[:, :, None] * admission[:, None, :]
    names, shares, chapters = diagnoses()
    diagnosis = rake(_tilt(told, names, chapters), stays, shares)
    regions = tuple(f"{side} {land}" for land in told.lands for side in told.sides)
    by_age, by_sex = Parent("age", AGE_BAND), Parent("sex", np.arange(2))
    by_admission = Parent("admission", np.arange(len(told.admissions)))
    columns = (
        NetworkColumn("age", tuple(AGES), age, integers="int16"),
        NetworkColumn("sex", ("female", "male"), sex, (by_age,)),
        NetworkColumn("region", regions, _regions(len(regions), len(band)), (by_age,)),
        NetworkColumn("admission", tuple(told.admissions), admission, (by_age,)),
        NetworkColumn("diagnosis", names, diagnosis, (by_age, by_sex, by_admission)),
    )
    return Network("hospital", columns, ("age", "sex", "region", "admission", "diagnosis"))


def diagnoses() -> tuple[tuple[str, ...], FloatArray, list[list[Any]]]:
    """All diagnoses, with their shares and chapters: leading ones, then site × condition.

    The k-th of a chapter has a share proportional to 1/k within it. The codes look like ICD-10 and
    are not: numbers are handed out in order.

    >>> names, shares, _ = diagnoses()
    >>> len(names), names[0], names[24]
    (466, 'A00 sepsis', 'C04 lung carcinoma')
    """
    names, shares, chapters = list[str](), list[FloatArray](), list[list[Any]]()
    for chapter in listed("hospital").chapters:
        letter, share, _, _, leading, sites, conditions = chapter
        # conditions outside: the first rare ones differ in site before they differ in condition
        listed_names = [*leading, *(f"{s} {c}" for c in conditions for s in sites)]
        names += (f"{letter}{4 * index:02d} {name}" for index, name in enumerate(listed_names))
        shares.append(share * shares_of(1 / np.arange(1, len(listed_names) + 1)))
        chapters += [chapter] * len(listed_names)
    return tuple(names), shares_of(np.concatenate(shares)), chapters


def _ages() -> FloatArray:
    """Newborns, few children, a hump of young parents, a larger one of the old."""
    ages = np.arange(AGES.start, AGES.stop, dtype=np.float64)
    weights = (
        0.25
        + np.exp(-(((ages - 31) / 7) ** 2) / 2)
        + 2.2 * np.exp(-(((ages - 73) / 13) ** 2) / 2) / (1 + np.exp((ages - 90) / 2.5))
    )
    weights[0] = 0.05 / (1 - 0.05) * weights[1:].sum()
    return shares_of(weights)


def _regions(number: int, age_bands: int) -> FloatArray:
    """Uneven regions; the last ones are older than the first."""
    size = 1 / (np.arange(number) + 4.0)
    older, by_band = np.linspace(-0.5, 0.5, number), np.linspace(-1, 1, age_bands)
    return shares_of(size * np.exp(by_band[:, None] * older))


def _tilt(told: SimpleNamespace, names: tuple[str, ...], chapters: list[list[Any]]) -> FloatArray:
    """How each (band, sex, admission) leans to each diagnosis; 0 where it cannot be."""

    def has(words: list[str]) -> npt.NDArray[np.bool_]:
        return np.array([any(word in name for word in words) for name in names])

    letters = np.array([chapter[0] for chapter in chapters])
    by_age = np.array([chapter[2] for chapter in chapters], np.float64).T
    women = np.array([chapter[3] for chapter in chapters], np.float64)
    women[has(told.men_only)] = 0
    men = np.where(has(["breast"]), 0.01, 1.0)
    women[has(["breast"])] = 1
    only = (letters == "O") | has(told.women_only)
    women[only], men[only] = 1, 0
    # a birth leads to a perinatal or congenital diagnosis
    at_birth = np.where(letters == "P", 1.0, np.where(letters == "Q", 0.1, 0.0))
    usual = np.where(
        has(told.sudden), *np.array([[4, 0.5, 0.3, 2, 1], [1, 2, 2, 1, 1.5]])[..., None]
    )
    by_admission = np.vstack([usual, at_birth])
    by_sex = np.stack([women, men])
    return np.asarray(by_age[:, None, None, :] * by_sex[:, None, :] * by_admission)
