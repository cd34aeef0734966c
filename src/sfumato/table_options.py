"""What can be said of a table besides where it is: one list.

`sf.read` takes each of these as a parameter, the command line and job files as a flag, the page in
its requests. A new one is an entry here and what `read` makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sfumato.errors import UsageError

Form = Literal["column", "columns", "choice", "each", "text", "switch"]


@dataclass(frozen=True)
class TableOption:
    """One thing to say of a table.

    `form` is what is said: a "column", several "columns", one of the `choices`, a text for "each"
    of some columns, a "text" or a "switch". `flag` is the command line's name where it is another.
    One that `reads` says how the file is written, and is for every command that reads a raw table.
    `--help` does not show a `seldom` one, which works all the same.
    """

    name: str
    form: Form
    help: str
    flag: str = ""
    choices: tuple[str, ...] = ()
    reads: bool = False
    seldom: bool = False

    @property
    def panel(self) -> str:
        """The group of the help that it stands in."""
        return "Roles" if self.name in (*ROLES, "drop_rest") else "Table"

    @property
    def flag_name(self) -> str:
        return self.flag or self.name.replace("_", "-")

    @property
    def default(self) -> Any:
        """What is meant where nothing is said."""
        if self.form == "choice":
            return self.choices[0]
        return {"columns": "", "switch": False}.get(self.form)

    def from_flags(self, given: Any) -> Any:
        """What `read` takes, from what stands behind the flag.

        >>> bins = next(option for option in TABLE_OPTIONS if option.name == "bins")
        >>> bins.from_flags(["cost=0,100", "age = 0,18,65"])
        {'cost': '0,100', 'age': '0,18,65'}
        """
        return pairs(given, f"--{self.flag_name}") if self.form == "each" else given


def pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    """COLUMN=TEXT, as often as it was given."""
    values = {}
    for text in given or []:
        column, equals, value = text.partition("=")
        if not equals or not column.strip() or not value.strip():
            raise UsageError(f"{flag} takes COLUMN=…, for example {flag} age=16..93. Got {text!r}.")
        values[column.strip()] = value.strip()
    return values


def flag_words(flag: str, value: Any) -> list[str]:
    """How the command line says a value; nothing where there is none.

    >>> flag_words("--quasi", ["age", "sex"]), flag_words("--drop-rest", True)
    (['--quasi', 'age,sex'], ['--drop-rest'])
    """
    if not value:
        return []
    if isinstance(value, dict):
        return [word for column, text in value.items() for word in (flag, f"{column}={text}")]
    text = ",".join(value) if isinstance(value, list | tuple) else str(value)
    return [flag] if value is True else [flag, text]


TABLE_OPTIONS = (
    TableOption("quasi", "columns", "Quasi-identifiers, published as they are: a,b,c"),
    TableOption("sensitive", "columns", "Sensitive columns: d,e"),
    TableOption("key", "column", "Column that identifies the person; not published."),
    TableOption(
        "person",
        "column",
        "Column that says whose row it is, where people have several: one each is published.",
    ),
    TableOption(
        "count_rows",
        "text",
        "Publish how many rows a person has, in a new column of this name; one row each.",
    ),
    TableOption("drop", "columns", "Columns to leave out."),
    TableOption("numeric", "columns", "Columns to treat as numeric.", seldom=True),
    TableOption("categorical", "columns", "Columns to treat as categorical.", seldom=True),
    TableOption("domain", "each", "Stated domain: age=16..93 or sex=F,M. Repeatable."),
    TableOption("bins", "each", "Bins: cost=0,100,1000. Repeatable.", seldom=True),
    TableOption(
        "recode",
        "each",
        "A coarser form: age=bins(0, 18, 65, inf), icd=prefix(3) then rare(20). Repeatable.",
    ),
    TableOption(
        "missing",
        "choice",
        "Rows without a sensitive value: refuse, value (of its own), drop.",
        choices=("refuse", "value", "drop"),
    ),
    TableOption(
        "quasi_k",
        "text",
        "Merge quasi values until this many people share every combination, e.g. 5.",
    ),
    TableOption("drop_rest", "switch", "Leave out every column that has no other role."),
    TableOption(
        "missing_markers", "text", "Texts that stand for a missing value: '?,NA,'.", reads=True
    ),
    TableOption(
        "header",
        "choice",
        "Whether the first line of a CSV file has the names: guess, yes, no (column1, column2 …).",
        choices=("guess", "yes", "no"),
        reads=True,
        seldom=True,
    ),
    TableOption(
        "columns", "columns", "Names for a file without any: a,b,c.", reads=True, seldom=True
    ),
    TableOption(
        "separator", "text", "What stands between two cells of a CSV file.", reads=True, seldom=True
    ),
    TableOption(
        "quote", "text", "What stands around a cell of a CSV file.", reads=True, seldom=True
    ),
    TableOption(
        "encoding",
        "text",
        "Of a CSV file, e.g. latin-1; UTF-8 by default.",
        reads=True,
        seldom=True,
    ),
    TableOption("sheet", "text", "Of a workbook; the first by default.", reads=True, seldom=True),
)
ROLES = (
    "quasi",
    "sensitive",
    "key",
    "person",
    "drop",
)  # what a column can be; the page asks for each column
