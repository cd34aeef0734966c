"""Uploads: streamed, counted, and refused where they are too large or would unpack to too much."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.web import bodies


def uploads(site: Any) -> list[Path]:
    return sorted((site.state / "uploads").iterdir())


def put(site: Any, name: str, content: Any) -> Any:
    return site.client.put("/api/uploads", params={"name": name}, content=content)


def test_an_upload_can_be_chosen(site: Any) -> None:
    sent = put(site, "people.csv", b"age,disease\n" + b"30,flu\n41,ulcer\n" * 20)
    assert sent.status_code == 200
    table = site.post("/api/tables", source=sent.json()["source"]).json()
    assert table["label"] == "people.csv"
    assert table["rows"] == 40
    assert [column["name"] for column in table["columns"]] == ["age", "disease"]


def test_ten_gigabytes_are_refused_before_they_are_sent(site: Any) -> None:
    before = uploads(site)
    answer = site.raw(site.request("PUT /api/uploads?name=a.csv", 10 * 10**9)).decode()
    assert answer.startswith("HTTP/1.1 413")
    assert "1 MB" in answer
    assert uploads(site) == before


def test_a_body_that_never_ends(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    assert site.raw(site.request("POST /api/jobs", 100) + b"{").startswith(b"HTTP/1.1 408")


def test_headers_without_end(site: Any) -> None:
    said = site.raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"a" * 100_000)
    assert said[:12] in (b"HTTP/1.1 400", b"")


@pytest.mark.parametrize(
    "name", ["people.exe", "people", ".csv", "people.csv.html", "../people.php", "x.csv\x00.py"]
)
def test_other_endings(site: Any, name: str) -> None:
    before = uploads(site)
    assert put(site, name, b"a\n1\n").status_code == 400
    assert uploads(site) == before


def test_names_are_shown_and_never_used_as_paths(site: Any) -> None:
    sent = put(site, "../../../../tmp/../evil\r\n<b>.csv", b"age,disease\n30,flu\n")
    folder = site.state / "uploads" / sent.json()["source"]["upload"]
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "upload.json"]
    table = site.post("/api/tables", source=sent.json()["source"])
    assert table.json()["label"] == "evil<b>.csv"
    assert "<" not in table.text


def test_empty_and_wrong_files(site: Any) -> None:
    assert put(site, "a.csv", b"").status_code == 400
    for name, content in (
        ("a.parquet", b"PAR1 no"),
        ("a.arrow", b"ARROW1"),
        ("a.csv", bytes(range(256)) * 10),
        ("a.feather", b"\xff" * 1000),
    ):
        sent = put(site, name, content)
        answer = site.post("/api/tables", source=sent.json()["source"])
        assert answer.status_code in (200, 400)
        assert "Traceback" not in answer.text
        assert str(site.state) not in answer.text
        if answer.status_code == 400:
            assert name in answer.json()["error"]


def bomb(groups: int, size: int) -> bytes:
    """A small Parquet file of which every row group unpacks to `size` bytes."""
    sink = io.BytesIO()
    row = pa.table({"age": pa.array([1]), "note": pa.array(["x" * size])})
    with pq.ParquetWriter(sink, row.schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(groups):
            writer.write_table(row)
    return sink.getvalue()


@pytest.mark.slow
def test_a_zip_bomb_is_refused_by_what_it_states(site: Any) -> None:
    content = bomb(66, 17 << 20)  # 1.2 GB in some 100 KB
    assert len(content) < 1_000_000
    sent = put(site, "bomb.parquet", content)
    answer = site.post("/api/tables", source=sent.json()["source"])
    assert answer.status_code == 400
    assert "unpack" in answer.json()["error"]


@pytest.mark.slow
def test_a_zip_bomb_that_states_little_meets_the_memory_limit(site: Any) -> None:
    """A worker with little memory says so, and is still there."""
    import asyncio

    from sfumato.processes import TaskFailed, Worker

    path = site.state / "temp" / "lying.parquet"
    path.write_bytes(bomb(40, 16 << 20))  # less than every file may unpack to

    async def look() -> str:
        worker = await Worker.start("sfumato.web.tasks", site.state / "temp" / "lying", 600 << 20)
        try:
            with pytest.raises(TaskFailed) as failed:
                await worker.ask("look", {"path": str(path), "label": "lying.parquet"})
            assert worker.alive
            return str(failed.value)
        finally:
            await worker.stop()

    sentence = asyncio.run(look())
    path.unlink()
    assert sentence.startswith("This needs more memory"), sentence
