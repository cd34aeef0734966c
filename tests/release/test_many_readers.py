"""One release, many readers: threads and processes that ask at once, and versions of the format."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sfumato as sf

QUESTIONS = [
    f"SELECT COUNT(*) FROM release WHERE age > {age} AND occupation = '{occupation}'"
    for age in range(20, 45)
    for occupation in ("cook", "clergy")
]
# ten questions of one process, from threads of its own
PROCESS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import sfumato as sf
release = sf.open(sys.argv[1])
with ThreadPoolExecutor(5) as threads:
    print(json.dumps([a.value for a in threads.map(release.sql, json.loads(sys.argv[2]))]))
"""


@pytest.mark.slow
def test_fifty_questions_at_once(published: Callable[[str], Path]) -> None:
    """From ten threads on one opened release, and from two processes, as one after the other."""
    place = published("optimal")
    known = sf.open(place)
    expected = [known.sql(question).value for question in QUESTIONS]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(place), json.dumps(QUESTIONS[low : low + 10])],
            stdout=subprocess.PIPE,
            text=True,
        )
        for low in (0, 10)
    ]
    shared = sf.open(place)
    with ThreadPoolExecutor(10) as threads:
        found = list(threads.map(shared.sql, QUESTIONS))
    assert [answer.value for answer in found] == pytest.approx(expected)
    said = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert said[0] + said[1] == pytest.approx(expected[:20])


def test_releases_of_other_versions_are_refused_in_a_sentence(
    tmp_path: Path, published: Callable[[str], Path]
) -> None:
    with pytest.raises(sf.BundleError, match=r"older version, .* ask it with sfumato 0\.2"):
        sf.open(Path(__file__).parent / "format_1")
    place = shutil.copytree(published("optimal"), tmp_path / "release")
    described = json.loads((place / "manifest.json").read_text("utf-8"))
    (place / "manifest.json").write_text(json.dumps(described | {"format": 4}), "utf-8")
    with pytest.raises(sf.BundleError, match="has release format 4, and this sfumato reads 3"):
        sf.open(place)
