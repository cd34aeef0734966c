"""What the page may ask for: the shapes of its requests, checked before anything looks at them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from sfumato.table_options import ROLES, TABLE_OPTIONS
from sfumato.web.answers import Refusal

Share = Annotated[float, Meta(gt=0, lt=1)]


class AskedPromise(Struct):
    """A promise, and the way to keep it where one was chosen."""

    guarantee: str
    mechanism: str | None = None

    def words(self) -> dict[str, str | None]:
        return {"guarantee": self.guarantee, "mechanism": self.mechanism or None}


class AskedPreview(AskedPromise, kw_only=True):
    """A promise about a table whose columns have roles."""

    profile: str
    exact: bool = False


class AskedQuestion(Struct):
    """SQL for a release: that of a job, or the one that is explored."""

    sql: str
    confidence: Share = 0.95
    job: str | None = None
    release: bool = False
    estimator: str | None = None
    number: Annotated[int, Meta(ge=0, lt=1 << 53)] | None = None  # that the page gave its question


class AskedRelease(AskedPromise, tag_field="kind", tag="publish", kw_only=True):
    profile: str
    name: str = ""
    left_out: str | None = None


class AskedEvidence(Struct, tag_field="kind", tag="evidence"):
    """The evidence for the release of a job; `table_name` and `author` stand in its report."""

    job: str
    name: str = ""
    attacks: Annotated[list[str], Meta(max_length=20)] | None = None
    targets: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    table_name: str | None = None
    author: str | None = None


class AskedCards(Struct, tag_field="kind", tag="cards"):
    """Three promises for an error of counts, values that need protection, and who might look."""

    profile: str
    error: Share = 0.1
    guarded: list[str] = []
    anybody: bool = False


class AskedCounts(Struct, tag_field="kind", tag="counts"):
    """What planning needs of a table whose columns have roles; its options as `TABLE_OPTIONS`."""

    table: str
    roles: dict[str, str]


AskedJob = AskedRelease | AskedEvidence | AskedCards | AskedCounts

_FORMS: dict[str, Any] = {"switch": bool, "columns": list[str], "each": dict[str, str]}
_Options = msgspec.defstruct(
    "_Options",
    [
        (option.name, _FORMS.get(option.form, str) | None, None)
        for option in TABLE_OPTIONS
        if option.name not in ROLES
    ],
)


def checked(content: Any, shape: Any) -> Any:
    """What was asked, in its shape."""
    try:
        return msgspec.convert(content, shape)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"The request cannot be understood: {error}.") from None


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """What the command line's flags would say; the roles of columns are given apart."""
    said = msgspec.structs.asdict(checked(given, _Options))
    return {name: value for name, value in said.items() if value not in (None, "")}
