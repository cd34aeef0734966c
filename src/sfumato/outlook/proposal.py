"""A first proposal for a table: how its file is read, what its columns are, what is promised.

Everything comes from one look at the file (`survey`); the steward reads the proposal, changes what
is wrong and publishes. It is careful where it cannot know: a column that nobody can tell is left
out, and the promise leaves no value open.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.columns import value_to_json
from sfumato.draws import Draws
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import DataError
from sfumato.guarantees import DEFAULT_PROMISE, parse_guarantee
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.outlook.suggestions import MEANINGS, SurveyedColumn
from sfumato.outlook.survey import Survey, survey
from sfumato.profile import Histogram, Profile
from sfumato.results import Result
from sfumato.table import Table, read
from sfumato.table.csv_preview import preview_csv
from sfumato.table.reading import MARKERS, Reading
from sfumato.table.sources import file_kind

DOMINANT = 0.4  # of the people: a value that so many have is pointed out
RARE = 20  # people: rarer values are put together
_FEW_NUMBERS = 20  # more different numbers are published in bins
_MANY_TEXTS = 50
_MOST_CODES = 100  # more whole numbers are amounts
_CODED = {"occupation", "workclass", "relationship", "marital_status", "race", "sex"}
_CODED |= {"country", "place", "specialty", "diagnosis"}
_AGES = "bins(0, 18, 25, 35, 45, 55, 65, 75, inf)"


ANOTHER = "Sensitive, too: name it in sensitive to publish it. Each further one widens intervals."
_REASONS = {  # why an option is proposed
    "quasi": "Others may know these of a person; they are published.",
    "sensitive": "What nobody may learn about one person: the most telling column.",
    "person": "It names people and is not published. Of each person one row is published, drawn at "
    "random.",
    "key": "It names people and is not published.",
    "categorical": "Codes: what is between two of them means nothing.",
    "recode": "Coarser forms: fewer people are alone with what is published.",
    "missing": "A missing sensitive value is a value of its own, and is protected.",
}


@dataclass(frozen=True, repr=False)
class Proposal(Result):
    """What `sfumato.toml` is to say: options of the table, the promise, and why.

    `decisions` are what only the steward can decide; `meaning` says what the promise means for one
    person of this table.
    """

    file: str
    rows: int
    table: Mapping[str, Any]
    columns: Mapping[str, str]  # by column that is left out: why
    meaning: str = ""
    decisions: tuple[str, ...] = ()
    guarantee: str = DEFAULT_PROMISE
    out: str = "release"

    def __str__(self) -> str:
        """The text of `sfumato.toml`."""
        lines = [
            f"# A proposal for {self.file}, {self.rows:,} rows. Read it and change what is wrong;",
            "# then: sfumato publish && sfumato audit && sfumato report",
            "",
            "[table]",
            f"file = {_toml(self.file)}",
        ]
        for option, value in self.table.items():
            if option in _REASONS:
                lines.append(f"# {_REASONS[option]}")
            lines.append(f"{option} = {_toml(value)}")
        if self.columns:
            lines += ["drop-rest = true", "# Left out; name a column above to publish it:"]
            for reason in dict.fromkeys(self.columns.values()):
                names = [name for name, why in self.columns.items() if why == reason]
                lines.append(f"#   {', '.join(names)}: {reason}")
        lines += ["", "[publish]", f"out = {_toml(self.out)}"]
        lines += [f"# {self.meaning}", f"guarantee = {_toml(self.guarantee)}"]
        if self.decisions:
            lines += ["", "# Decide:"]
            lines += [f"# - {sentence}" for sentence in self.decisions]
        return "\n".join(lines) + "\n"


def propose(file: str | Path, *, progress: Progress = no_progress) -> Proposal:
    """Look at a file and propose how to publish it. Nothing is published.

    Raises `DataError` where no column can be sensitive.
    """
    name = str(file)
    options = _reading_options(name)
    seen = survey(name, _reading(options), progress=progress)
    better = dict(options)
    if better.pop("header", "") == "no":  # names say as much
        better["columns"] = _names(seen)
    markers = sorted({text for column in seen.columns for text in column.markers} - {"-", "--"})
    if markers and "missing-markers" not in options:
        better["missing-markers"] = ",".join(markers)
    if better != options:
        seen = survey(name, _reading(better), progress=progress)
    return _proposal(name, better, seen, progress)


def _proposal(name: str, options: dict[str, Any], seen: Survey, progress: Progress) -> Proposal:
    columns = {column.name: column for column in seen.columns}
    by_role: dict[str, list[str]] = {"quasi": [], "sensitive": [], "person": [], "key": []}
    for column in seen.columns:
        by_role.get(column.role, []).append(column.name)
    by_role["quasi"] = _first_of_each(seen, by_role["quasi"])
    if not by_role["sensitive"]:
        file = shlex.quote(name)
        raise DataError(
            f"{name} has no column that looks sensitive. 'sfumato describe {file}' shows its "
            f"columns; say which one is to: sfumato publish {file} --sensitive NAME --quasi "
            f"NAMES --drop-rest --guarantee '{DEFAULT_PROMISE}' --out release"
        )
    ranks = {meaning.name: rank for rank, meaning in enumerate(MEANINGS)}  # the most telling first
    by_role["sensitive"].sort(key=lambda c: ranks.get(columns[c].suggestion.meaning, len(ranks)))
    others = by_role["sensitive"][1:]
    published = [*by_role["quasi"], *by_role["sensitive"]]
    recodes = {column: _recode(columns[column]) for column in published}
    said: dict[str, Any] = {
        "quasi": by_role["quasi"],
        "sensitive": by_role["sensitive"][:1],
        "person": "".join(by_role["person"][:1]),
        "key": "".join(by_role["key"][:1]),
        "categorical": [column for column in published if _coded(columns[column])],
        "recode": {column: recode for column, recode in recodes.items() if recode},
        "missing": "value" if any(columns[c].nulls for c in by_role["sensitive"]) else "",
    }
    named = {*by_role["quasi"], *said["sensitive"], said["person"], said["key"]}
    left_out = {
        column.name: ANOTHER
        if column.name in others
        else "Like a column that is published."
        if column.role == "quasi"
        else column.suggestion.why
        for column in seen.columns
        if column.name not in named
    }
    while True:
        table = {**options, **{option: value for option, value in said.items() if value}}
        declared, profile = _counted(name, table, left_out, progress)
        alike = [c for c, h in profile.histograms.items() if np.count_nonzero(h.counts) < 2]
        if not said["recode"].keys() & alike:  # a recode must not make all values one
            break
        said["recode"] = {c: recode for c, recode in said["recode"].items() if c not in alike}
    (histogram,) = profile.histograms.values()
    guarantee = parse_guarantee(DEFAULT_PROMISE)
    guarantee.require_feasible(histogram)
    meaning = meaning_for_a_person(guarantee, histogram, declared.quasi)
    decisions = tuple(_decisions(declared, histogram))
    return Proposal(name, seen.rows, table, left_out, meaning, decisions)


def _reading_options(name: str) -> dict[str, Any]:
    """How a file of texts is written, as its first lines suggest; nothing of other files."""
    path = Path(name)
    if not path.is_file() or file_kind(path) != "CSV":
        return {}
    seen = preview_csv(path, Reading())
    options: dict[str, Any] = {}
    if not seen.header:
        options["header"] = "no"
    if seen.separator != ",":
        options["separator"] = seen.separator
    if seen.encoding.lower() not in ("utf-8", "ascii"):
        options["encoding"] = seen.encoding
    markers = [text for text, _ in seen.markers if text.casefold() in MARKERS - {"-", "--"}]
    if markers:
        options["missing-markers"] = ",".join(markers)
    return options


def _reading(options: Mapping[str, Any]) -> Reading:
    said = {option.replace("-", "_"): value for option, value in options.items()}
    return Reading.of(**{"header": "guess", **said})


def _names(seen: Survey) -> list[str]:
    """Names for a file without any: what a column is about, once, else its number."""
    names: list[str] = []
    for column in seen.columns:
        about = column.suggestion.meaning
        names.append(column.name if about in ("", "visible", *names) else about)
    return names


def _first_of_each(seen: Survey, names: list[str]) -> list[str]:
    """One quasi-identifier of each meaning: three countries of a person tell more than one."""
    meanings = {column.name: column.suggestion.meaning for column in seen.columns}
    first: dict[str, str] = {}
    for name in names:
        about = meanings[name]
        first.setdefault(name if about in ("", "visible", "place") else about, name)
    return [name for name in names if name in first.values()]


def _coded(column: SurveyedColumn) -> bool:
    """Whether its whole numbers stand for something else, as those of countries and jobs do."""
    whole = str(column.type).startswith(("int", "uint"))
    return whole and column.suggestion.meaning in _CODED and column.distinct <= _MOST_CODES


def _recode(column: SurveyedColumn) -> str:
    """A coarser form of a column that has many values, '' for none."""
    kind, many = str(column.type), column.distinct > _FEW_NUMBERS and not _coded(column)
    if kind.startswith(("date", "timestamp")):
        return "month()" if column.role == "quasi" else "year()"
    if kind.startswith(("int", "uint", "float", "double", "decimal", "halffloat")):
        if not many or column.suggestion.meaning == "age":
            return _AGES if many else ""
        edges = sorted({float(f"{edge:.2g}") for edge in column.quintiles})
        return f"bins(-inf, {', '.join(f'{edge:g}' for edge in edges)}, inf)"
    if not kind.endswith("string"):
        return ""
    rarest = min((count for _, count in column.bars.bars), default=0)
    has_rare = bool(column.bars.others) or 0 < rarest < RARE or not column.bars.bars
    if column.suggestion.meaning == "diagnosis" and column.distinct > _MANY_TEXTS:
        return f"prefix(3) then rare({RARE})"
    if column.suggestion.meaning == "place" and column.distinct > _MANY_TEXTS:
        return f"prefix(2) then rare({RARE})"
    return f"rare({RARE})" if has_rare else ""


def _counted(
    name: str, table: Mapping[str, Any], left_out: Mapping[str, str], progress: Progress
) -> tuple[Table, Profile]:
    """The table as it is proposed, and one row of each person counted."""
    said = {option.replace("-", "_"): value for option, value in table.items()}
    declared = read(name, **{"quasi": [], **said, "drop_rest": bool(left_out)})
    return declared, take_profile(one_row_each(declared, Draws.system()), progress=progress)


def _decisions(declared: Table, histogram: Histogram) -> Iterator[str]:
    """What is left to decide."""
    yield from _dominant(histogram)
    if not declared.quasi:
        yield (
            "Nothing is known to be quasi: name the columns that others may know in quasi, else "
            "nobody can ask about anything beside."
        )
    if declared.person is not None:
        yield f"One row of each {declared.person} is published: shares are of people, not of rows."


def _dominant(histogram: Histogram) -> Iterator[str]:
    code = max(range(len(histogram.values)), key=histogram.shares.__getitem__)
    share, value = float(histogram.shares[code]), histogram.values[code]
    if share >= DOMINANT and value is not None:
        text = str(value_to_json(value))
        quoted = text.replace("'", "''")
        yield (
            f"{100 * share:.0f} % have {text!r} in {histogram.column!r}. If that is harmless to "
            f"know, say so: {DEFAULT_PROMISE[:-1]}, open='{quoted}')."
        )


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{text}"'


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else _toml(name)
