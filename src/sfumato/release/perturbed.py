"""Releases whose sensitive values went through an operator, record by record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column, Values, list_some
from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.operators import Operator, Parts, Uniform, operator_from_json
from sfumato.release.reader import Merged, Release


class PerturbedRelease(Release):
    """Quasi columns as they are or merged; sensitive values as an operator published them.

    Where a column's operator has parts, a column of the records numbers the part of each record.
    Where groups were sampled and copied back, the column `part` numbers the scale of each.
    """

    kind: ClassVar[str] = "perturbed"

    @property
    def operators(self) -> Mapping[str, Operator]:
        """The operator of every sensitive column."""
        return self._operators

    @property
    def scales(self) -> tuple[float, ...] | None:
        return self._scales

    @property
    def drawn_together(self) -> bool:
        """Whether a record keeps all its sensitive values, or shows any combination of others."""
        return self._drawn_together

    @property
    def merges(self) -> Mapping[str, tuple[Merged, ...]]:
        return self._merges

    @property
    def shows_quasi_exactly(self) -> bool:
        return not self._merges

    def part_column(self, column: str) -> str | None:
        return self._part_columns.get(column)

    def shown_as(self, column: Column) -> tuple[str, ...]:
        part = self.part_column(column.name)
        return (column.name,) if part is None else (column.name, part)

    def shown_codes(self, records: pa.Table | pa.RecordBatch, name: str) -> IntArray:
        codes, operator = super().shown_codes(records, name), self._operators[name]
        if not isinstance(operator, Parts):
            return codes
        parts = records.column(self._part_columns[name]).to_numpy()
        return operator.lookup[np.asarray(parts, np.int64), codes]

    def _known_names(self, table: str) -> set[str]:
        parts = {f"part_{column.name}" for column in self.sensitive}
        return super()._known_names(table) | parts | {"part"}

    def _check_schemas(self) -> None:
        super()._check_schemas()
        shown = set(self._schemas["records"].names)
        lacking = [column.name for column in self.columns if column.name not in shown]
        if lacking:
            raise BundleError(f"The records of {self.where} lack {list_some(lacking)}.")

    def _read_plan(self) -> None:
        self._operators = self._read_operators(self.plan.get("operators", {}))
        self._part_columns = self._read_part_columns(self.plan.get("part_columns", {}))
        self._scales = self._read_scales() if "sampling" in self.plan else None
        self._drawn_together = self._read_together() if self._scales is not None else False
        self._merges = self._read_merges(self.plan.get("merges", {}))

    def _read_operators(self, described: Any) -> dict[str, Operator]:
        if not isinstance(described, dict):
            raise BundleError(f"The operators of {self.where} are not an object.")
        if not described:
            raise BundleError(f"The manifest of {self.where} names no operator.")
        sensitive = {column.name for column in self.sensitive}
        if set(described) != sensitive:
            raise BundleError(
                f"The manifest of {self.where} has operators for {list_some(sorted(described))}; "
                f"the sensitive columns are {list_some(sorted(sensitive))}."
            )
        found = {}
        for column in self.sensitive:
            stated = described[column.name]
            if not isinstance(stated, dict):
                raise BundleError(f"The operator of column {column.name!r} is not an object.")
            operator = operator_from_json(stated)
            if not isinstance(column.domain, Values) or len(column.domain) != operator.domain_size:
                raise BundleError(
                    f"The operator of column {column.name!r} in {self.where} does not fit its "
                    "domain."
                )
            found[column.name] = operator
        return found

    def _read_part_columns(self, stated: Any) -> dict[str, str]:
        """The column of parts, for every operator that has parts; `part` where nothing is said."""
        if not isinstance(stated, dict):
            raise BundleError(f"The columns of parts of {self.where} are not an object.")
        found = {}
        for column, operator in self._operators.items():
            if not isinstance(operator, Parts):
                continue
            name = stated.get(column, "part")
            if name not in ("part", f"part_{column}"):
                raise BundleError(
                    f"The parts of column {column!r} in {self.where} stand in no column of parts."
                )
            self._check_part_column(name)
            found[column] = name
        return found

    def _read_scales(self) -> tuple[float, ...]:
        """Scales are numbers from 1 up; the records say in `part` which is theirs."""
        sampling = self.plan["sampling"]
        scales = sampling.get("scales") if isinstance(sampling, dict) else None
        if not isinstance(scales, list) or not all(
            type(scale) in (int, float) and 1 <= scale < math.inf for scale in scales
        ):
            raise BundleError(f"The sampling scales of {self.where} are not numbers from 1.")
        self._check_part_column("part")
        return tuple(map(float, scales))

    def _read_together(self) -> bool:
        """Several columns are drawn together by one coin, so their operators have one retention."""
        together = self.plan["sampling"].get("together", False)
        if type(together) is not bool or together != (len(self.sensitive) > 1):
            raise BundleError(
                f"The sampling of {self.where} does not say that its columns were drawn together."
            )
        operators = self._operators.values()
        kept = {each.retention for each in operators if isinstance(each, Uniform)}
        if together and (len(kept) != 1 or not all(isinstance(e, Uniform) for e in operators)):
            raise BundleError(
                f"The columns of {self.where} were drawn together, but not by one uniform operator."
            )
        return together

    def _check_part_column(self, name: str) -> None:
        if name not in self._schemas["records"].names:
            raise BundleError(f"The records of {self.where} lack the column {name!r}.")
        if not pa.types.is_integer(self._schemas["records"].field(name).type):
            raise BundleError(f"Column {name!r} of {self.where} does not hold whole numbers.")

    def _compare_with_plan(self) -> None:
        """Every record's part is one that there is, and can show the record's value."""
        for column, name in self._part_columns.items():
            operator = self._operators[column]
            assert isinstance(operator, Parts)
            for path, batch in self._batches((column, name)):
                self._check_parts(path, batch.column(name), len(operator.parts), "operator")
                if (self.shown_codes(batch, column) < 0).any():
                    raise BundleError(
                        f"A record in {path.name} of {self.where} shows a value that its part does "
                        "not have."
                    )
        if self._scales is not None:
            for path, batch in self._batches(("part",)):
                self._check_parts(path, batch.column("part"), len(self._scales), "scale")

    def _check_parts(self, path: Path, parts: pa.Array, many: int, what: str) -> None:
        found = pc.min_max(parts, skip_nulls=False).as_py()
        low, high = found["min"], found["max"]
        if len(parts) and (low is None or not 0 <= low <= high < many):
            raise BundleError(
                f"A part in {path.name} of {self.where} has no {what} in the manifest."
            )

    def _read_merges(self, stated: Any) -> dict[str, tuple[Merged, ...]]:
        quasi = {column.name for column in self.quasi}
        if not isinstance(stated, dict) or not set(stated) <= quasi:
            raise BundleError(f"The merges of {self.where} are not about its quasi columns.")
        found = {}
        for column, listed in stated.items():
            if not isinstance(listed, list) or not all(map(_is_merged, listed)):
                raise BundleError(
                    f"The merges of column {column!r} in {self.where} are not a list of labels "
                    "with their values."
                )
            found[column] = tuple(Merged(each["label"], tuple(each["values"])) for each in listed)
            labels = {merged.label for merged in found[column]}
            domain = self.column(column).domain
            if isinstance(domain, Values) and not set(domain.values) <= labels:
                raise BundleError(
                    f"The merges of column {column!r} in {self.where} do not name all labels of "
                    "its domain."
                )
        return found


def _is_merged(stated: Any) -> bool:
    return (
        isinstance(stated, dict)
        and isinstance(stated.get("label"), str)
        and isinstance(stated.get("values"), list)
        and len(stated["values"]) > 0
        and all(v is None or isinstance(v, (str, int, float)) for v in stated["values"])
    )
