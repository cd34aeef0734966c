"""One small language for promises and mechanisms: `name(arg, key=value)`.

A frozen dataclass that mixes in `TextForm` reads and writes itself in that language, the same in
Python, on the command line, in a job file and in a manifest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

from sfumato.errors import UsageError

_CALL = re.compile(r"^\s*([a-z][a-z0-9-]*)\s*(?:\((.*)\))?\s*$", re.DOTALL)
# an argument ends at a comma; one in quotation marks may hold commas
_ARGUMENT = re.compile(r"""((?:\s*[a-z_][a-z0-9_]*\s*=)?\s*(?:'[^']*'|"[^"]*")\s*|[^,]*)(?:,|$)""")
_KEYWORD = re.compile(r"^\s*([a-z_][a-z0-9_]*)\s*=(?!=)(.*)$", re.DOTALL)


def rational(value: object, parameter: str) -> Fraction:
    """`value` as an exact fraction; a float counts as the decimal it prints as.

    >>> rational("1/13", "rho1"), rational(0.58, "rho1")
    (Fraction(1, 13), Fraction(29, 50))
    """
    if isinstance(value, Fraction):
        return value
    text = repr(value) if isinstance(value, float) else str(value).strip()
    exponent = re.search(r"[eE][+-]?(\d+)$", text)
    try:
        # an exact fraction of 1e999999999 would take all memory
        if len(text) > 200 or (exponent and int(exponent.group(1)) > 100):
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(
            f"The {parameter!r} parameter must be a number such as 0.3 or 1/13. "
            f"Got {text[:50]!r} instead."
        ) from None


def decimal_text(value: Fraction) -> str:
    """The shortest exact text: a decimal where one exists with at most 12 digits, else a ratio.

    >>> decimal_text(Fraction(3, 40)), decimal_text(Fraction(1, 13)), decimal_text(Fraction(3))
    ('0.075', '1/13', '3')
    """
    if value.denominator == 1:
        return str(value.numerator)
    short = f"{float(value):.12g}"
    return short if Fraction(short) == value else str(value)


def split_call(text: str, what: str) -> tuple[str, list[str], dict[str, str]]:
    """Take `name(a, key=b)` apart into name, positional texts and keyword texts.

    >>> split_call("rho-privacy(1/13, rho2=1/6)", "guarantee")
    ('rho-privacy', ['1/13'], {'rho2': '1/6'})
    """
    match = _CALL.match(text)
    if match is None:
        raise UsageError(
            f"Cannot read the {what} {text!r}. Write name(value, key=value), "
            "for example 'rho-privacy(1/13, 1/6)'."
        )
    name, inside = match.group(1), match.group(2) or ""
    positional: list[str] = []
    keywords: dict[str, str] = {}
    for part in _arguments(inside) if inside.strip() else []:
        keyword = _KEYWORD.match(part)
        if keyword:
            if keyword.group(1) in keywords:
                raise UsageError(f"The {what} {text!r} gives {keyword.group(1)!r} twice.")
            keywords[keyword.group(1)] = keyword.group(2).strip()
        elif keywords:
            raise UsageError(
                f"The {what} {text!r} has the plain value {part.strip()!r} after a key=value pair. "
                "Put plain values first."
            )
        elif not part.strip():
            raise UsageError(f"The {what} {text!r} has an empty place between two commas.")
        else:
            positional.append(part.strip())
    return name, positional, keywords


def _arguments(inside: str) -> list[str]:
    """
    >>> _arguments("5, open='a, b'"), _arguments("1,,it's,")
    (['5', " open='a, b'"], ['1', '', "it's", ''])
    """
    found = [match.group(1) for match in _ARGUMENT.finditer(f"{inside},")]
    return found[:-1]  # the empty rest after the last comma


class TextForm:
    """Mixin for frozen dataclasses: `str(x)` and `cls.from_text(...)` are inverse.

    Fields arrive as texts from the language and as any Python value from a caller; the class
    turns both into its own types in `__post_init__`. Fields equal to their default are left out.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    earlier_names: ClassVar[Mapping[str, str]] = {}  # of parameters, as releases may have them

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Self:
        fields = [f for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]
        names = [f.name for f in fields]
        signature = f"{cls.name}({', '.join(names)})" if names else cls.name
        if len(positional) > len(names):
            raise UsageError(
                f"{cls.name} takes at most {len(names)} values, got {len(positional)}. "
                f"Write {signature}."
            )
        given: dict[str, Any] = dict(zip(names, positional, strict=False))
        for written, value in keywords.items():
            key = cls.earlier_names.get(written, written)
            if key not in names:
                raise UsageError(f"{cls.name} has no parameter {key!r}. Write {signature}.")
            if key in given:
                raise UsageError(f"{cls.name} gets {key!r} twice. Write {signature}.")
            given[key] = value
        missing = [
            f.name
            for f in fields
            if f.name not in given
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise UsageError(f"{cls.name} needs {', '.join(missing)}. Write {signature}.")
        return cls(**given)

    def __str__(self) -> str:
        parts: list[str] = []
        skipped = False
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if not field.init:
                continue
            value = getattr(self, field.name)
            if field.default is not dataclasses.MISSING and value == field.default:
                skipped = True
                continue
            text = decimal_text(value) if isinstance(value, Fraction) else str(value)
            optional = field.default is not dataclasses.MISSING
            parts.append(f"{field.name}={text}" if skipped or optional else text)
        return f"{self.name}({', '.join(parts)})" if parts else self.name
