"""What a release looks like inside: buckets, operator, or how wide ranges and sets are.

Everything here stands in the release; the raw table is not looked at.
"""

from __future__ import annotations

import warnings
from functools import singledispatch

import numpy as np

from sfumato.columns import Value, value_to_json
from sfumato.errors import WeakPromiseWarning
from sfumato.evidence.penalty import release_penalty
from sfumato.evidence.report.expected import published_counts
from sfumato.operators import Operator, Parts
from sfumato.pages import Chart
from sfumato.pages.charts import bucket_sizes, heat_map, penalty_by_column
from sfumato.release import BucketedRelease, GeneralizedRelease, Release
from sfumato.results import untitled

MOST_SHOWN = 60  # values a side of the heat map


def label(value: Value) -> str:
    """A value as a chart names it.

    >>> label("flu"), label(None), label(3)
    ('flu', '(missing)', '3')
    """
    return "(missing)" if value is None else str(value_to_json(value))


@singledispatch
def shape_charts(release: Release) -> list[Chart]:
    """The charts that fit the kind of release: its operators, for most."""
    return [
        _operator_chart(release, column, operator) for column, operator in release.operators.items()
    ]


@shape_charts.register
def _bucket_charts(release: BucketedRelease) -> list[Chart]:
    caption = "Values are listed per bucket; who in a bucket has which is not told."
    return [bucket_sizes(sorted(release.sizes), caption)]


@shape_charts.register
def _range_charts(release: GeneralizedRelease) -> list[Chart]:
    penalty = release_penalty(release)
    caption = (
        "NCP of every quasi-identifier: 0 % is an exact value, 100 % the whole domain. GCP is "
        "their mean."
    )
    return [penalty_by_column(penalty.columns, penalty.whole, caption)]


def _operator_chart(release: Release, column: str, operator: Operator) -> Chart:
    names = [label(value) for value in release.domain(column).to_pylist()]
    if isinstance(operator, Parts):
        return _parts_chart(column, names, operator)
    if operator.needs_counts:
        operator = operator.observed(published_counts(release, column, operator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)  # what it warns of stands in the text
        matrix = operator.matrix()
    shown = np.unique(np.linspace(0, len(names) - 1, min(MOST_SHOWN, len(names))).astype(int))
    cells = [(names[x], names[y], float(matrix[x, y])) for x in shown for y in shown]
    off = matrix - np.diag(np.diag(matrix))
    most = off.argmax(axis=1)
    rows = [
        (names[x], float(matrix[x, x]), names[most[x]], float(off[x, most[x]]))
        for x in range(len(names))
    ]
    table = untitled(
        ("true value", "stays", "likeliest other", "its chance"),
        rows,
        percent=frozenset(("stays", "its chance")),
    )
    caption = f"How a true {column} turns into a published one. Rows add up to 100 %."
    if len(shown) < len(names):
        caption += f" {len(shown)} of {len(names):,} values are drawn."
    return heat_map(
        cells, ("true value", "published value"), f"The operator of {column}", caption, table,
        name=f"operator-{_slug(release, column)}",
    )  # fmt: skip


def _parts_chart(column: str, names: list[str], operator: Parts) -> Chart:
    cells, rows = [], []
    for number, part in enumerate(operator.parts):
        kept = part.operator.retentions
        stays = dict(zip(part.codes, kept + (1 - kept) / len(kept), strict=True))
        cells += [
            (str(number), name, float(stays.get(code, 0.0))) for code, name in enumerate(names)
        ]
        rows.append(
            (number, len(part.codes), float(min(stays.values())), float(max(stays.values())))
        )
    table = untitled(
        ("part", "values", "least chance to stay", "largest"),
        rows,
        percent=frozenset(("least chance to stay", "largest")),
    )
    caption = (
        f"The sub-tables of {column}: which values each can show, and how often a value stays. A "
        "record's part rules out every value that its row leaves white."
    )
    return heat_map(
        cells, ("part", "value"), f"The sub-tables of {column}", caption, table, name="parts"
    )


def _slug(release: Release, column: str) -> str:
    return str([column.name for column in release.columns].index(column))
