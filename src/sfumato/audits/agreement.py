"""Do published values agree with the true ones as often as the operator lets them, and no oftener?

Totals cannot tell a release that shows the truth from one that was drawn: the truth has the right
totals. So people are followed by their quasi columns (`following`), and for everybody together, for
each quasi value, each true value and each pair of the two, the agreement is compared with what the
operator lets expect. Two sensitive columns must agree with the truth independently of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.classes import QuasiGroups
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.following import (
    SURE,
    Chances,
    GroupAgreement,
    Grouping,
    Pairs,
    follow,
    shortfall_exponent,
    sum_up,
)
from sfumato.audits.parts import quotas_of
from sfumato.chances import AGREEMENT_ALARM, COIN_ALARM, FloatArray, chance_of
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.retention import RetentionOperator


def check_agreement(case: AuditCase) -> Iterator[Finding]:
    """Everybody together, then every group; and how many people unprotected would be noticed."""
    if isinstance(case.guarantee, ReconstructionPrivacy):
        return  # copies are no independent draws: that family has a check of its own
    found = {name: chances_of(case, name) for name in case.table.sensitive}
    drawn = {name: chances for name, chances in found.items() if chances is not None}
    for column, chances in drawn.items():
        true, shown = case.classes.true.of(column), case.classes.shown.of(column)
        pairs = follow(case.classes, true, shown, chances, alone=_only_own(case, column))
        if pairs is not None:
            yield from _findings(case, column, pairs, AGREEMENT_ALARM / len(drawn))
    yield from _coins(case, drawn)


def _only_own(case: AuditCase, column: str) -> bool:
    """Whether only the chance of one's own value is exact: decoys depend on the whole group."""
    return isinstance(case.release.operators.get(column), Decoy)


def chances_of(case: AuditCase, column: str) -> Chances | None:
    """P from true to published values; None where another check has to speak first."""
    counts = case.profile.histograms[column].counts
    operator = case.release.operators.get(column)
    if isinstance(operator, Parts):
        return _chances_by_part(case, column, operator, counts)
    return None if operator is None else operator_chances(operator)


def operator_chances(operator: Operator) -> Chances:
    """P[x, y] without writing down a matrix over very many values.

    >>> from sfumato.operators import Uniform
    >>> operator_chances(Uniform(4, 0.5))(np.array([0, 0]), np.array([0, 1])).tolist()
    [0.625, 0.125]
    """
    if isinstance(operator, RetentionOperator):
        kept = operator.retentions
        return lambda x, y: kept[x] * (x == y) + (1 - kept[x]) / operator.values
    if isinstance(operator, Decoy):
        return lambda x, y: np.where(x == y, 1 / operator.groups, 0.0)
    matrix = operator.matrix()
    return lambda x, y: matrix[x, y]


def _chances_by_part(
    case: AuditCase, column: str, operator: Parts, counts: IntArray
) -> Chances | None:
    """A record's part follows from quotas, its value there from the part's operator."""
    quotas = quotas_of(case, column, operator)
    if quotas is None:
        return None
    share = quotas / np.maximum(counts, 1)
    inside = [operator_chances(part.operator) for part in operator.parts]

    def chances(x: IntArray, y: IntArray) -> FloatArray:
        found = np.zeros(len(x))
        for number, within in enumerate(inside):
            first, second = operator.lookup[number, x], operator.lookup[number, y]
            both = (first >= 0) & (second >= 0)
            start = operator.starts[number]
            found[both] += share[number, x[both]] * within(
                first[both] - start, second[both] - start
            )
        return found

    return chances


def _findings(case: AuditCase, column: str, pairs: Pairs, alarm: float) -> Iterator[Finding]:
    everybody, *groups = sum_up(pairs, _groupings(case, column, pairs, alarm))
    agreed, mean = float(everybody.agreed[0]), float(everybody.mean[0])
    if agreed >= mean:
        exponent = float(everybody.exponents(everybody.agreed)[0])
    else:
        exponent = shortfall_exponent(pairs, agreed + case.withheld_by_plan)
    yield Finding.limited(
        catalogue.AGREEMENT,
        chance_of(exponent, 4),  # on two sides, and half of the alarm is for the groups
        Direction.AT_LEAST,
        alarm,
        column=column,
        witness=f"{agreed:,.0f} agree of {pairs.people:,} people followed, the operator "
        f"lets expect {mean:,.1f}",
    )
    tests = sum(len(each.keys) for each in groups)
    least = float(np.log(2 * tests / alarm)) if tests else 0.0
    worst, beyond = 0.0, []
    for each in groups:
        exponents = each.exponents(each.agreed)
        worst = max(worst, float(exponents.max(initial=0.0)))
        for place in np.flatnonzero(exponents > least).tolist():
            told = f"{each.name(place)} ({each.agreed[place]:.0f} agree of "
            told += f"{each.people[place]:.0f}, {each.mean[place]:.1f} expected)"
            beyond.append((-exponents[place], told))
    yield Finding.limited(
        catalogue.SUBGROUPS,
        chance_of(worst, 2 * max(tests, 1)),
        Direction.AT_LEAST,
        alarm,
        column=column,
        witness=f"{tests:,} groups by quasi value, true value and both",
        listed=tuple(told for _, told in sorted(beyond)),
    )
    yield _power(case, column, pairs, everybody, groups, alarm, least)


