"""CSV files are looked at once, and read as what that look found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError, UsageError
from sfumato.table.csv_files import CsvSource
from sfumato.table.reading import Reading
from sfumato.table.sources import Source, find_source

LATE = "".join(f"{n},x{n}\n" for n in range(30_000))
FILES = {
    "line ends of Windows": "a,b\r\n1,x\r\n2,y\r\n",
    "line ends of old Macs": "a,b\r1,x\r2,y\r",
    "byte order mark": "\ufeffa,b\n1,x\n2,y\n",
    "semicolons": 'a;b;c\n1;"q;x";2020-01-02\n2;y;2021-01-02\n',
    "tabs": "a\tb\n1\tx\n2\t\n",
    "bars": "a|b\n1|x\n2|y\n",
    "one column": "a\n1\n2\n",
    "dates": "a,d,t\n1,31/12/2020,31/12/2020 10:11:12\n2,01/02/2021,01/02/2021 00:00:00\n",
    "missing values": "a,b,c\n1,,3\n,x,\n",
    "a quote at the end": f'a,b\n{LATE}30000,"q,""z"""\n',
    "a text at the end": f"a,b\n{LATE}x,y\n",
    "odd names": '"a ""b""",\'c,"d,e"\n1,2,3\n',
    "other quotes": "a,b\n'x, y',1\n'z',2\n",
    "a comment": "# hello\na,b\n1,2\n3,4\n",
    "booleans": "a,b\ntrue,1\nfalse,2\n",
    "times": "a,b\n10:11:12,1\n11:11:11,2\n",
    "lines in a value": 'a,b\n"line\nbreak",1\n"y",2\n',
    "no rows": "a,b\n",
    "letters": "år,日\n1,é\n2,ß\n",
    "backslashes": 'a,b\n"x\\"y",1\n"z",2\n',
    "leading zeros": "a,b\n007,1\n010,2\n",
}


def whole(source: Source) -> pa.Table:
    names = source.schema.names
    return pa.Table.from_batches(source.batches(names, 7_000), source.schema)


