"""Range count queries as the generalization papers ask them, and the errors of releases on them.

λ quasi columns and the sensitive one, each in a random stretch of its domain; stretches are so long
that, were everything uniform and independent, a share θ of the records would qualify (Section 5 of
paper `004_…`; the length |A|·θ^(1/(λ+1)) is right, the formula beside it inverted: errata H18).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws, Positions
from sfumato.engines.counting import drop_missing, quasi_domains, take_profile
from sfumato.engines.local import publish
from sfumato.errors import WeakPromiseWarning
from sfumato.queries import OpenedRelease, open_release
from sfumato.table import Table


@dataclass(frozen=True, eq=False)
class RangeCount:
    """A stretch of values per column; the sensitive column is one of them."""

    stretches: Mapping[str, pa.Array]

    def sql(self) -> str:
        """The question as an analyst asks it."""
        return "SELECT COUNT(*) AS n FROM release WHERE " + " AND ".join(
            f'"{name}" IN ({", ".join(_literal(v) for v in values.to_pylist())})'
            for name, values in self.stretches.items()
        )

    def true_count(self, records: pa.Table) -> int:
        fits = np.ones(records.num_rows, np.bool_)
        for name, values in self.stretches.items():
            fits &= pc.is_in(records.column(name), value_set=values).to_numpy()
        return int(fits.sum())


def range_counts(
    domains: Mapping[str, pa.Array],
    sensitive: str,
    draws: Draws,
    *,
    count: int,
    columns: int = 3,
    selectivity: float = 0.25,
) -> list[RangeCount]:
    """Random range counts: `columns` quasi columns each, and the sensitive one.

    >>> domains = {"age": pa.array([1, 2, 3, 4]), "s": pa.array(["a", "b"])}
    >>> range_counts(domains, "s", Draws.from_seed(1), count=1, columns=1)[0].sql()
    'SELECT COUNT(*) AS n FROM release WHERE "age" IN (3, 4) AND "s" IN (\\'b\\')'
    """
    quasi = [name for name in domains if name != sensitive]
    width = min(columns, len(quasi))
    made = []
    for number in range(count):
        purpose = f"range count {number}"
        chosen = [quasi[k] for k in draws.order(f"{purpose} columns", len(quasi))[:width]]
        stretches = {}
        for name in (*chosen, sensitive):
            domain = domains[name]
            length = max(1, round(len(domain) * selectivity ** (1 / (width + 1))))
            room = len(domain) - length + 1
            start = int(draws.below(f"{purpose} {name}", Positions(0, 1), room)[0])
            stretches[name] = domain.slice(start, length)
        made.append(RangeCount(stretches))
    return made


def median_errors(
    table: Table,
    promise: str,
    ways: Sequence[str],
    *,
    count: int = 200,
    columns: int = 3,
    selectivity: float = 0.25,
    seed: int = 1,
) -> dict[str, float]:
    """The median relative error of each mechanism under one promise, on the same questions.

    Questions whose true answer is 0 are dropped, as in the paper.
    """
    return median_errors_by_shape(
        table, promise, ways, [(columns, selectivity)], count=count, seed=seed
    )[0]


def median_errors_by_shape(
    table: Table,
    promise: str,
    ways: Sequence[str],
    shapes: Sequence[tuple[int, float]],
    *,
    count: int = 200,
    seed: int = 1,
) -> list[dict[str, float]]:
    """The same for several (columns, selectivity): every mechanism publishes once."""
    records = pa.Table.from_batches(
        [drop_missing(table, b) for b in table.batches((*table.quasi, *table.sensitive))]
    )
    (sensitive,) = table.sensitive
    domains = dict(zip(table.quasi, quasi_domains(table), strict=True))
    values = take_profile(table).histograms[sensitive].values
    domains[sensitive] = pa.array(values, table.type_of(sensitive))
    asked = [
        range_counts(
            domains,
            sensitive,
            Draws.from_seed(seed),
            count=count,
            columns=columns,
            selectivity=selectivity,
        )
        for columns, selectivity in shapes
    ]
    truth = [[question.true_count(records) for question in questions] for questions in asked]
    errors: list[dict[str, float]] = [{} for _ in shapes]
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            publish(table, promise, to=place, mechanism=way, seed=seed)
            release = open_release(place)
            for found, questions, true in zip(errors, asked, truth, strict=True):
                found[way] = _median_error(release, questions, true)
    return errors


def _median_error(
    release: OpenedRelease, asked: Sequence[RangeCount], truth: Sequence[int]
) -> float:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        for question, true in zip(asked, truth, strict=True):
            if true:
                answer = float(release.sql(question.sql()).table.column("n")[0].as_py() or 0)
                found.append(abs(answer - true) / true)
    return float(np.median(found)) if found else float("nan")


def _literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
