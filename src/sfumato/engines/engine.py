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

from sfumato.columns import Column
from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import TableCounts
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.from_cells import CellStream
from sfumato.engines.spelling import restored, spell
from sfumato.engines.staging import LARGE, stage
from sfumato.engines.stream import RowStream
from sfumato.mechanisms import CellPlan, Plan, RecordPlan
from sfumato.mechanisms.generalized import Generalized
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.spool import Spool

Follow = Callable[[Generalized, IntArray], object]


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be done; what it promises is not among them.

    `joint` asks for a promise about all sensitive columns together.
    `release` is where the release will be, `follow` sees ranges and sets with
    who matches whom, and the row at each place: for an audit that repeats the run.
    """

    release: Path
    left_out: Fraction = Fraction(1)  # largest share of the people about whom nothing is promised
    batch_rows: int = 1 << 17
    threads: bool = True
    progress: Progress = no_progress
    follow: Follow | None = None
    joint: bool = False


@dataclass(frozen=True)
class Written:
    """What a run wrote: the columns of its records, how many there are, and what the plan adds to
    its public fields once it saw all records."""

    columns: tuple[Column, ...]
    rows: int
    plan: Mapping[str, int] = field(default_factory=dict)


class Engine(TableCounts, ABC):
    """One run over one table: count it, then write what a plan makes of it. Use it in a `with`.

    Counts are those of this machine unless an engine takes its own.

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
        threads, progress = self.options.threads, self.options.progress
        self.table = stage(self.table, threads=threads, progress=progress)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held.__exit__(kind, error, trace)

    def take(self, table: Table) -> None:
        """Go on with the rows of the table that are to be published."""
        self.table = table

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
        records, listed = Spool(), Spool()
        for batch in stream:
            records.add(batch)
        columns = rows.spelled()

        def ordered() -> Iterator[pa.RecordBatch]:
            return map(rows.ordered, records)

        def shown() -> Iterator[pa.RecordBatch]:
            return (restored(columns, batch) for batch in ordered())

        many = stream.published > LARGE
        sides = plan.side_tables(shown) if isinstance(plan, RecordPlan) else {}
        for piece in sides.get("sensitive", ()):
            listed.add(rows.side(piece))
        if isinstance(plan, RecordPlan) and sides:
            spell(folder, columns, ordered, listed.__iter__, plan.first_buckets, many=many)
        else:
            spell(folder, columns, ordered, many=many)
        return Written(rows.columns(), stream.published)
