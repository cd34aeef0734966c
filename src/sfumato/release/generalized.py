"""Releases whose quasi columns are ranges and sets.

A numeric quasi column `age` stands there as `age_low` and `age_high`, a categorical one as a list
under its own name; sensitive columns stand as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.columns import Column, Range, quoted
from sfumato.errors import BundleError
from sfumato.operators.matched import Marginal
from sfumato.release.manifest import GeneralizedManifest
from sfumato.release.marginals import places_of, read_marginals
from sfumato.release.reader import Release
from sfumato.release.records import scan
from sfumato.release.values import count_strangers


class GeneralizedRelease(Release):
    """Every record shows a range or a set per quasi column, and somebody's sensitive values."""

    kind: ClassVar[str] = "generalized"
    manifest: GeneralizedManifest
    shows_quasi_exactly = False
    counts_quasi_exactly = False
    discloses_histogram = True
    marginals: Mapping[str, Marginal]  # how many people have which values, where it is told

    @property
    def matches(self) -> int:
        """How many published records every person matches, at least."""
        return self.manifest.plan.matches

    @property
    def spans(self) -> int:
        """How many people a record spans, in the mean."""
        return self.manifest.plan.spans

    def marginal_of(self, column: Column, values: pa.Array) -> Marginal | None:
        """The same for a categorical column whose values are numbered as here."""
        marginal = self.marginals.get(column.name)
        return None if marginal is None else marginal.of(places_of(column, values))

    def shown_as(self, column: Column) -> tuple[str, ...]:
        if column.role == "quasi" and column.kind == "numeric":
            return f"{column.name}_low", f"{column.name}_high"
        return (column.name,)

    def _known_names(self, table: str) -> set[str]:
        return {name for column in self.columns for name in self.shown_as(column)}

    def _columns_of_values(self, column: Column) -> tuple[str, ...]:
        return self.shown_as(column)

    def _field_type(self, name: str) -> pa.DataType:
        """The type of a value, where the records show sets of values."""
        kind = super()._field_type(name)
        if name not in {c.name for c in self.quasi if c.kind == "categorical"}:
            return kind
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise BundleError(f"Column {name!r} of {self.where} is {kind}, not a list.")
        inner = kind.value_type
        return inner.value_type if pa.types.is_dictionary(inner) else inner

    def _in_the_open(self) -> tuple[Column, ...]:
        return self.sensitive

    def _compare_domains(self, connection: Any) -> None:
        for column in self.quasi:
            if column.kind == "numeric":
                self._check_ranges(connection, column)
            else:
                self._check_sets(connection, column)
        super()._compare_domains(connection)

    def _check_ranges(self, connection: Any, column: Column) -> None:
        """Ranges run upwards inside the domain."""
        low, high = (quoted(name) for name in self.shown_as(column))
        broken = f"{low} IS NULL OR {high} IS NULL OR {low} > {high}"
        params: list[Any] = []
        if isinstance(column.domain, Range) and column.domain.low is not None:
            broken += f" OR {low} < ? OR {high} > ?"
            params = [column.domain.low, column.domain.high]
        count = connection.execute(
            f"SELECT count(*) FROM {scan(self.records)} WHERE {broken}", params
        )
        if number := count.fetchall()[0][0]:
            raise BundleError(
                f"Column {column.name!r} of {self.where} has {number:,} ranges that end before "
                "they begin, or lie outside the domain that the manifest states."
            )

    def _check_sets(self, connection: Any, column: Column) -> None:
        """Sets are not empty, have no value twice and none from outside the domain."""
        name = quoted(column.name)
        count = connection.execute(
            f"SELECT count(*) FROM {scan(self.records)} WHERE {name} IS NULL OR len({name}) = 0 "
            f"OR len(list_distinct({name})) + CAST(list_count({name}) < len({name}) AS INT) "
            f"<> len({name})"
        )
        if number := count.fetchall()[0][0]:
            raise BundleError(
                f"Column {column.name!r} of {self.where} has {number:,} sets that are empty or "
                "name a value twice."
            )
        inside = f"(SELECT unnest({name}) AS value FROM {scan(self.records)})"
        if strangers := count_strangers(connection, inside, "value", column.domain):
            raise BundleError(
                f"Column {column.name!r} of {self.where} has {strangers:,} values outside the "
                "domain that the manifest states."
            )

    def _read_plan(self) -> None:
        self.marginals = read_marginals(
            self.manifest.plan.marginals, {column.name: column for column in self.quasi}, self.where
        )
