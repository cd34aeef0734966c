"""The shape of every mechanism: plan on counts, apply to records.

`Mechanism.plan` sees the profile and decides; a frozen `Plan` says what becomes of the records.
`Plan.public` is all that the world learns of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sfumato.blocks import BlockTree
from sfumato.columns import Value
from sfumato.draws import Address, BoolArray, Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.words import Reader
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan
from sfumato.textform import TextForm

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Batch:
    """A run of records in stream order, as a plan sees them.

    `codes` index each sensitive column's domain; `ranks` count earlier records of the stream with
    the same value of that column (present when the plan has `needs_rank`); `addresses` are where
    the records' draws come from, per sensitive column: stream positions, or people. `keys` are what
    ranks count among (`RecordPlan.keys`).
    """

    codes: Mapping[str, IntArray]
    ranks: Mapping[str, IntArray]
    addresses: Mapping[str, Address]
    keys: Mapping[str, IntArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Published:
    """What a plan made of a batch, row for row.

    `codes` are the published sensitive columns (a column left out is not published in the
    records), `extra` further integer columns such as `part` or `bucket`; `keep` marks the records
    to publish, None meaning all.
    """

    codes: Mapping[str, IntArray]
    extra: Mapping[str, IntArray] = field(default_factory=dict)
    keep: BoolArray | None = None


class Plan(ABC):
    """A mechanism's decision for one profile.

    What an engine does with it is one of three things, and each has its class: a `RecordPlan`
    touches every record once, a `CellPlan` makes rows from counts, a `TablePlan` (see
    `mechanisms.generalized`) looks at all records at once.
    """

    kind: ClassVar[str]  # the release kind: "perturbed", "bucketed", …
    withheld: int = 0  # how many records the release leaves out

    @property
    def draws_for_people(self) -> bool:
        """Whether it draws for each record alone, so that a draw can belong to a person."""
        return False

    @property
    def narrower(self) -> str:
        """Whom its promise does not hold against although the guarantee's does, in words; or ""."""
        return ""

    @abstractmethod
    def public(self) -> PublicPlan:
        """The manifest's `plan`: JSON, every fact that a sentence of the release depends on, each
        with what it follows from."""

    def notes(self) -> list[str]:
        """Sentences for the steward alone, before anything is published."""
        return []

    @abstractmethod
    def predicted_error(self) -> float:
        """Expected standard error of a count, relative, at the share and size that
        `publish` compares mechanisms with: smaller is better. Comparable across mechanisms."""

    def compared_error(self, guarantee: Guarantee) -> float:
        """What `publish` compares mechanisms by: it chooses without looking at counts if it can."""
        return self.predicted_error()

    @abstractmethod
    def check(self) -> None:
        """Verify every invariant of the plan in exact arithmetic; AssertionError with the state."""


class RecordPlan(Plan):
    """A plan that publishes every record by itself, without memory of the others."""

    needs_rank: ClassVar[bool] = False

    @property
    def tree(self) -> BlockTree | None:
        """The blocks that it deals within, if any."""
        return None

    @property
    def first_buckets(self) -> Sequence[int]:
        """Where the buckets of every block begin, for plans that have any."""
        return (0,)

    def ranked(self, profile: Profile) -> Mapping[str, IntArray]:
        """How many records have each of what ranks count among: values, column by column."""
        return {column: histogram.counts for column, histogram in profile.histograms.items()}

    def keys(
        self, codes: Mapping[str, IntArray], blocks: IntArray | None
    ) -> Mapping[str, IntArray]:
        """Which of these each record has, given its codes and its block, if the plan has a tree;
        below 0 where it is none that was counted."""
        return codes

    @property
    def draws_for_people(self) -> bool:
        # a rank is a place in the table, not a person's own
        return not self.needs_rank

    @abstractmethod
    def apply(self, batch: Batch, draws: Draws) -> Published:
        """Publish a batch of records. The same for any cutting of the stream into batches."""

    def side_tables(
        self, records: Callable[[], Iterable[pa.RecordBatch]]
    ) -> Mapping[str, Iterable[pa.Table]]:
        """Further files of the release by stem, such as `sensitive` for buckets, in pieces.

        A sensitive column holds codes, under its name: the engine puts the values in. `records`
        reads the records as they were published, for plans that look at them again.
        """
        return {}


