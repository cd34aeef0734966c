"""Figures 2 to 7 of "Inferential or Differential: Privacy Laws Dictate"."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from papers.coded import People, multinomial, profile_of
from papers.steps import Outcome
from papers.tables import Points, Series
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.guarantees import FPrivacy
from sfumato.mechanisms.buckets import BucketPlan, OptimalBuckets
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.optimal import optimal_setting
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    loss,
    mean_squared_error,
    setting_of,
)
from sfumato.mechanisms.buckets.two_size import PairList, best_two_size
from sfumato.mechanisms.solver import mixed_integer
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlockTable, Deviations
from sfumato.results import Cell, ResultTable

THETAS = (2, 4, 8, 16, 32)
FLOOR = Fraction(1, 50)
LARGEST = 50
AT_ONCE = 200  # queries held in memory and estimated together


@dataclass(frozen=True)
class Effort:
    """How much of the paper's work to do."""

    queries: int
    rows: int
    cardinalities: tuple[int, ...]
    scale_ups: tuple[int, ...]
    seconds: float  # for each integer program
    thetas: tuple[int, ...] = THETAS


def limits_of(counts: IntArray, theta: int) -> Limits:
    """f'_x = min(1, θ f_x + 0.02) (Table 4)."""
    (histogram,) = profile_of(counts).histograms.values()
    return Limits(tuple(FPrivacy(theta=Fraction(theta), floor=FLOOR).ceilings(histogram)))


def scaled(counts: IntArray, rows: int) -> IntArray:
    """The same distribution over `rows` records: floors, and one more for the first values.

    >>> scaled(np.array([1, 2]), 10).tolist()
    [4, 6]
    """
    total = int(counts.sum())
    grown = counts * rows // total
    grown[: rows - int(grown.sum())] += 1
    return grown


def distributions(columns: dict[str, IntArray]) -> Outcome:
    """Figure 2."""
    rows: list[tuple[Cell, ...]] = [
        (name, len(counts), *(100 * float(share / counts.sum()) for share in (low, high)))
        for name, counts in columns.items()
        for low, high in [(counts[counts > 0].min(), counts.max())]
    ]
    shares = ResultTable(
        "Figure 2", "Shares of the sensitive values, %", ("data", "values", "least", "most"), rows
    )
    lines = {
        name: [(rank + 1.0, float(n)) for rank, n in enumerate(sorted(counts, reverse=True))]
        for name, counts in columns.items()
    }
    title = "Frequency of the sensitive values"
    return [shares], [Series("Figure 2", title, "value", "records", lines)]


def diversity(columns: dict[str, IntArray]) -> Outcome:
    """Figure 3: the l that l-diversity would need (Remark 1), and whether it exists."""
    rows: list[tuple[Cell, ...]] = []
    for name, counts in columns.items():
        for theta in THETAS:
            needed = limits_of(counts, theta).needed_size(counts)
            exists = int(counts.max()) * needed <= int(counts.sum())
            rows.append((name, theta, needed, "yes" if exists else "no"))
    table = ResultTable(
        "Figure 3", "l-diversity that models F'-privacy", ("data", "theta", "l", "possible"), rows
    )
    return [table], []


def lines_of(rows: Sequence[Sequence[Cell]], places: Mapping[str, int]) -> dict[str, Points]:
    """The numbers of some columns by the second one, for each of the data in the first."""
    return {
        f"{name}, {label}": [
            (float(row[1] or 0), number)
            for row in rows
            if row[0] == name and isinstance(number := row[place], float)
        ]
        for name in dict.fromkeys(row[0] for row in rows)
        for label, place in places.items()
    }


def loss_figure(columns: dict[str, IntArray], effort: Effort) -> Outcome:
    """Figure 4: mean squared error; Anatomy from N and l alone, as the paper has it (F14)."""
    rows: list[tuple[Cell, ...]] = []
    for name, small in columns.items():
        counts = scaled(small, effort.rows)
        for theta in effort.thetas:
            limits = limits_of(counts, theta)
            needed = limits.needed_size(counts)
            buckets = effort.rows // needed
            size, more = divmod(effort.rows, buckets)
            anatomy = setting_of((size, size + 1), (buckets - more, more))
            two = best_two_size(counts, limits, LARGEST)
            many = recursive_multi_size(counts, limits, LARGEST)
            best = optimal_setting(counts, limits, LARGEST)
            program = integer_program(counts, limits, LARGEST, effort.seconds)
            rows.append(
                (
                    name,
                    theta,
                    float(mean_squared_error(anatomy)),
                    float(mean_squared_error(two)) if two else None,
                    float(mean_squared_error(many.setting)) if many else None,
                    float(mean_squared_error(best.setting)) if best else None,
                    float(1 - best.bound / max(loss(best.setting), 1)) if best else None,
                    float(mean_squared_error(program)) if program else None,
                )
            )
    columns_ = (
        "data",
        "theta",
        "Anatomy",
        "TwoSize",
        "MultiSize",
        "optimal, ours",
        "gap",
        "integer program",
    )
    table = ResultTable("Figure 4", f"MSE, {effort.rows:,} records", columns_, rows)
    lines = lines_of(rows, {"Anatomy": 2, "TwoSize": 3, "MultiSize": 4, "optimal": 5})
    return [table], [Series("Figure 4", "MSE", "theta", "MSE", lines)]


