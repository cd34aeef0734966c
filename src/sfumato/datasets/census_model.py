"""A census-like table of working adults with the papers' margins and familiar dependence.

The papers' CENSUS extract has 50 occupations with shares from 7.5 % down to 0.18 % and 14
education codes from 27.3 % down to 0.44 %; those two margins hold here too. Everything else is
invented: education follows age, marital status follows age and gender, country follows race,
occupation follows education, gender and age, and work class follows occupation.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np

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

QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
SENSITIVE = "occupation"
AGES = range(16, 94)
AGE_BAND = bands(AGES, (20, 25, 30, 35, 45, 55, 65, 75))
BAND_AGE = np.array([18, 22, 27, 32, 40, 50, 60, 69, 79], np.float64)  # a typical age of each
HOME, HOME_SHARE = "United States", 0.876


@cache
def network() -> Network:
    """The census-like population; made once."""
    # shares, weights against one another, and who leans to what; of education, code by code (10 is
    # high school, 14 a bachelor's degree), also the years of age before which it is rare; of races,
    # the regions that they are drawn to, 1 where nothing is said
    # an occupation, the k-th having the k-th largest share: the education code where it is most
    # common, > 0 where it leans to men and < 0 to women, the age where it is most common, and which
    # employers it has
    told = listed("census")
    jobs, schooling, men, years, employers = zip(*told.occupations, strict=True)
    ages = np.arange(AGES.start, AGES.stop)
    # working adults: rising through the twenties, falling through the sixties
    age = shares_of(1 / (1 + np.exp((25 - ages) / 3.2)) / (1 + np.exp((ages - 58) / 6.0)))
    band = band_masses(age, AGE_BAND)
    women = np.array(told.women_by_band)
    gender = np.stack([1 - women, women], axis=1)
    levels = np.array([int(code) for code in told.education], np.float64)
    education = rake(_education_tilt(told, levels), band[:, None] * gender, _values(told.education))
    by_age = Parent("age", AGE_BAND)
    by_gender = Parent("gender", np.arange(2))
    people = band[:, None, None] * gender[:, :, None] * education
    occupation_shares = np.geomspace(0.075, 0.0018, len(jobs))
    countries, regions, country_shares = _countries(told)
    races = tuple(told.races)
    drawn_to = [[told.drawn_to[race].get(region, 1.0) for region in regions] for race in races]
    workclass = shares_of(np.array([told.employers[employer] for employer in employers]))
    leaning = _occupation_tilt(levels, *map(np.array, (schooling, men, years)))
    columns = (
        NetworkColumn("age", tuple(AGES), age, integers="int16"),
        NetworkColumn("gender", ("male", "female"), gender, (by_age,)),
        NetworkColumn(
            "education", tuple(map(int, told.education)), education, (by_age, by_gender), "int8"
        ),
        NetworkColumn("marital", tuple(told.marital), _marital(told), (by_age, by_gender)),
        NetworkColumn("race", races, _values(told.races)),
        NetworkColumn(
            "country",
            countries,
            rake(np.array(drawn_to), _values(told.races), country_shares),
            (Parent("race", np.arange(len(races))),),
        ),
        NetworkColumn(
            "occupation",
            jobs,
            rake(leaning, people, occupation_shares),
            (by_age, by_gender, Parent("education", np.arange(len(levels)))),
        ),
        NetworkColumn(
            "workclass", told.workclasses, workclass, (Parent("occupation", np.arange(len(jobs))),)
        ),
    )
    return Network("census", columns, (*QUASI, SENSITIVE))


def _values(shares: dict[str, float] | dict[int, float]) -> FloatArray:
    return shares_of(np.array(list(shares.values())))


def _education_tilt(told: SimpleNamespace, levels: FloatArray) -> FloatArray:
    """Less schooling among the old, degrees only after the years they take; (band, gender, code)"""
    earliest = np.array([told.earliest.get(str(int(level)), 0) for level in levels])
    too_early = np.maximum(earliest - BAND_AGE[:, None], 0)
    old = np.maximum(BAND_AGE[:, None] - 45, 0) / 10
    young = np.exp(-1.2 * too_early - 0.09 * old * (levels - 11))
    women = np.exp(np.array([0.0, 0.04])[:, None] * (levels - 11))  # slightly more schooling
    return np.asarray(young[:, None, :] * women)


def _marital(told: SimpleNamespace) -> FloatArray:
    men = np.array(told.marital_by_band, np.float64)
    return shares_of(np.stack([men, men * np.array(told.women_marital)], axis=1))


def _occupation_tilt(
    levels: FloatArray, schooling: FloatArray, men: FloatArray, years: FloatArray
) -> FloatArray:
    """How each (band, gender, education) leans to each occupation: products of three bells."""
    # hardly any schooling is alike: code 1 leans where code 5 does, not to everything equally
    known = np.maximum(levels, 5.0)[:, None]
    by_level = np.exp(-(((known - schooling) / 2.1) ** 2) / 2) + 0.003
    by_gender = np.exp(np.array([0.5, -0.5])[:, None] * men)
    by_band = np.exp(-(((BAND_AGE[:, None] - years) / 15) ** 2) / 2) + 0.05
    return np.asarray(by_band[:, None, None, :] * by_gender[:, None, :] * by_level)


def _countries(told: SimpleNamespace) -> tuple[tuple[str, ...], tuple[str, ...], FloatArray]:
    """Countries, their regions and shares: one heavy head, then regions in turn, ever rarer."""
    names, regions = [HOME], [HOME]
    for turn in range(max(map(len, told.regions.values()))):
        for region, members in told.regions.items():
            if turn < len(members):
                names.append(members[turn])
                regions.append(region)
    rest = np.arange(1, len(names), dtype=np.float64) ** -1.2
    shares = np.concatenate([[HOME_SHARE], (1 - HOME_SHARE) * rest / rest.sum()])
    return tuple(names), tuple(regions), shares
