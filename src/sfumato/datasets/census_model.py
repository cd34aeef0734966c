"""A census-like table of working adults with the papers' margins and familiar dependence.

The papers' CENSUS extract has 50 occupations with shares from 7.5 % down to 0.18 % and 14
education codes from 27.3 % down to 0.44 %; those two margins hold here too. Everything else is
invented: education follows age, marital status follows age and gender, country follows race,
occupation follows education, gender and age, and work class follows occupation.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sfumato.datasets.alias import FloatArray
from sfumato.datasets.network import (
    Column,
    Network,
    Parent,
    band_masses,
    bands,
    rake,
    shares_of,
)
from sfumato.datasets.occupations import EMPLOYERS, OCCUPATIONS, WORKCLASSES

QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
SENSITIVE = "occupation"

AGES = range(16, 94)
AGE_BAND = bands(AGES, (20, 25, 30, 35, 45, 55, 65, 75))
BAND_AGE = np.array([18, 22, 27, 32, 40, 50, 60, 69, 79], np.float64)  # a typical age of each

GENDERS = ("male", "female")
WOMEN_BY_BAND = (0.45, 0.45, 0.43, 0.41, 0.41, 0.43, 0.42, 0.40, 0.40)

# education code → overall share; 10 is high school, 14 a bachelor's degree, 17 a doctorate
EDUCATION = {
    1: 0.0096,
    4: 0.0044,
    5: 0.035,
    6: 0.018,
    7: 0.022,
    8: 0.025,
    9: 0.040,
    10: 0.273,
    11: 0.225,
    12: 0.075,
    14: 0.165,
    15: 0.065,
    16: 0.030,
    17: 0.013,
}
# years of age before which a code is rare: nobody of 18 has a doctorate
EARLIEST = {12: 21, 14: 22, 15: 25, 16: 26, 17: 28}

MARITAL = ("married", "never married", "divorced", "widowed", "separated", "spouse absent")
# by band of age: weight of each status, in the order of MARITAL
MARITAL_BY_BAND = (
    (2, 97, 0.4, 0.05, 0.3, 0.5),
    (18, 76, 2.5, 0.1, 1.8, 1.2),
    (44, 44, 7, 0.2, 3, 1.5),
    (59, 26, 10, 0.3, 3.2, 1.5),
    (65, 15, 15, 0.8, 3.2, 1.5),
    (67, 8, 19, 2.2, 2.8, 1.2),
    (70, 5, 17, 6, 1.8, 1.0),
    (68, 4, 12, 14, 1.2, 1.0),
    (57, 4, 6, 31, 0.6, 1.2),
)
WOMEN_MARITAL = (0.85, 0.9, 1.3, 2.5, 1.5, 0.9)  # women against men, in the order of MARITAL

RACES = {
    "White": 0.785,
    "Black": 0.109,
    "Other race": 0.041,
    "South Asian": 0.018,
    "East Asian": 0.017,
    "Mixed": 0.016,
    "American Indian": 0.007,
    "Southeast Asian": 0.0055,
    "Pacific Islander": 0.0015,
}

HOME, HOME_SHARE = "United States", 0.876
# countries of birth by region, in the order in which the regions take turns in `_countries`
REGIONS: dict[str, tuple[str, ...]] = {
    "Latin America": (
        *("Mexico", "El Salvador", "Guatemala", "Colombia", "Ecuador", "Peru", "Honduras"),
        *("Brazil", "Nicaragua", "Argentina", "Venezuela", "Chile", "Bolivia", "Costa Rica"),
    ),
    "South Asia": ("India", "Pakistan", "Bangladesh", "Nepal", "Sri Lanka", "Iran", "Lebanon"),
    "Southeast Asia": (
        *("Philippines", "Vietnam", "Laos", "Cambodia", "Thailand", "Indonesia", "Malaysia"),
    ),
    "East Asia": ("China", "Korea", "Japan", "Taiwan", "Hong Kong", "Mongolia"),
    "Europe": (
        *("Germany", "United Kingdom", "Poland", "Italy", "Russia", "Ukraine", "Portugal"),
        *("France", "Ireland", "Greece", "Romania", "Spain", "Netherlands", "Hungary"),
        *("Sweden", "Austria", "Norway", "Switzerland"),
    ),
    "Caribbean": (
        *("Jamaica", "Haiti", "Dominican Republic", "Cuba", "Trinidad and Tobago", "Barbados"),
    ),
    "Africa": ("Nigeria", "Ethiopia", "Ghana", "Kenya", "South Africa", "Egypt"),
    "Other": ("Canada", "Australia", "Guam", "Samoa"),
}
# which regions a race is drawn to; 1 where nothing is said
DRAWN_TO: dict[str, dict[str, float]] = {
    "White": {HOME: 12, "Europe": 6, "Other": 6},
    "Black": {HOME: 12, "Caribbean": 12, "Africa": 14},
    "Other race": {HOME: 5, "Latin America": 25, "Caribbean": 4},
    "South Asian": {HOME: 3, "South Asia": 120},
    "East Asian": {HOME: 3, "East Asia": 120},
    "Mixed": {HOME: 10, "Caribbean": 3, "Latin America": 3},
    "American Indian": {HOME: 30, "Latin America": 2},
    "Southeast Asian": {HOME: 3, "Southeast Asia": 150},
    "Pacific Islander": {HOME: 10, "Other": 60, "Southeast Asia": 20},
}


@cache
def network() -> Network:
    """The census-like population; made once."""
    ages = np.arange(AGES.start, AGES.stop)
    # working adults: rising through the twenties, falling through the sixties
    age = shares_of(1 / (1 + np.exp((25 - ages) / 3.2)) / (1 + np.exp((ages - 58) / 6.0)))
    band = band_masses(age, AGE_BAND)
    women = np.array(WOMEN_BY_BAND)
    gender = np.stack([1 - women, women], axis=1)
    levels = np.array(list(EDUCATION), np.float64)
    education = rake(_education_tilt(levels), band[:, None] * gender, _values(EDUCATION))
    by_age = Parent("age", AGE_BAND)
    by_gender = Parent("gender", np.arange(2))
    people = band[:, None, None] * gender[:, :, None] * education
    occupation_shares = np.geomspace(0.075, 0.0018, len(OCCUPATIONS))
    countries, regions, country_shares = _countries()
    races = tuple(RACES)
    drawn_to = np.array([[DRAWN_TO[race].get(region, 1.0) for region in regions] for race in races])
    workclass = shares_of(np.array([EMPLOYERS[job.employer] for job in OCCUPATIONS], np.float64))
    jobs = tuple(job.name for job in OCCUPATIONS)
    columns = (
        Column("age", tuple(AGES), age, integers="int16"),
        Column("gender", GENDERS, gender, (by_age,)),
        Column("education", tuple(EDUCATION), education, (by_age, by_gender), "int8"),
        Column("marital", MARITAL, _marital(), (by_age, by_gender)),
        Column("race", races, _values(RACES)),
        Column(
            "country",
            countries,
            rake(drawn_to, _values(RACES), country_shares),
            (Parent("race", np.arange(len(races))),),
        ),
        Column(
            "occupation",
            jobs,
            rake(_occupation_tilt(levels), people, occupation_shares),
            (by_age, by_gender, Parent("education", np.arange(len(levels)))),
        ),
        Column("workclass", WORKCLASSES, workclass, (Parent("occupation", np.arange(len(jobs))),)),
    )
    return Network("census", columns, (*QUASI, SENSITIVE))


def _values(shares: dict[str, float] | dict[int, float]) -> FloatArray:
    return shares_of(np.array(list(shares.values())))


def _education_tilt(levels: FloatArray) -> FloatArray:
    """Less schooling among the old, degrees only after the years they take; (band, gender, code)"""
    earliest = np.array([EARLIEST.get(int(level), 0) for level in levels])
    too_early = np.maximum(earliest - BAND_AGE[:, None], 0)
    old = np.maximum(BAND_AGE[:, None] - 45, 0) / 10
    young = np.exp(-1.2 * too_early - 0.09 * old * (levels - 11))
    women = np.exp(np.array([0.0, 0.04])[:, None] * (levels - 11))  # slightly more schooling
    return np.asarray(young[:, None, :] * women)


def _marital() -> FloatArray:
    men = np.array(MARITAL_BY_BAND, np.float64)
    return shares_of(np.stack([men, men * np.array(WOMEN_MARITAL)], axis=1))


def _occupation_tilt(levels: FloatArray) -> FloatArray:
    """How each (band, gender, education) leans to each occupation: products of three bells."""
    schooling = np.array([job.schooling for job in OCCUPATIONS])
    men = np.array([job.men for job in OCCUPATIONS])
    years = np.array([job.years for job in OCCUPATIONS])
    # hardly any schooling is alike: code 1 leans where code 5 does, not to everything equally
    known = np.maximum(levels, 5.0)[:, None]
    by_level = np.exp(-(((known - schooling) / 2.1) ** 2) / 2) + 0.003
    by_gender = np.exp(np.array([0.5, -0.5])[:, None] * men)
    by_band = np.exp(-(((BAND_AGE[:, None] - years) / 15) ** 2) / 2) + 0.05
    return np.asarray(by_band[:, None, None, :] * by_gender[:, None, :] * by_level)


def _countries() -> tuple[tuple[str, ...], tuple[str, ...], FloatArray]:
    """Countries, their regions and shares: one heavy head, then regions in turn, ever rarer."""
    names, regions = [HOME], [HOME]
    for turn in range(max(map(len, REGIONS.values()))):
        for region, members in REGIONS.items():
            if turn < len(members):
                names.append(members[turn])
                regions.append(region)
    rest = np.arange(1, len(names), dtype=np.float64) ** -1.2
    shares = np.concatenate([[HOME_SHARE], (1 - HOME_SHARE) * rest / rest.sum()])
    return tuple(names), tuple(regions), shares
