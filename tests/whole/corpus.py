"""Seeded releases and stored answers: what publishing and asking gave when last they were pinned.

`releases.txt` has a line for each release of `RELEASES`: hashes of the *content* of its records, of
its `sensitive` table, of the public plan and of the rest of the manifest, so that a change of the
format is told from a change of what is drawn. `stored/` has a third of these releases as folders,
and beside each a text file with questions and answers: a question, then `value error low high` for
each number of its answer, keys before them. Answers are asked of the stored folders, so they stay
comparable while publishing changes.

    python -m tests.whole.corpus releases    pin what publishing gives now
    python -m tests.whole.corpus folders     store the asked releases as they are published now
    python -m tests.whole.corpus answers     pin the answers of the stored folders

Each prints by mechanism what differs from before. `tests/whole/test_corpus.py` compares.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from tests import tables

HERE = Path(__file__).parent
PINS, STORED = HERE / "releases.txt", HERE / "stored"
PARTS = ("records", "sensitive", "plan", "manifest")
SAME = 1e-7  # numbers that differ by less, relatively, are equal


@dataclass(frozen=True)
class Pinned:
    """One release of the corpus."""

    table: str
    promise: str
    mechanism: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    asked: bool = False

    def publish(self, to: Path, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sf.publish(
                tables.table(self.table),
                self.promise,
                to=to,
                mechanism=self.mechanism,
                seed=seed,
                **{**tables.TABLES[self.table].roles, **self.options},
            )


def _asked(*given: Any, **options: Any) -> Pinned:
    return Pinned(*given, options=options, asked=True)


def _pinned(*given: Any, **options: Any) -> Pinned:
    return Pinned(*given, options=options)


RHO, SHARES = "rho-privacy(0.3, 0.6)", "rho-privacy(0.3, 0.6, reader=shares)"
FINE = "fine-rho-privacy(theta=2)"
STATED = {"domain": {"disease": ",".join(tables.DISEASES)}}
RELEASES: dict[str, Pinned] = {
    # perturbed
    "uniform": _asked("clinic", RHO, "uniform"),
    "uniform-stated": _pinned("clinic", RHO, "uniform", **STATED),
    "uniform-missing": _asked("missing", RHO, "uniform"),
    "uniform-dropped": _pinned("missing", RHO, "uniform", missing="drop"),
    "uniform-two": _asked("two", RHO, "uniform"),
    "uniform-joint": _pinned("two", RHO, "uniform", joint=True),
    "uniform-numbers": _asked("numbers", RHO, "uniform"),
    "uniform-yes-no": _asked("yes-no", "rho-privacy(0.46, 0.7)", "uniform"),
    "uniform-household": _pinned("household", RHO, "uniform"),
    "uniform-person": _pinned("stays", RHO, "uniform", count_rows="visits"),
    "uniform-recoded": _asked("clinic", RHO, "uniform", recode={"age": "bins(18, 40, 65, 90)"}),
    "uniform-merged": _pinned("clinic", RHO, "uniform", quasi_k="5"),
    "uniform-keyed": _pinned("keyed", RHO, "uniform"),
    "uniform-tiny": _pinned("tiny", RHO, "uniform"),
    "chosen-rho": _pinned("clinic", RHO),
    "fine-counts": _asked("clinic", FINE, "fine-grain(objective=counts)"),
    "fine-records": _pinned("clinic", FINE, "fine-grain(objective=records)"),
    "fine-p-min": _pinned("clinic", FINE, "fine-grain(objective=counts, p_min=0.5)"),
    "fine-uneven": _pinned("uneven", FINE, "fine-grain(objective=counts)"),
    "fine-rho": _pinned("clinic", RHO, "fine-grain(objective=counts)"),
    "fine-two": _pinned("two", FINE, "fine-grain(objective=counts)"),
    "partitioned": _asked("clinic", SHARES, "partitioned"),
    "partitioned-missing": _pinned("missing", SHARES, "partitioned"),
    "partitioned-numbers": _pinned("numbers", SHARES, "partitioned"),
    # decoys
    "splu": _asked("clinic", "small-sum(groups=3)", "splu"),
    "splu-missing": _pinned("missing", "small-sum(groups=3)", "splu"),
    "splu-numbers": _pinned("numbers", "small-sum(groups=4)", "splu"),
    # sampled
    "sps": _asked("clinic", "reconstruction-privacy(0.3, 0.3)", "sps"),
    "sps-missing": _pinned("missing", "reconstruction-privacy(0.3, 0.3)", "sps"),
    "sps-yes-no": _pinned("yes-no", "reconstruction-privacy(0.3, 0.2)", "sps"),
    # buckets
    "optimal": _asked("clinic", "l-diversity(3)", "optimal"),
    "optimal-loss": _pinned("clinic", "l-diversity(3)", "optimal(objective=loss)"),
    "optimal-max-size": _pinned("clinic", "l-diversity(3)", "optimal(max_size=8)"),
    "optimal-beta": _asked("clinic", "beta-likeness(1)", "optimal"),
    "optimal-enhanced": _asked("uneven", "enhanced-beta-likeness(2)", "optimal"),
    "optimal-f": _pinned("clinic", "f-privacy(theta=2, floor=0.05)", "optimal"),
    "optimal-open": _pinned("clinic", "l-diversity(4, open=cancer)", "optimal"),
    "optimal-fakes": _asked("clinic", "l-diversity(3)", "optimal(fakes=1)"),
    "optimal-ruled-out": _pinned("clinic", "l-diversity(3)", "optimal(fakes=2, association=0.1)"),
    "optimal-missing": _asked("missing", "l-diversity(3)", "optimal"),
    "optimal-two": _asked("two", "l-diversity(3)", "optimal"),
    "optimal-each": _pinned("two", {"disease": "l-diversity(3)", "ward": "beta-likeness(2)"},
                            "optimal"),
    "optimal-joint": _pinned("two", "l-diversity(3)", "optimal", joint=True),
    "optimal-person": _pinned("stays", "l-diversity(3)", "optimal"),
    "optimal-people-two": _pinned("stays-two", "l-diversity(3)", "optimal", count_rows="visits"),
    "optimal-numbers": _asked("numbers", "beta-likeness(2)", "optimal"),
    "optimal-household": _pinned("household", "l-diversity(3)", "optimal"),
    "chosen-f": _pinned("clinic", "f-privacy(theta=2, floor=0.05)"),
    # blocks
    "local": _asked("clinic", "l-diversity(3)", "local(min=100)"),
    "local-beta": _pinned("clinic", "enhanced-beta-likeness(2)", "local(min=100)"),
    "local-f": _asked("clinic", "f-privacy(theta=2, floor=0.05)", "local(min=60)"),
    "local-missing": _pinned("missing", "f-privacy(theta=2, floor=0.05)", "local(min=100)"),
    "local-two": _asked("two", "f-privacy(theta=2, floor=0.1)", "local(min=100)"),
    "local-each": _pinned("two", {"disease": "l-diversity(3)", "ward": "beta-likeness(2)"},
                          "local(min=100)"),
    "local-person": _pinned("stays", "f-privacy(theta=2, floor=0.1)", "local(min=60)"),
    # ranges and sets
    "heterogeneous": _asked("clinic", "l-diversity(3)", "heterogeneous"),
    "heterogeneous-beta": _pinned("clinic", "beta-likeness(2)", "heterogeneous"),
    "heterogeneous-numbers": _pinned("numbers", "l-diversity(3)", "heterogeneous"),
    "ring": _pinned("clinic", "l-diversity(3)", "ring"),
    "burel": _asked("clinic", "beta-likeness(2)", "burel"),
}  # fmt: skip


def mechanism_of(name: str) -> str:
    """The mechanism's name, for whoever sums up what differs."""
    way = RELEASES[name].mechanism
    return "chosen by publish" if way is None else way.partition("(")[0]


