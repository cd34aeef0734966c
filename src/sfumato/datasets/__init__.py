"""Realistic tables without real people: columns drawn one after the other, each given earlier ones.

A table is a function of its name and its seed: neither the batch size nor where a batch starts
changes a row, and a longer table begins with the shorter one. All figures are invented but for the
census's margins of occupation and education, which are those of the papers.

>>> census(2, seed=1).column_names
['age', 'gender', 'education', 'marital', 'race', 'workclass', 'country', 'occupation']
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.draws import Draws, IntArray, Positions
from sfumato.errors import DataError, UsageError

FloatArray = npt.NDArray[np.float64]
ROW_GROUP = 1_000_000
PATIENT, OF_A_PATIENT = "patient", ("age", "sex", "region")
_RAKING_STEPS = 400  # a fixed number, so that the tables never depend on a stopping rule
_ONCE = 90  # patients of one stay in a cycle
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly: an order without draws


class Generator(NamedTuple):
    """The roles of the columns of a table that can be made."""

    quasi: tuple[str, ...]
    sensitive: str


_CENSUS = ("age", "gender", "education", "marital", "race", "workclass", "country")
GENERATORS = {
    "census": Generator(_CENSUS, "occupation"),
    "hospital": Generator((*OF_A_PATIENT, "admission"), "diagnosis"),
}


class Column:
    """A column's `shares` given the groups of its parents, by parent and value: of its data file,
    where `parents` are cut at edges, each of the `weights` depends on some of them, and `overall`
    are the shares in the whole table."""

    shares: FloatArray

    def __init__(self, told: Mapping[str, Any], earlier: Mapping[str, Column]) -> None:
        self.values, self.integers = told["values"], told.get("integers")
        self.groups: dict[str, IntArray] = {
            name: np.searchsorted(edges, earlier[name].values, side="right")
            if edges else np.arange(len(earlier[name].values))
            for name, edges in told.get("parents", {}).items()
        }  # fmt: skip
        names = list(self.groups)
        sizes = [int(groups.max()) + 1 for groups in self.groups.values()]
        tilt = np.ones((*sizes, len(self.values)))
        for factor in told["weights"]:
            shape = [n if p in factor["by"] else 1 for p, n in zip(names, sizes, strict=True)]
            tilt = tilt * np.array(factor["each"], np.float64).reshape(*shape, len(self.values))
        if "overall" in told:
            given: list[Any] = []  # the shares of each parent's groups, given those before it
            for name, groups in self.groups.items():
                own = earlier[name]
                grouped = np.apply_along_axis(lambda row: np.bincount(groups, row), -1, own.shares)  # noqa: B023
                given += [grouped, [names.index(each) for each in (*own.groups, name)]]
            cells = np.einsum(*given, range(len(names)))
            self.shares = rake(tilt, cells, np.array(told["overall"]))
        else:
            self.shares = tilt / tilt.sum(axis=-1, keepdims=True)
        ends = np.cumsum(self.shares.reshape(-1, len(self.values)), axis=1)
        ends /= ends[:, -1:]  # exactly 1 from the last value on that occurs
        self._ends = (ends + np.arange(len(ends))[:, None]).reshape(-1)

    def draw(self, words: npt.NDArray[np.uint64], codes: Mapping[str, IntArray]) -> IntArray:
        """A code for each word, given those of its parents."""
        row = np.zeros(len(words), np.int64)
        for name, groups in self.groups.items():
            row = row * (int(groups.max()) + 1) + groups.take(codes[name])
        shares = (words >> np.uint64(20)) * 2.0**-44  # as fine as sums with a row's number are
        place = np.searchsorted(self._ends, row + shares, side="right")
        return np.asarray(place - row * len(self.values), np.int64)

    def arrow(self, codes: IntArray) -> pa.Array:
        """Numbers as small integers, texts dictionary coded."""
        if self.integers:
            return pa.array(np.asarray(self.values, self.integers)[codes])
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.values)


def rake(tilt: FloatArray, cells: FloatArray, wanted: FloatArray) -> FloatArray:
    """Shares by cell, as like `tilt` as can be, whose average over `cells` is `wanted`.

    Iterative proportional fitting of the joint table to both margins; a zero in `tilt` stays a
    zero. `tilt` has the shape of `cells` with one axis more. Cells that hold nobody get equal
    shares.
    """
    mass = cells.reshape(-1) / cells.sum()
    target = wanted / wanted.sum()
    joint = tilt.reshape(len(mass), -1) * mass[:, None]
    filled = mass > 0
    for _ in range(_RAKING_STEPS):
        joint *= target / joint.sum(axis=0)
        joint[filled] *= (mass[filled] / joint[filled].sum(axis=1))[:, None]
    shares = np.full(joint.shape, 1.0 / len(target))
    shares[filled] = joint[filled] / mass[filled, None]
    return shares.reshape(tilt.shape)


@cache
def columns_of(name: str) -> dict[str, Column]:
    """The columns of a data file in the order in which they are drawn."""
    told = json.loads(resources.files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
    columns: dict[str, Column] = {}
    for column in told["columns"]:
        columns[column["name"]] = Column(column, columns)
    return columns


def drawn(
    name: str, draws: Draws, start: int, count: int, known: Mapping[str, IntArray] | None = None
) -> dict[str, IntArray]:
    """Value codes of the records `start … start+count-1`, given those of columns that are known."""
    stream, codes = draws.child(f"dataset {name}"), dict(known or {})
    for column, law in columns_of(name).items():
        if column not in codes:
            codes[column] = law.draw(stream.words(column, Positions(start, count)), codes)
    return codes


def patients(start: int, count: int, stays: int) -> IntArray:
    """Whose stay each of these rows is. How many stays patients have is a fixed cycle, in which n
    stays are n^1.5 times as rare as one.

    >>> patients(0, 8, 20).tolist()
    [0, 1, 2, 2, 2, 2, 2, 2]
    """
    numbers = np.arange(1, stays + 1)
    sizes = np.repeat(numbers, np.maximum(1, np.rint(_ONCE / numbers**1.5).astype(np.int64)))
    ends = np.cumsum(sizes[np.argsort(np.arange(len(sizes)) * _GOLDEN % 1.0)])
    cycle, rest = np.divmod(np.arange(start, start + count), ends[-1])
    return np.asarray(cycle * len(ends) + np.searchsorted(ends, rest, side="right"))


def _stays(draws: Draws, start: int, count: int, whose: IntArray) -> dict[str, IntArray]:
    """A patient keeps age, sex and region, and half of the stays are for the same illness."""
    first, last = (int(whose[0]), int(whose[-1])) if count else (0, -1)
    person = drawn("hospital", draws.child("patients"), first, last - first + 1)
    same = {name: codes[whose - first] for name, codes in person.items()}
    codes = drawn("hospital", draws, start, count, {name: same[name] for name in OF_A_PATIENT})
    stream = draws.child("dataset hospital")
    again = stream.bernoulli("again", Positions(start, count), Fraction(1, 2))
    return {name: np.where(again, same[name], codes[name]) for name in codes}


def generate(
    name: str, rows: int, seed: int, batch_rows: int = ROW_GROUP, stays: int = 1
) -> Iterator[pa.RecordBatch]:
    """The table's record batches, each made when it is asked for: memory is that of one batch. A
    table without rows is one empty batch. With several `stays`, `patient` says whose each is.

    >>> [batch.num_rows for batch in generate("census", 5, seed=7, batch_rows=2)]
    [2, 2, 1]
    """
    if name not in GENERATORS:
        raise UsageError(f"There is no dataset {name!r}. There are: {', '.join(GENERATORS)}.")
    if rows < 0 or not 1 <= stays <= (1000 if name == "hospital" else 1):
        raise UsageError("A table has 0 rows or more; a patient of hospital has 1 to 1000 stays.")
    draws, order = Draws.from_seed(seed), (*GENERATORS[name].quasi, GENERATORS[name].sensitive)
    for start in range(0, rows, batch_rows) or (0,):
        count = min(batch_rows, rows - start)
        whose = patients(start, count, stays)
        codes = (
            drawn(name, draws, start, count) if stays == 1 else _stays(draws, start, count, whose)
        )
        arrays = {column: columns_of(name)[column].arrow(codes[column]) for column in order}
        yield pa.RecordBatch.from_pydict(({} if stays == 1 else {PATIENT: whose}) | arrays)


def census(rows: int, seed: int) -> pa.Table:
    """A census-like table in memory; the sensitive column is `occupation`."""
    return pa.Table.from_batches(generate("census", rows, seed))


def hospital(rows: int, seed: int, stays: int = 1) -> pa.Table:
    """Hospital stays in memory; the sensitive column is `diagnosis`."""
    return pa.Table.from_batches(generate("hospital", rows, seed, stays=stays))


def write_dataset(name: str, rows: int, path: str | Path, seed: int, stays: int = 1) -> Path:
    """Stream a generated table into a Parquet file, which appears whole or not at all."""
    target = Path(path)
    if target.exists():
        raise DataError(f"{str(path)!r} exists already. Choose another place, or remove it first.")
    partial = target.with_name(f".{target.name}.partial")
    (empty,) = generate(name, 0, seed, stays=stays)
    try:
        with pq.ParquetWriter(partial, empty.schema) as writer:
            for batch in generate(name, rows, seed, stays=stays):
                writer.write_batch(batch, row_group_size=ROW_GROUP)
        partial.replace(target)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):  # a folder that cannot be written to holds nothing of ours
            partial.unlink()
    return target
