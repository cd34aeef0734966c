"""The manifest: what a release says about itself, as types.

A release may contain what these types have and nothing else. Reading (`release.reading`), the JSON
Schema and the one text form of a manifest all come from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta, field

from sfumato.columns import (
    Column,
    Count,
    Counts,
    LongText,
    ManifestPart,
    Stated,
    in_json,
)
from sfumato.operators import AnyOperator
from sfumato.public import Public, PublicPlan, fitted_of, values_of
from sfumato.textform import promise_text

FORMAT: Literal[3] = 3
OLDER: Literal[2] = 2  # is read as well
NAME = "manifest.json"
UNFINISHED = ".sfumato-part"  # how the folder of a run that has not finished ends

FileName = Annotated[str, Meta(pattern=r"^(sensitive|records/part-[0-9]{5,9})\.parquet$")]


def text_of(document: dict[str, Any]) -> str:
    """The one text of a JSON document."""
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


class FileEntry(ManifestPart, frozen=True):
    """A file of the release, with what it must hash to."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Count

    @staticmethod
    def of(path: Path) -> FileEntry:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(digest, path.stat().st_size)


class PersonRule(ManifestPart, frozen=True):
    """Whose rows they are, of whom one row each is published, chosen at random."""

    column: Annotated[str, Meta(min_length=1, max_length=1000)]
    suppressed: Count  # the others
    counted: str = ""  # the quasi-identifier that says how many rows a person has

    def sentences(self) -> list[str]:
        """What stands beside the promise.

        >>> print(PersonRule("patient", 30).sentences()[1])
        Of each person one row, chosen at random, is published; 30 rows are suppressed. Answers
        count published rows alone.
        """
        said = [
            f"A person is whoever has one value of {self.column!r}, and the promise holds for the "
            "person, of whom one row is published: to have a value is to have it in that row.",
            "Of each person one row, chosen at random, is published; "
            f"{self.suppressed:,} rows are suppressed. Answers count published rows alone.",
        ]
        if self.counted:
            said.append(
                f"Column {self.counted!r} says how many rows a person has; few people with many "
                f"show the mean of theirs. SUM({self.counted}) estimates numbers of rows, of the "
                "drawn rows: its interval does not hold which row of a person was drawn."
            )
        return said


class QuasiK(ManifestPart, frozen=True):
    """Quasi-identifiers that were merged until `k` people shared every combination of them."""

    k: Annotated[int, Meta(ge=2, lt=1 << 62)]
    columns: dict[str, LongText]  # with the recode of each


# The public part of a plan, by kind.


class SampleLevel(ManifestPart, frozen=True):
    """Groups whose largest share is in (`above`, `to`] are sampled to at most `sample` records."""

    above: float
    to: float
    sample: Count


class Sampling(ManifestPart, frozen=True):
    """How groups were sampled and copied back to their size."""

    levels: tuple[SampleLevel, ...]
    scales: tuple[Annotated[float, Meta(ge=1)], ...]
    groups_suppressed: Count


class Merged(ManifestPart, frozen=True):
    """Quasi values that are published as one: the text that stands for them, and what they are."""

    label: str
    values: Annotated[tuple[Stated, ...], Meta(min_length=1)]


class PerturbedPart(ManifestPart, frozen=True):
    operators: dict[str, AnyOperator]
    part_columns: dict[str, str] = field(default_factory=dict)
    sampling: Sampling | None = None
    merges: dict[str, tuple[Merged, ...]] = field(default_factory=dict)
    floors: dict[str, Counts] = field(default_factory=dict)  # values that are retained seldom


class Size(ManifestPart, frozen=True):
    """How many buckets have so many records."""

    size: Count
    buckets: Count


class BlockNode(ManifestPart, frozen=True, omit_defaults=True):
    """A cut of a tree of blocks, by an edge or by values; or one of its blocks."""

    column: str | None = None
    below: int | float | str | None = None
    values: tuple[Stated, ...] | None = None
    buckets: Annotated[int, Meta(ge=1, lt=1 << 62)] | None = None
    histogram: Counts | None = None


class BucketedPart(ManifestPart, frozen=True):
    buckets: Count
    sizes: tuple[Size, ...]
    mean_squared_error: float
    fakes: Count = 0
    association: str | None = None
    histogram: Counts | None = None  # where fakes hide it
    blocks: tuple[BlockNode, ...] = ()