# Releases


def contents(folder: Path) -> dict[str, str]:
    """A hash of each part of a release; "-" where it has no such part."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    plan = manifest.pop("plan")
    for of_files in ("files", "sfumato", "writer"):
        manifest.pop(of_files)
    beside = folder / "sensitive.parquet"
    found = {
        "records": _content(pq.read_table(folder / "records")),
        "sensitive": _content(pq.read_table(beside)) if beside.exists() else b"",
        "plan": json.dumps(plan, sort_keys=True).encode(),
        "manifest": json.dumps(manifest, sort_keys=True).encode(),
    }
    return {part: hashlib.sha256(b).hexdigest()[:12] if b else "-" for part, b in found.items()}


def _content(table: pa.Table) -> bytes:
    """What a table says, however its file was written."""
    return json.dumps([table.column_names, table.to_pylist()], default=str).encode()


def publish_all() -> Iterator[tuple[str, dict[str, str]]]:
    """Every release as it is published now, its parts hashed."""
    with tempfile.TemporaryDirectory() as above:
        for seed, (name, pinned) in enumerate(RELEASES.items(), 1):
            folder = Path(above) / name
            pinned.publish(folder, seed)
            yield name, contents(folder)


def pinned_releases() -> dict[str, dict[str, str]]:
    lines = [line.split() for line in PINS.read_text().splitlines() if line[:1] not in ("#", "")]
    return {name: dict(zip(PARTS, hashes, strict=True)) for name, *hashes in lines}


def differing(now: Mapping[str, dict[str, str]]) -> list[str]:
    """A line for each mechanism some of whose releases are not as they were pinned."""
    before, found = pinned_releases(), {}
    for name, parts in now.items():
        was = before.get(name)
        what = "new" if was is None else ", ".join(p for p in PARTS if parts[p] != was[p])
        if what:
            found.setdefault(mechanism_of(name), []).append(f"{name} ({what})")
    gone = [f"{name}: no longer published" for name in before if name not in now]
    return [f"{way}: {'; '.join(names)}" for way, names in found.items()] + gone


def pin_releases() -> None:
    now = dict(publish_all())
    if PINS.exists():
        print("\n".join(differing(now)) or "nothing differs")  # noqa: T201
    width = max(map(len, now))
    lines = [f"{name:{width}}  {'  '.join(parts.values())}" for name, parts in now.items()]
    PINS.write_text("\n".join([f"# release  {'  '.join(PARTS)}", *lines, ""]))


# Answers

PREDICATES = (
    "",
    "age < 40",
    "age >= 65",
    "sex = 'F'",
    "region IN ('north', 'west')",
    "sex = 'M' AND age BETWEEN 30 AND 60",
)
SINGLE = (
    "SELECT COUNT(*) FROM release WHERE {s}{and_p}",
    "SELECT AVG(age) FROM release WHERE {s}{and_p}",
    "SELECT SUM(age) FROM release WHERE {s}{and_p}",
    "SELECT COUNT(*) FILTER (WHERE {s}) / COUNT(*) AS share FROM release{where_p}",
)
OTHERS = (
    "SELECT COUNT(*), AVG(age) FROM release",
    "SELECT region, COUNT(*) FROM release GROUP BY region ORDER BY region",
    "SELECT sex, COUNT(*), AVG(age) FROM release WHERE {s} GROUP BY sex ORDER BY sex",
    "SELECT region, SUM(age) FROM release WHERE {s} GROUP BY region ORDER BY region",
    "SELECT {c}, COUNT(*) FROM release GROUP BY {c} ORDER BY {c}",
    "SELECT {c}, COUNT(*) FROM release WHERE age < 30 GROUP BY {c} ORDER BY {c}",
    "SELECT {c}, AVG(age) FROM release WHERE sex = 'F' GROUP BY {c} ORDER BY {c}",
    "SELECT sex, region, COUNT(*) FROM release WHERE {s} GROUP BY sex, region ORDER BY 1, 2",
    "SELECT COUNT(*) FROM release WHERE {s} OR age > 80",
    "SELECT COUNT(*) FROM release WHERE NOT ({s})",
    "SELECT AVG(CASE WHEN {s} THEN 1 ELSE 0 END) AS share FROM release WHERE region = 'south'",
    "SELECT COUNT(*) FILTER (WHERE {s} AND sex = 'F') - COUNT(*) FILTER (WHERE {s} AND sex = 'M')"
    " AS more FROM release",
    "SELECT region, COUNT(*) AS n FROM release WHERE {s} GROUP BY region HAVING n_low > 3"
    " ORDER BY region",
    "SELECT MEDIAN(age) FROM release WHERE {s}",
    "SELECT QUANTILE_CONT(age, 0.25) AS q FROM release WHERE {s} AND sex = 'M'",
)


def questions(pinned: Pinned) -> list[str]:
    """About seventy numbers: every form, for values that are common and rare."""
    column = "disease"
    numeric = pinned.table == "numbers"
    values = {"numbers": ("0", "7"), "yes-no": ("'angina'", "'asthma'")}.get(
        pinned.table, ("'cancer'", "'ulcer'")
    )
    recoded = "recode" in pinned.options
    made = [
        text.format(
            s=f"{column} = {value}",
            and_p=f" AND {p}" if p else "",
            where_p=f" WHERE {p}" if p else "",
        )
        for text in SINGLE
        for value in values
        for p in PREDICATES
    ]
    made += [text.format(s=f"{column} = {values[0]}", c=column) for text in OTHERS]
    if numeric:
        made += [
            f"SELECT AVG({column}), SUM({column}) FROM release WHERE {p}" for p in PREDICATES[1:]
        ]
    if pinned.table == "two":
        made += [
            "SELECT ward, COUNT(*) FROM release WHERE sex = 'M' GROUP BY ward ORDER BY ward",
            "SELECT COUNT(*) FROM release WHERE disease = 'cancer' AND ward = 'w2'",
            "SELECT ward, AVG(age) FROM release WHERE disease = 'cancer' GROUP BY ward ORDER BY 1",
        ]
    if pinned.table == "missing":
        made += [
            "SELECT COUNT(*) FROM release WHERE disease IS NULL AND age IS NOT NULL",
            "SELECT COUNT(*) FROM release WHERE age IS NULL AND disease = 'cancer'",
            "SELECT COUNT(age), COUNT(disease) FROM release WHERE sex = 'F'",
        ]
    if recoded:  # ages are intervals: compared at their edges, and not averaged
        made = [question for question in made if "age" not in question]
        made += [
            f"SELECT age, COUNT(*) FROM release WHERE disease = {value} GROUP BY age ORDER BY age"
            for value in values
        ]
        made += [f"SELECT COUNT(*) FROM release WHERE disease = {v} AND age < 40" for v in values]
    return made


def answer_lines(release: sf.Release, question: str) -> list[str]:
    """An answer as it is stored: keys, then the numbers with their error and ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = release.sql(question)
        except sf.SfumatoError as error:
            return [f"refused: {type(error).__name__}"]
    names = [name for name in answer.columns if f"{name}_stderr" in answer.columns]
    ends = [[name, *(f"{name}_{end}" for end in ("stderr", "low", "high"))] for name in names]
    shown = {column for four in ends for column in four}
    found = []
    for row in answer.rows():
        keys = [str(row[name]) for name in answer.columns if name not in shown]
        numbers = [" ".join(_text(row[column]) for column in four) for four in ends]
        found.append(" | ".join([*keys, *numbers]))
    return found or ["no rows"]


