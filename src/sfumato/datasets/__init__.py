"""Realistic tables without real people.

A generated table is a function of its name, its parameters and its seed: neither the batch size
nor where a batch starts changes a row, and a longer table begins with the shorter one.

>>> census(2, seed=1).column_names
['age', 'gender', 'education', 'marital', 'race', 'workclass', 'country', 'occupation']
>>> GENERATORS["hospital"].sensitive
'diagnosis'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.datasets.network import Network

__all__ = [
    "GENERATORS",
    "Generator",
    "census",
    "generate",
    "hospital",
    "schema",
    "write_dataset",
]

ROW_GROUP = 1_000_000


@dataclass(frozen=True)
class Generator:
    """A kind of table that can be made, with the roles of its columns and its parameters."""

    name: str
    summary: str
    quasi: tuple[str, ...]
    sensitive: str
    parameters: tuple[str, ...] = ()

    def network(self, **given: Any) -> Network:
        """The population behind the table, for these parameters."""
        # it imports numpy and the cipher: when a table is made, not with this package
        from sfumato.datasets.network import Network, Patients

        unknown = sorted(set(given) - set(self.parameters))
        if unknown:
            choices = ", ".join(self.parameters) or "none"
            raise UsageError(
                f"The dataset {self.name!r} has no parameter {unknown[0]!r}. It has: {choices}."
            )
        stays, once = str(given.get("stays", 1)), Network.named(self.name)
        if not stays.isdecimal() or not 1 <= int(stays) <= 1000:
            raise UsageError(
                "The 'stays' parameter of hospital must be an integer from 1 to 1000. "
                f"Got {given['stays']!r}."
            )
        return once if stays == "1" else Patients(once.name, once.columns, once.order, int(stays))


GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        Generator(
            "census",
            "working adults; 50 occupations, 7.5 % to 0.18 %",
            ("age", "gender", "education", "marital", "race", "workclass", "country"),
            "occupation",
        ),
        Generator(
            "hospital",
            "hospital stays; 466 diagnoses that depend on age, sex and admission; with stays=20 "
            "patients have up to 20 of them",
            ("age", "sex", "region", "admission"),
            "diagnosis",
            ("stays",),
        ),
    )
}


def schema(name: str, **params: Any) -> pa.Schema:
    """Column names and Arrow types of a generated table.

    >>> str(schema("census").field("occupation").type)
    'dictionary<values=string, indices=int32, ordered=0>'
    """
    return next(generate(name, 0, 0, **params)).schema


def generate(
    name: str, rows: int, seed: int, batch_rows: int = ROW_GROUP, **params: Any
) -> Iterator[pa.RecordBatch]:
    """The table's record batches, each made when it is asked for: memory is that of one batch.

    Cost: about 0.4 µs a row. `seed` fixes every row; `batch_rows` changes none. A table without
    rows is one empty batch.

    >>> [batch.num_rows for batch in generate("census", 5, seed=7, batch_rows=2)]
    [2, 2, 1]
    """
    from sfumato.draws import Draws

    for parameter, given, least in (("rows", rows, 0), ("batch_rows", batch_rows, 1)):
        if given < least:
            raise UsageError(
                f"The {parameter!r} parameter must be an integer of at least {least}. Got {given}."
            )
    if name not in GENERATORS:
        raise UsageError(f"There is no dataset {name!r}. There are: {', '.join(GENERATORS)}.")
    population, draws = GENERATORS[name].network(**params), Draws.from_seed(seed)
    starts = range(0, rows, batch_rows) or (0,)
    return (population.batch(draws, at, min(batch_rows, rows - at)) for at in starts)


def _table(name: str, rows: int, seed: int, **params: Any) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(generate(name, rows, seed, **params))


def census(rows: int, seed: int) -> pa.Table:
    """A census-like table in memory; the sensitive column is `occupation`.

    >>> census(1000, seed=1).num_rows
    1000
    """
    return _table("census", rows, seed)


def hospital(rows: int, seed: int, stays: int = 1) -> pa.Table:
    """Hospital stays in memory; the sensitive column is `diagnosis`.

    With more than one of `stays`, patients have up to so many, and `patient` says whose it is.

    >>> hospital(1, seed=1).column_names
    ['age', 'sex', 'region', 'admission', 'diagnosis']
    """
    return _table("hospital", rows, seed, stays=stays)


def write_dataset(
    name: str,
    rows: int,
    path: str | Path,
    seed: int,
    *,
    overwrite: bool = False,
    **params: Any,
) -> Path:
    """Stream a generated table into a Parquet file with row groups of 1,000,000 rows.

    The file appears whole or not at all. Categorical columns are dictionary coded and read back
    as such.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(path)
    if target.suffix not in ("", ".parquet"):
        raise DataError(f"{str(target)!r} would be a Parquet file: let its name end in .parquet.")
    batches = generate(name, rows, seed, **params)
    if target.exists() and not overwrite:
        raise DataError(
            f"{str(target)!r} exists already. Choose another name, or ask to overwrite it."
        )
    partial = target.with_name(f".{target.name}.partial")
    try:
        with pq.ParquetWriter(partial, schema(name, **params)) as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=ROW_GROUP)
        partial.replace(target)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"Cannot write {str(target)!r}: {error}. "
            "Check that the folder exists, may be written to and has room."
        ) from error
    finally:
        with suppress(OSError):  # a folder that cannot be written to holds nothing of ours
            partial.unlink()
    return target
