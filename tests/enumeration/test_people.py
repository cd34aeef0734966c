"""People with several rows, of whom one is drawn: every posterior, in fractions, on small tables.

The reader knows the operator, sees the published row of a person, and believes anything before:
priors over what it holds are drawn at random. Nothing is sampled but tables and priors, so nothing
can fail by chance.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.person_rows import for_people
from sfumato.engines.publishing import publish
from sfumato.engines.run import Run
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import OddsGuarantee, parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators import FineGrain, Operator, Uniform
from sfumato.operators.base import DYADIC
from sfumato.table import read

Matrix = list[list[Fraction]]
PROMISES = {
    "uniform": "rho-privacy(1/4, 3/5)",
    "fine-grain(objective=counts)": "fine-rho-privacy(theta=2)",
}


def exact(operator: Operator) -> Matrix:
    """P as fractions, from the operator's own integers."""
    m = operator.values
    assert isinstance(operator, Uniform | FineGrain)
    kept = (
        [operator.retention] * m
        if isinstance(operator, Uniform)
        else [Fraction(int(p), DYADIC) for p in operator.kept]
    )
    return [[(x == y) * kept[x] + (1 - kept[x]) / m for y in range(m)] for x in range(m)]


def random_table(rng: np.random.Generator) -> pa.Table:
    """Twelve people with one to five rows each, which often share their value."""
    sizes = rng.integers(1, 6, 12)
    who = np.repeat(np.arange(len(sizes)), sizes)
    own = rng.choice(3, len(sizes))[who]
    ill = np.where(rng.random(len(who)) < rng.random(), own, rng.choice(3, len(who)))
    ill[:3] = (0, 1, 2)
    return pa.table({"who": who, "ill": np.array(list("abc"))[ill]})


@pytest.mark.parametrize("way", PROMISES)
def test_no_reader_learns_more_about_a_person(way: str) -> None:
    promise = parse_guarantee(PROMISES[way])
    assert isinstance(promise, OddsGuarantee)
    rng = np.random.default_rng(1)
    looked = 0
    for number in range(10):
        table = read(
            random_table(rng), quasi="", sensitive="ill", person="who", domain={"ill": "a,b,c"}
        )
        people = for_people(Run(table, promise, parse_mechanism(way), Draws.from_seed(number)))
        profile = profile_for(people.table, people.promise, people.mechanism)
        assert profile.rows == 12
        try:
            _, plan = choose_plan(profile, people.promise, people.mechanism, people.draws)
        except InfeasibleGuarantee:
            continue
        assert isinstance(plan, PerturbedPlan)
        plan.check()
        matrix = exact(plan.operators["ill"])
        limits = promise.odds_limits(profile.histograms["ill"])
        for _, shown, (value, limit) in itertools.product(range(5), range(3), enumerate(limits)):
            weights = rng.integers(1, 100, 3).tolist()
            prior = [Fraction(n, sum(weights)) for n in weights]
            seen = [p * matrix[x][shown] for x, p in enumerate(prior)]
            before, after = prior[value], seen[value] / sum(seen)
            if limit is not None:  # odds after at most `limit` times those before
                assert after * (1 - before) <= limit * before * (1 - after), (value, shown)
                looked += 1
    assert looked > 10


@pytest.mark.parametrize("way", ["optimal", "two-size", "multi-size", "anatomy"])
def test_buckets_hold_one_row_of_a_person(way: str, tmp_path: object) -> None:
    """In every bucket the chance of a value, for a person whose row stands there, is its share."""
    rng = np.random.default_rng(3)
    for number in range(5):
        stays = random_table(rng)
        folder = f"{tmp_path}/{number}"
        made = publish(
            stays, "l-diversity(2)", to=folder, mechanism=way, seed=number, quasi="",
            sensitive="ill", person="who",
        ) if largest_share(stays) else None  # fmt: skip
        if made is None:
            continue
        assert made.manifest.person is not None
        listed = pq.read_table(f"{folder}/sensitive.parquet").to_pylist()
        for bucket in {row["bucket"] for row in listed}:
            counts = [row["count"] for row in listed if row["bucket"] == bucket]
            assert 2 * max(counts) <= sum(counts)


def largest_share(stays: pa.Table) -> bool:
    """Whether one row of each person can be 2-diverse whichever it is."""
    by_value: dict[str, set[int]] = {}
    for row in stays.to_pylist():
        by_value.setdefault(row["ill"], set()).add(row["who"])
    return all(2 * len(whose) <= 12 for whose in by_value.values())
