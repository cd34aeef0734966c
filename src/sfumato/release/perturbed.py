"""Releases whose sensitive values went through an operator, record by record."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column, Values, list_some
from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.operators import Parts
from sfumato.release.manifest import PerturbedManifest
from sfumato.release.reader import Release


class PerturbedRelease(Release):
    """Quasi columns as they are or merged; sensitive values as an operator published them.

    Where a column's operator has parts, a column of the records numbers the part of each record.
    Where groups were sampled and copied back, the column `part` numbers the scale of each.
    """

    kind: ClassVar[str] = "perturbed"
    shows_values: ClassVar[bool] = False
    manifest: PerturbedManifest

    def part_column(self, column: str) -> str | None:
        return self._part_columns.get(column)

    def shown_as(self, column: Column) -> tuple[str, ...]:
        part = self.part_column(column.name)
        return (column.name,) if part is None else (column.name, part)

    def means(self, column: Column) -> str:
        return "sensitive value, retained or redrawn record by record: ask for estimates"

    def shown_codes(self, records: pa.Table | pa.RecordBatch, name: str) -> IntArray:
        codes, operator = super().shown_codes(records, name), self.operators[name]
        if not isinstance(operator, Parts):
            return codes
        parts = records.column(self._part_columns[name]).to_numpy()
        return np.where(codes < 0, -1, operator.lookup[np.asarray(parts, np.int64), codes])

    def _possible_names(self) -> set[str]:
        return {"part", *(f"part_{column.name}" for column in self.sensitive)}

    def _read_plan(self) -> None:
        plan = self.manifest.plan
        self.operators, self.merges = plan.operators, plan.merges
        self.shows_quasi_exactly = not plan.merges
        self._check_operators()
        self._part_columns = self._read_part_columns()
        if plan.sampling is not None:
            self._check_part_column("part")
            self.scales = plan.sampling.scales
        self._check_merges()

    def _check_operators(self) -> None:
        stated, sensitive = self.operators, {c.name for c in self.sensitive}
        if set(stated) != sensitive:
            raise BundleError(
                f"The manifest of {self.where} has operators for {list_some(sorted(stated))}; "
                f"the sensitive columns are {list_some(sorted(sensitive))}."
            )
        for column in self.sensitive:
            size = stated[column.name].domain_size
            if not isinstance(column.domain, Values) or len(column.domain) != size:
                raise BundleError(
                    f"The operator of column {column.name!r} in {self.where} does not fit its "
                    "domain."
                )

    def _read_part_columns(self) -> dict[str, str]:
        """The column of parts, for every operator that has parts; `part` where nothing is said."""
        part_columns = {}
        for column, operator in self.operators.items():
            if not isinstance(operator, Parts):
                continue
            name = self.manifest.plan.part_columns.get(column, "part")
            if name not in ("part", f"part_{column}"):
                raise BundleError(
                    f"The parts of column {column!r} in {self.where} stand in no column of parts."
                )
            self._check_part_column(name)
            part_columns[column] = name
        return part_columns

    def _check_part_column(self, name: str) -> None:
        if name not in self._schemas["records"].names:
            raise BundleError(f"The records of {self.where} lack the column {name!r}.")
        self.require_whole_numbers("records", name)

    def _compare_with_plan(self) -> None:
        """Every record's part is one that there is, and can show the record's value."""
        for column, name in self._part_columns.items():
            operator = self.operators[column]
            assert isinstance(operator, Parts)
            for path, batch in self.batches((column, name)):
                self._check_parts(path, batch.column(name), len(operator.parts), "operator")
                if (self.shown_codes(batch, column) < 0).any():
                    raise BundleError(
                        f"A record in {path.name} of {self.where} shows a value that its part does "
                        "not have."
                    )
        if self.scales is not None:
            for path, batch in self.batches(("part",)):
                self._check_parts(path, batch.column("part"), len(self.scales), "scale")

    def _check_parts(self, path: Path, parts: pa.Array, many: int, what: str) -> None:
        ends = pc.min_max(parts, skip_nulls=False).as_py()
        low, high = ends["min"], ends["max"]
        if len(parts) and (low is None or not 0 <= low <= high < many):
            raise BundleError(
                f"A part in {path.name} of {self.where} has no {what} in the manifest."
            )

    def _check_merges(self) -> None:
        if not set(self.merges) <= {column.name for column in self.quasi}:
            raise BundleError(f"The merges of {self.where} are not about its quasi-identifiers.")
        for column, listed in self.merges.items():
            domain = self.column(column).domain
            labels = {merged.label for merged in listed}
            if isinstance(domain, Values) and not set(domain.values) <= labels:
                raise BundleError(
                    f"The merges of column {column!r} in {self.where} do not name all labels of "
                    "its domain."
                )
