"""A worker process: takes tasks from its standard input, one JSON line each, and answers likewise.

It runs under a memory limit, in a process group of its own, with a temporary folder of its own,
and it does not outlive the server: when its standard input ends, it tidies up and ends itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, Any

from sfumato.errors import InfeasibleGuarantee, SfumatoError

_STEP = 0.1  # seconds between two reports of progress

Progress = Callable[[str, int, int], None]


def main() -> None:
    """Run tasks until there are no more."""
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold raw records
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    os.umask(0o077)
    warnings.simplefilter("ignore")  # a release's caveats stand in its manifest
    # whatever a library prints must not get between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_watch, args=(tasks,), daemon=True).start()
    from sfumato.web import tasks as room  # and with it most of what is slow to load

    while True:
        _answer(answers, room.TASKS, json.loads(tasks.get()))


def _watch(tasks: queue.Queue[str]) -> None:
    """Hand tasks on; end the whole group when the server is gone."""
    for line in sys.stdin:
        tasks.put(line)
    # twice: threads that still write may have put a new file where an old one was
    for _ in range(2):
        shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _answer(answers: IO[str], known: dict[str, Callable[..., Any]], task: dict[str, Any]) -> None:
    last, said = 0.0, ""

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal last, said
        now = time.monotonic()
        if now - last >= _STEP or stage != said:  # what begins may be silent for long
            last, said = now, stage
            _say(answers, {"progress": [stage, int(done), int(total)]})

    try:
        _say(answers, {"result": known[task["task"]](progress=progress, **task["given"])})
    except SfumatoError as error:
        _say(answers, {"error": error_json(error)})
    except (Exception, RecursionError) as error:
        _say(answers, {"error": {"error": unexpected(error)}})


def _say(answers: IO[str], message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        # NaN and infinities are no JSON: who makes a result turns them into something else
        answers.write(json.dumps(message, allow_nan=False) + "\n")
        answers.flush()


def error_json(error: SfumatoError) -> dict[str, Any]:
    """What the page shows of an error that was raised on purpose."""
    told: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InfeasibleGuarantee):
        told |= {"witness": error.witness, "nearest": error.nearest}
    return told


def unexpected(error: BaseException) -> str:
    """One sentence for an error that nobody expected; its own text may hold raw values."""
    name = type(error).__name__
    if isinstance(error, MemoryError) or "OutOfMemory" in name or name == "ArrowMemoryError":
        return (
            "This needs more memory than a job may use. Choose fewer columns or a smaller table, "
            "or start the server with a larger --memory-limit."
        )
    if isinstance(error, OSError) and error.errno:
        return (
            f"The system refused: {os.strerror(error.errno)}. Free space or memory, and try again."
        )
    return (
        f"Something went wrong inside sfumato ({name}). Nothing was published. Please report it "
        "with what you did."
    )


if __name__ == "__main__":
    main()
