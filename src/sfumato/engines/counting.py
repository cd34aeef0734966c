"""Counts of a staged table: each is one SQL text, wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.errors import DataError
from sfumato.operators.base import FloatArray
from sfumato.pace import Progress as Progress  # told to everybody above
from sfumato.profile import Cells, Histogram, Holders, Holdings, Profile
from sfumato.table import Table
from sfumato.table.reading import MARKERS
from sfumato.table.staging import Staged, codes_of, no_progress, stage, staged, stated_values

__all__ = ["Progress", "no_progress"]


def take_profile(table: Table, *, progress: Progress = no_progress) -> Profile:
    """The histogram of every sensitive column.

    >>> from sfumato.table import read
    >>> people = pa.table({"age": [30, 41, 52], "disease": ["flu", "HIV", "flu"]})
    >>> take_profile(read(people, quasi="age", sensitive="disease")).histograms["disease"].counts
    array([1, 2])
    """
    rows = staged(stage(table, progress=progress))
    histograms = {}
    for column in table.sensitive:
        counts = _by_value(rows, column)
        stated = stated_values(column, table.domains.get(column))
        values = tuple(rows.domains[column].to_pylist())
        strangers = {*values} - {*stated, None} if stated else set()
        if strangers:
            outside = [value in strangers for value in values]
            raise DataError(
                f"Column {column!r} of {table.label} has {counts[outside].sum():,} rows with "
                f"values outside the stated domain. {_what_differs(strangers, stated)}"
            )
        histograms[column] = Histogram(column, (*stated, *values[len(stated) :]), counts)
    return Profile(rows.number, histograms, dropped=rows.dropped)


def _by_value(rows: Staged, column: str, what: str = "count(*)", *others: str) -> IntArray:
    """What SQL counts for each value of a sensitive column."""
    name, counts = rows.columns[column], np.zeros(len(rows.domains[column]), np.int64)
    query = f"SELECT {name}, {what} AS n FROM people GROUP BY {name}"
    for batch in rows.people.sql(query, name, *others):
        counts[batch.column(0).to_numpy()] = batch.column("n").to_numpy()
    return counts


def _what_differs(strangers: set[Value], values: tuple[Value, ...]) -> str:
    """What was probably not said of a table, or said when it was published."""
    texts = sorted(value for value in strangers if isinstance(value, str))
    marks = [text.strip() for text in texts if text.strip().casefold() in MARKERS]
    if marks:
        return f"If {marks[0]!r} stands for what is not known, say --missing-markers '{marks[0]}'."
    return "State them too, or drop the rows."


def check_keys(table: Table) -> int:
    """How many rows repeat the key of another row; a missing key is refused."""
    if table.key is None:
        return 0
    rows = staged(stage(table))
    name = rows.columns[table.key]
    query = f"SELECT count(*) AS n, count({name}) AS m, count(DISTINCT {name}) AS d FROM people"
    ((total, present, different),) = (
        batch.to_pylist()[0].values() for batch in rows.people.sql(query, name)
    )
    if present < total:
        raise DataError(
            f"The key column {table.key!r} of {table.label} is missing in {total - present:,} rows."
        )
    return int(total - different)


def count_cells(table: Table, column: str) -> Cells:
    """Counts by all quasi columns and one sensitive column."""
    rows = staged(stage(table))
    counted = rows.people.count(*(rows.columns[name] for name in (*table.quasi, column)))
    domains, key = [], np.zeros(counted.num_rows, np.int64)
    combinations = values = len(rows.domains[column])
    for index, name in enumerate(table.quasi):
        column_codes = counted.column(index).combine_chunks()
        domain = sorted_domain(rows, name, column_codes)
        combinations *= len(domain)
        if combinations >= 1 << 63:
            raise DataError(
                f"The quasi-identifiers of {table.label} have too many combinations to count. "
                "Coarsen or drop some."
            )
        key *= len(domain)
        key += pc.index_in(column_codes, value_set=domain).to_numpy()
        domains.append(tuple(rows.restored(name, domain).to_pylist()))
    sensitive = counted.column(len(table.quasi)).to_numpy().astype(np.int64)
    order = np.argsort(key * values + sensitive)
    counts = counted.column("n").to_numpy()[order]
    return Cells(table.quasi, tuple(domains), key[order], sensitive[order], counts)


def sorted_domain(rows: Staged, column: str, found: Any) -> pa.Array:
    """What SQL tells of a column, each once and in the order of its values, a null last."""
    unique = found.unique()
    return unique.take(pc.sort_indices(rows.restored(column, unique)))


def whole_column(table: Table, column: str) -> tuple[pa.Array, IntArray]:
    """The values of a column of a staged table in order, a null last, and the code of every row."""
    rows = staged(table)
    arrays = [batch.column(0) for batch in table.batches([column])]
    coded = column in rows.domains
    shown = pa.chunked_array([array.indices if coded else array for array in arrays])
    domain = sorted_domain(rows, column, shown)
    codes = pc.index_in(shown, value_set=domain).to_numpy().astype(np.int64)
    return rows.restored(column, domain), codes


def sensitive_codes(table: Table, column: str) -> IntArray:
    """The code of every row of a staged table, in the domain of a sensitive column."""
    batches = table.batches([column])
    return np.concatenate([codes_of(batch, [column])[column] for batch in batches])


def count_holdings(table: Table, histograms: Mapping[str, Histogram]) -> Holdings:
    """The combinations of sensitive values that people have.

    >>> from sfumato.table import read
    >>> people = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 2]})
    >>> declared = read(people, quasi="", sensitive="a,b")
    >>> count_holdings(declared, take_profile(declared).histograms).of.tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    sizes = [len(histogram.values) for histogram in histograms.values()]
    if int(np.prod(sizes, dtype=object)) >= 1 << 62:
        raise DataError(
            f"The sensitive columns {', '.join(histograms)} of {table.label} have too many "
            f"combinations ({' × '.join(map(str, sizes))}). Coarsen or drop some."
        )
    rows = staged(stage(table))
    counted = rows.people.count(*(rows.columns[name] for name in histograms))
    codes = [counted.column(k).to_numpy().astype(np.int64) for k in range(len(sizes))]
    order = np.lexsort(codes[::-1])
    combinations = np.stack(codes, axis=1)[order]
    return Holdings(tuple(histograms.values()), combinations, counted.column("n").to_numpy()[order])


