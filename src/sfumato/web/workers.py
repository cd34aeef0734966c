"""The server's workers: one that has loaded everything already always waits."""

from __future__ import annotations

import asyncio
from typing import Any

from sfumato.pace import Progress
from sfumato.processes import TaskFailed, Worker
from sfumato.web.state import StateFolder, new_identifier

_TASKS = "sfumato.web.tasks"


class Workers:
    """Hands out workers."""

    def __init__(self, state: StateFolder, memory: int) -> None:
        self._state, self._memory = state, memory
        self._spare: asyncio.Task[Worker] | None = None
        self._kept: dict[str, Worker] = {}
        self._out: set[Worker] = set()
        self._taking = asyncio.Lock()
        self._closed = False
        self._age = 0  # workers that stay are of one age

    def warm_up(self) -> None:
        """Start the worker that will wait, unless one does."""
        if self._spare is None and not self._closed:
            self._spare = asyncio.create_task(self._started())

    async def _started(self) -> Worker:
        temporary = self._state.folder("temp", new_identifier())
        return await Worker.start(_TASKS, temporary, self._memory, cwd=temporary)

    async def fresh(self) -> Worker:
        """A worker that has done nothing yet. Whoever takes it stops it."""
        async with self._taking:
            self.warm_up()
            assert self._spare is not None
            try:
                worker = await asyncio.shield(self._spare)  # who gives up leaves it to the next
            except Exception:
                self._spare = None
                raise
            self._spare = None
        if not worker.alive:
            await worker.stop()
            worker = await self._started()
        self._out.add(worker)
        self.warm_up()
        return worker

    async def run(
        self,
        task: str,
        given: dict[str, Any],
        *,
        seconds: float,
        keep: str | None = None,
        report: Progress | None = None,
    ) -> Any:
        """One task with a time limit; `keep` names a worker that stays for the next such task."""
        worker = self._kept.pop(keep, None) if keep else None
        if worker is not None and not worker.alive:
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
            stays = done and age == self._age and not self._closed
            if keep and stays and keep not in self._kept:
                self._kept[keep] = worker
            else:
                await asyncio.shield(self.stop(worker))

    async def renew(self) -> None:
        """End the workers that stay, with all that they remember; those at work end after it."""
        self._age += 1
        waiting, self._kept = self._kept, {}
        await asyncio.gather(*(self.stop(worker) for worker in waiting.values()))

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