def _text(number: float | None) -> str:
    return "none" if number is None or math.isnan(number) else f"{number:.9g}"


def answers(name: str, every: int = 1) -> list[tuple[str, list[str]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what an old release says of itself
        release = sf.open(STORED / name)
    asked_now = questions(RELEASES[name])[::every]
    return [(question, answer_lines(release, question)) for question in asked_now]


def stored_answers(name: str) -> list[tuple[str, list[str]]]:
    blocks = (STORED / f"{name}.txt").read_text().strip().split("\n\n")
    return [(question, lines) for question, *lines in (block.split("\n") for block in blocks)]


def asked() -> list[str]:
    return [name for name, pinned in RELEASES.items() if pinned.asked]


def numbers(lines: list[str]) -> int:
    """How many values, each with its error and ends."""
    return sum(len(part.split(" ")) == 4 for line in lines for part in line.split(" | "))


def same(one: list[str], other: list[str]) -> bool:
    """Equal texts, equal numbers."""
    left, right = ("\n".join(lines).split() for lines in (one, other))
    return len(left) == len(right) and all(
        a == b or _close(a, b) for a, b in zip(left, right, strict=True)
    )


def _close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=SAME, abs_tol=SAME)
    except ValueError:
        return False


def differing_answers(name: str, every: int = 1) -> list[str]:
    """The answers that differ; with `every`, of that part of the questions."""
    before = dict(stored_answers(name))
    return [
        f"{name}: {question}\n  was {before.get(question, ['not asked'])}\n  is  {lines}"
        for question, lines in answers(name, every)
        if question not in before or not same(before[question], lines)
    ]


def pin_answers() -> None:
    total: Counter[str] = Counter()
    for name in asked():
        if (STORED / f"{name}.txt").exists():
            total[mechanism_of(name)] += len(differing_answers(name))
        blocks = ["\n".join([question, *lines]) for question, lines in answers(name)]
        (STORED / f"{name}.txt").write_text("\n\n".join(blocks) + "\n")
    print("answers that differ:", dict(+total))  # noqa: T201


def store_folders() -> None:
    for seed, (name, pinned) in enumerate(RELEASES.items(), 1):
        if pinned.asked:
            shutil.rmtree(STORED / name, ignore_errors=True)
            pinned.publish(STORED / name, seed)


if __name__ == "__main__":
    {"releases": pin_releases, "folders": store_folders, "answers": pin_answers}[sys.argv[1]]()
