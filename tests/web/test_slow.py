"""Clients that take their time are not waited for, and neither are questions."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli import stopping
from sfumato.cli.app import _whole_program
from sfumato.web import bodies, server
from tests.web.conftest import opened


def _closed(raw: socket.socket) -> bytes:
    """What the server still says before it hangs up."""
    said = b""
    with raw:
        while True:
            try:
                piece = raw.recv(4096)
            except ConnectionResetError:
                return said
            if not piece:
                return said
            said += piece


def _connect(site: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(site.port)), timeout=30)


def test_headers_that_never_end(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_PATIENCE", 0.3)
    raw = _connect(site)
    raw.sendall(f"GET /api/jobs HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n".encode())
    assert _closed(raw) == b""
    assert _closed(_connect(site)) == b""  # who says nothing at all


def test_a_body_that_never_ends(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    raw = _connect(site)
    raw.sendall(
        f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nOrigin: {site.base}\r\n"
        f"X-Sfumato: 1\r\nX-Sfumato-Session: {site.secret}\r\nContent-Length: 100\r\n\r\n"
        "{".encode()
    )
    assert _closed(raw).startswith(b"HTTP/1.1 408")


def test_many_silent_connections_do_not_lock_others_out(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(server, "HEADER_PATIENCE", 1.0)
    silent = [_connect(site) for _ in range(40)]
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if site.stranger().get("/").status_code == 200:
                break
        except OSError:
            pass
        except Exception as error:
            if "Protocol" not in type(error).__name__ and "Read" not in type(error).__name__:
                raise
        time.sleep(0.1)
    else:
        pytest.fail("nobody else gets in")
    for raw in silent:
        raw.close()


def test_headers_without_end(site: Any) -> None:
    raw = _connect(site)
    raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"a" * 100_000)
    assert _closed(raw).startswith((b"HTTP/1.1 400", b""))


def test_a_question_that_takes_too_long_is_stopped(data: Path, tmp_path: Path) -> None:
    """What `serve --timeout` sets: a sentence after that time, and a worker that is gone."""
    with opened(data, tmp_path / "state", timeout=0.01) as hurried:
        hurried.client.headers.update(hurried.own)
        assert hurried.enter(hurried.sessions.token).status_code == 200
        answer = hurried.client.get("/api/state")
        assert answer.status_code >= 400
        assert "took longer than 0.01 seconds and was stopped" in answer.json()["error"]


@pytest.mark.parametrize(("flags", "seconds"), [([], 120.0), (["--timeout", "7.5"], 7.5)])
def test_the_flag_reaches_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], seconds: float
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(stopping, "leave", lambda: None)
    monkeypatch.setattr(server, "serve", lambda settings, *more: seen.append(settings.timeout))
    asked = ["serve", "--no-browser", "--port", "0", "--state", str(tmp_path), *flags]
    assert CliRunner().invoke(_whole_program(), asked).exit_code == 0
    assert seen == [seconds]
