"""Markup, formulas and SQL from outside stay words: they are shown, and never run."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COLUMNS = (
    "<img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    'quo"te; DROP TABLE people --',
    "illness",
)
VALUES = (
    "<script>alert(1)</script>",
    "=HYPERLINK(1)",
    "'; DROP TABLE release; --",
    "&lt;",
    "a\u2028b",
    "@SUM",
)


@pytest.fixture(scope="module")
def hostile(site: Any) -> tuple[str, dict[str, Any], list[Any]]:
    """A release of a table whose names and values are all hostile; and every answer on the way."""
    rng = np.random.default_rng(3)
    columns = {
        name: pa.array(np.array(VALUES)[rng.integers(0, len(VALUES), 600)]) for name in COLUMNS
    }
    pq.write_table(pa.table(columns), site.data / "=hostile.parquet")
    seen = [site.post("/api/tables", source={"root": "0", "path": "=hostile.parquet"})]
    roles = {name: "sensitive" if name == "illness" else "quasi" for name in COLUMNS}
    profile = site.counted(seen[0].json()["table"], roles)["profile"]
    seen.append(site.client.get(f"/api/profiles/{profile}"))
    seen.append(site.post("/api/predict", profile=profile, guarantee="l-diversity(3)"))
    job = site.wait(
        site.start(kind="publish", profile=profile, guarantee="l-diversity(3)", name="<b>&\x07")
    )
    assert job["state"] == "done", job
    seen.append(site.client.get(f"/api/jobs/{job['id']}"))
    return profile, job, seen


def test_every_answer_is_json_without_a_tag(
    site: Any, hostile: tuple[str, dict[str, Any], list[Any]]
) -> None:
    profile, job, seen = hostile
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in COLUMNS[:3])
    question = f"SELECT {quoted}, COUNT(*) FROM release GROUP BY {quoted}"
    answers = [
        *seen,
        site.post("/api/query", job=job["id"], sql=question),
        site.client.get("/api/jobs"),
        site.client.get(f"/api/profiles/{profile}"),
        site.client.get("/api/files", params={"root": "0", "folder": "<script>"}),
        site.post("/api/predict", profile=profile, guarantee="<script>alert(1)</script>"),
        site.post("/api/query", job=job["id"], sql="<script>alert(1)</script>"),
        site.client.get("/api/<script>"),
    ]
    for answer in answers:
        assert answer.headers["content-type"] == "application/json", answer.url
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<" not in answer.text, answer.url
        json.loads(answer.text)
    assert seen[0].json()["columns"][0]["name"] == COLUMNS[0]
    values = {bar["label"] for bar in seen[1].json()["histogram"][0]["bars"]}
    assert values == set(VALUES)
    assert job["name"] == "<b>&"
    assert answers[4].json()["rows"]


def test_the_download_has_a_harmless_name(
    site: Any, hostile: tuple[str, dict[str, Any], list[Any]]
) -> None:
    _, job, _ = hostile
    answer = site.client.get(f"/api/jobs/{job['id']}/release.zip")
    stem = f"release-hostile-{job['id'][:6]}"
    assert answer.headers["content-disposition"] == f'attachment; filename="{stem}.zip"'
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    files = ("manifest.json", "records/part-00000.parquet", "sensitive.parquet")
    assert sorted(names) == [f"{stem}/{name}" for name in files]


@pytest.mark.slow
def test_the_report_escapes_and_stands_alone(
    site: Any, hostile: tuple[str, dict[str, Any], list[Any]]
) -> None:
    _, job, _ = hostile
    done = site.wait(site.start(kind="evidence", job=job["id"]))
    assert done["state"] == "done", done
    page = site.client.get(f"/api/jobs/{done['id']}/report")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy
    assert "<img src=x" not in page.text
    assert "<script>alert(1)" not in page.text
    assert done["summary"]["holds"]
    assert "<" not in json.dumps(done["summary"])


ATTACKS = [  # the walls are those of `queries`, and tried there
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "COPY release TO '{data}/stolen.csv'",
    "ATTACH '{data}/a.db'",
    "SET enable_external_access = true",
    "SELECT COUNT(*) FROM release; ATTACH '{data}/a.db'",
    "SELECT COUNT(*) FROM records",
    "SELECT * FROM release",
    "",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
]


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: sql[:60])
def test_sql_that_asks_for_more(site: Any, release: dict[str, Any], sql: str) -> None:
    answer = site.post("/api/query", job=release["id"], sql=sql.format(data=site.data))
    assert answer.status_code == 400
    assert answer.json()["error"].strip()
    assert "root:" not in answer.text
    assert "Traceback" not in answer.text
    assert str(site.state) not in answer.text
    names = {path.name for path in Path(site.data).iterdir()}
    assert not names & {"stolen.csv", "a.db", "x"}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["f-privacy(@/etc/passwd)", "f-privacy(limits=@/etc/passwd)",
                                  "fine-rho-privacy(@/etc/passwd)"])  # fmt: skip
def test_a_promise_cannot_read_a_file(site: Any, release: dict[str, Any], text: str) -> None:
    profile = release["profile"]
    answer = site.post("/api/predict", profile=profile, guarantee=text)
    assert answer.status_code == 400
    assert "root:" not in answer.text
    job = site.wait(site.start(kind="publish", profile=profile, guarantee=text))
    assert job["state"] == "failed"
    assert "root:" not in json.dumps(job)
    named = {"guarantee": "l-diversity(2)", "mechanism": "optimal(fakes=@/etc/passwd)"}
    assert site.wait(site.start(kind="publish", profile=profile, **named))["state"] == "failed"


NONSENSE: list[tuple[str, str, Any]] = [
    ("POST", "/api/tables", b"{"),
    ("POST", "/api/tables", b"[1]"),
    ("POST", "/api/tables", b"\xff\xfe"),
    ("POST", "/api/tables", b"[" * 100_000),
    ("POST", "/api/jobs", b'{"kind": ["publish"]}'),
    ("POST", "/api/jobs", b'{"kind": "publish", "profile": {"a": 1}}'),
    ("POST", "/api/jobs", b'{"kind": "evidence"}'),
    ("POST", "/api/predict", b'{"profile": null, "guarantee": 1}'),
    ("POST", "/api/query", b'{"job": 1, "sql": 2}'),
    ("POST", "/api/jobs", b" " * 2_000_000),
]


@pytest.mark.parametrize(("method", "path", "body"), NONSENSE, ids=lambda part: str(part)[:30])
def test_nonsense_gets_a_sentence(site: Any, method: str, path: str, body: Any) -> None:
    answer = site.client.request(method, path, content=body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"].endswith(".")
    assert "Traceback" not in answer.text


def test_roles_are_never_guessed(site: Any) -> None:
    table = site.table("people.parquet")["table"]
    for roles in (
        {"age": "quasi", "sex": "quasi", "region": "secret", "disease": "sensitive"},
        ["age"],
        None,
    ):
        answer = site.post("/api/jobs", kind="counts", table=table, roles=roles)
        assert answer.status_code == 400, roles
        assert str(site.data) not in answer.text
    for roles, told in (
        ({"disease": "sensitive"}, "columns without a role"),
        ({"age": "key", "sex": "key", "region": "quasi", "disease": "sensitive"}, "Only one"),
    ):
        job = site.wait(site.start(kind="counts", table=table, roles=roles))
        assert job["state"] == "failed", roles
        assert told in job["error"]
        assert str(site.data) not in json.dumps(job)
