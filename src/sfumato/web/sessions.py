"""Who may use the page: a token, good once, turns a tab into a session of this run of the server.

A session's secret lives in the tab and travels in a header of the page's own requests. No cookie
holds it: browsers send cookies to whatever listens at any port of a machine. Nothing of it lies on
disk, so that what a tab sends after the server stopped opens no door.
"""

from __future__ import annotations

import secrets
import time

LIFETIME = 7 * 24 * 3600  # seconds; a forgotten tab is locked out after a week
HEADER = "x-sfumato-session"
MOST_SESSIONS = 100
TICKET = 60  # seconds that a download may wait to begin
_MOST_TICKETS = 1000


class Sessions:
    """The open sessions, and tickets for what a tab can only fetch by its address.

    >>> sessions = Sessions()
    >>> secret = sessions.open(sessions.token)
    >>> sessions.holds(secret), sessions.token is None
    (True, True)
    >>> sessions.close(secret)
    >>> sessions.holds(secret)
    False
    """

    def __init__(self) -> None:
        self._token: str | None = secrets.token_urlsafe(32)
        self._ends: dict[str, float] = {}
        self._tickets: dict[str, tuple[str, float]] = {}

    @property
    def token(self) -> str | None:
        """The token that nobody has used yet."""
        return self._token

    def renew(self) -> str:
        """A new token, for another tab; the last one, if nobody used it, is good no more."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    def open(self, token: str | None) -> str | None:
        """A new session's secret for the right token; None for a wrong or used one."""
        known = self._token or secrets.token_urlsafe(32)
        right = secrets.compare_digest((token or "").encode(), known.encode())
        if not right or self._token is None:
            return None
        self._token = None
        secret = secrets.token_urlsafe(32)
        self._ends[secret] = time.monotonic() + LIFETIME
        newest = sorted(self._ends.items(), key=lambda pair: pair[1])[-MOST_SESSIONS:]
        self._ends = dict(newest)
        return secret

    def holds(self, secret: str | None) -> bool:
        """Whether this is the secret of an open session."""
        is_open = False
        for token, end in self._ends.items():  # all of them, each in constant time
            same = secrets.compare_digest((secret or "").encode(), token.encode())
            is_open |= same and end > time.monotonic()
        return is_open

    def close(self, secret: str | None) -> None:
        """Sign out."""
        self._ends.pop(secret or "", None)

    def ticket(self, path: str) -> str:
        """What lets one request for a path pass without a session, once and soon."""
        now = time.monotonic()
        alive = [pair for pair in self._tickets.items() if pair[1][1] > now]
        self._tickets = dict(alive[-_MOST_TICKETS:])
        made = secrets.token_urlsafe(32)
        self._tickets[made] = (path, now + TICKET)
        return made

    def takes(self, ticket: str, path: str) -> bool:
        """Whether a ticket is good for this path; after that it is good for nothing."""
        wanted, end = self._tickets.pop(ticket, ("", 0.0))
        return wanted == path and end > time.monotonic()
