"""Layer 3 without a receipt: could these draws have come from the stated operators?

A test is a sum over people of draws that are independent, or hinder each other, and whose law is
known. Its moments are then a product, log E exp(sT) = Σ log E exp(s·one draw), and Chernoff's bound
exp(log E exp(sT) − s·t) holds for every size and every s; the smallest over some s is taken. So an
honest release fails with a chance of at most `ALARM`, over all tests of an audit together: the
alarm is shared out over the kinds of tests, and within a kind over its tests (Bonferroni).

*Agreement*: a record that shows y, in a class of which n of N people have y, agrees by n/N: by 1 or
0 where its person is alone. Looked at for everybody, by quasi-identifier, by true value, by both,
and for two columns together. *Fit*: how often each value is shown in parts of the table by a hash.
What was chosen besides, rows of people and places in buckets, is in `assignment`. No statistics
find a choice by a secret rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.assignment import bucket_tests, row_tests
from sfumato.audits.blocks import refusal_tests
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.chances import ALARM, DOWN, UP, FloatArray, Tests, count_exponents
from sfumato.audits.findings import Finding
from sfumato.audits.following import (
    MOST_VALUES,
    AgreementGroups,
    Chances,
    EquivalenceClasses,
    ValuePairs,
    find_classes,
    value_name,
)
from sfumato.audits.perturbed import quotas_of
from sfumato.audits.sampled import sample_tests
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.retention import RetentionOperator
from sfumato.release import BucketedRelease, PerturbedRelease

HASHED = 32  # parts of the table, at most, that the fit is looked at in


@concerns(PerturbedRelease, BucketedRelease)
def check_draws(case: AuditCase) -> Iterator[Finding]:
    """One verdict over all tests, and how large a group shown truly would be noticed."""
    kinds = [] if case.repeated else [tests for tests in _tests(case) if len(tests.exponents)]
    if not kinds:
        return
    chance, patterns, unseen, seen = 1.0, [], 0, False
    with_test = [int(tests.people.min()) for tests in kinds if tests.people is not None]
    for tests in kinds:
        times = len(kinds) * len(tests.exponents)
        chance = min(chance, times * float(np.exp(-tests.exponents.max())))
        least = np.log(times / ALARM)
        patterns += [(-tests.exponents[test], tests.name(int(test)))
                     for test in np.flatnonzero(tests.exponents > least)]  # fmt: skip
        if tests.truth is not None and tests.people is not None:
            noticed = tests.truth > least
            seen |= bool(noticed.any())
            unseen = max(unseen, int(tests.people[~noticed].max(initial=0)))
    yield Finding.limited(
        catalogue.DRAWS,
        chance,
        ALARM,
        witness=f"{sum(len(tests.exponents) for tests in kinds):,} tests"
        + (", the clearest:" if patterns else ""),
        listed=tuple(name for _, name in sorted(patterns)),
    )
    if isinstance(case.release, PerturbedRelease):
        fewer = min(with_test, default=1) - 1  # groups that have no test
        yield Finding.info(catalogue.POWER, max(unseen, fewer) if seen else "not even everybody")


def _tests(case: AuditCase) -> Iterator[Tests]:
    if case.rows_of_people_withheld and case.table.quasi:
        yield row_tests(case)
    if isinstance(case.release, BucketedRelease):
        yield from bucket_tests(case)
        yield from refusal_tests(case)
    elif isinstance(case.guarantee, ReconstructionPrivacy):
        yield from sample_tests(case)
    elif isinstance(case.release, PerturbedRelease):
        classes, chances = find_classes(case), dict[str, Chances]()
        for column, operator in case.release.operators.items():
            column_chances = _chances(case, column, operator)
            if column_chances is not None:
                chances[column] = column_chances
                yield from _agreement(case, classes, (column,), chances)
                yield from _fit(case, classes, column)
        for pair in combinations(chances, 2):
            yield from _agreement(case, classes, pair, chances)


# -- what an operator draws ------------------------------------------------------------------------


def _chances(case: AuditCase, column: str, operator: Operator) -> Chances | None:
    """P from true to published values; None where another check has to speak first."""
    if not isinstance(operator, Parts):
        return operator_chances(operator)
    quotas = quotas_of(case, column, operator)
    if quotas is None:
        return None
    share = quotas / np.maximum(quotas.sum(axis=0), 1)
    inside = [operator_chances(part.operator) for part in operator.parts]

    def chances(x: IntArray, y: IntArray) -> FloatArray:
        chance = np.zeros(len(x))
        for number, within in enumerate(inside):
            first, second = operator.lookup[number, x], operator.lookup[number, y]
            both = (first >= 0) & (second >= 0)
            start = operator.starts[number]
            drawn = within(first[both] - start, second[both] - start)
            chance[both] += share[number, x[both]] * drawn
        return chance

    return chances


def operator_chances(operator: Operator) -> Chances:
    """P[x, y] without writing down a matrix over very many values.

    >>> from sfumato.operators import Uniform
    >>> operator_chances(Uniform(4, 0.5))(np.array([0, 0]), np.array([0, 1])).tolist()
    [0.625, 0.125]
    """
    if isinstance(operator, RetentionOperator):
        kept = operator.retentions
        return lambda x, y: kept[x] * (x == y) + (1 - kept[x]) / operator.values
    if isinstance(operator, Decoy):  # of other values: known for whole groups only
        return lambda x, y: np.where(x == y, 1 / operator.groups, 0.0)
    matrix = operator.matrix()
    return lambda x, y: matrix[x, y]


# -- agreement with the truth ----------------------------------------------------------------------


def _agreement(
    case: AuditCase,
    classes: EquivalenceClasses,
    columns: tuple[str, ...],
    chances: Mapping[str, Chances],
) -> Iterator[Tests]:
    """Everybody and, of one column, by true value, by quasi-identifier and by both. Two columns
    agree with the truth together as often as two independent draws do."""
    domains = {column: case.profile.histograms[column].values for column in columns}

    def law(x: IntArray, y: IntArray) -> FloatArray:
        chance = np.ones(len(x))
        for column in reversed(columns):
            (x, one), (y, other) = (np.divmod(code, len(domains[column])) for code in (x, y))
            chance *= chances[column](one, other)
        return chance

    operators, sides = case.release.operators, []
    for rows in (classes.true, classes.shown):
        code = np.zeros(len(rows["owner"]), np.int64)
        for column, domain in domains.items():
            operator, codes = operators[column], rows[column]
            if rows is classes.shown and isinstance(operator, Parts):
                codes = operator.symbol_codes[codes]
            code = np.where((code < 0) | (codes < 0), -1, code * len(domain) + codes)
        sides.append(classes.cells(rows, code, math.prod(map(len, domains.values()))))
    alone = any(isinstance(operators[column], Decoy) for column in columns)
    true, shown = sides
    pairs = ValuePairs.of(classes.sizes, true, shown, law, alone=alone)
    if pairs is None:
        return
    several = len(columns) > 1
    who = " and ".join(map(repr, columns))
    name = f"{who} together" if several else f"everybody in {who}"
    everybody = AgreementGroups(pairs, np.zeros(len(pairs.owner), np.int64), lambda _: name)
    for slope in UP if several else (*UP, *DOWN):
        everybody.add(slope, pairs.moments(pairs.raised(slope)), case.withheld_by_plan)
    if several:
        yield Tests(everybody.exponents, everybody.name)
        return
    yield everybody.tests(2)
    groups = list(_groups(classes, pairs, [value_text(value) for value in domains[columns[0]]]))
    for slope in UP:
        raised = pairs.raised(slope)
        moments = {cells: cells.moments(raised) for cells in {group.pairs for group in groups}}
        for group in groups:
            group.add(slope, moments[group.pairs])
    yield Tests.joined([group.tests() for group in groups])


def _groups(
    classes: EquivalenceClasses, pairs: ValuePairs, values: Sequence[str]
) -> Iterator[AgreementGroups]:
    """People by true value, by quasi-identifier and by both."""
    apart = pairs.apart()
    yield AgreementGroups(apart, apart.shown, lambda code: f"true value {values[code]}")
    for quasi, (of_place, place) in classes.quasi.items():
        group, named = place[pairs.owner], value_name(quasi, of_place)
        yield AgreementGroups(pairs, group, named)

        def name(key: int, named: Callable[[int], str] = named) -> str:
            group, code = divmod(key, len(values))
            return f"{named(group)} with {values[code]}"

        yield AgreementGroups(apart, group[pairs.cell] * len(values) + pairs.shown, name)


# -- fit to the operator ---------------------------------------------------------------------------


def _fit(case: AuditCase, classes: EquivalenceClasses, column: str) -> Iterator[Tests]:
    """How often each value, or value and part, is shown, in parts of the table by a hash."""
    operator, histogram = case.release.operators[column], case.profile.histograms[column]
    parts = int(np.clip(classes.sizes.sum() // (20 * operator.values), 1, HASHED))
    part = (classes.hashes % np.uint64(parts)).astype(np.int64)
    sides = []
    for rows, size in ((classes.true, operator.domain_size), (classes.shown, operator.values)):
        cell = part[rows["owner"]] * size + rows[column]
        seen = rows[column] >= 0
        counted = np.bincount(cell[seen], rows["count"][seen], parts * size)
        sides.append(counted.reshape(parts, size).astype(np.float64))
    raw, shown = sides
    withheld = case.withheld_by_plan
    if isinstance(operator, Decoy):
        yield from _own_share(column, operator, raw, shown)
        raw, shown = raw.sum(axis=0, keepdims=True), shown.sum(axis=0, keepdims=True)
        slack = 2 * (operator.groups - 1)  # of a further column: borrowed groups
        high, low = shown - slack, shown + slack + operator.groups * withheld
    else:
        high, low = shown, shown + withheld
    moments = _moments(case, column, operator, raw)
    if moments is None:
        return
    exponents = count_exponents(high, low, moments)
    symbols = operator.symbol_codes if isinstance(operator, Parts) else np.arange(shown.shape[1])

    def name(test: int) -> str:
        which, symbol = divmod(test, shown.shape[1])
        value = value_text(histogram.values[int(symbols[symbol])])
        return f"{value} is shown {shown[which, symbol]:,.0f} times in part {which + 1} of " + (
            f"{len(shown)} of the table"
        )

    yield Tests(exponents.reshape(-1), name)


def _moments(
    case: AuditCase, column: str, operator: Operator, raw: FloatArray
) -> Callable[[float], FloatArray] | None:
    """log E exp(s·count) of every value that is shown, by part of the table."""
    if isinstance(operator, Decoy):  # Binomial(c·o, 1/c)
        size = operator.groups
        return lambda slope: size * raw * np.log1p(np.expm1(slope) / size)
    if isinstance(operator, RetentionOperator):
        kept = operator.retentions
        drawn = (1 - kept) / operator.values

        def moments(slope: float) -> FloatArray:
            others, agreeing = (
                np.log1p(chance * np.expm1(slope)) for chance in (drawn, drawn + kept)
            )
            return np.asarray((raw @ others)[:, None] + raw * (agreeing - others))

        return moments
    if operator.values > MOST_VALUES:
        return None
    matrix = operator.matrix()
    if isinstance(operator, Parts):
        quotas = quotas_of(case, column, operator)
        assert quotas is not None
        share = quotas / np.maximum(quotas.sum(axis=0), 1)
        reach = np.zeros((operator.domain, operator.values))
        at = operator.symbol_parts, operator.symbol_codes
        reach[operator.symbol_codes, np.arange(operator.values)] = share[at]
        matrix = reach @ matrix
    return lambda slope: np.asarray(raw @ np.log1p(matrix * np.expm1(slope)))


def _own_share(column: str, operator: Decoy, raw: FloatArray, shown: FloatArray) -> Iterator[Tests]:
    """Where a value is commoner than elsewhere, decoys show it oftener by 1/c of the surplus.

    Which values meet in groups is well mixed, but not by a known law: a fifth of the way from 1/c
    to 1 is let pass, so that this finds tables that are shown truly and nothing finer.
    """
    counts, size = raw.sum(axis=0), operator.groups
    rows = counts.sum()
    rate = counts * (size - 1) / (size * np.maximum(rows - counts, 1))
    sizes = raw.sum(axis=1, keepdims=True)
    surplus = raw - sizes * counts / max(rows, 1)
    expected = raw / size + (sizes - raw) * rate
    weight = float((surplus**2).sum())
    if len(raw) < 2 or weight == 0:
        return
    deviation = float((surplus * (shown - expected)).sum()) / weight
    noise = float((surplus**2 * expected).sum()) / weight**2
    gap = max(abs(deviation) - (1 - 1 / size) / 5, 0.0)
    witness = (
        f"{column!r} shows {1 / size + deviation:.2f} of the records truly, {1 / size:.2f} said"
    )
    yield Tests(np.array([gap**2 / 2 / max(noise, 1e-300)]), lambda _: witness)
