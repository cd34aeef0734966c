"""Tables 4 and 5 and Figures 1 to 5: merging, limits, violations and the price of sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from papers import coded, public_files
from papers.tables import Series
from sfumato import datasets
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.engines.counting import count_cells, take_profile
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.groups import PersonalGroups, personal_groups
from sfumato.mechanisms.reconstruction.levels import Level, levels
from sfumato.mechanisms.reconstruction.tails import FloatArray, Setting, tails
from sfumato.mechanisms.reconstruction.testing import choose_samples, private_cells
from sfumato.operators import Uniform
from sfumato.operators.base import dyadic_floor
from sfumato.profile import Cells
from sfumato.results import Cell, ResultTable
from sfumato.table import read

TENTHS = tuple(Fraction(n, 10) for n in range(1, 6))
RETENTIONS = tuple(Fraction(n, 10) for n in (1, 3, 5, 7, 9))
DEFAULT = Fraction(3, 10)
# domain sizes after merging, |G| and |D|/|G|, as printed
PRINTED_ADULT = ((7, 4, 2, 2), 112, 404)
PRINTED_CENSUS = ((1, 2, 14, 6, 9), 1512, 331)
LEAST_SELECTIVITY = 0.001
WAYS = ("uniform", "paper", "sps, chernoff", "sps, exact")
Query = tuple[BoolArray, int]
Pool = tuple[list[Query], FloatArray]
Lines = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Effort:
    """How many queries are asked of how many releases."""

    queries: int
    runs: int


def setting_for(
    values: int,
    retention: Fraction = Fraction(1, 2),
    error: Fraction = DEFAULT,
    chance: Fraction = DEFAULT,
) -> Setting:
    return Setting(error, chance, dyadic_floor(retention), values)


def merging(study: Study, name: str, printed: tuple[tuple[int, ...], int, int]) -> ResultTable:
    """Domain sizes, groups with records and records a group, before and after merging."""
    before = study.groups(None)
    rows: list[tuple[Cell, ...]] = []

    def add(label: str, domains: list[int], groups: int) -> None:
        rows.append((label, *domains, prod(domains), groups, study.rows / groups))

    add("before", [merge.count for merge in before.merges], len(before))
    after = study.groups()
    add("after", [merge.count for merge in after.merges], len(after))
    domains, product, mean = printed
    rows.append(("after, printed", *domains, product, None, float(mean)))
    columns = tuple(merge.column for merge in before.merges)
    return ResultTable(
        name,
        f"{study.name}: domain sizes and personal groups before and after merging",
        ("", *columns, "product", "groups with records", "records a group"),
        rows,
        note="The row 'printed' is the paper's; its |G| is the product (errata R9).",
    )


def limits() -> list[Series]:
    """Figure 1: the largest private group by its largest share, by Chernoff and exactly."""
    found = []
    for name, m, shares in (
        ("ADULT", 2, [Fraction(n, 10) for n in range(5, 10)]),
        ("CENSUS", 50, [Fraction(n, 10) for n in range(1, 10)]),
    ):
        lines: dict[str, list[tuple[float, float]]] = {}
        for retention in RETENTIONS:
            case = Setting(DEFAULT, DEFAULT, retention, m)
            p = float(retention)
            lines[f"s_g, p = {p:g}"] = [(float(f), chernoff_size(f, case)) for f in shares]
            if retention in (Fraction(3, 10), Fraction(1, 2)):
                lines[f"exact, p = {p:g}"] = [
                    (float(f), float(exact_limit(f, case))) for f in shares
                ]
        found.append(
            Series(
                f"Figure 1, {name}",
                f"largest private group, m = {m}",
                "largest share f",
                "records",
                lines,
            )
        )
    return found


def paper_samples(groups: PersonalGroups, setting: Setting) -> IntArray:
    """⌊s_g⌋ of every group's own largest share, as printed; at least 1."""
    shares = groups.largest / groups.sizes
    limit = np.array([chernoff_size(float(share), setting) for share in shares])
    return np.asarray(np.minimum(groups.sizes, np.maximum(limit, 1.0)), np.int64)


