"""Rows that leave as they came: only where their order tells nothing of what is sensitive."""

from __future__ import annotations

import pyarrow as pa

from sfumato.chances import KEEP_ALARM
from sfumato.columns import value_text
from sfumato.engines.coding import ArrivalCoder
from sfumato.errors import DataError
from sfumato.row_order import OrderTest, Told
from sfumato.table import Table

KEPT = (
    "The rows stand in the order of the table. Tests of that order found nothing that tells the "
    "sensitive values, which does not prove that there is nothing: whoever knows where somebody "
    "stood in the table finds their record."
)


class TableOrder:
    """What the order of a table tells about its sensitive columns, seen while it is counted."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._columns = {name: (ArrivalCoder(), OrderTest()) for name in table.sensitive}

    def add(self, batch: pa.RecordBatch) -> None:
        for name, (coder, test) in self._columns.items():
            test.add(coder(batch.column(name)))

    def told(self) -> Told:
        """All tests of all columns together; a random order is refused once in 1 / KEEP_ALARM."""
        return Told.of(
            (
                look
                for name, (coder, test) in self._columns.items()
                for look in test.looks(name, [value_text(value) for value in coder.known])
            ),
            KEEP_ALARM,
        )

    def refuse_telling(self) -> None:
        """Refuse an order that tells sensitive values: whoever sees the release sees it."""
        told = self.told()
        if told.patterns:
            raise DataError(
                f"The rows of {self.table.label} cannot be published in their order, because it "
                f"tells sensitive values: {told.patterns[0]} would not be so by chance (less than "
                f"{max(told.chance, 1e-300):.0e}). Leave out --order keep, and they leave shuffled."
            )
