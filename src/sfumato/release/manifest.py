"""The manifest: what a release says about itself, as types.

A release may contain what these types have and nothing else. Reading, the JSON Schema and the one
text form of a manifest all come from them.
"""

from __future__ import annotations

import hashlib
import re
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
    Values,
    in_json,
)
from sfumato.errors import BundleError
from sfumato.operators import AnyOperator
from sfumato.textform import promise_text

FORMAT = 2
READERS = {1: "0.2"}  # the last version that reads an older format
NAME = "manifest.json"
UNFINISHED = ".sfumato-part"  # how the folder of a run that has not finished ends
MOST_BYTES = 64 << 20  # a larger manifest is not read

FileName = Annotated[str, Meta(pattern=r"^(sensitive|records/part-[0-9]{5,9})\.parquet$")]


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
    """Whose rows they are, and how many of a person are published at most, chosen at random."""

    column: Annotated[str, Meta(min_length=1, max_length=1000)]
    rows: Annotated[int, Meta(ge=1, le=250)]
    suppressed: Count  # rows beyond that
    counted: str = ""  # the quasi-identifier that says how many rows a person has

    def sentences(self) -> list[str]:
        """What stands beside the promise.

        >>> print(PersonRule("patient", 1, 30).sentences()[1])
        Of each person one row, chosen at random, is published; 30 rows are suppressed. Answers
        count published rows alone.
        """
        whose = f"A person is whoever has one value of {self.column!r}, and the promise holds for "
        tail = f"{self.suppressed:,} rows are suppressed. Answers count published rows alone."
        if self.rows == 1:
            return [
                whose + "the person, of whom one row is published: to have a value is to have it "
                "in that row.",
                f"Of each person one row, chosen at random, is published; {tail}",
                *self._counted(),
            ]
        return [
            whose + "the person: a person's own record is all of their published rows together, "
            "and to have a value is to have it in any of these rows.",
            f"Of each person at most {self.rows} rows, chosen at random, are published; {tail}",
            f"Differential privacy is told for one row; for a person it is at most {self.rows} "
            "times as much.",
        ]

    def _counted(self) -> list[str]:
        if not self.counted:
            return []
        return [
            f"Column {self.counted!r} says how many rows a person has; few people with many show "
            f"the mean of theirs. SUM({self.counted}) estimates numbers of rows, of the drawn "
            "rows: its interval does not hold which row of a person was drawn."
        ]


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
    fitted: bool = False  # whether operators follow from how common values are
    floors: dict[str, Counts] = field(default_factory=dict)  # values that are retained seldom
    common: dict[str, Counts] = field(default_factory=dict)  # values in nearly every decoy group
    beyond: tuple[str, ...] = ()  # columns of which all columns together tell more than promised


class Size(ManifestPart, frozen=True):
    """How many buckets have so many records."""

    size: Count
    buckets: Count


class BlockNode(ManifestPart, frozen=True, omit_defaults=True):
    """A cut of a tree of blocks, by an edge or by values; or one of its blocks."""

    column: str | None = None
    below: int | float | None = None
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
    format: Literal[2] = 2
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
    files: dict[FileName, FileEntry] = field(default_factory=dict)

    @property
    def guarantee(self) -> str:
        """The promise as one text."""
        return promise_text(self.stated)

    @staticmethod
    def of(kind: str, plan: dict[str, Any], **fields: Any) -> Manifest:
        """The manifest of a kind, its plan as a mechanism describes it: `Plan.public()`.

        >>> plan = {"operators": {"s": {"form": "uniform", "values": 2, "retention": "1/2"}}}
        >>> said = {"sfumato": "0", "mechanism": "uniform", "guarantee": "none", "rows": 1,
        ...         "suppressed": 0, "missing": "refuse", "randomness": "system",
        ...         "columns": (), "statement": (), "does_not_protect": (), "caveats": ()}
        >>> Manifest.of("perturbed", plan, **said).plan.operators
        {'s': Uniform(values=2, retention=Fraction(1, 2))}
        """
        chosen = {cls.kind: cls for cls in get_args(AnyManifest)}[kind]
        (typed,) = (f.type for f in msgspec.structs.fields(chosen) if f.name == "plan")
        fields["stated"] = fields.pop("guarantee")
        manifest: Manifest = chosen(plan=msgspec.convert(plan, typed), **fields)
        return manifest

    def to_json(self) -> dict[str, Any]:
        stated: dict[str, Any] = in_json(self)
        for last in ("plan", "files"):  # what is long
            stated[last] = stated.pop(last)
        return stated

    def to_text(self) -> str:
        """The one text of a manifest."""
        return msgspec.json.format(msgspec.json.encode(self.to_json())).decode() + "\n"


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


class _Head(msgspec.Struct):
    format: int


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of the manifest, made from its types."""
    return msgspec.json.schema(AnyManifest)


def read_manifest(folder: Path, where: str) -> Manifest:
    """Read and validate a manifest that nobody vouches for; messages name the folder `where`."""
    path = folder / NAME
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{where} is not a release: it has no {NAME}.")
    if path.stat().st_size > MOST_BYTES:
        raise BundleError(f"The manifest of {where} is larger than {MOST_BYTES:,} bytes.")
    try:
        text = path.read_bytes()
        stated = msgspec.json.decode(text, type=_Head).format
        if stated != FORMAT:
            raise BundleError(_other_format(stated, where))
        manifest: Manifest = msgspec.json.decode(text, type=AnyManifest)
    except msgspec.ValidationError as error:
        raise BundleError(f"The manifest of {where} is wrong: {_place(str(error))}.") from None
    except (msgspec.MsgspecError, ValueError, OSError, RecursionError):
        raise BundleError(f"The manifest of {where} is not readable JSON.") from None
    _refuse_repeated(manifest, where)
    return manifest


def _other_format(stated: int, where: str) -> str:
    if stated in READERS:
        return (
            f"{where} was made by an older version, in release format {stated}: ask it with "
            f"sfumato {READERS[stated]} (pip install 'sfumato=={READERS[stated]}.*'), or publish "
            "it again."
        )
    return (
        f"{where} was made by another version: it has release format {stated}, and this sfumato "
        f"reads {FORMAT}. Update sfumato."
    )


def _place(problem: str) -> str:
    """msgspec's words, shortened: a pattern or a list of tags may be long.

    >>> _place("Expected `int`, got `str` - at `$.rows`")
    'expected `int`, got `str` - at `rows`'
    """
    text = re.sub(r"`\$\.?", "`", problem)
    return text[:1].lower() + (text[1:] if len(text) < 400 else f"{text[1:400]} …")


def _refuse_repeated(manifest: Manifest, where: str) -> None:
    names = [column.name for column in manifest.columns]
    if len(set(names)) != len(names):
        raise BundleError(f"The manifest of {where} names a column twice.")
    for column in manifest.columns:
        values = column.domain.values if isinstance(column.domain, Values) else ()
        if len({(isinstance(value, bool), value) for value in values}) != len(values):
            raise BundleError(
                f"The manifest of {where} names a value of column {column.name!r} twice."
            )
    if not any(name.startswith("records/") for name in manifest.files):
        raise BundleError(f"The manifest of {where} is wrong: it names no files of records.")