def samples_of(way: str, groups: PersonalGroups, setting: Setting) -> IntArray:
    if way == "uniform":
        return groups.sizes
    if way == "paper":
        return paper_samples(groups, setting)
    if way.endswith("chernoff"):
        return chernoff_samples(groups, setting)
    return choose_samples(groups, setting, levels(setting))


def query_pool(groups: PersonalGroups, values: int, count: int) -> Pool:
    """Random conjunctions of one to three quasi values and a sensitive one, from 0.1 % on."""
    generator = np.random.default_rng(3)  # questions, not protection
    table = count_table(groups, values)
    codes = groups.codes(np.arange(len(groups)))
    names = list(codes)
    pool: list[Query] = []
    truth: list[float] = []
    for _ in range(200 * count):
        if len(pool) == count:
            break
        asked = generator.choice(
            names, size=min(int(generator.integers(1, 4)), len(names)), replace=False
        )
        mask = np.ones(len(groups), np.bool_)
        for name in asked:
            mask &= codes[name] == generator.integers(codes[name].max() + 1)
        value = int(generator.integers(values))
        hits = int(table[mask, value].sum())
        if hits >= LEAST_SELECTIVITY * table.sum():
            pool.append((mask, value))
            truth.append(float(hits))
    return pool, np.array(truth)


def count_table(groups: PersonalGroups, values: int) -> IntArray:
    table = np.zeros((len(groups), values), np.int64)
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    table[owner, groups.values] = groups.counts
    return table


def mean_error(
    groups: PersonalGroups, samples: IntArray, setting: Setting, pool: Pool, runs: int
) -> float | None:
    """Mean relative error of the pool's estimates; None where nothing is published."""
    if not samples.any():
        return None
    queries, truth = pool
    masks = np.stack([mask for mask, _ in queries]).astype(np.float64)
    values = np.array([value for _, value in queries])
    p, q = float(setting.retention), float(setting.background)
    operator = Uniform(setting.values, setting.retention)
    total = 0.0
    for seed in range(runs):
        published = np.zeros((len(groups), setting.values))
        draws = Draws.from_seed(seed)
        for run in groups.blocks():
            drawn = draw_block(groups, samples, run, operator, draws)
            published[drawn.groups, drawn.values] = drawn.counts
        counts = masks @ published
        estimate = (counts[np.arange(len(values)), values] - q * counts.sum(axis=1)) / p
        total += float((np.abs(estimate - truth) / truth).mean())
    return total / runs


def violations_and_errors(
    study: Study, first: str, second: str, effort: Effort
) -> tuple[list[Series], ResultTable]:
    """Violations under uniform perturbation and errors by p, λ and δ; and the defaults' table."""
    groups = study.groups()
    pool = query_pool(groups, study.values, effort.queries)
    own = setting_for(study.values)
    axes: list[tuple[str, tuple[Fraction, ...], Callable[[Fraction], Setting]]] = [
        ("p", RETENTIONS, lambda x: setting_for(study.values, retention=x)),
        ("λ", TENTHS, lambda x: replace(own, error=x)),
        ("δ", TENTHS, lambda x: replace(own, chance=x)),
    ]
    found = []
    for letter, values, make in axes:
        cases = [(float(value), groups, make(value), pool) for value in values]
        violated, errors = along(cases, effort.runs)
        title = f"{study.name}: exposed by uniform perturbation"
        found.append(Series(f"{first}, {letter}", title, letter, "share", violated))
        title = f"{study.name}: mean relative error of counts"
        found.append(Series(f"{second}, {letter}", title, letter, "relative error", errors))
    return found, defaults(study, groups, own, pool, effort)


def exposure(groups: PersonalGroups, setting: Setting) -> dict[str, float]:
    shares = {}
    for bound, exposed in (
        ("chernoff", chernoff_violations(groups, setting)),
        ("exact", violations(groups, setting)),
    ):
        shares[f"v_g, {bound}"] = float(exposed.mean())
        shares[f"v_r, {bound}"] = float(groups.sizes[exposed].sum() / groups.sizes.sum())
    return shares