def _groupings(case: AuditCase, column: str, pairs: Pairs, alarm: float) -> list[Grouping]:
    """Everybody; by true value; by every quasi column; by quasi column and true value."""
    names = [value_text(value) for value in case.profile.histograms[column].values]
    everybody, least = np.zeros(len(pairs.owner), np.int64), float(-np.log(alarm))
    found = [
        Grouping(everybody, lambda _: "everybody"),
        Grouping(pairs.shown, lambda key: f"true value {names[key]}", True, least),
    ]
    # groups of fewer people could all be shown truly, and it would be no wonder
    surprise = -np.log(pairs.chance[pairs.chance > 0].min(initial=1.0))
    fewest = least / max(surprise, 1e-300)
    for quasi in case.classes.quasi:
        people = np.bincount(quasi.group, case.classes.sizes)
        group = np.where(people >= fewest, np.arange(len(people)), -1)[quasi.group][pairs.owner]
        by_pair = group[pairs.cell]
        both = np.where(by_pair < 0, -1, by_pair * len(names) + pairs.shown)

        def named(key: int, quasi: QuasiGroups = quasi) -> str:
            place, code = divmod(key, len(names))
            return f"{quasi.name(place)} with {names[code]}"

        found.append(Grouping(group, quasi.name, False, least))
        found.append(Grouping(both, named, True, least))
    return found


def _power(
    case: AuditCase,
    column: str,
    pairs: Pairs,
    everybody: GroupAgreement,
    groups: list[GroupAgreement],
    alarm: float,
    least: float,
) -> Finding:
    """How many people left unprotected would be noticed, 19 times in 20."""
    people, mean = pairs.people, float(everybody.mean[0])
    numbers = np.unique(np.geomspace(1, people, 400).astype(np.int64))
    levels = mean + numbers / people * (float(everybody.truth[0]) - mean)
    levels -= SURE * float(np.sqrt(everybody.variance[0]))
    seen = [n for n, level in zip(numbers.tolist(), levels.tolist(), strict=True)
            if everybody.exponents(np.array([level]))[0] > np.log(4 / alarm)]  # fmt: skip
    unseen, number, noticed = 0, 0, 0
    for each in (group for group in groups if len(group.keys)):
        found = each.exponents(each.truth) > least
        number, noticed = number + len(found), noticed + int(found.sum())
        unseen = max(unseen, int(each.people[~found].max(initial=0)))
    told = f"of {case.profile.rows:,} people shown truly, chosen anyhow"
    told += f"; {noticed:,} of {number:,} groups by quasi value, true value or both would be "
    told += f"noticed, all of more than {unseen:,} people followed" if noticed else "noticed"
    if not seen:
        return Finding.info(
            catalogue.POWER,
            "not even everybody",
            column=column,
            witness=f"would be noticed; {told}",
        )
    return Finding.info(catalogue.POWER, seen[0], column=column, witness=told)


def _coins(case: AuditCase, drawn: dict[str, Chances]) -> Iterator[Finding]:
    """Two columns agree with the truth together as often as two independent draws do."""
    pairs_of = list(combinations(drawn, 2))
    for first, second in pairs_of:
        classes = case.classes

        def both(x: IntArray, y: IntArray, one: str = first, two: str = second) -> FloatArray:
            values = case.classes.true.values[two]
            return drawn[one](x // values, y // values) * drawn[two](x % values, y % values)

        pairs = follow(
            classes,
            classes.true.together(first, second),
            classes.shown.together(first, second),
            both,
            alone=_only_own(case, first) or _only_own(case, second),
        )
        if pairs is None:
            continue
        (everybody,) = sum_up(pairs, [Grouping(np.zeros(len(pairs.owner), np.int64), str)])
        exponent = float(everybody.exponents(everybody.agreed)[0])
        yield Finding.limited(
            catalogue.COIN,
            chance_of(exponent, len(pairs_of)),
            Direction.AT_LEAST,
            COIN_ALARM,
            column=first,
            about=second,
            witness=f"{everybody.agreed[0]:,.0f} people agree in both, "
            f"{everybody.mean[0]:,.1f} expected of independent draws",
        )
