"""Who may use the page: one token, good once, turns a browser into a session."""

from __future__ import annotations

import hashlib
import secrets
import time
from pathlib import Path

from sfumato.web.state import read_json, write_json

LIFETIME = 7 * 24 * 3600  # seconds; a forgotten browser is locked out after a week
MOST_SESSIONS = 100


class Sessions:
    """The sessions that are open. Only their hashes lie on disk: the file opens no door."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = secrets.token_urlsafe(32)
        stored = read_json(path)
        now = time.time()
        self._ends: dict[str, float] = {}
        if isinstance(stored, dict):
            self._ends = {
                str(mark): float(end)
                for mark, end in stored.items()
                if isinstance(end, (int, float)) and end > now
            }

    @property
    def token(self) -> str | None:
        """The token that nobody has used yet."""
        return self._token

    def open(self, token: str) -> str | None:
        """A new session's secret for the right token; None for a wrong or used one."""
        known = self._token or secrets.token_urlsafe(32)
        right = secrets.compare_digest(token.encode(), known.encode())
        if not right or self._token is None:
            return None
        self._token = None
        secret = secrets.token_urlsafe(32)
        self._ends[_mark(secret)] = time.time() + LIFETIME
        newest = sorted(self._ends.items(), key=lambda pair: pair[1])[-MOST_SESSIONS:]
        self._ends = dict(newest)
        write_json(self._path, self._ends)
        return secret

    def holds(self, secret: str | None) -> bool:
        """Whether this is the secret of an open session."""
        if not secret:
            return False
        # the hash is looked up, not the secret: how long that takes tells nothing about it
        end = self._ends.get(_mark(secret))
        return end is not None and end > time.time()


def _mark(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
