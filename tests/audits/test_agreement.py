"""Published values agree with the true ones as the operator lets them; nothing passes unjudged."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.optimize import linear_sum_assignment

import sfumato as sf
from sfumato import audits
from sfumato.audits.agreement import check_agreement
from sfumato.audits.case import AuditCase, raw_table
from sfumato.audits.classes import Rows
from sfumato.audits.perturbed import check_amplification
from sfumato.audits.spelling import rewrite
from sfumato.chances import binomial_exponents, matching_exponents, rank_exponents
from sfumato.draws import Draws, Positions
from sfumato.release import PerturbedRelease, Release


def published(
    table: pa.Table, to: Path, mechanism: str, guarantee: str, seed: int | None = None
) -> AuditCase:
    declared = sf.read(table, quasi="age,sex,region", sensitive="disease")
    sf.publish(declared, guarantee, to=to, mechanism=mechanism, seed=seed)
    release = Release(to)
    return AuditCase(raw_table(table, release), release)


@pytest.mark.parametrize("rows", [8, 12, 30, 120])
def test_honest_releases_of_small_tables_pass(people: Any, tmp_path: Path, rows: int) -> None:
    """The bounds are Chernoff's, so they hold for every size: 40 releases, a chance below 0.02.

    Measured, not only bounded: 0 alarms of 22,000 releases of 120 people drawn anew, 10,000 of them
    with the system's randomness; a chance below 0.05 was told for 3 in 1,000 of them.
    """
    for seed in range(10):
        case = published(
            people(rows, seed),
            tmp_path / f"{seed}",
            "uniform",
            "fine-rho-privacy(theta=1.5)",
            seed,
        )
        found = list(check_agreement(case))
        assert [f.check.name for f in found] == ["agreement", "subgroups", "power"]
        assert all(finding.holds for finding in found), found


def test_chances_are_no_smaller_than_they_say(people: Any, tmp_path: Path) -> None:
    """400 honest releases of 120 people, drawn as `publish` draws them: a chance of at most 0.1
    is told for at most one in ten, by either check. More than 70 have a chance below 1e-5."""
    case = published(people(120, 5), tmp_path / "r", "uniform", "fine-rho-privacy(theta=1.5)", 1)
    classes, operator, true = case.classes, case.release.operators["disease"], case.classes.true
    owner = np.repeat(true.owner, true.count)
    codes = np.repeat(true.codes["disease"], true.count)
    told = []
    for seed in range(400):
        shown = operator.apply(codes, "shown", Positions(0, len(codes)), Draws.from_seed(seed))
        keys, counts = np.unique(owner * operator.values + shown, return_counts=True)
        place, value = np.divmod(keys, operator.values)
        rows = Rows(place, {"disease": value}, counts, true.values)
        case.__dict__["classes"] = dataclasses.replace(classes, shown=rows)
        told.append([float(found.value) for found in check_agreement(case)][:2])
    assert ((np.array(told) <= 0.1).sum(axis=0) <= 70).all()


@pytest.mark.parametrize(
    ("mechanism", "guarantee"),
    [
        ("uniform", "rho-privacy(1/4, 1/2)"),
        ("partitioned", "rho-privacy(1/4, 1/2)"),
        ("splu", "small-sum(groups=3)"),
    ],
)
def test_people_who_look_alike_count_together(
    people: Any, tmp_path: Path, mechanism: str, guarantee: str
) -> None:
    """Six classes of 500 people each: nobody stands alone, and the truth is found all the same."""
    table = people(3000, 4)
    table = table.set_column(0, "age", pa.array([30] * 3000))
    case = published(table, tmp_path / "r", mechanism, guarantee)
    assert all(finding.holds for finding in check_agreement(case))


def test_a_promise_that_nothing_judged_does_not_pass(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(300)
    published(table, tmp_path / "r", "uniform", "rho-privacy(1/4, 1/2)")
    assert audits.audit(table, tmp_path / "r").holds
    looks = audits.CHECKS[PerturbedRelease]
    shape = [look for look in looks if look is not check_amplification]
    monkeypatch.setitem(audits.CHECKS, PerturbedRelease, shape)
    verdict = audits.audit(table, tmp_path / "r")
    assert verdict.holds is None
    failing = [finding for finding in verdict.findings if not finding.holds]
    assert [finding.check.name for finding in failing] == ["promise"]
    assert "no audit knows" in str(failing[0].witness)
    monkeypatch.delitem(audits.CHECKS, PerturbedRelease)
    assert not audits.audit(table, tmp_path / "r").holds


def crowd(rows: int, values: int, seed: int = 0) -> pa.Table:
    """People of whom about half are alone with age, sex and town; common and rare values.

    They stand in the order in which rows leave.
    """
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(6, values + 6)
    people = pa.table(
        {
            "age": rng.integers(18, 80, rows),
            "sex": rng.integers(0, 2, rows),
            "town": np.minimum(rng.geometric(0.06, rows), rows // 40),
            "s": rng.choice(values, rows, p=weights / weights.sum()),
        }
    )
    return people.sort_by([(name, "ascending") for name in ("age", "sex", "town")])


def rows_that_can_be(table: pa.Table, records: pa.Table, release: Release) -> np.ndarray:
    """Whose each row can be: of people who are alike, one whose value the row's part has."""
    people = np.arange(table.num_rows)
    for column, name in release.plan.part_columns.items():
        true, part = table.column(column).to_numpy(), records.column(name).to_numpy()
        domain = np.array(release.domain(column).to_pylist())
        inside = [domain[list(each.codes)] for each in release.operators[column].parts]
        alike = np.stack([table.column(quasi).to_numpy() for quasi in ("age", "sex", "town")])
        first = np.flatnonzero((np.diff(alike, axis=1) != 0).any(axis=0)) + 1
        for own in np.split(people.copy(), first):
            fits = np.array([np.isin(true[own], inside[each]) for each in part[own]])
            _, chosen = linear_sum_assignment(~fits)
            assert fits[np.arange(len(own)), chosen].all()
            people[own] = own[chosen]
    return people


