"""A release's answers to thousands of count questions: what `query` says, in one pass of numpy.

Every kind has an *answerer*: from the records that a condition matches to estimates and standard
errors for the sets of values asked for. Equal to `sf.open(release).sql(question.sql())`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import BoolArray, IntArray
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.operators import Decoy, Operator, Parts, Uniform, operator_from_json
from sfumato.operators.base import FloatArray
from sfumato.queries.bucket_table import bucket_table_of
from sfumato.queries.decoys import completed
from sfumato.queries.shrunk import Moments, shrunk
from sfumato.release import Release
from sfumato.workloads.questions import Workload
from sfumato.workloads.shown import ShownQuasi, stored

Matched = tuple[IntArray, FloatArray | None]  # records, and how far each satisfies the conditions
Asked = Sequence[IntArray]  # for each question, the codes of its values
Answerer = Callable[[Matched, Asked], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class WorkloadAnswers:
    """Question by question; not a number where the release has no answer or no error bar."""

    estimates: FloatArray
    stderrs: FloatArray


def release_answers(workload: Workload, release: str | Path | Release) -> WorkloadAnswers:
    """Answer every question from the release alone, with the kind's default estimator.

    Quasi values that a release merged are taken as evenly filled, like the ranges and sets of a
    generalized release: such answers have no error bar where a condition cuts through them.
    """
    opened = release if isinstance(release, Release) else Release(release)
    estimates, stderrs = np.zeros(len(workload)), np.zeros(len(workload))
    quasi = ShownQuasi(opened)
    answerers: dict[str, Answerer] = {}
    places: dict[str, dict[object, int]] = {}
    for together in workload.by_conditions().values():
        first = workload.questions[together[0]]
        matched = quasi.matching(first)
        for column in {workload.questions[place].column for place in together}:
            if column not in answerers:
                domain = _domain(opened, column)
                places[column] = {v: k for k, v in enumerate(domain.to_pylist())}
                answerers[column] = _answerer(opened, column, domain)
            own = [place for place in together if workload.questions[place].column == column]
            known = places[column]
            try:
                asked = [
                    np.array([known[value] for value in workload.questions[place].values], np.int64)
                    for place in own
                ]
            except KeyError as error:
                raise UsageError(
                    f"The workload asks for {error.args[0]!r}, which column {column!r} of the "
                    "release does not have. Make the workload from the table that was published."
                ) from None
            estimates[own], stderrs[own] = answerers[column](matched, asked)
            if matched[1] is not None or (opened.kind == "generalized" and first.conditions):
                stderrs[own] = np.nan
    return WorkloadAnswers(estimates, stderrs)


def _domain(release: Release, column: str) -> pa.Array:
    if release.column(column).role != "sensitive":
        raise UsageError(f"The workload counts values of {column!r}, which is not sensitive.")
    return release.domain(column)


def _answerer(release: Release, column: str, domain: pa.Array) -> Answerer:
    if release.kind == "bucketed":
        return _bucketed(release)
    shown = pc.index_in(stored(release, column), value_set=domain)
    codes = np.asarray(shown.to_numpy(), np.int64)
    if release.kind == "generalized":
        return _counted(codes, len(domain), exact=True)
    if release.kind == "synthetic":
        return _counted(codes, len(domain), exact=False)
    operator = operator_from_json(release.plan["operators"][column])
    if isinstance(operator, Parts):
        name = release.plan.get("part_columns", {}).get(column, "part")
        parts = np.asarray(stored(release, name).to_numpy(), np.int64)
        return _parts(operator.lookup[parts, codes], operator)
    if isinstance(operator, Decoy):
        with warnings.catch_warnings():  # told by whoever asks one question, not by thousands
            warnings.simplefilter("ignore", WeakPromiseWarning)
            whole = np.bincount(codes, minlength=len(domain))
            return _decoys(codes, completed(operator, whole, domain, column))
    if release.scales is not None:
        part = np.asarray(stored(release, "part").to_numpy(), np.int64)
        return _sampled(codes, operator, np.array(release.scales)[part], part > 0)
    return _perturbed(codes, operator)


def _shown_counts(matched: Matched, codes: IntArray, size: int) -> FloatArray:
    rows, weights = matched
    return np.bincount(codes[rows], weights, minlength=size).astype(np.float64)


def _counted(codes: IntArray, size: int, *, exact: bool) -> Answerer:
    """Records count as what they show; the sensitive column of a generalized release is true."""

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        counts = _shown_counts(matched, codes, size)
        estimates = np.array([counts[values].sum() for values in asked])
        return estimates, np.full(len(asked), 0.0 if exact else np.nan)

    return answer


def _least_variance(operator: Operator, inside: int) -> float:
    """The smallest Var(z | x) of any true value, as `queries.virtual` takes it."""
    if not isinstance(operator, Uniform):
        return 0.0
    p, m = float(operator.retention), operator.values
    chances = [k * (1 - p) / m for k in (inside, m - inside)]
    return min(c * (1 - c) for c in chances) / p**2


def _perturbed(codes: IntArray, operator: Operator) -> Answerer:
    weights = operator.weights()

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        counts = _shown_counts(matched, codes, operator.values)
        number = float(counts.sum())
        z = np.stack([weights[:, values].sum(axis=1) for values in asked])
        least = [number * _least_variance(operator, len(values)) for values in asked]
        variance = np.maximum((z**2 - z) @ counts, least)
        return z @ counts, np.sqrt(np.maximum(variance, 0.0))

    return answer


def _parts(symbols: IntArray, operator: Parts) -> Answerer:
    blocks = []
    for start, part in zip(operator.starts.tolist(), operator.parts, strict=True):
        place = np.full(operator.domain, -1, np.int64)
        place[list(part.codes)] = np.arange(len(part.codes))
        blocks.append((slice(start, start + len(part.codes)), part, place, part.operator.weights()))

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        counts = _shown_counts(matched, symbols, operator.values)
        estimates, variances = np.zeros(len(asked)), np.zeros(len(asked))
        least = np.zeros(len(asked))
        for block, part, place, weights in blocks:
            own = counts[block]
            for number, values in enumerate(asked):
                inside = place[values][place[values] >= 0]
                if len(inside):
                    z = weights[:, inside].sum(axis=1)
                    estimates[number] += z @ own
                    variances[number] += (z**2 - z) @ own
                    least[number] += own.sum() * _least_variance(part.operator, len(inside))
        return estimates, np.sqrt(np.maximum(np.maximum(variances, least), 0.0))

    return answer


def _sampled(codes: IntArray, operator: Operator, scales: FloatArray, drawn: BoolArray) -> Answerer:
    """Copies of perturbed samples: their draws count as often as they were copied."""
    weights = operator.weights()
    largest, m = float(np.abs(weights).max()), operator.values

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        rows, _ = matched
        counts = _shown_counts(matched, codes, m)
        scaled = np.bincount(codes[rows], scales[rows], minlength=m)
        of_samples = np.bincount(codes[rows], scales[rows] * drawn[rows], minlength=m)
        n, s = float(counts.sum()), float(scaled.sum())
        if n == 0 or s == 0:
            return np.zeros(len(asked)), np.zeros(len(asked))
        unseen = 2 * largest**2 * s * s / (n * n) * (1 - n / s)
        z = np.stack([weights[:, values].sum(axis=1) for values in asked])
        variance = (z**2 - z) @ scaled + z @ of_samples + unseen
        least = [n * _least_variance(operator, len(values)) for values in asked]
        return z @ counts, np.sqrt(np.maximum(np.maximum(variance, least), 0.0))

    return answer


def _decoys(codes: IntArray, operator: Decoy) -> Answerer:
    weights = operator.columns()
    held, rate = np.array(operator.counts, np.float64), operator.decoy_rates
    rows = float(held.sum())

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        counts = _shown_counts(matched, codes, operator.values)
        number = float(counts.sum())
        estimates, variances = np.zeros(len(asked)), np.zeros(len(asked))
        for place, values in enumerate(asked):
            z = weights[:, values].sum(axis=1)
            estimates[place] = z @ counts if number else 0.0
            if len(values) == 1:
                variances[place] = _decoy_variance(
                    operator.groups,
                    rows,
                    held[values[0]],
                    rate[values[0]],
                    number,
                    estimates[place],
                )
            else:
                variances[place] = (z**2 - z) @ counts
        return estimates, np.sqrt(np.maximum(variances, 0.0))

    return answer


def _decoy_variance(
    groups: int, rows: float, held: float, rate: float, number: float, estimate: float
) -> float:
    """`queries.decoys.decoy_variance` for a count."""
    own = min(max(estimate, 0.0), number)
    others, without = number - own, rows - held
    tilt = (groups - 1) * rows / (groups * without**2) * others
    shown = own / groups + others * rate
    drawn = own * (groups - 1) / groups**2 + others * rate * (1 - rate)
    moved = (2 * tilt * shown - tilt**2 * held) * (1 - 1 / groups)
    spread = rate * (1 / groups - rate) * others**2 / without
    return float((drawn - moved - spread) / (1 / groups - rate) ** 2)


def _bucketed(release: Release) -> Answerer:
    from scipy.sparse import csr_array

    table = bucket_table_of(release)
    buckets = np.asarray(stored(release, "bucket").to_numpy(), np.int64)
    listed = np.asarray(table.listed.column("bucket").to_numpy(), np.int64)
    size = int(max(buckets.max(initial=0), listed.max(initial=0))) + 1
    columns = table.listed.column("code").to_numpy(), table.listed.column("share").to_numpy()
    shares = csr_array((columns[1], (listed, columns[0])), shape=(size, len(table.domain)))
    beside = csr_array(shares.T)

    def answer(matched: Matched, asked: Asked) -> tuple[FloatArray, FloatArray]:
        rows, _ = matched
        if not len(rows):
            return np.zeros(len(asked)), np.zeros(len(asked))
        here = np.bincount(buckets[rows], minlength=size).astype(np.float64)
        found = shrunk(table.law, Moments.count(float(len(rows)), beside @ here))
        estimates = [found.mean[values].sum() for values in asked]
        variances = [found.covariance[np.ix_(values, values)].sum() for values in asked]
        return np.array(estimates), np.sqrt(np.maximum(variances, 0.0))

    return answer
