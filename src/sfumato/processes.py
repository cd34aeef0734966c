"""Processes that run tasks: they tell how far they are, keep a limit, and leave nothing behind.

A process takes tasks from its standard input, one JSON line each, and answers with lines of
progress and one with a result or an error. It has a process group and a temporary folder of its
own. It does not outlive whoever started it: when its standard input ends, it tidies up and ends.
"""

from __future__ import annotations

import asyncio
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
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.limits import limit_behind
from sfumato.pace import Progress

_STEP = 0.1  # seconds between two reports of progress
_LONGEST_LINE = 64 << 20  # bytes of one answer
_NO_ANSWER = (
    "The process ended without an answer, most likely because it needed more memory than it may "
    "use. Choose fewer columns or a smaller table, do fewer things at once, or allow more memory."
)


class TaskFailed(Exception):
    """What a process said went wrong, ready to be shown."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["error"])
        self.details = {name: value for name, value in told.items() if name != "error"}


class Worker:
    """One process, from outside: start, ask, kill, tidy up."""

    def __init__(self, process: asyncio.subprocess.Process, temporary: Path) -> None:
        self._process, self._temporary = process, temporary

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @classmethod
    async def start(
        cls, tasks: str, temporary: Path, memory: int = 0, cwd: Path | None = None
    ) -> Worker:
        """A process for the TASKS of a module; `temporary` is made, and goes away with it."""
        temporary.mkdir(mode=0o700)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the current folder is no place to import from
            "-m",
            "sfumato.processes",
            tasks,
            str(memory),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,  # a group of its own, so that killing takes its children too
            cwd=cwd,
            # small matrices are slower with threads, much slower on a busy machine
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "TMPDIR": str(temporary)},
        )
        return cls(process, temporary)

    async def ask(self, task: str, given: dict[str, Any], report: Progress | None = None) -> Any:
        """Run a task and wait for its result; raises `TaskFailed`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"task": task, "given": given}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()
            while answer := await self._process.stdout.readline():
                told = json.loads(answer)
                if "progress" in told:
                    if report is not None:
                        report(*told["progress"])
                elif "error" in told:
                    raise TaskFailed(told["error"])
                else:
                    return told["result"]
        except (OSError, ValueError):
            pass
        raise TaskFailed({"error": _NO_ANSWER})

    async def stop(self) -> None:
        """Kill the process and its children, and remove what they wrote."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._temporary, ignore_errors=True)


def main() -> None:
    """The process itself: run the tasks of a module until there are no more."""
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold raw records
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    os.umask(0o077)
    warnings.simplefilter("ignore")  # a release's caveats stand in its manifest
    # whatever a library prints must not get between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    waiting: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_watch, args=(waiting,), daemon=True).start()
    tasks = import_module(sys.argv[1]).TASKS  # and with it most of what is slow to load
    while True:
        _answer(answers, tasks, json.loads(waiting.get()))


def _watch(waiting: queue.Queue[str]) -> None:
    """Hand tasks on; end the whole group when nobody asks any more."""
    for line in sys.stdin:
        waiting.put(line)
    # twice: threads that still write may have put a new file where an old one was
    for _ in range(2):
        shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _answer(answers: IO[str], tasks: dict[str, Callable[..., Any]], asked: dict[str, Any]) -> None:
    last, said = 0.0, ""

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal last, said
        now = time.monotonic()
        if now - last >= _STEP or stage != said:  # what begins may be silent for long
            last, said = now, stage
            _say(answers, {"progress": [stage, int(done), int(total)]})

    try:
        _say(answers, {"result": tasks[asked["task"]](progress=progress, **asked["given"])})
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
    """What is shown of an error that was raised on purpose."""
    document: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InfeasibleGuarantee):
        document |= {"witness": error.witness, "nearest": error.nearest}
    return document


def unexpected(error: BaseException) -> str:
    """One sentence for an error that nobody expected; its own text may hold raw values."""
    if limit_behind(error):
        return (
            "This needs more memory than it may use. Choose fewer columns or a smaller table, do "
            "fewer things at once, or allow more memory."
        )
    if isinstance(error, OSError) and error.errno:
        return (
            f"The system refused: {os.strerror(error.errno)}. Free space or memory, and try again."
        )
    return (
        f"Something went wrong inside sfumato ({type(error).__name__}). Nothing was published. "
        "Please report it with what you did."
    )


if __name__ == "__main__":
    main()