def shown_truly(
    table: pa.Table, release: Path, mutate: Any, who: np.ndarray, columns: tuple[str, ...] = ("s",)
) -> Path:
    """The release, of a table in its order, with the true values of some people."""

    def put(records: pa.Table) -> pa.Table:
        people = rows_that_can_be(table, records, Release(release))
        for column in columns:
            true = table.column(column).to_numpy()[people]
            shown = np.where(who[people], true, records.column(column).to_numpy())
            place = records.schema.get_field_index(column)
            records = records.set_column(place, records.schema.field(place), pa.array(shown))
        return records

    changed: Path = mutate(release, release.parent / f"{release.name} changed", records=put)
    return changed


def kept(table: pa.Table, to: Path, guarantee: str, mechanism: str) -> None:
    sensitive = [name for name in table.column_names if name in ("s", "second")]
    roles = {"quasi": ["age", "sex", "town"], "sensitive": sensitive}
    sf.publish(table, guarantee, to=to, mechanism=mechanism, **roles)


def failing(table: pa.Table, release: Path) -> dict[str, Any]:
    verdict = audits.audit(table, release)
    return {finding.check.name: finding for finding in verdict.findings if finding.holds is False}


@pytest.mark.parametrize(
    ("rows", "values", "guarantee"),
    [(200, 3, "rho-privacy(0.3, 0.6)"), (2600, 2, "rho-privacy(0.5, 0.9)")],
)
def test_tables_all_shown_truly_fail(
    tmp_path: Path, mutate: Any, rows: int, values: int, guarantee: str
) -> None:
    """Few people, or a promise that lets nearly everybody be shown truly anyway."""
    table = crowd(rows, values)
    if values == 2:  # a common value gets no promise: both must be as common as they may be
        table = table.set_column(3, "s", pa.array(np.random.default_rng(7).permutation(rows) % 2))
    kept(table, tmp_path / "r", guarantee, "uniform")
    assert not failing(table, tmp_path / "r")
    cheated = shown_truly(table, tmp_path / "r", mutate, np.ones(rows, bool))
    assert "agreement" in failing(table, cheated)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarantee", "mechanism"),
    [
        ("rho-privacy(0.08, 1/3)", "uniform"),
        ("rho-privacy(0.08, 1/3)", "partitioned"),
        ("fine-rho-privacy(theta=8)", "fine-grain"),
        ("small-sum(groups=5)", "splu"),
    ],
)
@pytest.mark.parametrize("by", ["age", "s"])
def test_sixty_people_left_unprotected_are_noticed(
    tmp_path: Path, mutate: Any, guarantee: str, mechanism: str, by: str
) -> None:
    """All people of one age or one true value, of 6,000; the smallest such group of 60 or more."""
    table = crowd(6000, 40, seed=1)
    kept(table, tmp_path / "r", guarantee, mechanism)
    assert not failing(table, tmp_path / "r")
    numbers = np.bincount(table.column(by).to_numpy())
    chosen = int(np.argmin(np.where(numbers >= 60, numbers, 10**9)))
    cheated = shown_truly(table, tmp_path / "r", mutate, table.column(by).to_numpy() == chosen)
    found = failing(table, cheated)
    assert "subgroups" in found
    assert any(str(chosen) in name for name in found["subgroups"].listed)


