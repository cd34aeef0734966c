"""The one evaluator: the engine sums, numpy estimates, for every kind of release."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.columns import Range
from sfumato.draws import BoolArray
from sfumato.limits import check_rows
from sfumato.operators.estimator import Estimated, Forms, Moments, Totals
from sfumato.queries.aggregates import Aggregate
from sfumato.queries.answer import Answer
from sfumato.queries.bending import furthest
from sfumato.queries.bucketed import BucketedSource
from sfumato.queries.classes import ByValue, LineClasses, different
from sfumato.queries.grid import grid
from sfumato.queries.ordered import add_ordered, check_number
from sfumato.queries.perturbed_source import PerturbedSource
from sfumato.queries.question import Question
from sfumato.queries.question_plan import Planned, QuestionPlan
from sfumato.queries.ranges import GeneralizedSource
from sfumato.queries.session import Session, session_of
from sfumato.queries.sources import QuestionSource, Request
from sfumato.queries.statements import answer as answer_statement
from sfumato.queries.statements import answer_columns
from sfumato.queries.statements import grid as grid_statement
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
    evaluation = Evaluation(source, question, request)
    tables = {"estimates": _estimates(source, question, request)}
    if request.keys and question.keys:
        domains = grid(release, question)
        tables["filled"] = session.run(
            grid_statement(question, "estimates", list(domains)), {**tables, **domains}
        )
    last = "filled" if "filled" in tables else "estimates"
    if question.is_plain and not question.keys:
        own_names, given_names = zip(*answer_columns(question), strict=True)
        table = pa.table([tables[last].column(name) for name in own_names], list(given_names))
    else:
        table = session.run(answer_statement(question, last), {last: tables[last]})
    names = [output.name for output in question.outputs if output.of == "aggregate"]
    check_rows(len(table))
    table = source.finish(question, table, names)
    counts = frozenset(
        output.name
        for output in question.outputs
        if output.of == "aggregate" and question.aggregates[output.index].counts
    )
    chosen = question.limit is not None and any(
        column.name.startswith("a")
        for ordering in question.order
        for column in ordering.tree.find_all(exp.Column)
    )
    note = _LUCK if chosen and question.sensitive and not source.holds_largest else ""
    return Answer(table, tuple(names), request.confidence, evaluation.estimator, counts, note)


def _estimates(source: QuestionSource, question: Question, request: Request) -> pa.Table:
    """Keys and estimates of one grouping."""

    def evaluate(asked: Question) -> pa.Table:
        return Evaluation(source, asked, request).table()

    if any(aggregate.is_ordered for aggregate in question.aggregates):
        return add_ordered(question, source, evaluate, request.quantile)
    return evaluate(question)


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


class Evaluation:
    """One question, from its plan to the table of its estimates."""

    def __init__(self, source: QuestionSource, question: Question, request: Request) -> None:
        self._source, self._question, self._request = source, question, request
        self._name = request.estimator or (source.estimators or ("",))[0]

    @property
    def estimator(self) -> str:
        """The name of what estimates; empty where all is counted."""
        return self._name if self._question.sensitive else ""

    def table(self) -> pa.Table:
        """Keys `k…` and, for each aggregate, `a…` with error and interval: one line per row."""
        question, source = self._question, self._source
        columns = question.sensitive
        engine_answer = EngineAnswer.of(source, question)
        plan, lines, classes = engine_answer.plan, engine_answer.lines, engine_answer.classes
        moments, cells = engine_answer.moments, engine_answer.cells
        if cells is not None:
            estimated = source.estimator(columns, self._name)(moments)
            forms = classes.forms(cells)
            reached = estimated.reached(forms)
        else:
            estimated = None
            forms = Forms.of(classes.profile, np.zeros((1, 1), np.int64), np.arange(2))
            reached = np.ones(forms.pairs, np.bool_)
        forms, rows = self._rows(plan, lines, classes, cells, forms, reached)
        for index, (aggregate, planned) in enumerate(
            zip(question.aggregates, plan.sums, strict=True)
        ):
            totals = self._totals(planned, moments, forms, cells, estimated)
            for suffix, array in self._columns(aggregate, totals).items():
                rows[f"a{index}{suffix}"] = array
        return pa.table(rows)

    def _rows(
        self,
        plan: QuestionPlan,
        lines: pa.Table,
        classes: LineClasses,
        cells: ByValue | None,
        forms: Forms,
        reached: BoolArray,
    ) -> tuple[Forms, dict[str, pa.Array | pa.ChunkedArray]]:
        """The answer's row of every pair, and the keys of every row."""
        if not self._question.keys:
            return forms.placed(np.where(reached, 0, -1), 1), {}
        key_of_form = np.zeros(1, np.int64) if cells is None else cells.forms[2]
        many = 1 if cells is None else max(len(cells.first_of_key), 1)
        combined = classes.key[forms.pair_class] * many + key_of_form[forms.pair_form]
        distinct, row = different(combined[reached])
        placed = np.full(forms.pairs, -1)
        placed[reached] = row
        keys: dict[str, pa.Array | pa.ChunkedArray] = {}
        for index, key in enumerate(self._question.keys):
            if not key.sensitive:
                chosen = classes.first_of_key[distinct // many]
                keys[f"k{index}"] = lines.column(f"k{index}").take(pa.array(chosen))
            else:
                assert cells is not None
                chosen = cells.first_of_key[distinct % many]
                keys[f"k{index}"] = cells.table.column(f"k{index}").take(pa.array(chosen))
        return forms.placed(placed, len(distinct)), keys

    def _totals(
        self,
        planned: Sequence[Planned],
        moments: Moments,
        forms: Forms,
        cells: ByValue | None,
        estimated: Estimated | None,
    ) -> Totals:
        """The statistics of an aggregate: what is estimated, beside what is counted."""
        apart = self._source.counts_exactly or cells is None
        is_exact = [statistic.is_exact and apart for statistic in planned]
        weights = [one.weight for one, exact in zip(planned, is_exact, strict=True) if exact]
        counted = self._source.counted(weights, moments, forms) if weights else None
        if counted is not None and all(is_exact):
            return counted
        assert cells is not None
        assert estimated is not None
        asked = [one for one, exact in zip(planned, is_exact, strict=True) if not exact]
        estimates = estimated.read(forms, [cells.statistic(statistic) for statistic in asked])
        return estimates if counted is None else estimates.beside(counted, is_exact)

    def _columns(self, aggregate: Aggregate, totals: Totals) -> dict[str, pa.Array]:
        """Value, standard error and interval of an aggregate."""
        with np.errstate(all="ignore"):
            if aggregate.bends:
                value, stderr, low, high = furthest(aggregate, totals, self._request.quantile)
                defined = np.isfinite(value)
            else:
                value = aggregate.combine(*totals.values)
                defined = aggregate.known(totals.values, np.asarray(totals.present.all(axis=0)))
                gradient = [np.where(defined, s, 0.0) for s in aggregate.slopes(totals.values)]
                stderr = np.sqrt(np.maximum(totals.variance(gradient), 0.0))
                ends = totals.ratio_interval if aggregate.is_quotient else totals.interval
                low, high = ends(value, stderr, self._request.quantile, gradient)
                if self._name != "inverse":  # a quotient that is shown is one that can be
                    value = np.fmin(np.fmax(value, low), high)
        columns = {"": value, "_stderr": stderr, "_low": low, "_high": high}
        return {
            end: pa.array(array, pa.float64(), mask=~defined, from_pandas=False)
            for end, array in columns.items()
        }


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
