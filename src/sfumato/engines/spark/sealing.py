"""How a plan and its key reach the executors: sealed, so that no file ever holds them in the clear.

Spark keeps large values that tasks need (a plan may have 30 MB of tables) in files, on the driver
and on every executor. These hold ciphertext. The key to it is made for one job, is small, and
travels inside the job's function, which Spark sends with the task itself.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, Generic, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_INSIDE = (
    1 << 18
)  # bytes that travel with the function; Spark writes functions above 1 MB to a file
_NONCE = bytes(12)  # every sealing has a key of its own

Held = TypeVar("Held")
_opened: dict[bytes, Any] = {}  # what this worker process opened last: tasks of a job share it


class Sealed(Generic[Held]):
    """A value that only a task of this job can read. `close` it when the job is over.

    >>> sealed = Sealed({"plan": 1})
    >>> sealed, sealed.open()
    (<Sealed>, {'plan': 1})
    """

    def __init__(self, value: Held, session: Any = None) -> None:
        self._key = AESGCM.generate_key(256)
        self._name = os.urandom(16)
        content = AESGCM(self._key).encrypt(_NONCE, pickle.dumps(value), self._name)
        context = getattr(session, "_sc", None)  # Spark Connect has none
        self._broadcast = None
        self._content: bytes | None = content
        if context is not None and len(content) > _INSIDE:
            self._broadcast, self._content = context.broadcast(content), None

    def open(self) -> Held:
        if self._name not in _opened:
            content = self._content if self._broadcast is None else self._broadcast.value
            assert content is not None
            value = pickle.loads(AESGCM(self._key).decrypt(_NONCE, content, self._name))
            _opened.clear()
            _opened[self._name] = value
        kept_file: Held = _opened[self._name]
        return kept_file

    def close(self) -> None:
        _opened.pop(self._name, None)
        if self._broadcast is not None:
            self._broadcast.destroy()

    def __repr__(self) -> str:
        return "<Sealed>"  # never the key
