"""What an engine is: it stages a table where it lies, and writes what a plan makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws
from sfumato.engines.run import RunOptions, Written
from sfumato.engines.shown import CodedColumn, ShownColumn, ShownRows, sensitive_columns
from sfumato.engines.spelling import restored, spell
from sfumato.engines.stream import StreamSection, apply_plan, changed
from sfumato.engines.whole import write_generalized
from sfumato.mechanisms import CellPlan, Plan, RecordPlan, TablePlan
from sfumato.profile import Profile
from sfumato.release import KINDS
from sfumato.table import Table
from sfumato.table.spool import Spool
from sfumato.table.staging import (
    LARGE,
    code_type,
    is_coded,
    ordered_domain,
    stage,
    staged,
    stated_values,
)

_BATCH_ROWS = 1 << 17


class LocalEngine:
    """One run over one table: stage it, then write what a plan makes of it. Use it in a `with`.

    This one reads the table once, in batches and bounded memory; a plan that looks at all records
    has them in memory. Another engine is a subclass in `engines.publishing.ENGINES`; nothing else
    knows of it.
    """

    name: ClassVar[str] = "local"
    plans: ClassVar[tuple[type[Plan], ...]] = (RecordPlan, CellPlan, TablePlan)  # that it can run

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

    def __exit__(self, *raised: Any) -> None:
        self.held.__exit__(*raised)  # what is held says in its own words what went wrong

    def columns(self, draws: Draws) -> list[str]:
        """What is read of the table to publish it."""
        keyed = draws.origin == "key-file" and self.table.key is not None
        return [*self.table.quasi, *self.table.sensitive, *([str(self.table.key)] if keyed else [])]

    def rows(self, plan: RecordPlan, profile: Profile, draws: Draws) -> Iterator[pa.RecordBatch]:
        """The records that a plan publishes one by one."""
        options, table, columns = self.options, self.table, self.columns(draws)

        def batches() -> Iterator[pa.RecordBatch]:
            read = 0
            for batch in table.batches(columns, options.batch_rows, options.threads):
                yield batch
                read += batch.num_rows
                options.progress("publishing", read, profile.rows)

        section = StreamSection.whole(profile, plan)
        return apply_plan(table, profile, plan, draws, section, batches())

    def write(self, folder: Path, plan: Plan, profile: Profile, draws: Draws) -> Written:
        """Write all files of the release but the manifest."""
        if isinstance(plan, TablePlan):
            return write_generalized(folder, self.table, plan, draws, self.options)
        if isinstance(plan, CellPlan):  # rows follow from counts, wherever the records are
            rows, published = rows_of_cells(self.table, plan, draws)
        else:
            assert isinstance(plan, RecordPlan), type(plan)
            rows = ShownRows.of(self.table)
            published = self.rows(copy(plan), profile, draws)  # whose tables go with the rows
        records = Spool()
        for batch in published:
            rows.add(batch)
            records.add(batch)
        return self.spelled(folder, plan, profile, rows, records)

    def spelled(
        self,
        folder: Path,
        plan: Plan,
        profile: Profile,
        rows: ShownRows,
        records: Iterable[pa.RecordBatch],
        write: Callable[..., None] = spell,
    ) -> Written:
        """Write the files of a release whose `records` have all been added to `rows`."""
        expected = profile.rows - plan.withheld
        if rows.number != expected:
            raise changed(self.table, f"{rows.number:,} of {expected:,} records arrived")
        for column in rows.columns:
            column.check()
        columns, many = [column.spelled() for column in rows.columns], rows.number > LARGE

        def ordered() -> Iterator[pa.RecordBatch]:
            return map(rows.ordered, records)

        def shown() -> Iterator[pa.RecordBatch]:
            return (restored(columns, batch) for batch in ordered())

        sides = plan.side_tables(shown) if isinstance(plan, RecordPlan) else {}
        if isinstance(plan, RecordPlan) and sides:
            listed = Spool()
            for piece in sides["sensitive"]:
                for batch in piece.to_batches():
                    listed.add(rows.ordered(batch))
            write(folder, columns, ordered, listed.__iter__, plan.first_buckets, many=many)
        else:
            write(folder, columns, ordered, many=many)
        all_shown = KINDS[plan.kind].shows_values
        return Written(tuple(c.column(all_shown) for c in rows.columns), rows.number)


def rows_of_cells(
    table: Table, plan: CellPlan, draws: Draws
) -> tuple[ShownRows, Iterator[pa.RecordBatch]]:
    """The rows that a plan makes, and their columns; the table is not read again."""
    domains = staged(table).domains
    columns, shown = list[ShownColumn](), dict[str, pa.Array]()  # for each code of the plan
    for quasi in plan.quasi():
        name, merged = quasi.column, quasi.merged
        values = pa.array(quasi.values, pa.string() if merged else table.type_of(name))
        if is_coded(values.type):
            stated = () if merged else stated_values(name, table.domains.get(name))
            domain = ordered_domain(values, stated)
            columns.append(CodedColumn(table, name, domain, merged=merged))
            shown[name] = pc.index_in(values, value_set=domain).cast(code_type(len(domain)))
        else:
            columns.append(ShownColumn(table, name))
            shown[name] = values

    def rows() -> Iterator[pa.RecordBatch]:
        for emitted in plan.emit(draws):
            cell = np.repeat(np.arange(len(emitted.counts), dtype=np.int32), emitted.counts)
            arrays = {name: shown[name].take(pa.array(c)) for name, c in emitted.quasi.items()}
            for name, codes in emitted.codes.items():
                arrays[name] = pa.array(codes).cast(code_type(len(domains[name])))
            arrays |= {n: pa.array(c).cast(pa.int32()) for n, c in emitted.extra.items()}
            cells = pa.RecordBatch.from_pydict(arrays)
            for start in range(0, len(cell), _BATCH_ROWS):
                yield cells.take(pa.array(cell[start : start + _BATCH_ROWS]))

    return ShownRows([*columns, *sensitive_columns(table)]), rows()
