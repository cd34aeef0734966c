"""Who is let in: every attack on the door is tried and refused."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from sfumato.web.sessions import LIFETIME, Sessions

PATHS = [
    "/",
    "/static/app.js",
    "/vendor/vega.min.js",
    "/api/state",
    "/api/jobs",
    "/api/files?root=0",
]


@pytest.mark.parametrize("path", PATHS)
def test_no_token(site: Any, path: str) -> None:
    answer = site.stranger().get(path)
    assert answer.status_code == 401
    assert "sfumato serve" in answer.text
    assert "set-cookie" not in answer.headers


def test_wrong_token(locked: Any) -> None:
    for token in ("", "x", locked.sessions.token[:-1], locked.sessions.token + "x", "é" * 43):
        answer = locked.client.get("/", params={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert locked.client.get("/api/jobs").status_code == 401


def test_token_works_once(locked: Any) -> None:
    token = locked.sessions.token
    first = locked.client.get("/", params={"token": token})
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert locked.client.get("/api/jobs").status_code == 200
    again = locked.stranger().get("/", params={"token": token})
    assert again.status_code == 401
    assert locked.stranger().get("/api/jobs").status_code == 401


def test_token_in_another_place_opens_nothing(locked: Any) -> None:
    token = locked.sessions.token
    assert locked.client.get("/api/jobs", params={"token": token}).status_code == 401
    headers = {"Authorization": f"Bearer {token}", "Cookie": f"sfumato-{locked.port}={token}"}
    assert locked.client.get("/api/jobs", headers=headers).status_code == 401
    assert locked.sessions.token == token


def test_made_up_sessions(site: Any) -> None:
    for cookie in ("sfumato-8734=x", "sfumato-8734=", 'sfumato-8734="', "=;=;;", "sfumato-1=x"):
        assert site.stranger(Cookie=cookie).get("/api/jobs").status_code == 401


def test_sessions_are_kept_hashed_and_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    sessions = Sessions(path)
    assert sessions.token
    secret = sessions.open(sessions.token)
    assert secret
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Sessions(path).holds(secret)
    stored = json.loads(path.read_text())
    (mark,) = stored
    assert not sessions.holds(mark)  # the file opens no door
    path.write_text(json.dumps({mark: time.time() - 1}))
    assert not Sessions(path).holds(secret)
    assert stored[mark] <= time.time() + LIFETIME
    path.write_text("damaged")
    assert not Sessions(path).holds(secret)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{}",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1.evil.example:{}",
        "localhost",
        "[::1]:{}",
        "",
        "127.0.0.1:{}@evil.example",
    ],
)
def test_foreign_host(site: Any, host: str) -> None:
    headers = {"Host": host.format(site.port)}
    for path in ("/", "/api/jobs", "/static/app.js", "/?token=x"):
        assert site.client.get(path, headers=headers).status_code == 403, path


def test_own_names(site: Any) -> None:
    assert site.client.get("/api/jobs").status_code == 200
    headers = {"Host": f"LOCALHOST:{site.port}"}
    assert site.client.get("/api/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{}"},
        {"Origin": "http://127.0.0.1:9999"},  # another server of this machine
        {"Origin": "http://127.0.0.1:{}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"X-Sfumato": None},
        {"X-Sfumato": "0"},
        {"Origin": None},
        {"Origin": "http://localhost:{}"},  # but asked by its address
    ],
)
def test_cross_site_post(site: Any, changed: dict[str, Any]) -> None:
    given = {
        name: value.format(site.port)
        for name, value in {**site.own, **changed}.items()
        if value is not None
    }
    before = site.client.get("/api/jobs").json()
    client = site.stranger(Cookie=site.cookie)
    for method, path in (
        ("POST", "/api/jobs"),
        ("POST", "/api/tables"),
        ("POST", "/api/jobs/0123456789abcdef/cancel"),
        ("PUT", "/api/uploads?name=a.csv"),
        ("DELETE", "/api/jobs/0123456789abcdef"),
    ):
        answer = client.request(method, path, headers=given, content=b"{}")
        assert answer.status_code == 403, (method, path)
    assert client.post("/api/jobs", headers=site.own, content=b"{}").status_code == 400
    assert site.client.get("/api/jobs").json() == before


def test_a_form_cannot_post(site: Any) -> None:
    """What a form on another page could send at most: no own header, a simple content type."""
    client = site.stranger(Cookie=site.cookie)
    answer = client.post("/api/jobs", data={"kind": "publish"}, headers={"Origin": "null"})
    assert answer.status_code == 403


@pytest.mark.parametrize("site_of_caller", ["cross-site", "same-site"])
def test_other_pages_cannot_load_answers(site: Any, site_of_caller: str) -> None:
    for path in ("/api/jobs", "/api/state", "/static/app.js"):
        answer = site.client.get(path, headers={"Sec-Fetch-Site": site_of_caller})
        assert answer.status_code == 403


def test_no_cors(site: Any) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "TRACE", "HEAD", "PATCH"):
        assert site.client.request(method, "/api/jobs", headers=asked).status_code == 405
    answer = site.client.get("/api/jobs", headers={"Origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/api/nothing", "/static/none.js"])
def test_headers_of_every_answer(site: Any, path: str) -> None:
    for client in (site.client, site.stranger()):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_a_link_from_elsewhere_still_opens_the_page(locked: Any) -> None:
    """The strict cookie does not follow a redirect that another site began."""
    answer = locked.client.get(
        "/",
        params={"token": locked.sessions.token},
        headers={"Sec-Fetch-Site": "cross-site"},
    )
    assert answer.status_code == 200
    assert 'content="0;url=/"' in answer.text
    assert locked.client.get("/api/jobs").status_code == 200


def test_static_files_are_named_one_by_one(site: Any) -> None:
    assert site.client.get("/static/app.js").headers["content-type"].startswith("text/javascript")
    for name in (
        "..%2f..%2fapi.py", "%2e%2e/guard.py", "../guard.py", "..%5cguard.py", "app.py", "%00",
        "index.html%00.js", ".js", "/etc/passwd", "//etc/passwd", "LICENSE.vega",
    ):  # fmt: skip
        for room in ("static", "vendor"):
            answer = site.client.get(f"/{room}/{name}")
            assert answer.status_code in (404, 405), (room, name)
            assert "import" not in answer.text
