"""Answers as charts and frames."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.errors import QueryError, UsageError
from sfumato.queries.answer import Answer


def answer(keys: dict[str, list[object]], rows: int = 3, **more: object) -> Answer:
    figures = {
        "n": [10.0, 20.0, None][:rows],
        "n_stderr": [1.0, 2.0, None][:rows],
        "n_low": [8.0, 16.0, None][:rows],
        "n_high": [12.0, 24.0, None][:rows],
    }
    return Answer(pa.table({**keys, **figures}), ("n",), 0.95, **more)  # type: ignore[arg-type]


def marks(drawn: object) -> list[str]:
    layers = drawn.to_dict()["layer"]  # type: ignore[attr-defined]
    return [layer["mark"]["type"] for layer in layers]


def test_a_number_is_a_line_a_text_a_bar_and_two_keys_a_heat_map() -> None:
    assert marks(answer({"age": [20, 30, 40]}).plot()) == ["rule", "line", "point"]
    assert marks(answer({"sex": ["F", "M", None]}).plot()) == ["bar", "rule"]
    assert marks(answer({"a": [1, 2, 3], "b": ["x", "y", "z"]}).plot()) == ["rect", "text"]
    assert marks(answer({}, 1).plot()) == ["bar", "rule"]


def test_a_page_needs_no_network_and_holds_the_figures(tmp_path: Path) -> None:
    answer({"sex": ["</script>", "M", None]}).plot(tmp_path / "a.html", title="Who")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "default-src 'none'" in page
    assert "<title>Who</title>" in page
    (spec,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    (rows,) = json.loads(spec)["datasets"].values() if "datasets" in spec else [None]
    assert rows is None or {row["high"] for row in rows} == {12.0, 24.0}
    assert "24.0" in page or "24" in page


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<svg")])
def test_pictures(tmp_path: Path, name: str, begins: bytes) -> None:
    pytest.importorskip("vl_convert")
    answer({"sex": ["F", "M", None]}).plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"written as \.html, \.png, \.svg"):
        answer({"sex": ["F", "M", None]}).plot(tmp_path / "a.pdf")
    with pytest.raises(UsageError, match="no folder"):
        answer({"sex": ["F", "M", None]}).plot(tmp_path / "none" / "a.html")
    with pytest.raises(QueryError, match="at most two keys"):
        answer({name: ["F", "M", None] for name in "abc"}).plot()
    with pytest.raises(QueryError, match="1 to 2,000 rows"):
        answer({"sex": []}, 0).plot()
    monkeypatch.setattr(builtins, "__import__", _without("vl_convert", builtins.__import__))
    with pytest.raises(UsageError, match=r"sfumato\[plots\]"):
        answer({"sex": ["F", "M", None]}).plot(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def _without(name: str, imported):  # type: ignore[no-untyped-def]
    def find(wanted: str, *rest: object, **more: object) -> object:
        if wanted == name:
            raise ImportError(name)
        return imported(wanted, *rest, **more)

    return find
