"""A process of its own for one candidate.

The trial comes on standard input. Standard output carries one JSON object per line: what is being
done, and at last the result. The process ends by itself when standard input closes: a comparison
that is killed leaves no worker behind.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from typing import Any

from sfumato.evidence.compare.measure import measure
from sfumato.release.bundle import remove_unfinished
from sfumato.scratch import remove_all


def main() -> None:
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the lines
    trial = pickle.load(sys.stdin.buffer)  # from the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(message: dict[str, Any]) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    def far(stage: str, done: int, total: int) -> None:
        tell({"stage": stage, "done": done})

    tell({"result": measure(trial, far)})
    lines.close()
    sys.stdout.flush()
    end(0)  # the thread still reads


def end(code: int) -> None:
    """End at once, and leave no folder with raw data: nothing that tidies at exit would run."""
    remove_unfinished()
    remove_all()
    os._exit(code)


def _end_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    end(1)
