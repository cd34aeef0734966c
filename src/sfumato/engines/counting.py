"""Counts of a staged table: each is one SQL text, wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Range, Value, Values
from sfumato.draws import IntArray
from sfumato.errors import DataError
from sfumato.operators.base import FloatArray
from sfumato.pace import Progress as Progress  # told to everybody above
from sfumato.profile import Cells, Histogram, Holders, Holdings, Profile
from sfumato.table import Table
from sfumato.table.reading import MARKERS
from sfumato.table.staging import MOST_VALUES, Staged, no_progress, stage, staged

__all__ = ["Progress", "no_progress"]


def take_profile(
    table: Table, *, threads: bool = True, progress: Progress = no_progress
) -> Profile:
    """The histogram of every sensitive column.

    >>> from sfumato.table import read
    >>> people = pa.table({"age": [30, 41, 52], "disease": ["flu", "HIV", "flu"]})
    >>> take_profile(read(people, quasi="age", sensitive="disease")).histograms["disease"].counts
    array([1, 2])
    """
    rows = staged(stage(table, threads=threads, progress=progress))
    histograms = {}
    for column in table.sensitive:
        counted = rows.people.count(rows.columns[column])
        shown = rows.restored(column, counted.column(0).combine_chunks()).to_pylist()
        counts = dict(zip(shown, counted.column("n").to_pylist(), strict=True))
        values = sensitive_domain(table, column, counts)
        people_by_value = np.array([counts.get(value, 0) for value in values], np.int64)
        histograms[column] = Histogram(column, values, people_by_value)
    return Profile(rows.number, histograms, dropped=rows.dropped)


def sensitive_domain(table: Table, column: str, counts: Mapping[Value, int]) -> tuple[Value, ...]:
    """The ordered domain of a sensitive column: what is stated, else what occurs; missing last."""
    occurring = [value for value in counts if value is not None]
    stated = table.domains.get(column)
    if isinstance(stated, Range):
        values = _range_values(column, stated)
    elif isinstance(stated, Values):
        values = stated.values
    else:
        values = tuple(sorted(occurring))
    strangers = set(occurring) - set(values)
    if strangers:
        rows = sum(counts[value] for value in strangers)
        raise DataError(
            f"Column {column!r} of {table.label} has {rows:,} rows with values outside the stated "
            f"domain. {_what_differs(strangers, values)}"
        )
    return (*values, None) if None in counts and None not in values else values


def _what_differs(strangers: set[Value], values: tuple[Value, ...]) -> str:
    """What was probably not said of a table, or said when it was published."""
    texts = sorted(value for value in strangers if isinstance(value, str))
    marks = [text.strip() for text in texts if text.strip().casefold() in MARKERS]
    if marks:
        return f"If {marks[0]!r} stands for what is not known, say --missing-markers '{marks[0]}'."
    if any(text.strip() in values for text in texts):
        return "If blanks around texts mean nothing, say --trim."
    return "State them too, or drop the rows."


def _range_values(column: str, stated: Range) -> tuple[Value, ...]:
    low, high = stated.low, stated.high
    if not isinstance(low, int) or not isinstance(high, int) or high - low >= MOST_VALUES:
        raise DataError(
            f"The domain stated for the sensitive column {column!r} must be a list of values or a "
            f"range of at most {MOST_VALUES:,} integers. For other numbers give bins."
        )
    return tuple(range(low, high + 1))


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


def count_cells(table: Table, column: str, values: tuple[Value, ...]) -> Cells:
    """Counts by all quasi columns and one sensitive column."""
    rows = staged(stage(table))
    counted = rows.people.count(*(rows.columns[name] for name in (*table.quasi, column)))
    domains, key, combinations = [], np.zeros(counted.num_rows, np.int64), len(values)
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
    sensitive = codes_of(rows, column, values, counted.column(len(table.quasi)))
    order = np.argsort(key * len(values) + sensitive)
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


def codes_of(
    rows: Staged, column: str, values: tuple[Value, ...], found: pa.ChunkedArray
) -> IntArray:
    """The places among `values` of what SQL tells of a sensitive column."""
    code = rows.codes_in(column, values)
    return np.asarray(code[found.cast(pa.int64()).fill_null(len(code) - 1).to_numpy()])


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
    codes = [
        codes_of(rows, name, histogram.values, counted.column(index))
        for index, (name, histogram) in enumerate(histograms.items())
    ]
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
    for column, histogram in take_profile(table).histograms.items():
        name = rows.columns[column]
        query = f"SELECT {name}, count(DISTINCT {person}) AS n FROM people GROUP BY ALL"
        counted = pa.Table.from_batches(rows.people.sql(query, name, person))
        counts = np.zeros(len(histogram.values), np.int64)
        codes = codes_of(rows, column, histogram.values, counted.column(0))
        counts[codes] = counted.column("n").to_numpy()
        query = f"SELECT count(DISTINCT {person}) AS n FROM people"
        (everybody,) = rows.people.sql(query, person)
        people = everybody.column("n")[0].as_py()
        holders[column] = Holders(column, histogram.values, counts, people)
    return holders