@dataclass(frozen=True, eq=False)
class PublishedQuasi:
    """A quasi column as a `CellPlan` publishes it: its own values, or labels of merged ones."""

    column: str
    values: tuple[Value, ...]
    merged: bool


@dataclass(frozen=True, eq=False)
class Emitted:
    """Rows made from counts: each combination of codes stands for `counts` equal rows.

    `quasi` codes index `CellPlan.quasi`, `codes` the sensitive domains; `extra` as in `Published`.
    """

    quasi: Mapping[str, IntArray]
    codes: Mapping[str, IntArray]
    extra: Mapping[str, IntArray]
    counts: IntArray


class CellPlan(Plan):
    """A plan that makes the published rows from the profile's cells, and touches no record."""

    @abstractmethod
    def quasi(self) -> list[PublishedQuasi]:
        """The quasi columns as they are published."""

    @abstractmethod
    def emit(self, draws: Draws) -> Iterator[Emitted]:
        """The published rows, in runs that fit into memory."""


def one_column(profile: Profile, mechanism: str) -> Histogram:
    """The only sensitive column, for a mechanism that publishes one."""
    if len(profile.histograms) != 1:
        raise UsageError(
            f"'{mechanism}' publishes one sensitive column; the table has "
            f"{len(profile.histograms)}: {', '.join(profile.histograms)}. Several columns are "
            "published in buckets ('optimal', 'local', under l-diversity and other ceilings) or "
            "perturbed ('uniform', under rho-privacy); or drop all but one."
        )
    return next(iter(profile.histograms.values()))


# offered by itself; only when it is named; only to compare with
Standing = Literal["offered", "on request", "baseline"]


class Mechanism(TextForm, ABC):
    """A way to keep a guarantee. Frozen dataclass; parameters have a text form."""

    what: ClassVar[str] = "mechanism"
    sentence: ClassVar[str]  # what it does, for somebody who chooses
    guarantees: ClassVar[tuple[type[Guarantee], ...]]  # those that it can keep at all
    standing: ClassVar[Standing] = "offered"
    holds_against: ClassVar[Reader | None] = (
        None  # whom its promises hold against, where that is less
    )
    narrows: ClassVar[str] = ""  # what ends the promise in words, where it is for fewer readers
    joint: ClassVar[bool] = False  # whether its draws for all columns keep limits on odds together
    needs_cells: ClassVar[bool] = False  # whether `plan` looks at the profile's cells
    needs_bins: ClassVar[bool] = False  # whether `plan` looks at its binned counts
    needs_holdings: ClassVar[bool] = False  # whether `plan` looks at combinations of columns

    @classmethod
    def candidates(cls) -> list[Self]:
        """The forms of this mechanism that `publish` compares when none is named."""
        return [cls()] if cls.standing == "offered" else []

    @classmethod
    def advised(cls) -> list[Self]:
        """The forms that `advise` tries."""
        return cls.candidates()

    def keeps(self, guarantee: Guarantee) -> bool:
        """Whether this mechanism can promise that guarantee at all."""
        enough = self.joint or guarantee.looks == 1
        return isinstance(guarantee, self.guarantees) and enough

    def promised(self, guarantee: Guarantee) -> Guarantee:
        """What this mechanism promises where it is asked for that guarantee."""
        return guarantee.kept_against(self.holds_against)

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        """Sentences of its own beside the promise, from the public part of a plan alone."""
        return []

    @abstractmethod
    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> Plan:
        """Decide from counts; raises `InfeasibleGuarantee` with the witness."""