def defaults(
    study: Study, groups: PersonalGroups, setting: Setting, pool: Pool, effort: Effort
) -> ResultTable:
    """At p = 0.5, λ = δ = 0.3: errors, how much they grow, and by how much predicted (R12)."""
    rows: list[tuple[Cell, ...]] = []
    plain: float | None = None
    for way in WAYS:
        samples = samples_of(way, groups, setting)
        error = mean_error(groups, samples, setting, pool, effort.runs)
        plain = error if way == "uniform" else plain
        growth = error / plain - 1 if error and plain else None
        kept = samples > 0
        sizes = groups.sizes[kept].astype(np.float64)
        inflation = float((sizes**2 / samples[kept]).sum() / max(sizes.sum(), 1.0))
        rows.append((way, error, growth, inflation, float(np.sqrt(inflation) - 1)))
    shares = exposure(groups, setting)
    text = ", ".join(f"{name} = {share:.3f}" for name, share in shares.items())
    return ResultTable(
        f"{study.name}, defaults",
        f"{study.name}: p = 0.5, λ = δ = 0.3, {len(groups):,} groups; {text}",
        ("way", "mean error", "growth", "variance inflation Σ|g|²/n/Σ|g|", "growth predicted"),
        rows,
        note="The paper: growth of about 50 % at most on ADULT, where v_g = 85 % and v_r > 99 %; "
        "below 10 % on CENSUS.",
    )


def along(
    cases: Iterable[tuple[float, PersonalGroups, Setting, Pool]], runs: int
) -> tuple[Lines, Lines]:
    """The shares that uniform perturbation exposes, and the errors of every way."""
    violated: Lines = {}
    errors: Lines = {way: [] for way in WAYS}
    for x, groups, case, pool in cases:
        for name, share in exposure(groups, case).items():
            violated.setdefault(name, []).append((x, share))
        for way in WAYS:
            error = mean_error(groups, samples_of(way, groups, case), case, pool, runs)
            if error is not None:
                errors[way].append((x, error))
    return violated, errors


def by_size(studies: list[Study], effort: Effort) -> list[Series]:
    """Figures 4d and 5d: violations and errors by the number of records."""
    cases = []
    for study in studies:
        groups = study.groups()
        pool = query_pool(groups, study.values, effort.queries)
        cases.append((float(study.rows), groups, setting_for(study.values), pool))
    violated, errors = along(cases, effort.runs)
    axis = "records"
    return [
        Series("Figure 4, |D|", "CENSUS-like: exposed", axis, "share", violated),
        Series("Figure 5, |D|", "CENSUS-like: mean relative error", axis, "relative error", errors),
    ]


ADULT_QUASI = ("education", "occupation", "race", "sex")
CENSUS_QUASI = ("age", "gender", "education", "marital", "race")
SIGNIFICANCE = Fraction(1, 20)


@dataclass(frozen=True, eq=False)
class Study:
    """A table's cells; groups are made from them, merged or not."""

    name: str
    rows: int
    values: int
    cells: Cells

    def groups(self, significance: Fraction | None = SIGNIFICANCE) -> PersonalGroups:
        return personal_groups(self.cells, self.values, significance)


def study(name: str, table: pa.Table, quasi: tuple[str, ...], sensitive: str) -> Study:
    declared = read(table.select([*quasi, sensitive]), quasi=quasi, sensitive=sensitive)
    (histogram,) = take_profile(declared).histograms.values()
    cells = count_cells(declared, sensitive)
    return Study(name, histogram.rows, len(histogram.values), cells)


def adult(data_dir: Path | None) -> tuple[Study, str]:
    """The 45,222 complete records of ADULT; else generated people with two classes of income."""
    files = [data_dir / name for name in ("adult.data", "adult.test")] if data_dir else []
    if files and all(path.is_file() for path in files):
        table = public_files.read_adult(*files)
        for name in ("workclass", "occupation", "native_country"):
            table = table.filter(pc.is_valid(table[name]))
        return study("ADULT", table, ADULT_QUASI, "income"), f"ADULT: {table.num_rows:,} records."
    table = datasets.census(45_222, seed=2)
    codes = table["occupation"].combine_chunks()
    codes = codes.dictionary_encode() if not pa.types.is_dictionary(codes.type) else codes
    income = pc.if_else(pc.less(codes.indices, 12), ">50K", "<=50K")
    quasi = ("education", "marital", "race", "gender")
    table = table.append_column("income", income)
    return study("ADULT", table, quasi, "income"), "ADULT: generated records stand in."


