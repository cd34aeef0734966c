"""`estimator="em"`: every cell of the asked table by maximum likelihood (thesis, Section 3.3)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.operators import Operator, Parts, operator_from_json
from sfumato.operators.base import FloatArray
from sfumato.operators.reconstruct import most_likely
from sfumato.queries.question import Question
from sfumato.queries.rewrite import over
from sfumato.queries.session import Session, quoted
from sfumato.queries.sums import RecordSums

if TYPE_CHECKING:
    from sfumato.release import Release

MOST_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class _Shown:
    """A sensitive column: its operator, and where each published symbol stands in it."""

    operator: Operator
    domain: pa.Array
    symbols: pa.Table  # `value`, `part` where there are parts, `place`
    keys: dict[str, str]  # column of the records -> column of `symbols`

    def by_value(self, counts: FloatArray, axis: int) -> FloatArray:
        """Sums over the parts of each value."""
        if not isinstance(self.operator, Parts):
            return counts
        belongs = np.zeros((self.operator.values, self.operator.domain))
        belongs[np.arange(self.operator.values), self.operator.symbol_codes] = 1.0
        return np.asarray(np.moveaxis(np.moveaxis(counts, axis, -1) @ belongs, -1, axis))


def likely_cells(release: Release, question: Question, session: Session) -> pa.Table:
    """Quasi keys `q…`, sensitive values `x…` and the most likely count `n` of each combination.

    One constrained maximum likelihood for each group of the quasi keys, over the joint histogram
    of the sensitive columns that the question uses.
    """
    shown = [_shown(release, session, column) for column in question.sensitive]
    keys = [key for key in question.keys if not key.sensitive]
    observed, labels = _observed(question, session, shown)
    found = most_likely(observed, [each.operator for each in shown])
    if not found.converged:
        warnings.warn(
            f"The estimator 'em' stopped after {found.cycles:,} cycles, up to "
            f"{float(found.gap.max()):.2g} below the maximal log-likelihood.",
            WeakPromiseWarning,
            stacklevel=2,
        )
    counts = found.counts
    for axis, each in enumerate(shown, start=1):
        counts = each.by_value(counts, axis)
    places = np.indices(counts.shape).reshape(counts.ndim, -1)
    cells = {f"q{n}": labels.column(n).take(pa.array(places[0])) for n in range(len(keys))}
    for number, each in enumerate(shown):
        cells[f"x{number}"] = each.domain.take(pa.array(places[number + 1]))
    cells["n"] = pa.array(counts.reshape(-1))
    return pa.table(cells)


def _shown(release: Release, session: Session, column: str) -> _Shown:
    session.weights(column)  # refuses columns without an operator, or without their part
    operator = operator_from_json(release.plan["operators"][column])
    domain = release.domain(column)
    if operator.needs_counts:
        operator = operator.observed(session.published_counts(column, domain))
    codes: IntArray = np.arange(len(domain))
    symbols = {"value": domain, "place": pa.array(codes)}
    keys = {column: "value"}
    if isinstance(operator, Parts):
        codes = operator.symbol_codes
        symbols = {
            "value": domain.take(pa.array(codes)),
            "part": pa.array(operator.symbol_parts),
            "place": pa.array(np.arange(len(codes))),
        }
        keys[release.plan.get("part_columns", {}).get(column, "part")] = "part"
    return _Shown(operator, domain, pa.table(symbols), keys)


def _observed(
    question: Question, session: Session, shown: list[_Shown]
) -> tuple[FloatArray, pa.Table]:
    """Published counts by (group of the quasi keys, symbol of each column), and the groups."""
    records = session.record_columns()
    keys = [over(key, records) for key in question.keys if not key.sensitive]
    known = [over(term, records) for term in question.where if not term.sensitive]
    names = [f"q{n}" for n in range(len(keys))]
    split = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
    tables = {f"symbols{n}": each.symbols for n, each in enumerate(shown)}
    columns = [*names]
    joins, published = "", dict.fromkeys(column for each in shown for column in each.keys)
    for place, column in enumerate(published):
        published[column] = f"r{place}"
        split.append(f"records.{quoted(session.names[column])} AS r{place}")
    for n, each in enumerate(shown):
        same = [
            f"c.{published[column]} IS NOT DISTINCT FROM symbols{n}.{inside}"
            for column, inside in each.keys.items()
        ]
        joins += f" JOIN symbols{n} ON {' AND '.join(same)}"
        columns.append(f"symbols{n}.place AS y{n}")
    sums = session.counted(RecordSums(split, ["count(*) AS n"], known), tables)
    counted = session.run(
        f"SELECT {', '.join(columns)}, c.n, dense_rank() OVER (ORDER BY {', '.join(names) or '1'}) "
        f"- 1 AS g FROM ({sums}) AS c{joins}",
        tables,
    )
    numbers = np.asarray(counted.column("g").to_numpy(), np.int64)
    groups = int(numbers.max()) + 1 if len(numbers) else 0
    shape = (groups, *(each.operator.values for each in shown))
    if int(np.prod(shape)) > MOST_CELLS:
        raise QueryError(
            f"The estimator 'em' would iterate over {int(np.prod(shape)):,} cells; at most "
            f"{MOST_CELLS:,} are tried. Group by fewer columns, or use 'inverse'."
        )
    table = np.zeros(shape)
    places = [counted.column(f"y{n}").to_numpy() for n in range(len(shown))]
    table[(numbers, *places)] = counted.column("n").to_numpy()
    first = np.unique(numbers, return_index=True)[1]
    return table, counted.select(names).take(pa.array(first))
