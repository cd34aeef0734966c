"""CSV files are looked at once, and read as what that look found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.table import csv_files
from sfumato.table.csv_files import CsvSource

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


def whole(source: CsvSource) -> pa.Table:
    names = source.schema.names
    return pa.Table.from_batches(source.batches(names, 7_000), source.schema)


@pytest.mark.parametrize("written", FILES)
def test_files_are_read_as_duckdb_would_guess(tmp_path: Path, written: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(FILES[written].encode())
    guessed = duckdb.sql(f"FROM read_csv('{path}', header = true, sample_size = -1)")
    assert whole(CsvSource([path])).equals(guessed.to_arrow_table())


def test_a_file_is_sniffed_once_per_publish(tmp_path: Path, monkeypatch: Any) -> None:
    looked: list[Path] = []
    sniffed = csv_files._sniffed

    def spied(connection: Any, path: Path) -> csv_files.Layout:
        looked.append(path)
        return sniffed(connection, path)

    monkeypatch.setattr(csv_files, "_sniffed", spied)
    path = tmp_path / "people.csv"
    people = [f"{n},{20 + n % 50},{'ab'[n % 2]},{'stuvwxyz'[n % 8]}\n" for n in range(400)]
    path.write_text("id,age,sex,ill\n" + "".join(people))
    sf.publish(
        str(path), "l-diversity(3)", to=tmp_path / "r", key="id", quasi="age,sex", sensitive="ill"
    )
    assert looked == [path]


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
    with pytest.raises(DataError, match=r"Cannot read '.*letter.csv' as CSV: "):
        whole(CsvSource([path]))
