"""The local engine: the table is staged and published in bounded memory, on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from sfumato.draws import Draws
from sfumato.engines.engine import Engine, Written
from sfumato.engines.stream import RecordStream
from sfumato.engines.whole import write_generalized
from sfumato.mechanisms import CellPlan, Plan, RecordPlan, TablePlan
from sfumato.profile import Profile


class LocalEngine(Engine):
    """Reads the table once, in batches; a plan that looks at all records has them in memory."""

    name: ClassVar[str] = "local"
    plans: ClassVar[tuple[type[Plan], ...]] = (RecordPlan, CellPlan, TablePlan)

    def write(self, folder: Path, plan: Plan, profile: Profile, draws: Draws) -> Written:
        if isinstance(plan, TablePlan):
            return write_generalized(folder, self.table, profile, plan, draws, self.options)
        return super().write(folder, plan, profile, draws)

    def stream(self, plan: RecordPlan, profile: Profile, draws: Draws) -> RecordStream:
        options = self.options
        return RecordStream(
            self.table,
            profile,
            plan,
            draws,
            options.batch_rows,
            options.threads,
            options.progress,
        )
