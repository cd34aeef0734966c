"""What is refused: the whole message, the exit code, and nothing left behind.

A case is a file, flags after `publish FILE`, and the message. In messages `{file}` is that file,
`{folder}` its folder, and `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.guarantees import GUARANTEES
from sfumato.mechanisms import MECHANISMS
from tests.tables import first_problem, people

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")
PROMISE = ("--guarantee", "rho-privacy(0.3, 0.6)")


def roles(quasi: str, sensitive: str = "disease") -> tuple[str, ...]:
    return ("--quasi", quasi, "--sensitive", sensitive)


@dataclass(frozen=True)
class Case:
    """A publication that is refused."""

    message: str
    flags: tuple[object, ...] = ROLES
    content: pa.Table | str | None = None  # of the file: a table, a text; None: 400 people
    name: str = "people.parquet"
    promise: tuple[str, ...] = PROMISE
    code: int = 2


def means(message: str, **names: object) -> re.Pattern[str]:
    """The messages that a message with `…` and `{names}` stands for."""
    for name, value in names.items():
        message = message.replace("{" + name + "}", str(value))
    return re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)


def message_of(outcome: Any, code: int = 2) -> str:
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    return first_problem(outcome.err)


def two(**columns: Any) -> pa.Table:
    return pa.table({**columns, "disease": ["a", "b"]})


def few(**columns: Any) -> pa.Table:
    return pa.table({"age": [1, 2, 3, 4, 5], **columns})


TWICE = (
    "{file} has more than one column named 'age'. Rename them so that every column has a name of "
    "its own."
)
AGE = roles("age")
FILES = {
    "empty parquet": Case("The file '{file}' is empty.", content="", name="empty.parquet"),
    "empty csv": Case("The file '{file}' is empty.", content="", name="empty.csv"),
    "empty arrow": Case("The file '{file}' is empty.", content="", name="empty.arrow"),
    "no parquet": Case("Cannot read '{file}' as Parquet: …", content="Dear all,"),
    "no arrow": Case("Cannot read '{file}' as an Arrow stream: …", content="Dear", name="l.arrow"),
    "no rows": Case("{file} has no rows.", content=people(0)),
    "a column twice": Case(TWICE, AGE, pa.Table.from_arrays(
        [pa.array([1, 2]), pa.array([3, 4]), pa.array(["a", "b"])], ["age", "age", "disease"])),
    **{f"a column twice, {mark!r}": Case(
        TWICE, AGE, mark.join(["age", "age", "disease\n1"]) + f"{mark}2{mark}a\n", "t.csv")
       for mark in ",;\t"},
    "columns that differ in case": Case(
        "…'age' and 'Age'…apart…", roles("age,Age"), two(age=[1, 2], Age=[1, 2])),
    "a nested column": Case(
        "Column 'visits' of {file} is list<…Convert it first, or drop it.", roles("visits"),
        two(visits=[[1], [2]])),
    "a null sensitive value": Case(
        "Column 'disease' of {file} has 1 rows without a sensitive value. Choose --missing value "
        "(missing counts as a value of its own) or --missing drop.", AGE,
        few(disease=["a", None, "b", "c", "d"])),
    "a NaN sensitive value": Case(
        "Column 'cost' of {file} has 1 rows without a sensitive value.…", roles("age", "cost"),
        few(cost=[1.0, float("nan"), 2.0, 3.0, 4.0])),
    "sensitive values all missing": Case(
        "No row of {file} has every sensitive value.", (*AGE, "--missing", "drop"),
        few(disease=pa.nulls(5, pa.string()))),
    "a column without values": Case(
        "Column 'age' of {file} has no value in any row, so nothing says what its values would be. "
        "Drop it.", AGE, pa.table({"age": pa.nulls(6), "disease": list("aabbcc")})),
    **{f"a column named {name}": Case(
        f"A release uses the column name {name.lower()!r} itself. Rename that column of {{file}}.",
        roles(name), two(**{name: [1, 2]})) for name in ("part", "bucket", "Part")},
    "values outside the bins": Case(
        "Column 'cost' has values outside its bins, 2 among 3 rows. Widen them; -inf and inf are "
        "allowed as edges.", ("--sensitive", "cost", "--bins", "cost=0,5,10"),
        pa.table({"cost": [1.0, 20.0, 30.0]})),
}  # fmt: skip

EDGES = (
    "Bins need at least three ascending edges, for example 'cost=0,100,1000' (inf and -inf are "
    "allowed). Got "
)
STATED = {
    "age=20..60": "Column 'age' of {file} has values outside its stated domain. Widen the domain "
    "(--domain), or leave it out.",
    "disease=flu,ulcer": "Column 'disease' of {file} has …rows with values outside the stated "
    "domain. State them too, or drop the rows.",
    "age": "--domain takes COLUMN=…, for example --domain age=16..93. Got 'age'.",
    "age=90..18": "The domain '90..18' of column 'age' ends before it begins.",
    "age=a..b": "Cannot read the domain 'a..b': write for example 16..93.",
    "sex=1..2": "The domain '1..2' is a range, but column 'sex' is string. List its values.",
    "sex=F,F": "The domain stated for column 'sex' names a value twice.",
    "age=young,old": "The domain stated for column 'age' does not fit its type int64.",
    "height=1..2": "A domain is stated for 'height', which is not a published column.",
}
HUGE = {
    f"age=20,{10**30}": "The domain stated for column 'age' does not fit its type int64.",
    "age=0..1e300": "The domain '0..1e300' is a range, but column 'age' is categorical. List its "
    "values.",
    "age=0..99999999": "The domain '0..99999999' of column 'age' has 100,000,000 values; state at "
    "most 1,048,576.",
}
ROLE = {
    ("--quasi", "age,sexe,region", "--sensitive", "disease"): "{file} has no column 'sexe' (named "
    "as quasi). The columns are: age, sex, region, disease.",
    AGE: "{file} has columns without a role: sex, region. Declare each as quasi, sensitive, key, "
    "person or drop; nothing is published by accident. --drop-rest drops them all.",
    roles("age,sex,region,disease"): "Column 'disease' is named as quasi and as sensitive. Every "
    "column has one role.",
    ("--quasi", "age,sex,region,disease"): "Name at least one sensitive column. The columns are: "
    "age, sex, region, disease.",
}
FLAGS = {
    ("--missing", "guess"): "The 'missing' parameter of a table must be one of refuse, value, …",
    ("--bins", "ids=0,50,100"): "A recode is given for 'ids', which is not published.",
    ("--recode", "age=bin(0, 1)"): "There is no recode 'bin'. There are: bins(0, 18, 65, inf), …",
    ("--recode", "age=prefix(0)"): "The 'length' parameter of prefix must be a whole number of "
    "at least 1. Got 0 instead.",
    ("--recode", "age=round(x)"): "The 'step' parameter of round must be a number such as 0.3 or …",
    ("--recode", "sex=month"): "Column 'sex' of {file} is string; month needs dates.",
    ("--recode", "sex=groups(F:1)"): "Column 'sex' has values without a group, in …",
    ("--bins", "disease=0,1,2"): "Column 'disease' of {file} is string; bins needs numbers.",
    ("--numeric", "sex"): "…of {file} is string, not numeric…",
    ("--numeric", "ids"): "'ids' is not a quasi or sensitive column, so it has no kind.",
    ("--batch-rows", "0"): "'batch_rows' must be at least 1. Got 0 instead.",
    ("--mechanism", "magic"): "There is no mechanism 'magic'. Choose one of: "
    f"{', '.join(sorted(MECHANISMS))}.",
    ("--mechanism", "uniform(3)"): "uniform takes at most 0 values, got 1. Write uniform.",
}
SHARE = "must be a number between 0 and 1, both excluded. Got"
NUMBER = "must be a number such as 0.3 or 1/13. Got"
WRITE = "Write rho-privacy(rho1, rho2, reader)."
LIKE = "Write name(value, key=value), for example 'rho-privacy(1/13, 1/6)'."
UNREADABLE = {
    **{f"rho-privacy({one}, {other})": "rho-privacy needs rho1 < rho2 (chance before, chance "
       f"after). Got rho1 = {one}, rho2 = {other}." for one, other in (("1/6", "1/13"),
                                                                      ("0.3", "0.3"))},
    **{f"rho-privacy({one}, 0.3)": f"The 'rho1' parameter of rho-privacy {SHARE} {one} instead."
       for one in ("0", "-0.1")},
    "rho-privacy(0.1, 7/2)": f"The 'rho2' parameter of rho-privacy {SHARE} 3.5 instead.",
    **{f"rho-privacy({one}, 0.3)": f"The 'rho1' parameter of rho-privacy {NUMBER} '{one}' instead."
       for one in ("often", "1/0", "1e-999999999", "nan")},
    "rho-privacy(0.1)": f"rho-privacy needs rho2. {WRITE}",
    "rho-privacy(0.1, 0.2, 0.3)": "The 'reader' parameter of rho-privacy must be one of anybody, "
    "shares. Got '0.3' instead.",
    "rho-privacy(0.1, sigma=0.2)": f"rho-privacy has no parameter 'sigma'. {WRITE}",
    "rho-privacy(0.1, rho1=0.2)": f"rho-privacy gets 'rho1' twice. {WRITE}",
    "rho-privacy(rho2=0.2, rho2=0.3)": "The guarantee '{text}' gives 'rho2' twice.",
    "rho-privacy(rho1=0.2, 0.3)": "The guarantee '{text}' has the plain value '0.3' after a "
    "key=value pair. Put plain values first.",
    "rho-privacy(0.1,, 0.2)": "The guarantee '{text}' has an empty place between two commas.",
    "rho-privacy(0.1, 0.2": f"Cannot read the guarantee '{{text}}'. {LIKE}",
    "": f"Cannot read the guarantee ''. {LIKE}",
    "secrecy(3)": f"There is no guarantee 'secrecy'. Choose one of: "
    f"{', '.join(sorted(GUARANTEES))}.",
}  # fmt: skip
COIN = pa.table({"age": [1, 2, 3, 4], "side": ["head", "head", "head", "tail"]})
IMPOSSIBLE = {
    # a wider domain does not help either: everybody has the same value
    "one value": Case(
        "'rho-privacy(0.3, 0.6)' would protect nobody: every value of column 'disease' has a share "
        "above rho1 = 0.3; the rarest, 'flu', has 1. Nothing can: choose another sensitive column.",
        (*AGE, "--domain", "disease=flu,HIV"), few(disease=["flu"] * 5), code=3),
    "no share up to rho1": Case(
        "'rho-privacy(0.1, 0.6)' would protect nobody: every value of column 'side' has a share "
        "above rho1 = 0.1; the rarest, 'tail', has 0.25. Nearest that protects something: "
        "'rho-privacy(0.25, 0.6)'.", roles("age", "side"), COIN,
        promise=("--guarantee", "rho-privacy(0.1, 0.6)"), code=3),
}  # fmt: skip
IDS = pa.table({"id": [7, 8, 7, 7, 9], "disease": ["a", "b", "c", "d", "e"]})
KEYED = ("--sensitive", "disease", "--key", "id")
CASES = {
    **FILES,
    **{f"--domain {text[:20]}": Case(said, (*ROLES, "--domain", text))
       for text, said in STATED.items()},
    **{f"--domain {text[:20]}, categorical": Case(
        said, (*ROLES, "--domain", text, "--categorical", "age")) for text, said in HUGE.items()},
    **{" ".join(flags): Case(said, flags) for flags, said in ROLE.items()},
    **{" ".join(flags): Case(said, (*ROLES, *flags)) for flags, said in FLAGS.items()},
    **{f"bins {edges}": Case(said, ("--sensitive", "cost", "--bins", f"cost={edges}"),
                             pa.table({"cost": [1.0, 2.0]}))
       for edges, said in {"0,1": f"{EDGES}0, 1.", "0,2,1": f"{EDGES}0, 2, 1.",
                           "0,x,1": "Bins need numbers between commas. Got '0,x,1'."}.items()},
    **{text: Case(said.replace("{text}", text), promise=("--guarantee", text))
       for text, said in UNREADABLE.items()},
    **IMPOSSIBLE,
    "keys that repeat": Case(
        "The key column 'id' of {file} repeats in 2 rows, but the promises count one record per "
        "person. Say --person id instead of --key, and they hold for people with several rows.",
        KEYED, IDS),
    "a missing key": Case("The key column 'id' of {file} is missing in 1 rows.", KEYED, pa.table(
        {"id": [1, None, 3], "disease": ["a", "b", "c"]})),
    **{f"a date of the year {year}, {kind}, as {role}": Case(
        "Column 'day' has dates before the year 1 or after the year 9999. Repair them, for example "
        "as missing values, or drop the column.",
        roles("day") if role == "quasi" else (*roles("", "day"), "--drop-rest"),
        pa.table({"day": pa.array([(year - 1970) * 366] * 6, pa.int32()).cast(pa.date32()).cast(
            kind), "disease": list("aabbcc")}), promise=("--guarantee", "rho-privacy(0.34, 0.6)"))
       for year, kind, role in ((-200, pa.date32(), "quasi"), (10_000, pa.timestamp("ms"),
                                                               "sensitive"))},
}  # fmt: skip


def file_of(case: Case, folder: Path) -> Path:
    path = folder / case.name
    if isinstance(case.content, str):
        path.write_text(case.content, "utf-8")
    else:
        pq.write_table(people(400) if case.content is None else case.content, path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_refused(cli: Any, tmp_path: Path, leftovers: Any, name: str) -> None:
    case = CASES[name]
    path = file_of(case, tmp_path)
    before = leftovers(tmp_path)
    out = ("--out", tmp_path / "deep" / "release")
    message = message_of(cli("publish", path, *case.flags, *case.promise, *out), case.code)
    assert means(case.message, file=path).fullmatch(message), message
    assert leftovers(tmp_path) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{folder}/nowhere.parquet", "There is no file '{given}'."),
        ("{folder}/*.pq", "No file matches '{given}'."),
        ("{folder}", "'{given}' is a folder. Name files, for example '{given}/*.parquet'."),
        ("{folder}/cut.parquet", "Cannot read '{given}' as Parquet: …"),
        (
            "{folder}/*.parquet",
            "The files do not have the same columns: {folder}/a.parquet has age int64, sex string, "
            "region string, disease string; {folder}/cut.parquet has …",
        ),
    ],
)
def test_no_readable_file(cli: Any, tmp_path: Path, given: str, message: str) -> None:
    pq.write_table(people(20), tmp_path / "a.parquet")
    if "*.parquet" in given:
        pq.write_table(people(20).drop_columns(["sex"]), tmp_path / "cut.parquet")
    else:
        (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-200])
    given = given.replace("{folder}", str(tmp_path))
    said = message_of(cli("publish", given, *ROLES, *PROMISE, "--out", tmp_path / "out"))
    assert means(message, given=given, folder=tmp_path).fullmatch(said), said
    assert not (tmp_path / "out").exists()


# -- places ----------------------------------------------------------------------------------------

CANNOT = (
    "Cannot write the release to '{place}': {why}. Nothing was left behind; free space or choose "
    "another place."
)


def a_folder(place: Path) -> None:
    place.mkdir()


def a_dangling_link(place: Path) -> None:
    place.symlink_to(place.parent / "elsewhere")


@pytest.mark.parametrize("make", [a_folder, a_dangling_link])
def test_a_place_that_is_taken(
    cli: Any, tmp_path: Path, people_file: Path, leftovers: Any, make: Any
) -> None:
    place = tmp_path / "release"
    make(place)
    before = leftovers(tmp_path)
    said = message_of(cli("publish", people_file, *ROLES, *PROMISE, "--out", place))
    assert said == f"'{place}' exists already. Choose another place, or remove it first."
    assert leftovers(tmp_path) == before


def test_a_place_that_cannot_be_written(cli: Any, tmp_path: Path, people_file: Path) -> None:
    """In a file, and in a folder without the right to write; for root /proc stands for it."""
    locked = (tmp_path / "locked" / "release", "Permission denied")
    if os.geteuid() == 0:
        locked = (Path("/proc/sfumato/release"), "No such file or directory")
    else:
        locked[0].parent.mkdir(mode=0o500)
    for place, why in (locked, (people_file / "release", "Not a directory")):
        said = message_of(cli("publish", people_file, *ROLES, *PROMISE, "--out", place))
        assert means(CANNOT, place=place, why=why).fullmatch(said), said


def test_a_file_that_may_not_grow(tmp_path: Path, leftovers: Any) -> None:
    """Writing fails midway at 40,000 bytes, as on a full disk."""
    path = tmp_path / "people.parquet"
    pq.write_table(people(60_000).append_column("number", pa.array(range(60_000))), path)

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    place = tmp_path / "out" / "release"
    words = ("publish", path, *roles("age,sex,region,number"), *PROMISE, "--out", place)
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=small_files)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1].removeprefix("sfumato: ")
    assert means(CANNOT, place=place, why="…File too large…").fullmatch(last), last
    assert leftovers(tmp_path) == ["people.parquet"]


# -- keys and job files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--seed", 1), "Give a seed or a key file, not both."),
        ((), "A key file ties draws to people: name their key column with --key."),
    ],
)
def test_key_files_with_the_wrong_flags(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path, flags: Any, message: str
) -> None:
    cli("keygen", tmp_path / "key")
    given = (*ROLES, *PROMISE, *flags, "--key-file", tmp_path / "key", "--out", tmp_path / "r")
    assert message_of(cli("publish", people_file, *given)) == message
    assert leftovers(tmp_path) == ["key", "people.parquet"]


@pytest.mark.parametrize("text", [None, "", "00ff", "zz" * 32, "é" * 64, "00" * 33])
def test_unusable_key_file(cli: Any, tmp_path: Path, text: str | None) -> None:
    path = file_of(replace(CASES["keys that repeat"], content=IDS.slice(1, 2)), tmp_path)
    key = tmp_path / "key"
    if text is not None:
        key.write_text(text, "utf-8")
    out = ("--key-file", key, "--out", tmp_path / "release")
    assert message_of(cli("publish", path, *KEYED, *PROMISE, *out)) == (
        f"Cannot use the key file '{key}': expected one line of 64 hexadecimal digits. Make one "
        "with 'sfumato keygen FILE'."
    )


def test_keygen_never_overwrites(cli: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert cli("keygen", key).code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    text = key.read_text()
    assert message_of(cli("keygen", key)) == f"'{key}' exists already; a key is never overwritten."
    assert key.read_text() == text
    assert "Cannot write the key" in message_of(cli("keygen", tmp_path / "no" / "key"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "There is no job file '{job}'."),
        ("[publish\n", "Cannot read the job file '{job}': …"),
        ('quasi = "age"\n', "The job file '{job}' has the key 'quasi' outside a table. Put it "
         "under [publish] or another command."),
        ('[publsh]\nquasi = "age"\n', "The job file '{job}' has a table [publsh], but there is no "
         "such command. Commands: …"),
        ('[publish]\nguarante = "x"\n', "The job file '{job}' sets 'guarante' under [publish], "
         "which that command does not have. It has: …"),
        ("[table]\nsensitiv = 3\n", "…sets 'sensitiv' under [table], which nothing says of a "
         "table…"),
    ],
)  # fmt: skip
def test_bad_job_file(
    cli: Any, tmp_path: Path, people_file: Path, text: str | None, message: str
) -> None:
    job = tmp_path / "sfumato.toml"
    if text is not None:
        job.write_text(text, "utf-8")
    out = ("--out", tmp_path / "release")
    said = message_of(cli("--job", job, "publish", people_file, *ROLES, *PROMISE, *out))
    assert means(message, job=job).fullmatch(said), said
    assert not (tmp_path / "release").exists()


# -- releases, comparisons and reports -------------------------------------------------------------

COUNT = "SELECT COUNT(*) FROM release"


@pytest.fixture
def release(tmp_path: Path, people_file: Path) -> Path:
    table = sf.read(people_file, quasi="age,sex,region", sensitive="disease")
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "release", mechanism="uniform")
    return tmp_path / "release"


def test_a_changed_byte_and_other_folders(cli: Any, people_file: Path, release: Path) -> None:
    path = release / "records/part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    changed = (
        f"records/part-00000.parquet of '{release}' is not the file that was published: its "
        "SHA-256 or size differs from the manifest. Fetch the release again."
    )
    assert message_of(cli("query", release, COUNT)) == changed
    assert message_of(cli("audit", people_file, release)) == changed
    nowhere = release.parent / "nowhere"
    assert message_of(cli("query", nowhere, COUNT)) == f"There is no release folder '{nowhere}'."
    no_release = f"'{release.parent}' is not a release: it has no manifest.json."
    assert message_of(cli("query", release.parent, COUNT)) == no_release


def test_an_audit_with_the_wrong_table(cli: Any, tmp_path: Path, release: Path) -> None:
    pq.write_table(people(300).drop_columns(["sex"]), tmp_path / "raw.parquet")
    assert message_of(cli("audit", tmp_path / "raw.parquet", release)) == (
        f"{tmp_path}/raw.parquet has no column 'sex', which the release publishes. Is it the table "
        f"behind '{release}'?"
    )


@pytest.fixture
def gap_file(tmp_path: Path) -> Path:
    """People of whom one has no disease."""
    diseases: list[str | None] = people(300)["disease"].to_pylist()
    diseases[3] = None
    table = people(300).set_column(3, "disease", pa.array(diseases))
    pq.write_table(table, tmp_path / "gap.parquet")
    return tmp_path / "gap.parquet"


def test_comparisons_without_a_release(
    cli: Any, gap_file: Path, people_file: Path, tmp_path: Path
) -> None:
    small = ("--questions", 20, "--targets", 20, "--no-fresh")
    compare = partial(cli, "compare", "--out", tmp_path / "comparison", *ROLES, *small)
    assert "--missing" in message_of(compare(gap_file, "--candidate", "l-diversity(3)"))
    assert not (tmp_path / "comparison").exists()
    outcome = compare(people_file, "--candidate", "l-diversity(40)")
    assert outcome.code == 3
    assert "was not published" in outcome.out
    assert (tmp_path / "comparison" / "report.html").is_file()


def test_reports_that_cannot_be_made(
    cli: Any, release: Path, gap_file: Path, split: Any, tmp_path: Path
) -> None:
    for named in ("nowhere.parquet", gap_file.name):
        out = ("--out", tmp_path / "evidence")
        message_of(cli("report", release, "--table", tmp_path / named, *out))
        assert not (tmp_path / "evidence").exists()
    parts = split(release, tmp_path / "parts")
    assert "inside a release" in message_of(cli("report", release, "--out", parts / "evidence"))
    assert sf.open(parts).sql(COUNT).rows()


def test_a_promise_that_describe_finds_impossible(cli: Any, people_file: Path) -> None:
    promise = ("--guarantee", "rho-privacy(0.0001, 0.3)", "--json")
    assert "would protect nobody" in message_of(cli("describe", people_file, *ROLES, *promise), 3)
    assert cli("publsh").code == 2
    assert message_of(cli("audit", "relase")).startswith(
        "An audit looks at a table and its release; only 'relase' was named, and there is no such"
    )
    assert "--out" in cli("publish", people_file).err


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("rho-privacy(0.1, 0.6)", "rho-privacy(0.25, 0.6)"),
        ("rho-privacy(0.1, 0.2)", "rho-privacy(0.25, 0.429)"),
    ],
)
def test_the_nearest_promise_can_be_kept(tmp_path: Path, asked: str, nearest: str) -> None:
    table = sf.read(COIN, quasi="age", sensitive="side")
    with pytest.raises(sf.InfeasibleGuarantee) as caught:
        sf.publish(table, asked, to=tmp_path / "release")
    assert caught.value.witness == "'tail'"
    assert caught.value.nearest == nearest
    sf.publish(table, nearest, to=tmp_path / "release")
