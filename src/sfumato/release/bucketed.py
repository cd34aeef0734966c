"""Releases that list sensitive values by bucket: who in a bucket has which is not told."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sfumato.blocks import BlockTree
from sfumato.columns import Column, Counts, Values, in_json
from sfumato.errors import BundleError
from sfumato.release.manifest import BucketedManifest, BucketedPart
from sfumato.release.reader import Release
from sfumato.release.records import scan


class BucketedRelease(Release):
    """Quasi columns as they are with a bucket; `sensitive.parquet` lists the values of each."""

    kind: ClassVar[str] = "bucketed"
    manifest: BucketedManifest
    side_files: ClassVar[tuple[str, ...]] = ("sensitive.parquet",)
    tree: BlockTree | None = None  # that people were mixed within; None where all with all
    first_buckets: tuple[int, ...] = (0,)  # of every block: buckets are numbered block by block
    block_histograms: tuple[Counts, ...] | None = None  # true counts, stated where fakes hide them

    def list_of(self, column: str) -> Path | None:
        return self.file("sensitive")

    @property
    def histogram(self) -> tuple[int, ...] | None:
        """True counts by code, where they are stated because fakes hide them."""
        return self.manifest.plan.histogram if self.fakes else None

    def shown_as(self, column: Column) -> tuple[str, ...]:
        return (column.name,) if column.role == "quasi" else ("bucket",)

    def means(self, column: Column) -> str:
        return "bucket, whose sensitive values sensitive.parquet lists"

    def _known_names(self, table: str) -> set[str]:
        if table == "records":
            return {column.name for column in self.quasi} | {"bucket"}
        return {column.name for column in self.sensitive} | {"bucket", "count"}

    def _check_schemas(self) -> None:
        super()._check_schemas()
        for table in self._schemas:
            for name in sorted(self._known_names(table) - {column.name for column in self.columns}):
                self.require_whole_numbers(table, name)

    def _compare_with_plan(self) -> None:
        self._in_database(self._compare_buckets)
        if self.tree is None:
            return
        tree, first = self.tree, np.array(self.first_buckets)
        strangers = 0
        for _, batch in self.batches([*tree.columns, "bucket"]):
            buckets = np.asarray(batch.column("bucket").to_numpy(zero_copy_only=False), np.int64)
            block = np.searchsorted(first, buckets, side="right") - 1
            strangers += int((block != tree.numbers(batch)).sum())
        if strangers:
            raise BundleError(
                f"{strangers:,} records of {self.where} are in a bucket of another block than "
                "their own. Fetch it again."
            )

    def _compare_buckets(self, connection: Any) -> None:
        """Every record is in a bucket that lists values, each at least once."""
        listed = scan([self.file("sensitive")])
        counted = f"SELECT count(*) FROM {listed} WHERE NOT coalesce(count > 0, false)"
        if connection.sql(counted).fetchall()[0][0]:
            raise BundleError(
                f"sensitive.parquet of {self.where} has a count below 1. Fetch it again."
            )
        records = f"{scan(self.records)} AS r ANTI JOIN {listed} AS s ON r.bucket = s.bucket"
        if strangers := connection.sql(f"SELECT count(*) FROM {records}").fetchall()[0][0]:
            raise BundleError(
                f"{strangers:,} records of {self.where} are in a bucket that lists no values. "
                "Fetch it again."
            )

    def _read_plan(self) -> None:
        plan = self.manifest.plan
        self.fakes, self.discloses_histogram = plan.fakes, not plan.fakes
        if self.fakes and len(self.sensitive) != 1:
            raise BundleError(
                f"{self.where} has fake values, which go with one sensitive column; it "
                f"has {len(self.sensitive)}."
            )
        counts = plan.histogram
        if self.fakes and not (counts and self._fits(counts) and sum(counts) == self.rows):
            raise BundleError(
                f"{self.where} has fake values, but its plan states no histogram of its "
                f"{self.rows:,} records."
            )
        if plan.blocks:
            self._read_blocks(plan)

    def _fits(self, counts: tuple[int, ...] | None) -> bool:
        """Whether there is a count for every value of the domain."""
        domain = self.sensitive[0].domain
        return isinstance(domain, Values) and counts is not None and len(counts) == len(domain)

    def _read_blocks(self, plan: BucketedPart) -> None:
        columns = {column.name: column for column in self.quasi}
        try:
            tree, leaves = BlockTree.from_json([in_json(node) for node in plan.blocks])
        except ValueError as error:
            raise BundleError(f"The plan of {self.where} has 'blocks', but {error}.") from None
        self.tree = tree
        for cut in tree.cuts:
            if cut is not None and not (cut.column in columns and cut.fits(columns[cut.column])):
                raise BundleError(
                    f"The plan of {self.where} cuts blocks by {cut}, which no quasi-identifier has."
                )
        sizes = [leaf.get("buckets", 0) for leaf in leaves]
        if 0 in sizes or sum(sizes) != plan.buckets:
            raise BundleError(
                f"The blocks in the plan of {self.where} do not say how many of its "
                f"{plan.buckets:,} buckets each of them has."
            )
        self.first_buckets = tuple(itertools.accumulate([0, *sizes[:-1]]))
        if self.fakes:
            counts = tuple(tuple(leaf.get("histogram", ())) for leaf in leaves)
            if not all(map(self._fits, counts)) or (
                tuple(map(sum, zip(*counts, strict=True))) != self.histogram
            ):
                raise BundleError(
                    f"{self.where} has fake values, but its plan does not state the histogram of "
                    "every block."
                )
            self.block_histograms = counts
