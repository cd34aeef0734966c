"""Answers from reconstructed tables: counts that can be, none negative, adding up to what is known.

For each group of the quasi keys the joint histogram of the sensitive columns is estimated whole:
the nearest point of {n ≥ 0, Σ n = n_A} to the estimate, n_A being known exactly (`consistent`), of
all groups such that they add up to what their condition is answered with as a whole; the likeliest
one (`em`, thesis, Section 3.3); or, for decoys, the paper's iteration (`paper`). Conditions and
keys on sensitive columns then read that table. Sums of a quasi column are amounts: nothing says
that they are not negative, but they add up in the same way. The standard error stays that of the
estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.operators import Decoy, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Moments
from sfumato.operators.four_states import reconstruct, states_of
from sfumato.operators.reconstruct import added_up, most_likely, nearest_parts, nearest_possible
from sfumato.queries.aggregates import Count, Sum
from sfumato.queries.question import Question
from sfumato.queries.question_plan import MOST_CELLS, Weight
from sfumato.queries.sources import PerturbedSource, Source, codes_of
from sfumato.queries.statements import RecordSums, count, named

MOST_ITERATED = 2_000_000
_MOST_MARGINS = 3_000  # groups and values of sums, whose equations are solved as a whole
_AT_ONCE = 1 << 16  # cells whose transition matrices are held at the same time


def reconstructed(
    source: Source,
    columns: Sequence[str],
    name: str,
    moments: Moments,
    estimated: Estimated,
    *,
    adding_up: bool,
) -> dict[Hashable, FloatArray]:
    """By weight: counts, or amounts, by (class, value …) from the estimator `name`.

    `adding_up`: those of the classes are parts of what the whole condition is answered with.
    """
    weights: list[Weight] = [pair[0] for pair in moments.sums if len(pair) == 1]  # type: ignore[misc]
    if name == "em" and isinstance(source, PerturbedSource):
        return {weight: _most_likely(source, columns, moments, weight) for weight in weights}
    if name == "paper" and isinstance(source, PerturbedSource):
        return {weight: _papers(source, columns, moments, weight) for weight in weights}
    values = int(np.prod([len(each) for each in source.domains(columns)]))
    if moments.classes * values > MOST_CELLS:
        raise QueryError(
            f"A consistent answer would need more than {MOST_CELLS:,} cells. Group by fewer "
            "columns, or leave `consistent` out."
        )
    whole = None
    if adding_up and moments.classes > 1:
        together = replace(moments, classes=1, of=np.zeros_like(moments.of), pool=None)
        whole = source.estimator(columns, name).estimate(together)
    return {weight: _nearest(estimated, whole, weight, moments) for weight in weights}


def _nearest(
    estimated: Estimated, whole: Estimated | None, weight: Weight, moments: Moments
) -> FloatArray:
    """Every class by itself, or the classes as parts of the whole."""
    found, totals = estimated.histogram(weight, weight.number), moments.total(weight)
    shape = found.shape
    estimates = found.reshape(shape[0], int(np.prod(shape[1:])))
    together = None
    if whole is not None:
        together = whole.histogram(weight, weight.number).reshape(1, estimates.shape[1])
    if weight != weight.number:
        return _amounts(estimates, totals, together, moments.total(weight, weight)).reshape(shape)
    if together is None:
        return nearest_possible(estimates, totals).reshape(shape)
    sums = nearest_possible(together, totals.sum(keepdims=True))[0]
    return nearest_parts(estimates, totals, sums).reshape(shape)


def _amounts(
    estimates: FloatArray, totals: FloatArray, together: FloatArray | None, squares: FloatArray
) -> FloatArray:
    """Sums that add up; noise grows with the squares of what is summed."""
    if together is None:
        return added_up(estimates, totals, None, squares)
    if len(totals) + estimates.shape[1] > _MOST_MARGINS:
        raise QueryError(
            f"Sums over {len(totals):,} groups of {estimates.shape[1]:,} values are too many to be "
            f"made consistent: at most {_MOST_MARGINS:,} of both together. Group by fewer columns, "
            "or leave `consistent` out."
        )
    whole = added_up(together, totals.sum(keepdims=True), None, squares.sum(keepdims=True))
    return added_up(estimates, totals, whole[0], squares)


def _most_likely(
    source: PerturbedSource, columns: Sequence[str], moments: Moments, weight: Hashable
) -> FloatArray:
    """One constrained maximum likelihood for each class, over the joint histogram."""
    operators = [source.operator(column) for column in columns]
    _check_size("em", moments.classes, [each.values for each in operators])
    found = most_likely(moments.table(weight, [each.values for each in operators]), operators)
    if not found.converged:
        warnings.warn(
            f"The estimator 'em' stopped after {found.cycles:,} cycles, up to "
            f"{float(found.gap.max()):.2g} below the maximal log-likelihood.",
            WeakPromiseWarning,
            stacklevel=2,
        )
    counts = found.counts
    for axis, operator in enumerate(operators, start=1):
        if isinstance(operator, Parts):
            belongs = np.zeros((operator.values, operator.domain))
            belongs[np.arange(operator.values), operator.symbol_codes] = 1.0
            counts = np.moveaxis(np.moveaxis(counts, axis, -1) @ belongs, -1, axis)
    return np.asarray(counts)


def _papers(
    source: PerturbedSource, columns: Sequence[str], moments: Moments, weight: Hashable
) -> FloatArray:
    """The condition P of a cell are the question's quasi conditions and the cell's quasi keys."""
    operators = []
    for column in columns:
        operator = source.operator(column)
        if not isinstance(operator, Decoy):
            raise QueryError(
                f"The estimator 'paper' is for decoys; column {column!r} was published by another "
                "operator. Use 'inverse'."
            )
        operators.append(operator)
    if len({operator.groups for operator in operators}) != 1:
        raise QueryError(
            "The estimator 'paper' needs one group size for all sensitive columns. Use 'inverse'."
        )
    sizes = [operator.values for operator in operators]
    _check_size("paper", moments.classes, sizes)
    inside = states_of(moments.table(weight, sizes))
    without = states_of(_everybody(source, columns, sizes)) - inside
    observed = np.concatenate([without, inside], axis=-1).reshape(-1, 2 * inside.shape[-1])
    counts = [
        reconstruct(observed[low : low + _AT_ONCE], operators[0].groups)[:, -1]
        for low in range(0, len(observed), _AT_ONCE)
    ]
    return np.concatenate([np.empty(0), *counts]).reshape(inside.shape[:-1])


def _everybody(source: Source, columns: Sequence[str], sizes: Sequence[int]) -> FloatArray:
    """The published counts of the whole release, as the counts of one class."""
    records = source.session.record_columns()
    keys = [named(records[column], f"r{place}") for place, column in enumerate(columns)]
    lines = source.session.sums(RecordSums(keys, [named(count(), "n")], []))
    shown = [
        codes_of(lines.column(f"r{place}"), domain)
        for place, domain in enumerate(source.domains(columns))
    ]
    found = np.zeros(tuple(sizes))
    np.add.at(found, tuple(shown), np.asarray(lines.column("n").to_numpy(), np.float64))
    return found[None]


def _check_size(name: str, classes: int, sizes: Sequence[int]) -> None:
    cells = classes * int(np.prod(sizes))
    if cells > MOST_ITERATED:
        raise QueryError(
            f"The estimator {name!r} would iterate over {cells:,} cells; at most "
            f"{MOST_ITERATED:,} are tried. Group by fewer columns, or use 'inverse'."
        )


def check_adding_up(question: Question, iterated: str | None) -> None:
    """What a reconstructed table has: counts, and sums unless an estimator iterates over counts."""
    for aggregate in question.aggregates:
        if isinstance(aggregate, Count) and not aggregate.arguments:
            continue
        if iterated is not None:
            _refuse(f"{aggregate.text}: {iterated!r} reconstructs counts", "Ask for COUNT(*)")
        if not isinstance(aggregate, Sum):
            _refuse(
                f"{aggregate.text}: only COUNT(*) and SUM add up over groups",
                "Ask for COUNT(*) and SUM",
            )


def check_separable(question: Question) -> None:
    """Quasi conditions choose the groups whose histogram is made; sensitive ones read it."""
    for call in (call for aggregate in question.aggregates for call in aggregate.calls()):
        for term in call.filter:
            if term.quasi or not term.sensitive:
                _refuse(
                    f"the FILTER {term.text}: it has to use sensitive columns alone",
                    "Move it into WHERE",
                )
    for term in question.where:
        if term.is_mixed:
            _refuse(
                f"the condition {term.text}: it mixes quasi and sensitive columns",
                "Join conditions on either by AND",
            )
    for key in question.keys:
        if key.is_mixed:
            _refuse(
                f"the key {key.text}: it mixes quasi and sensitive columns",
                "Group by columns of either",
            )


def _refuse(what: str, instead: str) -> NoReturn:
    raise QueryError(
        f"A consistent answer is not possible for {what}. {instead}, or leave `consistent` out."
    )
