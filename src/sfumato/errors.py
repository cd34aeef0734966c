"""What can go wrong, and how we say it: what is wrong, where, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Self

_QUOTED = r"""(?<!\w)'(?:[^'\\\n]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\\n]|\\.)*"(?!\w)"""
_FLAG = re.compile(_QUOTED + r"|(?<![^\s(])--([a-z][a-z0-9-]*)( (?=\d|'|[A-Z]{2}|value|drop))?")


def flags_as(message: str, said: Callable[[str, bool], str]) -> str:
    """A message with every flag as it is called elsewhere; `said` takes its name, and whether a
    value follows. What is quoted is data.

    >>> flags_as("Column 'a--b 1': use --quasi-k 5.", lambda name, more: f"<{name}>")
    "Column 'a--b 1': use <quasi-k>5."
    """

    def replaced(found: re.Match[str]) -> str:
        return said(found[1], bool(found[2])) if found[1] else found[0]

    return _FLAG.sub(replaced, message)


class SfumatoError(Exception):
    """Base of every error that sfumato raises on purpose; `exit_code` is the command line's.

    Messages name flags, which the command line prints; in Python they name parameters. `repair`
    are options under which this is not refused again, where that can be said.

    >>> print(SfumatoError("Publish with --quasi-k 5."))
    Publish with quasi_k=5.
    """

    exit_code = 2
    repair: Mapping[str, Any] = {}

    def repaired_by(self, **options: Any) -> Self:
        self.repair = options
        return self

    @property
    def with_flags(self) -> str:
        return super().__str__()

    def __str__(self) -> str:
        return flags_as(self.with_flags, lambda name, _: f"{name.replace('-', '_')}=")


class DataError(SfumatoError):
    """Bad or missing input: the message names file, column or row, and what was expected."""


class UsageError(SfumatoError):
    """A parameter that makes no sense, with the value that was given."""


class InfeasibleGuarantee(SfumatoError):
    """The guarantee cannot be kept on this data.

    `witness` is the value (or group) that makes it impossible, `nearest` the text form of the
    nearest guarantee that can be kept, or None where there is none.
    """

    exit_code = 3

    def __init__(self, message: str, *, witness: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.witness = witness
        self.nearest = nearest

    def with_nearest(self, nearest: str) -> InfeasibleGuarantee:
        """The same where something else is the nearest that can be kept."""
        message = self.with_flags.replace(f"'{self.nearest}'", f"'{nearest}'")
        return InfeasibleGuarantee(message, witness=self.witness, nearest=nearest)


class BundleError(SfumatoError):
    """A release folder that is damaged, foreign, or from the future."""


class QueryError(SfumatoError):
    """SQL outside the dialect: what is not supported, and what to write instead."""


class SingularOperator(QueryError):
    """The release cannot tell some values apart, so no unbiased estimate exists."""


class LimitReached(SfumatoError):
    """The work took more time, memory, disk or output than it may: which, and how to allow more."""

    exit_code = 6


class WeakPromiseWarning(UserWarning):
    """Something makes a release protect less, or answer worse, than its reader may expect."""


class LeftoverWarning(UserWarning):
    """A run that was killed had left something behind, which is gone now."""