def census(data_dir: Path | None, rows: int) -> tuple[Study, str]:
    """CENSUS with occupation: 100,000 real records where they are, else generated ones."""
    table, note = coded.census(data_dir, rows, seed=3)
    return study("CENSUS", table, CENSUS_QUASI, "occupation"), note


def census_sizes(sizes: tuple[int, ...]) -> list[Study]:
    """Generated CENSUS-like tables of several sizes, each the beginning of the next."""
    whole = datasets.census(max(sizes), seed=3)
    return [
        study(f"{size:,} records", whole.slice(0, size), CENSUS_QUASI, "occupation")
        for size in sizes
    ]


_RATIO = 3.0  # between the levels of f


def chernoff_private(
    setting: Setting, sizes: IntArray, samples: IntArray, counts: IntArray, largest: IntArray
) -> BoolArray:
    """Equation 9 on the sample as rounding may leave it (errata R3): n ≤ s(⌈n·c/N⌉/n)."""
    share = -(-samples * counts // sizes) / samples
    p, q = float(setting.retention), float(setting.background)
    limit = -2 * (share * p + q) * np.log(float(setting.chance))
    return np.asarray(samples * (float(setting.error) * p * share) ** 2 <= limit)


def chernoff_levels(setting: Setting) -> tuple[Level, ...]:
    """Levels of the largest share, each a third of the one above.

    >>> from fractions import Fraction
    >>> half = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 50)
    >>> [level.sample for level in chernoff_levels(half)]
    [54, 170, 568, 2224]
    """
    found, top = [], 1.0
    while top > 1 / setting.values:
        found.append(Level(top / _RATIO, top, math.floor(chernoff_size(top, setting))))
        top /= _RATIO
    return tuple(found)


def chernoff_samples(groups: PersonalGroups, setting: Setting) -> IntArray:
    """Samples by level, held to Equation 9."""
    return choose_samples(groups, setting, chernoff_levels(setting), chernoff_private)


def violations(groups: PersonalGroups, setting: Setting) -> BoolArray:
    """Which groups plain uniform perturbation of every record would expose (v_g, v_r).

    Beyond s_g the exact tails need not be computed: Chernoff's bound is above them.
    """
    sizes, largest = groups.sizes, groups.largest
    p, q = float(setting.retention), float(setting.background)
    share = largest / sizes
    limit = -2 * (share * p + q) * np.log(float(setting.chance))
    exposed = np.asarray(sizes * (float(setting.error) * p * share) ** 2 > limit)
    for run in groups.blocks():
        owner, _, counts = groups.block(run)
        cells = ~exposed[run][owner]
        which = owner[cells]
        size, most = sizes[run][which], largest[run][which]
        passed = private_cells(setting, size, size, counts[cells], most)
        exposed[run.start + which[~passed]] = True
    return exposed


def chernoff_violations(groups: PersonalGroups, setting: Setting) -> BoolArray:
    """Which groups plain uniform perturbation of every record would expose by Equation 9."""
    sizes, largest = groups.sizes, groups.largest
    return ~chernoff_private(setting, sizes, sizes, largest, largest)


def chernoff_size(share: float | Fraction, setting: Setting) -> float:
    """s_g: the largest group that Chernoff's bound calls private (Equation 10).

    Far too generous: the exact tails at s_g are 7 to 250 times smaller than δ (errata R1).

    >>> setting = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 10)
    >>> math.floor(chernoff_size(0.5, setting))
    128
    """
    p, f = float(setting.retention), float(share)
    spread = f * p + float(setting.background)
    return -2 * spread * math.log(setting.chance) / (float(setting.error) * p * f) ** 2


def exact_limit(share: Fraction, setting: Setting) -> int:
    """The largest group, without sampling, whose exact tails both reach δ; 0 where there is none.

    Sizes n for which n·f is a whole number; beyond s_g Chernoff's bound already rules them out.

    >>> exact_limit(Fraction(1, 2), Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 10))
    10
    """
    step = share.denominator
    n = np.arange(step, math.floor(chernoff_size(share, setting)) + 1, step, dtype=np.int64)
    private = tails(setting, n, n, n // step * share.numerator).both_ways(float(setting.chance))
    return int(n[private].max()) if private.any() else 0