def count_combinations(table: Table, histograms: Mapping[str, Histogram]) -> FloatArray:
    """People by the values of all sensitive columns: one axis for each.

    >>> from sfumato.table import read
    >>> people = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 2]})
    >>> declared = read(people, quasi="", sensitive="a,b")
    >>> count_combinations(declared, take_profile(declared).histograms).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    holdings = count_holdings(table, histograms)
    counts = np.zeros(tuple(len(histogram.values) for histogram in histograms.values()))
    counts[tuple(holdings.of.T)] = holdings.counts
    return counts


def count_holders(table: Table) -> dict[str, Holders]:
    """How many people have each value in some row, for every sensitive column.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "a", "b"], "ill": ["flu", "flu", "HIV"]})
    >>> count_holders(read(stays, quasi="", sensitive="ill", person="who"))["ill"].counts.tolist()
    [1, 1]
    """
    table = stage(table)
    rows, holders = staged(table), {}
    person = rows.columns[str(table.person)]
    query = f"SELECT count(DISTINCT {person}) AS n FROM people"
    (people,) = (batch.column("n")[0].as_py() for batch in rows.people.sql(query, person))
    for column, histogram in take_profile(table).histograms.items():
        counts = _by_value(rows, column, f"count(DISTINCT {person})", person)
        holders[column] = Holders(column, histogram.values, counts, people)
    return holders
