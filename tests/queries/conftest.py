"""Releases made by hand, so that the operator can be any, the identity included."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.columns import Column, Range, Values, value_to_json
from sfumato.operators import Operator, Uniform
from sfumato.public import from_stated
from sfumato.queries import OpenedRelease, open_release
from sfumato.release import BundleWriter, Manifest

MakeRelease = Callable[..., OpenedRelease]


def domain_of(column: pa.ChunkedArray) -> list[object]:
    values = column.unique().to_pylist()
    return sorted((v for v in values if v is not None), key=lambda v: (str(type(v)), v)) + (
        [None] if None in values else []
    )


def described(table: pa.Table, name: str, sensitive: bool) -> Column:
    column = table.column(name)
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    kind = "numeric" if numeric else "categorical"
    if sensitive or not numeric:
        values = Values(tuple(value_to_json(v) for v in domain_of(column)))
        return Column(name, "sensitive" if sensitive else "quasi", kind, str(column.type), values)
    ends = pc.min_max(column).as_py()
    domain = Range(ends["min"], ends["max"], column.null_count > 0)
    return Column(name, "quasi", kind, str(column.type), domain)


@pytest.fixture
def make_release(tmp_path: Path) -> MakeRelease:
    """`make_release(table, sensitive, operators)`: operators default to the identity."""
    numbers = itertools.count()

    def make(
        table: pa.Table,
        sensitive: list[str],
        operators: Mapping[str, Operator] | None = None,
        published: pa.Table | None = None,
        folder: str = "release",
        verify: bool = True,
    ) -> OpenedRelease:
        columns = tuple(described(table, n, n in sensitive) for n in table.column_names)
        used = {
            name: (operators or {}).get(
                name, Uniform(len(domain_of(table.column(name))), Fraction(1))
            )
            for name in sensitive
        }
        shown = table if published is None else published
        place = tmp_path / str(next(numbers)) / folder
        place.parent.mkdir()
        with BundleWriter(place) as bundle:
            (bundle.folder / "records").mkdir()
            pq.write_table(shown, bundle.folder / "records" / "part-00000.parquet")
            bundle.finish(
                Manifest.of(
                    "perturbed",
                    {"operators": from_stated({name: op.to_json() for name, op in used.items()})},
                    [from_stated(column) for column in columns],
                    sfumato="0",
                    mechanism="uniform",
                    guarantee="none",
                    rows=shown.num_rows,
                    suppressed=0,
                    missing="value",
                    randomness="seeded",
                    statement=(),
                    does_not_protect=(),
                    caveats=(),
                )
            )
        return open_release(place, verify=verify)

    return make


@pytest.fixture
def people() -> pa.Table:
    """A small table with what is usually awkward: nulls, quotes, two sensitive columns."""
    return pa.table(
        {
            "age": pa.array([31, 42, 42, None, 65, 65, 65, 20, 31, 58], pa.int16()),
            "score": [0.5, 1.25, None, 2.0, -3.5, 0.0, 0.25, 4.0, 1.0, None],
            "city": ["Oslo", "Rome", "Oslo", "Rome", None, "Lima", "Lima", "Oslo", "it's", "Rome"],
            "disease": ["flu", "HIV", "flu", None, "flu", "HIV", "none", "none", "flu", "HIV"],
            "cost": pa.array([10, 20, 10, 30, 30, 20, 10, 20, 10, 30], pa.int32()),
        }
    )


@pytest.fixture
def release(make_release: MakeRelease, people: pa.Table) -> OpenedRelease:
    """The people, published as they are: every answer is the truth."""
    return make_release(people, ["disease", "cost"])
