"""Clients that take their time are not waited for, and neither are questions."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from sfumato.web import bodies


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


def test_a_body_that_never_ends(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    raw = _connect(site)
    raw.sendall(
        f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nOrigin: {site.base}\r\n"
        f"X-Sfumato: 1\r\nX-Sfumato-Session: {site.secret}\r\nContent-Length: 100\r\n\r\n"
        "{".encode()
    )
    assert _closed(raw).startswith(b"HTTP/1.1 408")


def test_headers_without_end(site: Any) -> None:
    raw = _connect(site)
    raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"a" * 100_000)
    assert _closed(raw).startswith((b"HTTP/1.1 400", b""))
