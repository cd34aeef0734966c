"""Running the server: on this machine alone unless told otherwise."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from sfumato.errors import UsageError
from sfumato.web.api import Settings
from sfumato.web.app import build
from sfumato.web.sessions import Sessions
from sfumato.web.state import StateFolder


def names_of(host: str, port: int) -> list[str]:
    """What a Host header may say; the first is the address."""
    own = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return [own, f"localhost:{port}"] if host == "127.0.0.1" else [own]


def check_host(host: str, understood: bool) -> str:
    """An address to listen at; beyond this machine only for those who know what that means.

    >>> check_host("127.0.0.1", understood=False)
    '127.0.0.1'
    """
    try:
        address = ip_address(host)
    except ValueError:
        raise UsageError(
            f"--host takes an IP address of this machine, such as 127.0.0.1. Got {host!r} instead."
        ) from None
    if address.is_unspecified:
        raise UsageError(
            "--host takes the one address that people will use; with every address the server "
            "could not tell who it is being taken for."
        )
    if not address.is_loopback and not understood:
        raise UsageError(
            f"{host} is not this machine alone: whoever can read the network sees tables, counts "
            "and the session in plain text. Use 127.0.0.1, or add --i-understand."
        )
    return str(address)


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once, without waiting for more, only where the protocol is named
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or "the port must be between 0 and 65535"
        raise UsageError(
            f"Cannot listen at {host}, port {port}: {reason}. Choose another --port, or 0 for any "
            "that is free."
        ) from None
    sock.set_inheritable(False)
    return sock


def serve(
    settings: Settings, sock: socket.socket, ready: Callable[[str], None] = lambda address: None
) -> None:
    """Serve until interrupted. `ready` is told the address with its token once it works."""
    state = StateFolder(settings.state)
    try:
        sessions = Sessions()
        names = names_of(*sock.getsockname()[:2])
        app = build(settings, sessions, state, names)
        entry = f"http://{names[0]}/#token={sessions.token}"
        Server(app, lambda: ready(entry)).run(sockets=[sock])
    finally:
        state.close()


class Server(uvicorn.Server):
    """A server that logs nothing (addresses hold the token) and says when it is ready."""

    def __init__(self, app: ASGIApp, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=32 << 10,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
