"""Signing in with the token, signing out, a link for another tab, tickets for downloads."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.web.answers import Refusal, answer
from sfumato.web.api import services_of
from sfumato.web.bodies import read_object
from sfumato.web.guard import NO_SESSION
from sfumato.web.sessions import HEADER


async def sign_in(request: Request) -> Response:
    body = await read_object(request)
    token = body.get("token")
    secret = services_of(request).sessions.open(token if isinstance(token, str) else None)
    if secret is None:
        raise Refusal(401, NO_SESSION)
    return answer({"session": secret})


async def sign_out(request: Request) -> Response:
    services_of(request).sessions.close(request.headers.get(HEADER))
    return answer({})


async def new_link(request: Request) -> Response:
    return answer({"token": services_of(request).sessions.renew()})


async def new_ticket(request: Request) -> Response:
    """For a release or a report, which the browser fetches by its address alone."""
    body = await read_object(request)
    path = body.get("path")
    if not isinstance(path, str) or not path.startswith("/api/jobs/"):
        raise Refusal(400, "A ticket is for what a job made.")
    return answer({"ticket": services_of(request).sessions.ticket(path)})