@pytest.mark.parametrize("written", FILES)
def test_files_are_read_as_duckdb_would_guess(tmp_path: Path, written: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(FILES[written].encode())
    guessed = duckdb.sql(f"FROM read_csv('{path}', header = true, sample_size = -1)")
    assert whole(CsvSource([path])).equals(guessed.to_arrow_table())


def test_many_files_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("age;ill\n30;flu\n")
    (tmp_path / "2.csv").write_text("age;ill\n41;HIV\n")
    (tmp_path / "3.csv").write_text("age,ill\n'52',flu\n")  # written by another program
    paths = [tmp_path / f"{n}.csv" for n in (1, 2, 3)]
    assert whole(CsvSource(paths)).to_pydict() == {
        "age": [30, 41, 52],
        "ill": ["flu", "HIV", "flu"],
    }


def test_files_of_other_types_have_a_common_one(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("age,ill\n30,flu\n")
    (tmp_path / "2.csv").write_text("age,ill\n41.5,HIV\n")
    (tmp_path / "3.csv").write_text("age,ill\nold,flu\n")
    first, third = tmp_path / "1.csv", tmp_path / "3.csv"
    assert whole(CsvSource([first, tmp_path / "2.csv"])).column("age").to_pylist() == [30.0, 41.5]
    assert whole(CsvSource([first, third])).column("age").to_pylist() == ["30", "old"]


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("age,ill\n30,flu\n")
    (tmp_path / "2.csv").write_text("age,sick\n41,HIV\n")
    with pytest.raises(DataError, match=r"1.csv has age, ill; .*2.csv has age, sick"):
        CsvSource([tmp_path / "1.csv", tmp_path / "2.csv"])


def test_what_is_no_table_says_so(tmp_path: Path) -> None:
    path = tmp_path / "letter.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"\xff\xfe\x00,3\n" * 3)
    with pytest.raises(DataError, match=r"letter.csv is not UTF-8 \(line 3\). Say what it is"):
        whole(CsvSource([path]))


def read(tmp_path: Path, written: str | bytes, **said: Any) -> pa.Table:
    path = tmp_path / "people.csv"
    path.write_bytes(written if isinstance(written, bytes) else written.encode())
    return whole(find_source(path, Reading.of(**said)))


KDD = " 39, State-gov, ?, Yes\n50 , Private, 12, No\n ?, Private , 13, Yes\n"


def test_a_file_without_names_with_blanks_and_markers(tmp_path: Path) -> None:
    found = read(tmp_path, KDD, columns="age,work,weeks,union", missing_markers="?")
    assert found.to_pydict() == {
        "age": [39, 50, None],
        "work": ["State-gov", "Private", "Private"],
        "weeks": [None, 12, 13],
        "union": ["Yes", "No", "Yes"],
    }
    assert read(tmp_path, KDD, header="no").column_names == [f"column{n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "koi8-r"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    text = (
        "name;ill\nM\u00fcller;1\nAndr\u00e9;0\n" if encoding != "koi8-r" else "имя;ill\nАнна;1\n"
    )
    expected = read(tmp_path, text).to_pydict()
    assert read(tmp_path, text.encode(encoding), encoding=encoding).to_pydict() == expected
    if encoding == "utf-16":  # its mark tells
        assert read(tmp_path, text.encode(encoding)).to_pydict() == expected


def test_copies_in_utf8_have_no_name_and_go_away_with_the_source(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Killed at any moment, a run leaves no raw data: nobody can see the copy, while it is read."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = tmp_path / "people.csv"
    path.write_bytes("a;b\né;1\n".encode("latin-1"))

    def copies() -> int:
        links = (os.path.realpath(link) for link in Path("/dev/fd").iterdir())
        return sum(str(tmp_path) in link for link in links)

    source = CsvSource([path], Reading.of(encoding="latin-1"))
    assert [batch.to_pydict() for batch in source.batches(["a"], 9)] == [{"a": ["é"]}]
    assert [folder for folder in (tmp_path / "scratch").rglob("*") if folder.is_file()] == []
    assert copies() == 1
    del source
    assert copies() == 0


def test_yes_and_no_stay_what_they_are(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b,c\nYes,true,t\nNo,FALSE,f\n").to_pydict()
    assert found == {"a": ["Yes", "No"], "b": [True, False], "c": ["t", "f"]}


@pytest.mark.parametrize(
    ("written", "said", "message"),
    [
        ("a,b\n1,2\n3\n4,5,6\n", {}, "Line 3 of .* has 1 cell where the first line has 2."),
        ("a,b\n1,2\n4,5,6\n", {}, "Line 3 of .* has 3 cells where the first line has 2."),
        ("a,b\n" + LATE + "1,2,3\n", {}, "Line 30,002 of .* has 3 cells where the first"),
        ("1, 2\n3, canary, 5\n", {"header": "no"}, "Line 2 of .* has 3 cells where the first"),
        ("21,canaryflu\n22,x\n", {}, "looks like data, not like the names of columns. Give names"),
        ("canary,flu\nx,y\ncanary,z\n", {}, "looks like data"),
        ("a,b\n1,2\n", {"columns": "a,b"}, "has the names already. Leave columns= out."),
        ("1,2\n3,4\n", {"columns": "a,b,c"}, "has 2 columns, but 3 names were given"),
        (b"a,b\nM\xfcller,2\n", {}, r"is not UTF-8 \(line 2\). Say what it is with encoding="),
        (b"a,b\n\x81,2\n", {"encoding": "cp1252"}, "is not cp1252. Say what it is"),
        ('a,b\n"canary,2\n' + LATE, {"quote": '"'}, "say quote="),
    ],
)  # fmt: skip
def test_every_wrong_guess_is_one_sentence_without_cells(
    tmp_path: Path, written: str | bytes, said: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, written, **said)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_may_be_numbers_if_somebody_says_so(tmp_path: Path) -> None:
    written = "who,2019,2020\nx,1,2\ny,3,4\n"
    with pytest.raises(DataError, match="header= yes if these are the names"):
        read(tmp_path, written)
    assert read(tmp_path, written, header="yes").column_names == ["who", "2019", "2020"]


def test_markers_hold_for_every_kind_of_table() -> None:
    people = pa.table({"age": [30, 41], "ill": [" ? ", "flu "]})
    coded = people.set_column(1, "ill", people.column("ill").dictionary_encode())
    for frame in (people, coded):
        source = find_source(frame, Reading.of(missing_markers=["?"]))
        (batch,) = source.batches(["ill"], 10)
        assert batch.column(0).to_pylist() == [None, "flu"]
    with pytest.raises(UsageError, match="'encoding' has no meaning for it"):
        find_source(people, Reading.of(encoding="latin-1"))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_texts_are_read(tmp_path: Path, ending: str) -> None:
    lines = "age,ill\n" + "".join(f"{k % 40},{'flu' if k % 3 else 'cold'}\n" for k in range(300))
    plain, packed = tmp_path / "a.csv", tmp_path / f"a.csv{ending}"
    plain.write_text(lines)
    kind = {".gz": "gzip", ".zst": "zstd"}[ending]
    with pa.output_stream(str(packed), compression=kind) as file:
        file.write(lines.encode())
    read = [sf.read(path, quasi="age", sensitive="ill") for path in (plain, packed)]
    one, other = (pa.Table.from_batches(t.batches(["age", "ill"])) for t in read)
    assert one.equals(other)
    (tmp_path / f"a.parquet{ending}").write_bytes(b"x")
    with pytest.raises(DataError, match="is packed, and only texts are read so"):
        sf.read(tmp_path / f"a.parquet{ending}", quasi="age", sensitive="ill")


def test_repeated_numbers_are_no_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("0,?,F,0\n" * 3 + "1,x,M,2\n" * 3)
    with pytest.raises(DataError, match=r"looks like data, not like the names.*header= no"):
        sf.describe(path)
    assert sf.read(path, quasi="column1,column3", sensitive="column2", header="no", drop="column4")


def test_markers_are_told_with_and_without_roles(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{'?' if k % 5 else 'x'},{'flu' if k % 3 else 'NA'}\n" for k in range(60)]
    path.write_text("work,ill\n" + "".join(rows))
    told = str(sf.describe(path, quasi="work", sensitive="ill"))
    assert "Column 'work' has the value '?'" in told
    assert "say --missing-markers 'NA'" in told
    clean = {"missing_markers": "?,NA", "missing": "value"}
    assert "--missing-markers" not in str(sf.describe(path, quasi="work", sensitive="ill", **clean))
    assert "Column 'work' has the value '?'" in str(sf.describe(path))


def test_a_receipt_remembers_how_a_file_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "".join(f" {k % 40} ;{'abcdef'[k % 6]};{'?' if k % 7 else 'w'}\n" for k in range(600))
    )
    sf.publish(
        path, "rho-privacy(0.2, 0.5)", to=tmp_path / "r", receipt=tmp_path / "receipt",
        quasi="age,work", sensitive="ill", columns="age,ill,work", separator=";",
        missing_markers="?",
    )  # fmt: skip
    assert sf.audit(path, tmp_path / "r", receipt=tmp_path / "receipt").holds


def test_missing_sensitive_values_are_told_at_reading(tmp_path: Path) -> None:
    """Of all columns at once, and counted as they are read: NaN is missing, and so is a marker."""
    frame = pa.table({"x": [1, 2, 3], "a": ["u", None, "?"], "b": [1.0, float("nan"), 2.0]})
    roles: dict[str, Any] = {"quasi": "x", "sensitive": "a,b", "missing_markers": "?"}
    pq.write_table(frame, tmp_path / "a.parquet")
    for origin in (frame, tmp_path / "a.parquet"):
        with pytest.raises(DataError, match=r"Column 'a' of .* has 2 rows .* and column 'b' .* 1 "):
            sf.read(origin, **roles)
        assert sf.read(origin, **roles, missing="value").sensitive == ("a", "b")
