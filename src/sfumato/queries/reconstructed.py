"""Answers from reconstructed tables: counts that can be, none negative, adding up to what is known.

For each group of the quasi keys the joint histogram of the sensitive columns is estimated whole:
the nearest point of {n ≥ 0, Σ n = n_A} to the estimate, n_A being known exactly (`consistent`), of
all groups such that they add up to what their condition is answered with as a whole; the likeliest
one (`em`, thesis, Section 3.3); or, for decoys, the paper's iteration (`paper`). Conditions and
keys on sensitive columns then read that table. The standard error stays that of the estimate.
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
from sfumato.operators.reconstruct import most_likely, nearest_parts, nearest_possible
from sfumato.queries.aggregates import Count
from sfumato.queries.question import Question
from sfumato.queries.question_plan import MOST_CELLS
from sfumato.queries.sources import PerturbedSource, Source, codes_of
from sfumato.queries.statements import RecordSums, count, named

MOST_ITERATED = 2_000_000
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
    """By weight: counts by (class, value …) from the estimator `name`.

    `adding_up`: those of the classes are parts of what the whole condition is answered with.
    """
    weights = [pair[0] for pair in moments.sums if len(pair) == 1]
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
    return {weight: _nearest(estimated, whole, weight, moments.total(weight)) for weight in weights}


def _nearest(
    estimated: Estimated, whole: Estimated | None, weight: Hashable, totals: FloatArray
) -> FloatArray:
    """Every class by itself, or the classes as parts of the whole."""
    shape = estimated.histogram(weight).shape
    estimates = estimated.histogram(weight).reshape(shape[0], int(np.prod(shape[1:])))
    if whole is None:
        return nearest_possible(estimates, totals).reshape(shape)
    together = whole.histogram(weight).reshape(1, estimates.shape[1])
    sums = nearest_possible(together, totals.sum(keepdims=True))[0]
    return nearest_parts(estimates, totals, sums).reshape(shape)


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


def check_counts(question: Question) -> None:
    """A reconstructed table has counts and nothing else."""
    for aggregate in question.aggregates:
        if not isinstance(aggregate, Count) or aggregate.arguments:
            _refuse(
                f"{aggregate.text}: only COUNT(*) can be made consistent, because counts are never "
                "negative, and what people add to a sum has no bound that the release tells",
                "Ask for COUNT(*)",
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