def test_one_coin_for_two_columns_is_noticed(tmp_path: Path, mutate: Any) -> None:
    """Each column by itself is as its operator draws it; together they are kept or changed."""
    table = crowd(3000, 12, seed=2)
    rng = np.random.default_rng(3)
    table = table.append_column("second", pa.array(rng.integers(0, 12, 3000)))
    kept(table, tmp_path / "r", "rho-privacy(0.2, 0.5)", "uniform")
    assert not failing(table, tmp_path / "r")
    retention = float(Release(tmp_path / "r").operators["s"].retention)
    coin = rng.random(3000) < retention

    def together(records: pa.Table) -> pa.Table:
        for column in ("s", "second"):
            drawn = np.where(coin, table.column(column).to_numpy(), rng.integers(0, 12, 3000))
            place = records.schema.get_field_index(column)
            records = records.set_column(place, records.schema.field(place), pa.array(drawn))
        return records

    cheated = mutate(tmp_path / "r", tmp_path / "one coin", records=together)
    spelled = tmp_path / "as publishing writes it"
    rewrite(Release(cheated), spelled)
    assert set(failing(table, spelled)) == {"coin"}


@pytest.mark.slow
def test_the_power_that_is_told_is_there(tmp_path: Path, mutate: Any) -> None:
    """As many people shown truly as the audit says it would notice: noticed in 19 of 20 tries.

    Ten tries; fewer than six successes have a chance below 3e-4 if the audit says the truth.
    """
    table = crowd(4000, 30, seed=4)
    rng = np.random.default_rng(5)
    noticed = 0
    for number in range(10):
        place = tmp_path / str(number)
        kept(table, place, "rho-privacy(0.08, 1/3)", "uniform")
        power = next(f for f in audits.audit(table, place).findings if f.check.name == "power")
        some = np.zeros(4000, bool)
        some[rng.permutation(4000)[: int(power.value)]] = True
        noticed += "agreement" in failing(table, shown_truly(table, place, mutate, some))
    assert noticed >= 6


def test_the_bounds_are_never_below_the_chance() -> None:
    """Against exact tails, and against simulated orders."""
    for trials, chance in ((10, 0.3), (500, 0.02), (60, 0.9)):
        hits = np.arange(trials + 1.0)
        exact = stats.binom.sf(hits - 1, trials, chance)
        full = np.full(len(hits), float(trials))
        bound = np.exp(-binomial_exponents(hits, full, np.full(len(hits), chance)))
        assert (bound >= exact * (1 - 1e-9)).all()
    rng = np.random.default_rng(6)
    ranks = (np.arange(100) + 0.5) / 100
    for number in (3, 20, 60):
        means = np.array([rng.permutation(ranks)[:number].mean() for _ in range(4000)])
        bound = np.exp(-rank_exponents(np.full(4000, number), means))
        for level in (0.3, 0.1, 0.03):
            # were the bound the chance itself, at most so many: 5 standard errors above
            assert (bound < level).sum() <= 4000 * level + 5 * np.sqrt(4000 * level)
    values = np.repeat(np.arange(4), 25)
    equal = np.array([(rng.permutation(values) == values).sum() for _ in range(4000)])
    bound = np.exp(-matching_exponents(equal.astype(float), np.full(4000, 25.0)))
    assert (bound < 0.1).sum() <= 400 + 5 * 20
