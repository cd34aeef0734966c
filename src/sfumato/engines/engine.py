"""What an engine is: it counts a table where it lies, and writes what a plan makes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import pyarrow as pa

from sfumato.columns import Column, Value
from sfumato.draws import Draws
from sfumato.engines.binning import count_binned
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.from_cells import CellStream
from sfumato.engines.ranking import RankedRows, rank_rows
from sfumato.engines.spelling import Spelled, spell, write_rows
from sfumato.engines.spool import Spool
from sfumato.engines.stream import Follower, RowStream
from sfumato.engines.together import count_combinations
from sfumato.mechanisms import CellPlan, Plan, RecordPlan
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Cells, Histogram, Kinds, Profile
from sfumato.table import Table


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be done; what it promises is not among them.

    `joint` asks for a promise about all sensitive columns together.
    `release` is where the release will be, `follow` what an audit that repeats the run sees it by.
    """

    release: Path
    left_out: Fraction = Fraction(1)  # largest share of the people about whom nothing is promised
    batch_rows: int = 1 << 17
    threads: bool = True
    progress: Progress = no_progress
    follow: Follower | None = None
    joint: bool = False


@dataclass(frozen=True)
class Written:
    """What a run wrote: the columns of its records, how many there are, and what the plan adds to
    its public fields once it saw all records."""

    columns: tuple[Column, ...]
    rows: int
    plan: Mapping[str, int] = field(default_factory=dict)


class Engine(ABC):
    """One run over one table: count it, then write what a plan makes of it. Use it in a `with`.

    A new engine is a subclass in `engines.publishing.ENGINES`; nothing else knows of it.
    """

    name: ClassVar[str]
    plans: ClassVar[tuple[type[Plan], ...]] = (RecordPlan, CellPlan)  # those that it can run

    def __init__(self, table: Table, options: RunOptions) -> None:
        self.table, self.options = table, options
        self.held = ExitStack()  # what the run holds until it ends

    @classmethod
    def source(cls, origin: Any) -> Any:
        """What `read` takes of a path, an address or a frame, so that this engine finds it."""
        return origin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held.__exit__(kind, error, trace)

    def rank_rows(self, table: Table, draws: Draws) -> RankedRows:
        """Put every person's rows in a random order, where the table lies."""
        return rank_rows(table, draws)

    def take(self, table: Table) -> None:
        """Go on with the rows of the table that are to be published."""
        self.table = table

    @abstractmethod
    def repeated_keys(self) -> int:
        """How many rows repeat the key of another row; a missing key is refused."""

    @abstractmethod
    def profile(self) -> Profile:
        """The histogram of every sensitive column."""

    @abstractmethod
    def cells(self, column: str, values: tuple[Value, ...]) -> Cells:
        """Counts by all quasi columns and one sensitive column with this domain."""

    def binned(self, column: str, values: tuple[Value, ...]) -> BinnedCounts:
        """Counts by bins of all quasi columns and one sensitive column with this domain."""
        return count_binned(self.table, column, values)

    def kinds(self, profile: Profile) -> Kinds | None:
        """People by all that they hold, where that is more than one value; None where this engine
        cannot place people by it."""
        return None

    def binned_kinds(self, profile: Profile) -> BinnedCounts | None:
        """People by bins of quasi columns and by all that they hold; None where this engine cannot
        place people by it."""
        return None

    def combination_counts(self, histograms: Mapping[str, Histogram]) -> FloatArray:
        """Records by the values of all sensitive columns: one axis for each."""
        return count_combinations(self.table, histograms)

    @abstractmethod
    def stream(self, plan: RecordPlan, profile: Profile, draws: Draws) -> RowStream:
        """The records that a plan publishes one by one."""

    def write(self, folder: Path, plan: Plan, profile: Profile, draws: Draws) -> Written:
        """Write all files of the release but the manifest."""
        stream: RowStream
        if isinstance(plan, CellPlan):  # rows follow from counts, wherever the records are
            stream = CellStream(self.table, profile, plan, draws, self.options.progress)
        else:
            assert isinstance(plan, RecordPlan), type(plan)
            stream = self.stream(plan, profile, draws)
        rows = stream.rows
        with Spool() as records, Spool() as listed:
            for batch in stream:
                records.add(batch)
            columns = rows.spelled()

            def ordered() -> Iterator[pa.RecordBatch]:
                return map(rows.ordered, records)

            def shown() -> Iterator[pa.RecordBatch]:
                own = {column.name: column for column in columns}
                for batch in ordered():
                    names = batch.schema.names
                    arrays = [own.get(n, Spelled(n)).restore(batch.column(n)) for n in names]
                    yield pa.RecordBatch.from_arrays(arrays, names=names)

            sides = plan.side_tables(shown) if isinstance(plan, RecordPlan) else {}
            for stem, pieces in sides.items():
                if stem != "sensitive":
                    made = [rows.side(piece) for piece in pieces]
                    write_rows(_named(folder, stem), columns, made.__iter__, groups=None)
                    continue
                for piece in pieces:
                    listed.add(rows.side(piece))
            lists = listed.__iter__ if "sensitive" in sides else None
            first = plan.first_buckets if isinstance(plan, RecordPlan) else (0,)
            spell(folder, columns, ordered, lists, first)
        return Written(rows.columns(), stream.published)


def _named(folder: Path, stem: str) -> Callable[[int], Path]:
    return lambda _: folder / f"{stem}.parquet"
