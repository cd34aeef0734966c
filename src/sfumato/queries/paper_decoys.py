"""`estimator="paper"` for decoys: every cell of the asked table by the paper's iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import QueryError
from sfumato.operators import Decoy, operator_from_json
from sfumato.queries.four_states import reconstruct
from sfumato.queries.question import Question
from sfumato.queries.rewrite import over
from sfumato.queries.session import Session, quoted
from sfumato.queries.sums import RecordSums

if TYPE_CHECKING:
    from sfumato.release import Release

FloatArray = npt.NDArray[np.float64]

MOST_CELLS = 2_000_000
_AT_ONCE = 1 << 16  # cells whose transition matrices are held at the same time


def paper_cells(release: Release, question: Question, session: Session) -> pa.Table:
    """Quasi keys `q…`, sensitive values `x…` and the iteration's count `n` of each combination.

    The condition P of a cell are the question's quasi conditions and the cell's quasi keys.
    """
    columns = question.sensitive
    groups = {_groups(release, column) for column in columns}
    if len(groups) != 1:
        raise QueryError(
            "The estimator 'paper' needs one group size for all sensitive columns. Use 'inverse'."
        )
    domains = [release.domain(column) for column in columns]
    keys = [key for key in question.keys if not key.sensitive]
    records = session.record_columns()
    where = [over(term, records) for term in question.where if not term.sensitive]
    inside, labels = _counts(session, columns, domains, [over(key, records) for key in keys], where)
    if inside.size > MOST_CELLS:
        raise QueryError(
            f"The estimator 'paper' would iterate over {inside.size:,} cells; at most "
            f"{MOST_CELLS:,} are tried. Group by fewer columns, or use 'inverse'."
        )
    everything, _ = _counts(session, columns, domains, [], [])
    states = _states(inside)
    without = _states(everything) - states
    observed = np.concatenate([without, states], axis=-1).reshape(-1, 2 * states.shape[-1])
    counts = [
        reconstruct(observed[low : low + _AT_ONCE], next(iter(groups)))[:, -1]
        for low in range(0, len(observed), _AT_ONCE)
    ]
    places = np.indices(inside.shape).reshape(inside.ndim, -1)
    found = {f"q{n}": labels.column(n).take(pa.array(places[0])) for n in range(len(keys))}
    for number, domain in enumerate(domains):
        found[f"x{number}"] = domain.take(pa.array(places[number + 1]))
    found["n"] = pa.array(np.concatenate(counts) if counts else np.empty(0))
    return pa.table(found)


def _groups(release: Release, column: str) -> int:
    operator = operator_from_json(release.plan["operators"][column])
    if not isinstance(operator, Decoy):
        raise QueryError(
            f"The estimator 'paper' is for decoys; column {column!r} was published by another "
            "operator. Use 'inverse'."
        )
    return operator.groups


def _counts(
    session: Session,
    columns: tuple[str, ...],
    domains: list[pa.Array],
    keys: list[str],
    where: list[str],
) -> tuple[FloatArray, pa.Table]:
    """Published counts by (group of keys, value of each column), and the keys of the groups."""
    tables = {
        f"domain{n}": pa.table({"value": domain, "place": pa.array(np.arange(len(domain)))})
        for n, domain in enumerate(domains)
    }
    joins = " ".join(
        f"JOIN domain{n} ON c.r{n} IS NOT DISTINCT FROM domain{n}.value"
        for n in range(len(columns))
    )
    names = [f"q{n}" for n in range(len(keys))]
    split = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
    for n, column in enumerate(columns):
        split.append(f"records.{quoted(session.names[column])} AS r{n}")
    sums = session.counted(RecordSums(split, ["count(*) AS n"], where), tables)
    places = [f"domain{n}.place AS x{n}" for n in range(len(columns))]
    counted = session.run(
        f"SELECT {', '.join([*names, *places])}, c.n FROM ({sums}) AS c {joins}", tables
    )
    labels = counted.select(names).group_by(names).aggregate([]) if names else pa.table({})
    groups = labels.num_rows if names else 1
    tables = {"counted": counted}
    known = "SELECT *, 0 AS g FROM counted"
    if names:
        tables["known"] = labels.append_column("g", pa.array(np.arange(groups)))
        same = [f"c.{name} IS NOT DISTINCT FROM k.{name}" for name in names]
        known = f"SELECT c.*, k.g FROM counted AS c JOIN known AS k ON {' AND '.join(same)}"
    found = session.run(known, tables)
    table = np.zeros((groups, *(len(domain) for domain in domains)))
    cells = [
        found.column(name).to_numpy() for name in ("g", *(f"x{n}" for n in range(len(columns))))
    ]
    table[tuple(cells)] = found.column("n").to_numpy()
    return table, labels


def _states(counts: FloatArray) -> FloatArray:
    """Counts by whether each column has the cell's value: (…, 2^w), bits in column order."""
    states = [counts]
    for axis in range(1, counts.ndim):
        states = [
            part
            for state in states
            for part in (state.sum(axis=axis, keepdims=True) - state, state)
        ]
    return np.stack(np.broadcast_arrays(*states), axis=-1)