def error_figure(tables: dict[str, People], effort: Effort) -> Outcome:
    """Figure 5: mean relative error of count queries, by the paper's estimate and by ours."""
    rows: list[tuple[Cell, ...]] = []
    for name, people in tables.items():
        ways = [
            _published(people, OptimalBuckets(LARGEST, objective=objective), theta)
            for theta in effort.thetas
            for objective in ("two-size", "multi-size", "error")
        ]
        errors = np.zeros((len(effort.thetas), 6))
        for begin in range(0, effort.queries, AT_ONCE):
            number = min(AT_ONCE, effort.queries - begin)
            asked = CountQueries.draw(people, number, seed=11 + begin)
            found = [asked.errors(shown, fit) for shown, fit in ways]
            errors += np.reshape(found, errors.shape) * number / effort.queries
        rows += [(name, t, *line) for t, line in zip(effort.thetas, errors.tolist(), strict=True)]
    columns = (
        "data",
        "theta",
        "TwoSize",
        "TwoSize, shrunk",
        "MultiSize",
        "MultiSize, shrunk",
        "Optimal",
        "Optimal, shrunk",
    )
    title = f"Mean relative error of {effort.queries:,} count queries (1 % selectivity)"
    table = ResultTable("Figure 5", title, columns, rows)
    lines = lines_of(rows, {"TwoSize": 2, "MultiSize": 4, "Optimal": 6, "ours": 7})
    return [table], [Series("Figure 5", title, "theta", "relative error", lines)]


def _published(people: People, way: OptimalBuckets, theta: int) -> tuple[Published, BlockTable]:
    """The buckets of one method, and our estimator of them."""
    promise = FPrivacy(theta=Fraction(theta), floor=FLOOR)
    plan = way.plan(people.profile, promise, Draws.from_seed(theta))
    shares, sizes = plan.contents()
    return Published.of(people, plan), BlockTable.of(shares, sizes, np.zeros(1, np.int64))


def cardinality_figure(columns: dict[str, IntArray], effort: Effort) -> Outcome:
    """Figure 6: seconds to plan, by the number of records."""
    rows: list[tuple[Cell, ...]] = []
    for name, counts in columns.items():
        for size in effort.cardinalities:
            grown = scaled(counts, size)
            times = _times(grown, limits_of(grown, 8), effort, sequential=True)
            rows.append((name, size, *times))
    return _runtime("Figure 6", "records", rows)


def values_figure(columns: dict[str, IntArray], effort: Effort) -> Outcome:
    """Figure 7: seconds to plan, by the number of values (each split into γ)."""
    rows: list[tuple[Cell, ...]] = []
    for name, counts in columns.items():
        whole = scaled(counts, max(effort.cardinalities))
        for factor in effort.scale_ups:
            draws = Draws.from_seed(factor)
            split = multinomial(draws, "split", whole, np.ones(factor, np.int64))
            grown = split.reshape(-1)
            times = _times(grown, limits_of(grown, 8), effort, sequential=factor <= 8)
            rows.append((name, len(grown), *times))
    return _runtime("Figure 7", "values", rows)


def _times(
    counts: IntArray, limits: Limits, effort: Effort, *, sequential: bool
) -> tuple[Cell, ...]:
    def plain(prune_by_loss: bool) -> float | None:
        if not sequential:
            return None
        return _seconds(
            lambda: sequential_two_size(counts, limits, LARGEST, prune_by_loss=prune_by_loss)
        )

    return (
        plain(False),
        plain(True),
        _seconds(lambda: best_two_size(counts, limits, LARGEST)),
        _program_seconds(counts, limits, effort.seconds),
        _seconds(lambda: optimal_setting(counts, limits, LARGEST)),
    )


