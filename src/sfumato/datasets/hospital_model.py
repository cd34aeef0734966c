"""Hospital stays: a sensitive column with several hundred values, many of them rare.

The diagnosis follows age, sex and admission, and some combinations are impossible (no man gives
birth, nobody of 70 is newborn), as in real records. All figures are invented.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sfumato.datasets.alias import FloatArray
from sfumato.datasets.diagnoses import MEN_ONLY, SUDDEN, WOMEN_ONLY, Diagnosis, diagnoses
from sfumato.datasets.network import (
    Network,
    NetworkColumn,
    Parent,
    band_masses,
    bands,
    rake,
    shares_of,
)

QUASI = ("age", "sex", "region", "admission")
SENSITIVE = "diagnosis"

AGES = range(0, 100)
AGE_BAND = bands(AGES, (1, 15, 30, 45, 60, 75))
SEXES = ("female", "male")
WOMEN_BY_BAND = (0.49, 0.46, 0.62, 0.60, 0.50, 0.49, 0.57)

REGIONS = tuple(
    f"{side} {land}"
    for land in ("Valley", "Coast", "Plain", "Hills", "Lakes")
    for side in ("North", "East", "South", "West", "Upper", "Lower")
)

ADMISSIONS = ("emergency", "planned", "day case", "transfer", "observation", "birth")
# by band of age: weight of each admission, in the order of ADMISSIONS; births at age 0 only
ADMISSION_BY_BAND = (
    (9, 3, 1, 2, 1, 84),
    (52, 24, 14, 3, 7, 0),
    (42, 31, 18, 3, 6, 0),
    (38, 35, 19, 3, 5, 0),
    (38, 36, 17, 4, 5, 0),
    (45, 33, 12, 6, 4, 0),
    (58, 22, 6, 10, 4, 0),
)


@cache
def network() -> Network:
    """The population of hospital stays; made once."""
    age = _ages()
    band = band_masses(age, AGE_BAND)
    women = np.array(WOMEN_BY_BAND)
    sex = np.stack([women, 1 - women], axis=1)
    admission = shares_of(np.array(ADMISSION_BY_BAND, np.float64))
    stays = band[:, None, None] * sex[:, :, None] * admission[:, None, :]
    listed = diagnoses()
    diagnosis = rake(_tilt(listed), stays, np.array([d.share for d in listed]))
    by_age, by_sex = Parent("age", AGE_BAND), Parent("sex", np.arange(2))
    by_admission = Parent("admission", np.arange(len(ADMISSIONS)))
    names = tuple(d.name for d in listed)
    columns = (
        NetworkColumn("age", tuple(AGES), age, integers="int16"),
        NetworkColumn("sex", SEXES, sex, (by_age,)),
        NetworkColumn("region", REGIONS, _regions(), (by_age,)),
        NetworkColumn("admission", ADMISSIONS, admission, (by_age,)),
        NetworkColumn("diagnosis", names, diagnosis, (by_age, by_sex, by_admission)),
    )
    return Network("hospital", columns, (*QUASI, SENSITIVE))


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


def _regions() -> FloatArray:
    """Uneven regions; the last ones are older than the first."""
    size = 1 / (np.arange(len(REGIONS)) + 4.0)
    older = np.linspace(-0.5, 0.5, len(REGIONS))
    by_band = np.linspace(-1, 1, len(ADMISSION_BY_BAND))
    return shares_of(size * np.exp(by_band[:, None] * older))


def _tilt(listed: tuple[Diagnosis, ...]) -> FloatArray:
    """How each (band, sex, admission) leans to each diagnosis; 0 where it cannot be."""
    by_age = np.array([d.chapter.by_age for d in listed], np.float64).T
    by_sex = np.array([_by_sex(d) for d in listed]).T
    by_admission = np.array([_by_admission(d) for d in listed]).T
    return np.asarray(by_age[:, None, None, :] * by_sex[:, None, :] * by_admission)


def _by_sex(diagnosis: Diagnosis) -> tuple[float, float]:
    """Weights for (female, male)."""
    if diagnosis.chapter.letter == "O" or any(word in diagnosis.name for word in WOMEN_ONLY):
        return 1.0, 0.0
    if any(word in diagnosis.name for word in MEN_ONLY):
        return 0.0, 1.0
    if "breast" in diagnosis.name:
        return 1.0, 0.01
    return diagnosis.chapter.women, 1.0


def _by_admission(diagnosis: Diagnosis) -> tuple[float, ...]:
    """Weights in the order of ADMISSIONS: a birth leads to a perinatal or congenital diagnosis."""
    sudden = any(word in diagnosis.name for word in SUDDEN)
    at_birth = {"P": 1.0, "Q": 0.1}.get(diagnosis.chapter.letter, 0.0)
    if sudden:
        return 4.0, 0.5, 0.3, 2.0, 1.0, at_birth
    return 1.0, 2.0, 2.0, 1.0, 1.5, at_birth
