"""The one evaluator: the engine sums, numpy estimates, for every kind of release."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.columns import Range
from sfumato.draws import BoolArray
from sfumato.limits import check_rows
from sfumato.operators.estimator import Estimated, Forms, Moments, Totals
from sfumato.queries.aggregates import Aggregate
from sfumato.queries.answer import Answer, has_error
from sfumato.queries.bucketed import BucketedSource
from sfumato.queries.classes import ByValue, LineClasses, different
from sfumato.queries.ordered import check_number, in_order
from sfumato.queries.perturbed_source import PerturbedSource
from sfumato.queries.question import ESTIMATED, Question
from sfumato.queries.question_plan import Planned, QuestionPlan
from sfumato.queries.ranges import GeneralizedSource
from sfumato.queries.session import Session, session_of
from sfumato.queries.sources import QuestionSource, Request
from sfumato.queries.statements import answer as answer_statement
from sfumato.queries.statements import answer_columns
from sfumato.release import BucketedRelease, GeneralizedRelease, PerturbedRelease, Release

_LUCK = (
    "Rows were chosen by what was estimated: the intervals of the largest of many hold somewhat "
    "less often than is said."
)
SOURCES: dict[str, type[QuestionSource]] = {
    PerturbedRelease.kind: PerturbedSource,
    BucketedRelease.kind: BucketedSource,
    GeneralizedRelease.kind: GeneralizedSource,
}


def answer(release: Release, question: Question, request: Request) -> Answer:
    """Answer a question from a release of any kind."""
    session = session_of(release, request.threads)
    source = source_of(release, session)
    source.check(question, request)
    table = estimates(source, question, request)
    if question.is_plain and not question.keys:
        inner_names, given_names = zip(*answer_columns(question), strict=True)
        table = pa.table([table.column(name) for name in inner_names], list(given_names))
    else:
        table = session.run(answer_statement(question, "estimates"), {"estimates": table})
    shown = {
        output.name: question.aggregates[output.index]
        for output in question.outputs
        if output.of == "aggregate"
    }
    check_rows(len(table))
    told = table.num_columns - len(shown)
    table, untold = table.select(range(told)), table.columns[told:]
    table = source.finish(question, table, list(shown))
    counts = frozenset(name for name, aggregate in shown.items() if aggregate.counts)
    chosen = question.limit is not None and any(
        column.name.startswith("a")
        for ordering in question.order
        for column in ordering.tree.find_all(exp.Column)
    )
    uncertain = any(has_error(table, name) for name in shown)
    notes = [_LUCK] if chosen and uncertain and not source.holds_largest else []
    notes += _untold(dict(zip(shown, untold, strict=True)), len(table))
    name = _estimator(source, request) if question.sensitive else ""
    return Answer(table, tuple(shown), request.confidence, name, counts, " ".join(notes))


def _untold(columns: dict[str, pa.ChunkedArray], rows: int) -> list[str]:
    """Where aggregates are missing although somebody may be there."""
    many = {name: int(pc.sum(flags).as_py() or 0) for name, flags in columns.items()}
    texts = [
        f"{name} is empty" + (f" in {number:,} of {rows:,} rows" if rows > 1 else "")
        for name, number in many.items()
        if number
    ]
    reason = "as far as the release tells, there may be too few people."
    return [f"{', '.join(texts)}: {reason}"] if texts else []


def _estimator(source: QuestionSource, request: Request) -> str:
    return request.estimator or source.estimators[0]


def source_of(release: Release, session: Session) -> QuestionSource:
    """A release as the evaluator sees it, by the class of its kind."""
    return SOURCES[release.kind](release, session)


@dataclass(frozen=True, eq=False)
class EngineAnswer:
    """What the engine told of a question: lines, their classes and moments, and the values."""

    plan: QuestionPlan
    lines: pa.Table
    classes: LineClasses
    moments: Moments
    cells: ByValue | None  # None where no sensitive column takes part

    @classmethod
    def of(cls, source: QuestionSource, question: Question) -> EngineAnswer:
        """Sum the records of a release as a question needs them."""
        columns = question.sensitive
        plan = QuestionPlan(question, source.session, columns, source.shown(columns))
        domains = source.domains(columns)
        _check_numbers(plan, domains)
        lines = source.lines(plan)
        classes = LineClasses.read(lines, plan)
        check_rows(len(classes.first_of_key))
        sums = plan.moments_of(lines)
        if not columns:
            return cls(plan, lines, classes, Moments(classes.number, classes.of, (), sums), None)
        shown = {name: lines.column(short) for name, short in plan.shown.items()}
        moments = source.read(columns, shown).moments(classes.number, classes.of, sums)
        cells = plan.read_cells(domains, classes.profiles)
        return cls(
            plan,
            lines,
            classes,
            replace(moments, pool=classes.key, extremes=_extremes(source.release, plan)),
            cells,
        )


def estimates(source: QuestionSource, question: Question, request: Request) -> pa.Table:
    """Keys `k…` and, for each aggregate, `a…` with error and interval: one line per row."""
    if any(aggregate.is_ordered for aggregate in question.aggregates):
        evaluate = partial(estimates, source, request=request)
        return in_order(question, source, evaluate, request.quantile)
    name, summed = _estimator(source, request), EngineAnswer.of(source, question)
    cells, estimated = summed.cells, None
    if cells is not None:
        estimated = source.estimator(question.sensitive, name)(summed.moments)
        forms = summed.classes.forms(cells)
        reached = estimated.reached(forms)
    else:
        forms = Forms.of(summed.classes.profile, np.zeros((1, 1), np.int64), np.arange(2))
        reached = np.ones(forms.pairs, np.bool_)
    forms, rows = _rows(question, summed, forms, reached)
    for index, (aggregate, planned) in enumerate(
        zip(question.aggregates, summed.plan.sums, strict=True)
    ):
        totals = _totals(source, summed, planned, forms, estimated)
        cut = name != "inverse"  # a quotient that is shown is one that can be
        columns = _columns(aggregate, totals, request.quantile, cut)
        rows |= {f"a{index}{end}": array for end, array in zip(ESTIMATED, columns, strict=True)}
    return pa.table(rows)


def _rows(
    question: Question, summed: EngineAnswer, forms: Forms, reached: BoolArray
) -> tuple[Forms, dict[str, pa.Array | pa.ChunkedArray]]:
    """The answer's row of every pair, and the keys of every row."""
    if not question.keys:
        return forms.placed(np.where(reached, 0, -1), 1), {}
    cells, classes = summed.cells, summed.classes
    key_of_form = np.zeros(1, np.int64) if cells is None else cells.forms[2]
    many = 1 if cells is None else max(len(cells.first_of_key), 1)
    combined = classes.key[forms.pair_class] * many + key_of_form[forms.pair_form]
    distinct, row = different(combined[reached])
    placed = np.full(forms.pairs, -1)
    placed[reached] = row
    keys: dict[str, pa.Array | pa.ChunkedArray] = {}
    for index, key in enumerate(question.keys):
        table, chosen = summed.lines, classes.first_of_key[distinct // many]
        if key.sensitive:
            assert cells is not None
            table, chosen = cells.table, cells.first_of_key[distinct % many]
        keys[f"k{index}"] = table.column(f"k{index}").take(pa.array(chosen))
    return forms.placed(placed, len(distinct)), keys


def _totals(
    source: QuestionSource,
    summed: EngineAnswer,
    planned: Sequence[Planned],
    forms: Forms,
    estimated: Estimated | None,
) -> Totals:
    """The statistics of an aggregate: what is estimated, beside what is counted."""
    cells = summed.cells
    apart = source.counts_exactly or cells is None
    is_exact = [statistic.is_exact and apart for statistic in planned]
    weights = [one.weight for one, exact in zip(planned, is_exact, strict=True) if exact]
    counted = source.counted(weights, summed.moments, forms) if weights else None
    if counted is not None and all(is_exact):
        return counted
    assert cells is not None
    assert estimated is not None
    asked = [one for one, exact in zip(planned, is_exact, strict=True) if not exact]
    totals = estimated.read(forms, [cells.statistic(statistic) for statistic in asked])
    return totals if counted is None else totals.beside(counted, is_exact)


def _columns(aggregate: Aggregate, totals: Totals, quantile: float, cut: bool) -> list[pa.Array]:
    """Value, standard error and ends of the interval of an aggregate, and where it is untold."""
    with np.errstate(all="ignore"):
        value = aggregate.combine(*totals.values)
        defined = aggregate.known(totals.values, np.asarray(totals.present.all(axis=0)))
        gradient = [np.where(defined, s, 0.0) for s in aggregate.slopes(totals.values)]
        stderr = np.sqrt(np.maximum(totals.variance(gradient), 0.0))
        ends = totals.ratio_interval if aggregate.is_quotient else totals.interval
        low, high = ends(value, stderr, quantile, gradient)
        if cut:
            value = np.fmin(np.fmax(value, low), high)
        low, high = (low, high) if aggregate.factor > 0 else (high, low)
        value, low, high = (aggregate.factor * numbers for numbers in (value, low, high))
        stderr = abs(aggregate.factor) * stderr
    # what SQL divides by is noisy: a sum that is counted, or to which nobody adds, is its own NULL
    noisy = (np.diagonal(totals.noise)[:, int(aggregate.is_quotient) :] > 0).any(axis=1)
    untold = ~defined & (totals.present & np.isfinite(totals.values)).all(axis=0) & noisy
    return [
        *(
            pa.array(array, pa.float64(), mask=~defined, from_pandas=False)
            for array in (value, stderr, low, high)
        ),
        pa.array(untold.astype(np.float64)),
    ]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _check_numbers(plan: QuestionPlan, domains: Sequence[pa.Array]) -> None:
    """SUM and AVG need numbers; DuckDB knows the type of every expression."""
    schema = plan.session.schema
    arguments = {
        argument.text: (call, argument)
        for aggregate in plan.question.aggregates
        for call in aggregate.calls
        for argument in call.arguments
        if call.rule.needs_number
        # what is a number in the file is one in DuckDB
        if argument.column not in schema.names or not _is_number(schema.field(argument.column).type)
    }
    if not arguments:
        return
    kinds = plan.types_of([argument for _, argument in arguments.values()], domains)
    for (text, (call, _)), kind in zip(arguments.items(), kinds, strict=True):
        check_number(call.rule.name, text, kind)


def _extremes(release: Release, plan: QuestionPlan) -> dict[Hashable, tuple[float, float]]:
    """What a weight that is a column can be, where the manifest says it."""
    extremes: dict[Hashable, tuple[float, float]] = {}
    for weight in (weights[0] for weights in plan.weights() if len(weights) == 1):
        name = weight.terms[weight.factors[0]].column if len(weight.factors) == 1 else None
        domain = release.column(name).domain if name is not None else None
        if isinstance(domain, Range) and domain.low is not None and domain.high is not None:
            extremes[weight] = float(domain.low), float(domain.high)
    return extremes
