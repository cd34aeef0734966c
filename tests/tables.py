"""The tables that tests share, each with what it is for, and releases of them made once a run.

>>> sorted(TABLES)[:3]
['clinic', 'empty', 'household']
>>> table("clinic").num_rows
600
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf

DISEASES = ("angina", "asthma", "cancer", "diabetes", "flu", "gastritis", "hepatitis", "ulcer")
SHARES = (0.24, 0.2, 0.16, 0.12, 0.1, 0.08, 0.06, 0.04)


@dataclass(frozen=True)
class Named:
    """A table by its name: what it is for, how it is made, and the roles of its columns."""

    purpose: str
    make: Callable[[], pa.Table]
    roles: dict[str, Any]


def people(rows: int, seed: int = 0, values: int = len(DISEASES)) -> pa.Table:
    """People with an age, a sex, a region and a disease that depends on the age a little."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    shares = np.array(SHARES[:values]) / sum(SHARES[:values])
    disease = rng.choice(values, rows, p=shares)
    disease[(age > 60) & (rng.random(rows) < 0.3)] = min(2, values - 1)
    return pa.table(
        {
            "age": pa.array(age, pa.int64()),
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, rows)]),
            "region": pa.array(np.array(["north", "south", "west"])[rng.integers(0, 3, rows)]),
            "disease": pa.array(np.array(DISEASES)[disease]),
        }
    )


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if index < 0:
            table = table.append_column(name, array)
        else:
            table = table.set_column(index, name, array)
    return table


def _missing() -> pa.Table:
    table = people(600, seed=3)
    holes = np.arange(600)
    return _with(
        table,
        age=pa.array(table["age"].to_numpy(), mask=holes % 11 == 0),
        disease=pa.array(table["disease"].to_pylist(), mask=holes % 13 == 0),
    )


def _two(table: pa.Table) -> pa.Table:
    """A second sensitive column, associated with the first."""
    diseases = [DISEASES.index(value) for value in table["disease"].to_pylist()]
    return _with(table, ward=[f"w{(d + n % 3) % 8}" for n, d in enumerate(diseases)])


def _stays() -> pa.Table:
    """One to three rows of every person; age and sex stay, the disease may change."""
    persons = people(250, seed=4)
    rows = np.repeat(np.arange(250), 1 + np.arange(250) % 3)
    drawn = people(len(rows), seed=5)
    return _with(persons.take(pa.array(rows)), disease=drawn["disease"], person=rows)


_PLAIN = {"quasi": ["age", "sex", "region"], "sensitive": "disease"}
_TWO = {"quasi": ["age", "sex", "region"], "sensitive": ["disease", "ward"]}
TABLES = {
    "clinic": Named("the usual case: numbers and texts, eight values", lambda: people(600), _PLAIN),
    "two": Named("two sensitive columns", lambda: _two(people(600, seed=2)), _TWO),
    "missing": Named(
        "missing ages, and diseases that count as a value",
        _missing,
        {**_PLAIN, "missing": "value"},
    ),
    "stays": Named("people with one to three rows", _stays, {**_PLAIN, "person": "person"}),
    "stays-two": Named(
        "people with several rows, two sensitive columns",
        lambda: _two(_stays()),
        {**_TWO, "person": "person"},
    ),
    "keyed": Named(
        "a key column", lambda: _with(people(400), id=np.arange(400)), {**_PLAIN, "key": "id"}
    ),
    "numbers": Named(
        "a sensitive column of numbers",
        lambda: _with(people(600), disease=people(600)["age"].to_numpy() % 9),
        _PLAIN,
    ),
    "yes-no": Named("two values", lambda: people(400, values=2), _PLAIN),
    "household": Named(
        "quasi-identifiers that nobody shares",
        lambda: _with(people(300), age=np.arange(300)),
        _PLAIN,
    ),
    "tiny": Named("eight people, one of each disease", lambda: _tiny(), _PLAIN),
    "uneven": Named("a value that most people have", lambda: _uneven(), _PLAIN),
    "empty": Named("no rows", lambda: people(0), _PLAIN),
}


def _tiny() -> pa.Table:
    return _with(people(8), disease=list(DISEASES))


def _uneven() -> pa.Table:
    diseases = ["flu"] * 450 + list(DISEASES) * 18 + ["asthma"] * 6
    return _with(people(600), disease=diseases)


@cache
def table(name: str) -> pa.Table:
    """A table, made once."""
    return TABLES[name].make()


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="sfumato-tests-"))


@cache
def release(name: str, guarantee: str, mechanism: str | None = None, **options: Any) -> Path:
    """A release of a table, made once a run; whoever changes it makes a copy first.

    A refusal is raised again for everybody who asks.
    """
    folder = _folder() / f"{name}-{abs(hash((guarantee, mechanism, *options.items())))}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sf.publish(
            table(name),
            guarantee,
            to=folder,
            mechanism=mechanism,
            receipt=folder.with_suffix(".receipt"),
            **TABLES[name].roles,
            **options,
        )
    return folder


def first_problem(err: str) -> str:
    """What the program says is wrong, of several things the first, without what repairs it.

    >>> first_problem("sfumato: 2 things are wrong:\\n1. No file.\\n2. No promise.")
    'No file.'
    """
    lines = [line for line in err.splitlines() if not line.startswith("sfumato: warning")]
    first = next(n for n, line in enumerate(lines) if line.startswith("sfumato: "))
    if lines[first].endswith("things are wrong:"):
        return lines[first + 1].removeprefix("1. ")
    return lines[first].removeprefix("sfumato: ")