def _program_seconds(counts: IntArray, limits: Limits, most: float) -> float | str:
    """Of the paper's integer program with two sizes, unless it is stopped at its time limit."""
    began = time.perf_counter()
    taken = _seconds(lambda: integer_program(counts, limits, LARGEST, most, most_sizes=2))
    return taken if time.perf_counter() - began < most else f"stopped at {most:g} s"


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor: what else the machine does should not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _runtime(name: str, unit: str, rows: list[tuple[Cell, ...]]) -> Outcome:
    labels = ("No-pruning", "Loss-pruning", "Full-pruning", "Optimal", "optimal, ours")
    title = f"Processor seconds to plan, by {unit}"
    lines = lines_of(rows, {label: index + 2 for index, label in enumerate(labels)})
    note = (
        "Full-pruning is two-size (errata F8). 'Optimal' is the paper's integer program with two "
        "sizes, stopped at its time limit; 'optimal, ours' has any number of sizes."
    )
    return (
        [ResultTable(name, title, ("data", unit, *labels), rows, note=note)],
        [Series(name, title, unit, "seconds", lines)],
    )


def integer_program(
    counts: IntArray,
    limits: Limits,
    max_size: int,
    seconds: float = 60.0,
    most_sizes: int | None = None,
) -> Setting | None:
    """The least loss, with one variable per value and size.

    For small inputs only ("Optimal" in the paper's Section 7.2; with `most_sizes` = 2 that of its
    Section 7.3); None where it finds nothing in `seconds`.
    """
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron, vstack

    sizes = limits.usable_sizes(counts, max_size)
    if not len(sizes):
        return None
    allowed = limits.table(sizes).astype(np.float64)
    parts, values = allowed.shape
    position = np.arange(parts * values)
    room = csr_array(
        (-allowed.ravel(), (position, np.repeat(np.arange(parts), values))),
        shape=(parts * values, parts),
    )
    within = hstack([room, eye_array(parts * values)])
    filled = hstack(
        [
            csr_array((-sizes.astype(np.float64), (np.arange(parts), np.arange(parts)))),
            kron(eye_array(parts), np.ones((1, values))),
        ]
    )
    placed = hstack([csr_array((values, parts)), kron(np.ones((1, parts)), eye_array(values))])
    exact = np.concatenate([np.zeros(parts), counts.astype(np.float64)])
    most = int(counts.sum()) // sizes.astype(np.float64)  # buckets of each size
    opened = hstack([eye_array(parts), csr_array((parts, parts * values)), -diags_array(most)])
    flags = parts if most_sizes is not None else 0  # by size: whether it has buckets

    def wide(matrix: Any) -> Any:
        return csr_array(hstack([matrix, csr_array((matrix.shape[0], flags))]))

    constraints = [
        LinearConstraint(wide(within), -np.inf, 0),
        LinearConstraint(wide(vstack([filled, placed])), exact, exact),
    ]
    if most_sizes is not None:
        every = np.repeat([0.0, 1.0], [parts * (1 + values), parts])
        constraints += [
            LinearConstraint(csr_array(opened), -np.inf, 0),
            LinearConstraint(every, 0, most_sizes),
        ]
    lengths = [parts, parts * values, flags]
    result = mixed_integer(
        np.concatenate([(sizes - 1.0) ** 2, np.zeros(sum(lengths[1:]))]),
        constraints=constraints,
        integrality=np.repeat([1, 0, 1], lengths),
        bounds=Bounds(0, np.repeat([np.inf, np.inf, 1], lengths)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return None
    return setting_of(sizes, np.rint(result.x[:parts]).astype(np.int64))


_POSITIONS = 1 << 14  # pairs that are tested at once


def sequential_two_size(
    counts: IntArray, limits: Limits, max_size: int, *, prune_by_loss: bool
) -> Setting | None:
    """Test every pair of every list Γ(S₁, S₂) by Theorem 3, or only the prefix of smaller loss.

    "No-pruning" and "Loss-pruning" of Section 7.3: O(m·N) and less.
    """
    rows = int(counts.sum())
    sizes = np.arange(limits.smallest_size, max_size + 1, dtype=np.int64)
    allowed = limits.table(sizes)
    best: Setting | None = None
    best_loss: int | None = None
    for i, small in enumerate(sizes.tolist()):
        for j in range(i + 1, len(sizes)):
            pairs = PairList.of(small, int(sizes[j]), rows)
            if pairs is None:
                continue
            last = pairs.last
            if prune_by_loss and best_loss is not None:
                last = min(last, (best_loss - pairs.first_loss - 1) // pairs.loss_step)
            position = _first_valid(
                pairs, last, counts, allowed[i], allowed[j], whole=not prune_by_loss
            )
            if position is None:
                continue
            found = setting_of((small, int(sizes[j])), pairs.at(position))
            if best_loss is None or loss(found) < best_loss:
                best, best_loss = found, loss(found)
    return best


def _first_valid(
    pairs: PairList,
    last: int,
    counts: IntArray,
    small_allowed: IntArray,
    large_allowed: IntArray,
    *,
    whole: bool,
) -> int | None:
    """The first valid position; `whole` looks at all of them first, as without any pruning."""
    first: int | None = None
    for begin in range(0, last + 1, _POSITIONS):
        position = np.arange(begin, min(begin + _POSITIONS, last + 1))
        small = pairs.small_buckets - position * pairs.small_step
        large = pairs.large_buckets + position * pairs.large_step
        in_small = np.minimum(small[:, None] * small_allowed, counts)
        in_large = np.minimum(large[:, None] * large_allowed, counts)
        valid = (
            (in_small + in_large >= counts).all(axis=1)
            & (in_small.sum(axis=1) >= pairs.small * small)
            & (in_large.sum(axis=1) >= pairs.large * large)
        )
        if first is None and valid.any():
            first = begin + int(np.argmax(valid))
            if not whole:
                return first
    return first


SELECTIVITY = 0.01


@dataclass(frozen=True, eq=False)
class Published:
    """The bucket of each record, and the shares of the values in each bucket."""

    bucket: IntArray
    shares: FloatArray

    @classmethod
    def of(cls, people: People, plan: BucketPlan) -> Published:
        """Where the records stand, in the order of the table."""
        buckets = plan.bucket_of(people.sensitive, people.ranks)
        sizes = np.bincount(buckets, minlength=plan.buckets)
        cells = np.bincount(
            buckets * people.values + people.sensitive, minlength=plan.buckets * people.values
        )
        return cls(buckets, cells.reshape(-1, people.values) / sizes[:, None])


@dataclass(frozen=True, eq=False)
class CountQueries:
    """Conditions `A IN (…)` on some quasi columns, with the values asked for and true answers."""

    masks: list[BoolArray]
    forms: list[FloatArray]
    truths: list[float]

    @classmethod
    def draw(cls, people: People, number: int, seed: int) -> CountQueries:
        """b = |A|·s^(1/(d+1)) values at random of each of d columns; none with answer 0 (F16)."""
        rng = np.random.default_rng(seed)
        masks: list[BoolArray] = []
        forms: list[FloatArray] = []
        truths: list[float] = []
        names = list(people.quasi)
        while len(masks) < number:
            width = int(rng.integers(1, len(names) + 1))
            side = SELECTIVITY ** (1 / (width + 1))
            mask = np.ones(people.rows, np.bool_)
            for name in rng.choice(names, width, replace=False):
                mask &= _some(int(people.quasi[name].max()) + 1, side, rng)[people.quasi[name]]
            form = _some(people.values, side, rng).astype(np.float64)
            true = float(form @ np.bincount(people.sensitive[mask], minlength=people.values))
            if true > 0:
                masks.append(mask)
                forms.append(form)
                truths.append(true)
        return cls(masks, forms, truths)

    def errors(self, published: Published, table: BlockTable) -> tuple[float, float]:
        """The mean relative error of what the buckets show (uniform), and of our estimator."""
        from scipy.sparse import csr_array

        buckets = len(published.shares)
        beside = [np.bincount(published.bucket[mask], minlength=buckets) for mask in self.masks]
        shown = np.stack([each @ published.shares for each in beside])
        number = np.array([float(mask.sum()) for mask in self.masks])
        share = number[:, None] / table.rows
        residual = shown - share * table.shown
        loose = csr_array(share * (1 - share))
        moved = Deviations.shared(table, loose, residual[:, :, None]).moved()["shrunk"]
        mean = share * table.counts + residual + moved[:, :, 0]
        return self._off(shown), self._off(mean)

    def _off(self, counts: FloatArray) -> float:
        truths = np.array(self.truths)
        answers = (np.stack(self.forms) * counts).sum(axis=1)
        return float((np.abs(answers - truths) / truths).mean())


def _some(domain: int, side: float, rng: np.random.Generator) -> BoolArray:
    chosen = np.zeros(domain, np.bool_)
    chosen[rng.choice(domain, max(1, round(domain * side)), replace=False)] = True
    return chosen
