"""People with several rows: every posterior of every reader, in fractions, on small tables.

The reader knows the operator, sees all published rows of a person, and believes anything before:
priors over what the rows hold are drawn at random, among them readers to whom all rows of a person
are alike, or never are. Nothing is sampled but tables and priors, so nothing can fail by chance.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

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
from sfumato.operators import FineGrain, General, Operator, Uniform
from sfumato.operators.base import DYADIC
from sfumato.table import Table, read

Matrix = list[list[Fraction]]
Rows = tuple[int, ...]
TABLES = {"uniform": 10, "fine-grain": 10, "general": 4}  # random ones, for each number of rows
PROMISES = {
    "uniform": "rho-privacy(1/4, 3/5)",
    "fine-grain": "fine-rho-privacy(theta=2)",
    "general": "fine-rho-privacy(limits=a:1/5:1/2;*:1/4:2/3)",
}


def exact(operator: Operator) -> Matrix:
    """P as fractions, from the operator's own integers."""
    m = operator.values
    if isinstance(operator, General):
        return [[Fraction(int(p), DYADIC) for p in row] for row in operator.rows]
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


def declared(stays: pa.Table, rows: int) -> Table:
    return read(
        stays, quasi="", sensitive="ill", person="who", rows_per_person=rows,
        domain={"ill": "a,b,c"},
    )  # fmt: skip


def likelihood(matrix: Matrix, true: Rows, shown: Rows) -> Fraction:
    found = Fraction(1)
    for x, y in zip(true, shown, strict=True):
        found *= matrix[x][y]
    return found


def priors(rng: np.random.Generator, worlds: list[Rows]) -> list[list[Fraction]]:
    """Any reader; one to whom rows are all alike; two worlds only, one with the value, one not."""
    anyhow = rng.integers(1, 100, len(worlds))
    alike = [int(n) * (len(set(world)) == 1) for n, world in zip(anyhow, worlds, strict=True)]
    two = np.zeros(len(worlds), np.int64)
    two[rng.choice(len(worlds), 2, replace=False)] = rng.integers(1, 6, 2)
    return [
        [Fraction(int(n), int(sum(weights))) for n in weights]
        for weights in (anyhow.tolist(), alike, two.tolist())
    ]


@cache
def worlds_of(rows: int) -> list[Rows]:
    return list(itertools.product(range(3), repeat=rows))


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("way", PROMISES)
def test_no_reader_learns_more_about_a_person(way: str, rows: int) -> None:
    promise = parse_guarantee(PROMISES[way])
    assert isinstance(promise, OddsGuarantee)
    rng = np.random.default_rng(rows)
    looked = 0
    for number in range(TABLES[way]):
        table = declared(random_table(rng), rows)
        mechanism, draws = parse_mechanism(way), Draws.from_seed(number)
        if way == "fine-grain":
            mechanism = parse_mechanism("fine-grain(objective=counts)")
        people = for_people(Run(table, promise, mechanism, draws))
        profile = profile_for(people.table, people.promise, mechanism)
        try:
            _, plan = choose_plan(profile, people.promise, mechanism, draws)
        except InfeasibleGuarantee:
            continue
        assert isinstance(plan, PerturbedPlan)
        plan.check()
        matrix = exact(plan.operators["ill"])
        limits = promise.odds_limits(profile.histograms["ill"])
        if rows > 1:  # one limit for every value, also for those that are not covered
            limits = [promise.common_limit("s", "abc")] * 3
        worlds = worlds_of(rows)
        for prior, shown in itertools.product(priors(rng, worlds), worlds):
            pairs = list(zip(prior, worlds, strict=True))
            seen = [p * likelihood(matrix, world, shown) for p, world in pairs]
            for value, limit in enumerate(limits):
                has = [value in world for world in worlds]
                before = sum(itertools.compress(prior, has))
                after = sum(itertools.compress(seen, has)) / sum(seen)
                if limit is not None and 0 < before < 1:
                    # odds after at most `limit` times those before
                    assert after * (1 - before) <= limit * before * (1 - after), (value, shown)
                    looked += 1
    assert looked > TABLES[way]


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
        assert made.manifest.person.rows == 1
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
