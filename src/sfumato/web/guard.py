"""The wall in front of every request: right host, right origin, right session, safe headers."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.web.answers import problem
from sfumato.web.sessions import HEADER, Sessions

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
NO_SESSION = (
    "This page needs the address that 'sfumato serve' printed: it holds a token that is good once. "
    "Open another tab from a page that is open, with *New link*, or start the server again."
)
OPEN = ("/static/", "/vendor/")  # the program's own files, which hold nothing of anybody


class Guard:
    """ASGI middleware; nothing behind it is reached by a request that it does not know."""

    def __init__(self, app: ASGIApp, sessions: Sessions, hosts: Sequence[str]) -> None:
        self._app, self._sessions = app, sessions
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further; None for one that may."""
        headers = Headers(scope=scope)
        method = scope["method"]
        host = headers.getlist("host")
        if len(host) != 1 or host[0].lower() not in self._hosts:
            # a page elsewhere that points its own name at this machine gets nothing
            return problem(403, "This server does not go by that name.")
        if method not in ("GET", "POST", "PUT", "DELETE"):
            return problem(405, "This server does not know that method.")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own_origins = {f"http://{host[0].lower()}"}
        if method != "GET" and (
            (origin is None and site is None)
            or (origin is not None and origin.lower() not in own_origins)
            or site not in (None, "same-origin")
            or headers.get("x-sfumato") != "1"
        ):
            return problem(403, "Only the page of this server may change anything here.")
        path = scope["path"]
        if method == "GET" and path != "/" and site not in (None, "same-origin", "none"):
            return problem(403, "Only the page of this server may ask for this.")
        if method == "GET" and (path == "/" or path.startswith(OPEN)):
            return None
        if (method, path) == ("POST", "/api/session"):
            return None  # where a token turns into a session
        ticket = Request(scope).query_params.get("ticket")
        if method == "GET" and ticket is not None:
            taken = self._sessions.takes(ticket, path)
            return None if taken else problem(401, "This link was used, or is too old. Try again.")
        if not self._sessions.holds(headers.get(HEADER)):
            return problem(401, NO_SESSION)
        return None
