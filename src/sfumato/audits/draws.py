"""Layer 3 without a receipt: could these draws have come from the stated operators?

A test is a sum over people of draws that are independent, or hinder each other, and whose law is
known. Its moments are then a product, log E exp(sT) = Σ log E exp(s·one draw), and Chernoff's bound
exp(log E exp(sT) − s·t) holds for every size and every s; the smallest over some s is taken. So an
honest release fails with a chance of at most `ALARM`, over all tests of an audit together: the
alarm is shared out over the kinds of tests, and within a kind over its tests (Bonferroni).

*Agreement*: a record that shows y, in a class of which n of N people have y, agrees by n/N: by 1 or
0 where its person is alone. Looked at for everybody, by quasi-identifier, by true value, by both,
and for two columns together. *Fit*: how often each value is shown in parts of the table by a hash.
*Assignment*: who is in a bucket with whom. *Rows*: which of a person's are published. No statistics
find a choice by a secret rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, quoted, same
from sfumato.audits.classes import Cells, Classes, find_classes
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.perturbed import quotas_of
from sfumato.audits.sampled import sampled_distances
from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.mechanisms.buckets.fakes import Fakes
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.retention import RetentionOperator
from sfumato.release import BucketedRelease, PerturbedRelease

FloatArray = npt.NDArray[np.float64]
Chances = Callable[[IntArray, IntArray], FloatArray]  # P[x, y]

ALARM = 1e-3
MOST_VALUES = 1000  # people among so many different values cannot be followed
MOST_PAIRS = 8_000_000
UP = np.geomspace(2.0**-8, 2.0**12, 41)  # s; neighbours differ by a factor of √2
DOWN = -np.geomspace(2.0**-8, 2.0**4, 25)  # beyond, a chance of 1 is not told from its rounding
SURE = 1.645  # standard errors below which a draw falls one time in twenty
PARTS = 16  # of a column with many values
HASHED = 32  # parts of the table, at most, that the fit is looked at in


@dataclass(frozen=True, eq=False)
class Tests:
    """Tests of one kind: −log of a bound on the chance of each, and what each is about.

    `truth` is the exponent, 19 times in 20, were the `people` of a test shown truly.
    """

    exponents: FloatArray
    name: Callable[[int], str]
    people: IntArray | None = None
    truth: FloatArray | None = None


@concerns(PerturbedRelease, BucketedRelease)
def check_draws(case: AuditCase) -> Iterator[Finding]:
    """One verdict over all tests, and how large a group shown truly would be noticed."""
    kinds = [] if case.trace else [tests for tests in _tests(case) if len(tests.exponents)]
    if not kinds:
        return
    chance, patterns, unseen, seen = 1.0, [], 0, False
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
        Direction.AT_LEAST,
        ALARM,
        witness=f"{sum(len(tests.exponents) for tests in kinds):,} tests"
        + (", the clearest:" if patterns else ""),
        listed=tuple(name for _, name in sorted(patterns)),
    )
    if isinstance(case.release, PerturbedRelease):
        yield Finding.info(catalogue.POWER, unseen if seen else "not even everybody")


def _tests(case: AuditCase) -> Iterator[Tests]:
    if case.rows_of_people_withheld and case.table.quasi:
        yield _rows(case)
    if isinstance(case.release, BucketedRelease):
        yield from _assignment(case)
    elif isinstance(case.guarantee, ReconstructionPrivacy):
        for exponents, name in sampled_distances(case):
            yield Tests(exponents, name)
    elif isinstance(case.release, PerturbedRelease):
        classes, chances = find_classes(case), dict[str, Chances]()
        for column, operator in case.release.operators.items():
            known = _chances(case, column, operator)
            if known is not None:
                chances[column] = known
                yield from _agreement(case, classes, column, known)
                yield from _fit(case, classes, column)
        for pair in combinations(chances, 2):
            yield from _coin(case, classes, pair, chances)


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
        found = np.zeros(len(x))
        for number, within in enumerate(inside):
            first, second = operator.lookup[number, x], operator.lookup[number, y]
            both = (first >= 0) & (second >= 0)
            start = operator.starts[number]
            drawn = within(first[both] - start, second[both] - start)
            found[both] += share[number, x[both]] * drawn
        return found

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


@dataclass(frozen=True, eq=False)
class Pairs:
    """Within every class, each true value with each value that would agree with somebody's.

    The people of cell i are those of class `owner[i]` with `true[i]`. Pair k belongs to cell
    `cell[k]`, neighbours to the same one: each of its people is shown `shown[k]` with `chance[k]`,
    which agrees by `weight[k]`.
    """

    owner: IntArray
    true: IntArray
    count: FloatArray
    agreed: FloatArray  # per cell: how often its value is shown in its class, times its weight
    cell: IntArray
    shown: IntArray
    weight: FloatArray
    chance: FloatArray

    @classmethod
    def of(
        cls, classes: Classes, true: Cells, shown: Cells, chances: Chances, *, alone: bool
    ) -> Pairs | None:
        """With `alone`, only people whom nobody looks like. None where nobody can be followed."""
        support = np.bincount(true.owner, minlength=len(classes.sizes))
        chosen = (support > 0) & (support <= MOST_VALUES)
        if alone:
            chosen &= classes.sizes == 1
        # classes come in the order of a hash, so that those within the bound are a fair choice
        chosen &= np.cumsum(np.where(chosen, support.astype(np.int64) ** 2, 0)) <= MOST_PAIRS
        kept = chosen[true.owner]
        owner, code, count = (each[kept] for each in (true.owner, true.code, true.count))
        if not len(owner):
            return None
        share = count / classes.sizes[owner]
        number = support[owner]
        cell = np.repeat(np.arange(len(owner)), number)
        mate = np.searchsorted(owner, owner)[cell] + np.arange(len(cell))
        mate -= (np.cumsum(number) - number)[cell]
        agreed = shown.look_up(owner, code) * share
        chance = chances(code[cell], code[mate])
        return cls(
            owner, code, count.astype(np.float64), agreed, cell, code[mate], share[mate], chance
        )

    def moments(self, slope: float) -> tuple[FloatArray, FloatArray]:
        """log E exp(s·agreement) of every cell, and of every pair as if it alone could agree."""
        with np.errstate(over="ignore", invalid="ignore"):
            raised = self.chance * np.expm1(slope * self.weight)
        raised[self.chance <= 0] = 0.0
        by_pair = self.count[self.cell] * np.log1p(raised)
        return self.count * np.log1p(np.add.reduceat(raised, self.starts)), by_pair

    @property
    def starts(self) -> IntArray:
        return np.searchsorted(self.cell, np.arange(len(self.owner)))


class Groups:
    """Groups of people: `key` numbers that of every cell or, where a group is about one value
    that is shown, of every pair; −1 for none.

    A group so small that it could not alarm, whatever it shows, is left out: it would cost the
    others their power and never tell anything (Tarone 1990).
    """

    def __init__(self, pairs: Pairs, key: IntArray, by_pair: bool, name: Callable[[int], str]):
        self.by_pair, self._name = by_pair, name
        count, own = pairs.count[pairs.cell], pairs.true[pairs.cell] == pairs.shown
        surprise = np.where(pairs.chance > 0, -np.log(np.maximum(pairs.chance, 1e-300)), 0.0)
        mean, square = (count * pairs.chance * pairs.weight**power for power in (1, 2))
        if by_pair:
            truth, spread = np.where(own, count * pairs.weight, mean), np.where(own, 0.0, square)
            people, agreed = np.where(own, count, 0.0), np.zeros(len(own))
            agreed[own] = pairs.agreed
            most = count * surprise
        else:
            truth = np.bincount(pairs.cell[own], (count * pairs.weight)[own], len(pairs.owner))
            people, agreed, spread = pairs.count, pairs.agreed, np.zeros(len(pairs.owner))
            mean = np.asarray(np.bincount(pairs.cell, mean), np.float64)
            most = pairs.count * np.maximum.reduceat(surprise, pairs.starts)
        keys, place = np.unique(key, return_inverse=True)
        place = place.reshape(-1)
        kept = (keys >= 0) & (np.bincount(place, people) > 0)
        kept &= np.bincount(place, most) >= -np.log(ALARM)
        self.keys, self._place = keys[kept], np.where(kept, np.cumsum(kept) - 1, -1)[place]
        self.people, self.agreed, self.mean = map(self._sum, (people, agreed, mean))
        self._level = self._sum(truth) - SURE * np.sqrt(self._sum(spread))
        self.exponents, self.truth = np.zeros(len(self.keys)), np.zeros(len(self.keys))

    def _sum(self, by_element: FloatArray) -> FloatArray:
        inside = self._place >= 0
        found = np.bincount(self._place[inside], by_element[inside], len(self.keys))
        return np.asarray(found, np.float64)

    def add(self, slope: float, by_cell: FloatArray, by_pair: FloatArray, missing: int = 0) -> None:
        """One slope more; those below 0 bound the chance of so little agreement, though the
        `missing` records had all agreed."""
        moments = self._sum(by_pair if self.by_pair else by_cell)
        level = self.agreed + (missing if slope < 0 else 0)
        self.exponents = np.maximum(self.exponents, slope * level - moments)
        if slope > 0:
            self.truth = np.maximum(self.truth, slope * self._level - moments)

    def name(self, group: int) -> str:
        told = f"{self.agreed[group]:.0f} shown truly of {self.people[group]:.0f}"
        return f"{self._name(int(self.keys[group]))} ({told}, {self.mean[group]:.1f} expected)"

    def tests(self, sides: int = 1) -> Tests:
        exponents, people = self.exponents - np.log(sides), self.people.astype(np.int64)
        return Tests(exponents, self.name, people, self.truth - np.log(sides))


def _agreement(case: AuditCase, classes: Classes, column: str, chances: Chances) -> Iterator[Tests]:
    """Everybody, and by true value, by quasi-identifier and by both."""
    operator = case.release.operators[column]
    shown = classes.shown[column]
    if isinstance(operator, Parts):
        shown = operator.symbol_codes[shown]
    true = classes.cells(classes.true, classes.true[column])
    alone = isinstance(operator, Decoy)
    pairs = Pairs.of(classes, true, classes.cells(classes.shown, shown), chances, alone=alone)
    if pairs is None:
        return
    values = [value_text(value) for value in case.profile.histograms[column].values]
    everybody = Groups(pairs, np.zeros(len(pairs.owner), np.int64), False,
                        lambda _: f"everybody in {column!r}")  # fmt: skip
    groups = [Groups(pairs, pairs.shown, True, lambda code: f"true value {values[code]}")]
    for quasi in classes.quasi:
        group = quasi.group[pairs.owner]
        groups.append(Groups(pairs, group, False, quasi.name))
        both = group[pairs.cell] * len(values) + pairs.shown

        def name(key: int, of: Callable[[int], str] = quasi.name) -> str:
            place, code = divmod(key, len(values))
            return f"{of(place)} with {values[code]}"

        groups.append(Groups(pairs, both, True, name))
    for slope in UP:
        moments = pairs.moments(slope)
        for each in (everybody, *groups):
            each.add(slope, *moments)
    for slope in DOWN:
        everybody.add(slope, *pairs.moments(slope), case.withheld_by_plan)
    yield everybody.tests(2)
    numbers = np.concatenate([np.full(len(each.keys), n) for n, each in enumerate(groups)])
    starts = np.searchsorted(numbers, np.arange(len(groups)))
    tests = [each.tests() for each in groups]
    yield Tests(
        np.concatenate([each.exponents for each in tests]),
        lambda test: groups[int(numbers[test])].name(test - int(starts[int(numbers[test])])),
        np.concatenate([each.people for each in tests if each.people is not None]),
        np.concatenate([each.truth for each in tests if each.truth is not None]),
    )


def _coin(
    case: AuditCase, classes: Classes, columns: tuple[str, str], chances: dict[str, Chances]
) -> Iterator[Tests]:
    """Two columns agree with the truth together as often as two independent draws do."""
    first, second = columns
    values = len(case.profile.histograms[second].values)
    operators = [case.release.operators[name] for name in columns]
    sides = []
    for rows in (classes.true, classes.shown):
        codes = [rows[name] for name in columns]
        if rows is classes.shown:
            codes = [o.symbol_codes[c] if isinstance(o, Parts) else c
                     for o, c in zip(operators, codes, strict=True)]  # fmt: skip
        sides.append(classes.cells(rows, codes[0] * values + codes[1]))

    def both(x: IntArray, y: IntArray) -> FloatArray:
        drawn = chances[first](x // values, y // values)
        return drawn * chances[second](x % values, y % values)

    alone = any(isinstance(operator, Decoy) for operator in operators)
    true, shown = sides
    pairs = Pairs.of(classes, true, shown, both, alone=alone)
    if pairs is not None:
        every = np.zeros(len(pairs.owner), np.int64)
        agreement = Groups(pairs, every, False, lambda _: f"{first!r} and {second!r} together")
        for slope in UP:
            agreement.add(slope, *pairs.moments(slope))
        yield Tests(agreement.exponents, agreement.name)


# -- fit to the operator ---------------------------------------------------------------------------


def _fit(case: AuditCase, classes: Classes, column: str) -> Iterator[Tests]:
    """How often each value, or value and part, is shown, in parts of the table by a hash."""
    operator, histogram = case.release.operators[column], case.profile.histograms[column]
    parts = int(np.clip(classes.sizes.sum() // (20 * operator.values), 1, HASHED))
    part = (classes.hashes % np.uint64(parts)).astype(np.int64)
    sides = []
    for rows, size in ((classes.true, operator.domain_size), (classes.shown, operator.values)):
        place = part[rows["owner"]] * size + rows[column]
        seen = rows[column] >= 0
        counted = np.bincount(place[seen], rows["count"][seen], parts * size)
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
    exponents = _exponents(high, low, moments)
    symbols = operator.symbol_codes if isinstance(operator, Parts) else np.arange(shown.shape[1])

    def name(test: int) -> str:
        which, symbol = divmod(test, shown.shape[1])
        value = value_text(histogram.values[int(symbols[symbol])])
        return f"{value} is shown {shown[which, symbol]:,.0f} times in part {which + 1} of " + (
            f"{len(shown)} of the table"
        )

    yield Tests(exponents.reshape(-1), name)


def _exponents(
    high: FloatArray, low: FloatArray, moments: Callable[[float], FloatArray]
) -> FloatArray:
    """−log of Chernoff's bound on the chance of so many, or so few, where `moments` are
    log E exp(s·count)."""
    best = np.zeros(high.shape)
    for slope in (*UP[UP <= 64], *DOWN):  # counts are whole: more would add nothing
        best = np.maximum(best, slope * (high if slope > 0 else low) - moments(slope))
    return np.asarray(best - np.log(2))


def _summed(group: IntArray, chance: FloatArray, slope: float) -> FloatArray:
    return np.asarray(np.bincount(group, np.log1p(chance * np.expm1(slope))), np.float64)


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
            others, own = (np.log1p(each * np.expm1(slope)) for each in (drawn, drawn + kept))
            return np.asarray((raw @ others)[:, None] + raw * (own - others))

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
    told = f"{column!r} shows {1 / size + deviation:.2f} of the records truly, {1 / size:.2f} said"
    yield Tests(np.array([gap**2 / 2 / max(noise, 1e-300)]), lambda _: told)


# -- which rows of a person are published ----------------------------------------------------------


def _rows(case: AuditCase) -> Tests:
    """Of a person's n rows r are published, chosen by nothing: neither by what they say nor by
    where they stand. Rows that their quasi-identifiers single out show it."""
    rule, names = case.release.manifest.person, [quoted(name) for name in case.table.quasi]
    assert rule is not None
    connection, sensitive = case.connect(), case.table.sensitive
    connection.register("stream", case.raw_reader(rule.column))
    codes = ", ".join(f"o.__code_{k}" for k in range(len(sensitive)))
    found = connection.sql(
        "WITH placed AS (SELECT *, row_number() OVER () AS __place FROM stream), "
        "ranked AS (SELECT *, count(*) OVER (PARTITION BY __person) AS n, "
        "row_number() OVER (PARTITION BY __person ORDER BY __place) AS rank, "
        f"count(*) OVER (PARTITION BY {', '.join(names)}) AS alike FROM placed), "
        f"shown AS (SELECT DISTINCT {', '.join(names)} FROM published) "
        f"SELECT {codes}, least(o.rank, 2) - 1 AS rank, {rule.rows} / o.n AS chance, "
        "(s.there IS NOT NULL)::INTEGER AS taken FROM ranked AS o "
        f"LEFT JOIN (SELECT *, 1 AS there FROM shown) AS s ON {same('o', 's', names)} "
        f"WHERE o.alike = 1 AND o.n > {rule.rows}"
    ).to_arrow_table()  # fmt: skip
    chance, taken = (found.column(name).to_numpy() for name in ("chance", "taken"))
    exponents, told = [], []
    for place, column in enumerate((*sensitive, "rank")):
        code = found.column(column if column == "rank" else f"__code_{place}").to_numpy()
        number = np.asarray(np.bincount(code, taken), np.float64)
        exponents.append(_exponents(number, number, partial(_summed, code, chance)))
        of = ["the first row", "a later row"] if column == "rank" else [
            value_text(value) for value in case.profile.histograms[column].values]  # fmt: skip
        told += [f"of people's rows, {of[k]} is published {number[k]:,.0f} times of "
                 f"{np.bincount(code)[k]:,}" for k in range(len(number))]  # fmt: skip
    return Tests(np.concatenate(exponents), lambda test: told[test])


# -- who is in a bucket with whom ------------------------------------------------------------------


def _assignment(case: AuditCase) -> Iterator[Tests]:
    """The people of a value could change places: what they have in common with the others of their
    bucket must be chance. Those alone with their quasi-identifiers show it."""
    names, release = [quoted(name) for name in case.table.quasi], case.release
    if not names:
        return
    codes = ", ".join(f"any_value(__code_{k}) AS __code_{k}" for k in range(len(release.sensitive)))
    rows = case.connect(complete=True).sql(
        "WITH placed AS (SELECT *, row_number() OVER () AS __place FROM raw), alone AS (SELECT "
        f"{', '.join(names)}, {codes}, any_value(__place) AS __place FROM placed "
        f"GROUP BY {', '.join(names)} HAVING count(*) = 1) "
        f"SELECT a.*, p.bucket FROM alone AS a JOIN published AS p ON {same('a', 'p', names)}"
    ).to_arrow_table()  # fmt: skip
    if rows.num_rows < 2:
        return
    assert isinstance(release, BucketedRelease)
    bucket = rows.column("bucket").to_numpy().astype(np.int64)
    block = np.zeros(len(bucket), np.int64)
    if release.tree is not None:  # people are assigned within their block
        block = np.searchsorted(release.first_buckets, bucket, side="right") - 1
    held = [rows.column(f"__code_{k}").to_numpy() for k in range(len(release.sensitive))]
    yield from _fakes(case, bucket, held[0])
    _, code = np.unique(np.stack([block, *held]), axis=1, return_inverse=True)
    exponents, told = [], []
    for name in (*case.table.quasi, "__place"):
        encoded = rows.column(name).combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        place = np.argsort(pc.sort_indices(encoded.dictionary).to_numpy())
        mark = place[encoded.indices.to_numpy()]
        mark = mark if len(place) <= PARTS else _near(mark, block)
        exponents.append(in_common(code.reshape(-1), bucket, mark))
        what = "their place in the table" if name == "__place" else repr(name)
        told.append(f"people who share a bucket have {what} in common")
    yield Tests(np.array(exponents), lambda test: told[test])


def _fakes(case: AuditCase, bucket: IntArray, held: IntArray) -> Iterator[Tests]:
    """A bucket's one fake is drawn among the values that nobody in it has, by the odds that a
    bucket has them. Buckets all of whose people are alone show it."""
    release, (histogram,) = case.release, list(case.profile.histograms.values())[:1]
    assert isinstance(release, BucketedRelease)
    ceilings = case.guarantee.ceilings(histogram)
    if release.fakes != 1 or release.plan.association or case.rows_of_people_withheld:
        return  # of several fakes, or of those that follow associations, the law is another
    values, buckets = len(histogram.values), release.plan.buckets
    listed = pq.read_table(release.file("sensitive"))
    lists = np.zeros((buckets, values), np.bool_)
    lists[listed.column("bucket").to_numpy(), release.shown_codes(listed, histogram.column)] = True
    true = np.zeros_like(lists)
    true[bucket, held] = True
    lists, true = (each[true.sum(axis=1) + 1 == lists.sum(axis=1)] for each in (lists, true))
    drawn = Fakes(1, histogram.counts, buckets, Draws.from_seed(0), tuple(ceilings))
    weights = np.where(true, 0, drawn.weights).astype(np.float64)
    for size in np.unique(true.sum(axis=1)):
        of_size = true.sum(axis=1) == size
        weights[of_size] = np.where(drawn.listable(int(size)), weights[of_size], 0)
    chance = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    number = (lists & ~true).sum(axis=0).astype(np.float64)
    exponents = _exponents(
        number, number, lambda slope: np.log1p(chance * np.expm1(slope)).sum(axis=0)
    )
    names = [value_text(value) for value in histogram.values]
    yield Tests(exponents, lambda k: f"{names[k]} is the fake of {number[k]:,.0f} buckets")


def _near(place: IntArray, block: IntArray) -> IntArray:
    """In which part of their block people stand, by their place in a column; equals together."""
    order = np.lexsort((place, block))
    size = np.bincount(block)
    within = np.arange(len(order)) - (np.cumsum(size) - size)[block[order]]
    new = np.diff(place[order], prepend=-1) != 0
    new |= np.diff(block[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    part = np.empty(len(order), np.int64)
    part[order] = within[first] * PARTS // size[block[order]]
    return part


def in_common(code: IntArray, bucket: IntArray, mark: IntArray) -> float:
    """−log of a bound on the chance that people share their mark so much, or so little.

    Every other value, from the most frequent down, stays where it is; the people of the others
    could change places within theirs. Each counts for the share of those in the bucket who stay
    and have the same mark: Σ a[i, π(i)] with all a in [0, 1] and π random within values, so
    2 exp(−t²/(4·expected + 2t)) (Chatterjee 2007, Proposition 1.1).
    """
    from scipy.sparse import csr_array

    counts = np.bincount(code)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    stays = rank[code] % 2 == 0
    moved, shape = ~stays, (int(bucket.max()) + 1, int(mark.max()) + 1)
    weight = 1 / np.maximum(np.bincount(bucket[stays], minlength=shape[0]), 1)[bucket[stays]]
    share = csr_array((weight, (bucket[stays], mark[stays])), shape=shape)
    ones, rows = np.ones(int(moved.sum())), len(counts)
    slots = csr_array((ones, (code[moved], bucket[moved])), shape=(rows, shape[0]))
    marks = csr_array((ones, (code[moved], mark[moved])), shape=(rows, shape[1]))
    found = float(share[bucket[moved], mark[moved]].sum())
    expected = float(((slots @ share).multiply(marks).sum(axis=1) / counts).sum())
    gap = abs(found - expected)
    exponent = gap**2 / max(4 * expected + 2 * gap, 1e-300)
    return max(exponent - float(np.log(2)), 0.0)
