"""One small language for promises and mechanisms: `name(arg, key=value)`.

A frozen dataclass that mixes in `TextForm` reads and writes itself in that language, the same in
Python, on the command line, in a job file and in a manifest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from sfumato.errors import UsageError

_CALL = re.compile(r"^\s*([a-z][a-z0-9-]*)\s*(?:\((.*)\))?\s*$", re.DOTALL)
# an argument ends at a comma; one in quotation marks may hold commas
_ARGUMENT = re.compile(r"""((?:\s*[a-z_][a-z0-9_]*\s*=)?\s*(?:'[^']*'|"[^"]*")\s*|[^,]*)(?:,|$)""")
AND = " and "  # between promises
_KEYWORD = re.compile(r"^\s*([a-z_][a-z0-9_]*)\s*=(?!=)(.*)$", re.DOTALL)

# where a promise begins after another; what stands in quotation marks is passed over. Nothing is
# tried twice (++): a text may come from a stranger's manifest
_QUOTED = r"""'(?:[^']|'')*+'|"[^"]*+\""""
_ABOUT = rf"(?:({_QUOTED}|[^:'\"()]++)\s*+:\s*+)?+(?=[a-z][a-z0-9-]*+\s*+\()"
_AND = re.compile(rf"{_QUOTED}|(?<=\))(\s++and\s++)(?={_ABOUT})")
_PROMISE = re.compile(rf"\s*+{_ABOUT}")


def rational(value: object, parameter: str, owner: str = "") -> Fraction:
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
        whose = f" of {owner}" if owner else ""
        raise UsageError(
            f"The {parameter!r} parameter{whose} must be a number such as 0.3 or 1/13. "
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


@dataclass(frozen=True)
class Parameter:
    """What a parameter may be, declared once: text form, messages, help and page read it.

    A number (`whole` or not) within its bounds, one of `options`, or what `form` makes of it. One
    that a steward moves has a `title`, a `default`, the ends of a `slider`, and what moving does.

    >>> Parameter("beta", above=0).read("-1", "beta-likeness")
    Traceback (most recent call last):
        ...
    sfumato.errors.UsageError: The 'beta' parameter of beta-likeness must be a number above 0. ...
    >>> Parameter("l", least=2, whole=True).wanted, Parameter("p", above=0, below=1).wanted
    ('a whole number of at least 2', 'a number between 0 and 1, both excluded')
    """

    name: str
    _: KW_ONLY
    above: int | None = None
    least: int | None = None
    below: int | None = None
    most: int | None = None
    whole: bool = False
    options: tuple[str, ...] = ()
    form: Callable[[Any], Any] | None = None
    title: str = ""
    default: str = ""
    slider: tuple[float, float] = (0.0, 1.0)
    less: str = ""
    more: str = ""

    @property
    def wanted(self) -> str:
        """What it may be, in words."""
        if self.options:
            return f"one of {', '.join(self.options)}"
        kind = "a whole number" if self.whole else "a number"
        if self.above is not None and self.below is not None:
            return f"{kind} between {self.above} and {self.below}, both excluded"
        if self.least is not None and self.most is not None:
            return f"{kind} from {self.least} to {self.most}"
        low = f"of at least {self.least}" if self.above is None else f"above {self.above}"
        high = f"at most {self.most}" if self.below is None else f"below {self.below}"
        return f"{kind} {low}" + (f" and {high}" if self.below or self.most else "")

    def read(self, given: Any, owner: str) -> Any:
        """What somebody gave as the parameter's own type; `UsageError` where it cannot be."""
        if self.form is not None:
            return self.form(given)
        if self.options:
            text = unquoted(str(given))
            if text in self.options:
                return text
            raise self._refused(repr(given), owner)
        try:
            number = rational(given, self.name, owner)
        except UsageError:
            if self.whole:
                raise self._refused(repr(given), owner) from None
            raise
        inside = (
            (self.above is None or number > self.above)
            and (self.least is None or number >= self.least)
            and (self.below is None or number < self.below)
            and (self.most is None or number <= self.most)
        )
        if not inside or (self.whole and number.denominator != 1):
            raise self._refused(decimal_text(number), owner)
        return int(number) if self.whole else number

    def _refused(self, got: str, owner: str) -> UsageError:
        return UsageError(
            f"The {self.name!r} parameter of {owner} must be {self.wanted}. Got {got} instead."
        )

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        kind = "integer" if self.whole else "fraction" if self.slider == (0.0, 1.0) else "number"
        least, most = self.slider
        return {
            "name": self.name,
            "title": self.title,
            "kind": kind,
            "default": self.default,
            "least": least,
            "most": most,
            "less": self.less,
            "more": self.more,
        }


def unquoted(text: str) -> str:
    """A text without the quotation marks around it, if there are any.

    >>> unquoted("'a, b'"), unquoted("it's")
    ('a, b', "it's")
    """
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


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
    arguments = [match.group(1) for match in _ARGUMENT.finditer(f"{inside},")]
    return arguments[:-1]  # the empty rest after the last comma


def about(column: str, text: str) -> str:
    """A promise as it is written of one column; one of all is written without.

    >>> about("ill", "l-diversity(3)"), about("main diagnosis", "l-diversity(3)")
    ('ill: l-diversity(3)', "'main diagnosis': l-diversity(3)")
    """
    if not column:
        return text
    plain = re.fullmatch(r"[^\W\d][\w.-]*", column)
    return f"{column}: {text}" if plain else "'" + column.replace("'", "''") + f"': {text}"


def promise_text(stated: str | Mapping[str, str]) -> str:
    """A promise of a manifest as one text."""
    if isinstance(stated, str):
        return stated
    return AND.join(about(column, promise) for column, promise in stated.items())


def members(text: str) -> list[tuple[str, str]]:
    """The promises of a text, each with its column, '' for all.

    >>> members("a: l-diversity(3) and 'my job': l-diversity(2, open=x) and beta-likeness(3)")
    [('a', 'l-diversity(3)'), ('my job', 'l-diversity(2, open=x)'), ('', 'beta-likeness(3)')]
    """
    ends = [match_.span(1) for match_ in _AND.finditer(text) if match_.group(1)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    members = []
    for one in (text[start:stop] for start, stop in zip(starts, stops, strict=True)):
        promise_match = _PROMISE.match(one)
        column = ((promise_match and promise_match.group(1)) or "").strip()
        name = unquoted(column).replace("''", "'") if column else ""
        members.append((name, one[promise_match.end() :] if promise_match else one))
    return members


class TextForm:
    """Mixin for frozen dataclasses: `str(x)` and `cls.from_text(...)` are inverse.

    Fields arrive as texts from the language and as any Python value from a caller; `parameters`
    say what each may be, and turn both into its own type. One that is None stays so. Fields equal
    to their default are left out.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            value = getattr(self, parameter.name)
            if value is not None:
                read = parameter.read(value, self.name)
                object.__setattr__(self, parameter.name, read)

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
        values: dict[str, Any] = dict(zip(names, positional, strict=False))
        for key, value in keywords.items():
            if key not in names:
                raise UsageError(f"{cls.name} has no parameter {key!r}. Write {signature}.")
            if key in values:
                raise UsageError(f"{cls.name} gets {key!r} twice. Write {signature}.")
            values[key] = value
        missing = [
            f.name
            for f in fields
            if f.name not in values
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise UsageError(f"{cls.name} needs {', '.join(missing)}. Write {signature}.")
        return cls(**values)

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
