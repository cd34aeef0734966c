"""The wall in front of every request: right host, right origin, right session, safe headers."""

from __future__ import annotations

from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.web.answers import problem
from sfumato.web.sessions import LIFETIME, Sessions

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
# a link from elsewhere: the session's cookie would not follow a redirect, so the page goes itself
_ONWARD = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>sfumato</title>"
    '<meta http-equiv="refresh" content="0;url=/"><p><a href="/">Open the page</a></p></html>'
)
_NO_SESSION = (
    "This page needs the address that 'sfumato serve' printed: it holds a token that is good once. "
    "Stop the server and start it again for a new one."
)


def _no_session(path: str) -> Response:
    if path.startswith("/api/"):
        return problem(401, _NO_SESSION)
    return PlainTextResponse(_NO_SESSION + "\n", 401, {"Connection": "close"})


class Guard:
    """ASGI middleware; nothing behind it is reached by a request that it does not know."""

    def __init__(self, app: ASGIApp, sessions: Sessions, hosts: Sequence[str], cookie: str) -> None:
        self._app, self._sessions, self._cookie = app, sessions, cookie
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
        own = {f"http://{host[0].lower()}"}
        if method != "GET" and (
            (origin is None and site is None)
            or (origin is not None and origin.lower() not in own)
            or site not in (None, "same-origin")
            or headers.get("x-sfumato") != "1"
        ):
            return problem(403, "Only the page of this server may change anything here.")
        request = Request(scope)
        token = request.query_params.get("token")
        if method == "GET" and scope["path"] == "/" and token is not None:
            return self._entry(token, site)
        if method == "GET" and scope["path"] != "/" and site not in (None, "same-origin", "none"):
            return problem(403, "Only the page of this server may ask for this.")
        if not self._sessions.holds(self._secret(headers)):
            return _no_session(scope["path"])
        return None

    def _entry(self, token: str, site: str | None) -> Response:
        """The token turns into a session, once."""
        secret = self._sessions.open(token)
        if secret is None:
            return _no_session("/")
        response: Response
        if site in (None, "none", "same-origin"):
            response = RedirectResponse("/", 303)
        else:
            response = HTMLResponse(_ONWARD)
        response.set_cookie(
            self._cookie, secret, max_age=LIFETIME, httponly=True, samesite="strict", path="/"
        )
        return response

    def _secret(self, headers: Headers) -> str | None:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            return None
        found = jar.get(self._cookie)
        return None if found is None else found.value
