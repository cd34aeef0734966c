"""The server's side of its worker processes: start, ask, kill, tidy up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sfumato.web.state import StateFolder, new_identifier, remove

_LONGEST_LINE = 64 << 20  # bytes of one answer
_NO_ANSWER = (
    "The worker ended without an answer, most likely because it needed more memory than a job may "
    "use. Choose fewer columns or a smaller table, or start the server with a larger "
    "--memory-limit."
)

Report = Callable[[str, int, int], None]


class TaskFailed(Exception):
    """What a worker said went wrong, ready for the page."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["error"])
        self.told = told


class Worker:
    """One process and its temporary folder."""

    def __init__(self, process: asyncio.subprocess.Process, state: StateFolder, name: str) -> None:
        self._process, self._temporary = process, state.folder("temp", name)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def start(cls, state: StateFolder, memory: int) -> Worker:
        name = new_identifier()
        temporary = state.folder("temp", name)
        temporary.mkdir(mode=0o700)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the current folder is no place to import from
            "-m",
            "sfumato.web.worker",
            str(memory),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,  # a group of its own, so that killing takes its children too
            cwd=temporary,
            # small matrices are slower with threads, much slower on a busy machine
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "TMPDIR": str(temporary)},
        )
        return cls(process, state, name)

    async def ask(self, task: str, given: dict[str, Any], report: Report | None = None) -> Any:
        """Run a task and wait for its result; raises `TaskFailed` with what the page may know."""
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
        remove(self._temporary)


class Workers:
    """Hands out workers: one that has loaded everything already always waits."""

    def __init__(self, state: StateFolder, memory: int) -> None:
        self._state, self._memory = state, memory
        self._spare: asyncio.Task[Worker] | None = None
        self._kept: dict[str, list[Worker]] = {}
        self._out: set[Worker] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False
        self._age = 0  # workers that stay are of one age

    def warm_up(self) -> None:
        """Start the worker that will wait, unless one does."""
        if self._spare is None and not self._closed:
            self._spare = asyncio.create_task(Worker.start(self._state, self._memory))

    async def fresh(self) -> Worker:
        """A worker that has done nothing yet. Whoever takes it stops it."""
        self.warm_up()
        spare, self._spare = self._spare, None
        assert spare is not None
        try:
            worker = await asyncio.shield(spare)
        except asyncio.CancelledError:
            if self._spare is None:
                self._spare = spare  # whoever comes next takes it
            else:
                spare.add_done_callback(self._discard)
            raise
        if not worker.alive:
            await worker.stop()
            worker = await Worker.start(self._state, self._memory)
        self._out.add(worker)
        self.warm_up()
        return worker

    def _discard(self, spare: asyncio.Task[Worker]) -> None:
        if not spare.cancelled() and spare.exception() is None:
            stopping = asyncio.create_task(spare.result().stop())
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def run(
        self,
        task: str,
        given: dict[str, Any],
        *,
        seconds: float,
        keep: str | None = None,
        report: Report | None = None,
    ) -> Any:
        """One task with a time limit; `keep` names a worker that stays for the next such task."""
        waiting = self._kept.setdefault(keep, []) if keep else []
        worker = None
        while waiting and worker is None:
            worker = waiting.pop()
            if not worker.alive:
                await self.stop(worker)
                worker = None
        worker = worker or await self.fresh()
        done, age = False, self._age
        try:
            async with asyncio.timeout(seconds):
                result = await worker.ask(task, given, report)
            done = True
            return result
        except TaskFailed:
            done = worker.alive
            raise
        except TimeoutError:
            raise TaskFailed(
                {
                    "error": f"This took longer than {seconds:g} seconds and was stopped. Ask "
                    "for less, or use the command line."
                }
            ) from None
        finally:
            if keep and done and age == self._age and not self._closed and len(waiting) < 1:
                waiting.append(worker)
            else:
                await asyncio.shield(self.stop(worker))

    async def renew(self) -> None:
        """End the workers that stay, with all that they remember; those at work end after it."""
        self._age += 1
        waiting = [worker for kept in self._kept.values() for worker in kept]
        self._kept.clear()
        await asyncio.gather(*(self.stop(worker) for worker in waiting))

    async def stop(self, worker: Worker) -> None:
        """Kill a worker that was handed out."""
        await worker.stop()
        self._out.discard(worker)

    async def close(self) -> None:
        """Kill them all."""
        self._closed = True
        if self._spare is not None:
            worker = await self._spare
            self._spare = None
            await worker.stop()
        for worker in [*self._out]:
            await self.stop(worker)
