"""Who is let in: every attack on the door is tried and refused."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.web.sessions import Sessions

PATHS = ["/api/state", "/api/jobs", "/api/files?root=0", "/api/jobs/0123456789abcdef/report"]
FILES = ["/", "/static/app.js", "/vendor/vega.min.js"]


@pytest.mark.parametrize("path", PATHS)
def test_no_token(site: Any, path: str) -> None:
    answer = site.stranger().get(path)
    assert answer.status_code == 401
    assert "sfumato serve" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", FILES)
def test_the_programs_own_files_hold_nothing(site: Any, path: str) -> None:
    answer = site.stranger().get(path)
    assert answer.status_code == 200
    assert site.secret not in answer.text


def test_wrong_token(locked: Any) -> None:
    for token in ("", "x", locked.sessions.token[:-1], locked.sessions.token + "x", "é" * 43, None):
        assert locked.enter(token).status_code == 401
    assert locked.client.get("/api/jobs").status_code == 401


def test_token_works_once(locked: Any) -> None:
    token = locked.sessions.token
    assert locked.enter(token).status_code == 200
    assert locked.client.get("/api/jobs").status_code == 200
    headers = {**locked.own, "Content-Type": "application/json"}
    again = locked.stranger(**headers).post("/api/session", json={"token": token})
    assert again.status_code == 401
    assert locked.stranger().get("/api/jobs").status_code == 401


def test_token_in_another_place_opens_nothing(locked: Any) -> None:
    token = locked.sessions.token
    assert locked.client.get("/api/jobs", params={"token": token}).status_code == 401
    for name in ("Authorization", "Cookie", "X-Sfumato-Session"):
        assert locked.client.get("/api/jobs", headers={name: token}).status_code == 401
    assert locked.sessions.token == token


def test_no_cookie_is_set_and_none_is_taken(site: Any) -> None:
    """Browsers send cookies to every port of a machine: here there is none to send."""
    answers = [site.client.get(path) for path in (*FILES, "/api/state", "/api/jobs")]
    answers.append(site.post("/api/session/link"))
    assert not any("set-cookie" in answer.headers for answer in answers)
    for name in (f"sfumato-{site.port}", "sfumato", "X-Sfumato-Session"):
        stranger = site.stranger(Cookie=f"{name}={site.secret}")
        assert stranger.get("/api/jobs").status_code == 401


def test_a_session_ends_with_its_server() -> None:
    """What a tab sends after the server stopped opens nothing in the next one."""
    first = Sessions()
    secret = first.open(first.token)
    assert first.holds(secret)
    assert not Sessions().holds(secret)
    assert not Sessions().holds(None)
    assert not Sessions().holds("")


def test_signing_out_and_a_new_link(locked: Any) -> None:
    assert locked.enter(locked.sessions.token).status_code == 200
    locked.client.headers.update(locked.own)
    token = locked.post("/api/session/link").json()["token"]
    other = locked.stranger(**locked.own)
    second = other.post("/api/session", json={"token": token}).json()["session"]
    assert locked.client.delete("/api/session").status_code == 200
    assert locked.client.get("/api/jobs").status_code == 401
    assert other.get("/api/jobs", headers={"X-Sfumato-Session": second}).status_code == 200


def test_a_ticket_is_good_for_one_path_and_once(site: Any, release: dict[str, Any]) -> None:
    path = f"/api/jobs/{release['id']}/release.zip"
    stranger = site.stranger()

    def ticket() -> str:
        return str(site.post("/api/tickets", path=path).json()["ticket"])

    one = ticket()
    assert stranger.get(path, params={"ticket": one}).status_code == 200
    assert stranger.get(path, params={"ticket": one}).status_code == 401
    assert stranger.get("/api/jobs", params={"ticket": ticket()}).status_code == 401
    assert stranger.get(path, params={"ticket": "x"}).status_code == 401
    assert site.post("/api/tickets", path="/api/state").status_code == 400
    late = Sessions()
    assert not late.takes(late.ticket("/a"), "/b")


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
    for path in ("/", "/api/jobs", "/static/app.js"):
        assert site.client.get(path, headers=headers).status_code == 403, path


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
    client = site.stranger(**{"X-Sfumato-Session": site.secret})
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


def test_static_files_are_named_one_by_one(site: Any) -> None:
    assert site.client.get("/static/app.js").headers["content-type"].startswith("text/javascript")
    for name in (
        "..%2f..%2fapi.py", "%2e%2e/guard.py", "../guard.py", "..%5cguard.py", "app.py", "%00",
        "index.html%00.js", ".js", "/etc/passwd", "//etc/passwd",
    ):  # fmt: skip
        for room in ("static", "vendor"):
            answer = site.client.get(f"/{room}/{name}")
            assert answer.status_code in (404, 405), (room, name)
            assert "import" not in answer.text