class MarginalPart(ManifestPart, frozen=True):
    """How many people have which values: cells by where they start, or of every value."""

    people: Counts
    starts: tuple[int, ...] | None = None
    cells: Counts | None = None


class GeneralizedPart(ManifestPart, frozen=True):
    matches: Count
    spans: Count
    groups: Count | None = None
    marginals: dict[str, MarginalPart] = field(default_factory=dict)


class Manifest(ManifestPart, frozen=True, kw_only=True, tag_field="kind"):
    """Everything public about a release; nothing that the method hides."""

    if TYPE_CHECKING:
        kind: ClassVar[str]
        plan: Any  # of the kind's own type
    format: Literal[2, 3] = FORMAT
    sfumato: Annotated[str, Meta(max_length=64)]
    writer: Annotated[str, Meta(max_length=64)] = ""  # of the Parquet files: decides their bytes
    mechanism: Annotated[str, Meta(max_length=1000)]
    # for all, or by column; msgspec 0.22 frees a union of a dict and a text with limits wrongly
    stated: str | dict[str, LongText] = field(name="guarantee")
    rows: Count
    suppressed: Count
    missing: Literal["refuse", "value", "drop"]
    randomness: Literal["system", "seeded", "key-file"]
    joint: bool = False  # whether the promise is about what all sensitive columns tell together
    statement: tuple[str, ...]
    does_not_protect: tuple[str, ...]
    caveats: tuple[str, ...]
    person: PersonRule | None = None
    quasi_k: QuasiK | None = None
    columns: tuple[Column, ...]
    fitted: tuple[str, ...] = ()  # what follows from counts that the release hides
    files: dict[FileName, FileEntry] = field(default_factory=dict)

    @property
    def guarantee(self) -> str:
        """The promise as one text."""
        return promise_text(self.stated)

    @staticmethod
    def of(
        kind: str, plan: PublicPlan, columns: Sequence[Public[Column]], **fields: Any
    ) -> Manifest:
        """The manifest of a kind, its plan as a mechanism describes it: `Plan.public()`.

        >>> from sfumato.public import from_stated
        >>> operators = {"s": {"form": "uniform", "values": 2, "retention": "1/2"}}
        >>> said = {"sfumato": "0", "mechanism": "uniform", "guarantee": "none", "rows": 1,
        ...         "suppressed": 0, "missing": "refuse", "randomness": "system",
        ...         "statement": (), "does_not_protect": (), "caveats": ()}
        >>> plan = {"operators": from_stated(operators)}
        >>> Manifest.of("perturbed", plan, (), **said).plan.operators
        {'s': Uniform(values=2, retention=Fraction(1, 2))}
        """
        chosen = {cls.kind: cls for cls in get_args(AnyManifest)}[kind]
        (typed,) = (f.type for f in msgspec.structs.fields(chosen) if f.name == "plan")
        fields["stated"] = fields.pop("guarantee")
        manifest: Manifest = chosen(
            plan=msgspec.convert(values_of(plan), typed),
            columns=tuple(column.value for column in columns),
            fitted=fitted_of(plan, {column.value.name: column for column in columns}),
            **fields,
        )
        return manifest

    def to_json(self) -> dict[str, Any]:
        stated: dict[str, Any] = in_json(self)
        for last in ("plan", "files"):  # what is long
            stated[last] = stated.pop(last)
        return stated

    def to_text(self) -> str:
        """The one text of a manifest."""
        return text_of(self.to_json())


class PerturbedManifest(Manifest, frozen=True, tag="perturbed"):
    kind: ClassVar[str] = "perturbed"
    plan: PerturbedPart


class BucketedManifest(Manifest, frozen=True, tag="bucketed"):
    kind: ClassVar[str] = "bucketed"
    plan: BucketedPart


class GeneralizedManifest(Manifest, frozen=True, tag="generalized"):
    kind: ClassVar[str] = "generalized"
    plan: GeneralizedPart


AnyManifest = PerturbedManifest | BucketedManifest | GeneralizedManifest


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of the manifest, made from its types."""
    return msgspec.json.schema(AnyManifest)
