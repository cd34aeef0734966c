"""Jobs: long work that goes on while nobody watches, and is still there after a restart.

A job is a folder with `job.json`, written whole at every change of state, and what the job made.
It runs in a worker process; cancelling kills the worker and removes what it had written. Jobs die
with the server: at the next start they are found and marked as failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sfumato.errors import DataError
from sfumato.pace import Pace
from sfumato.processes import TaskFailed, unexpected
from sfumato.web.state import StateFolder, empty, is_identifier, new_identifier, read_json, remove
from sfumato.web.state import write_json as write
from sfumato.web.workers import Workers

State = Literal["waiting", "running", "done", "failed", "cancelled"]
FINISHED = ("done", "failed", "cancelled")
RECORD = "job.json"
COUNTS, CARDS = "counts", "cards"
# what these make are counts of a table, and go with it; by what each is asked about
ABOUT = {COUNTS: "table", CARDS: "profile"}
STOPPED = "The server stopped while this job ran, and the job with it. Start it again."
KEPT = 7 * 24 * 3600.0  # seconds that raw uploads and counts wait to be used
_BEAT = 15.0  # seconds after which a silent watcher is told that the server lives


class NoSuchJob(DataError):
    """Somebody asks for a job that is not there, or no longer."""


@dataclass(frozen=True)
class Job:
    """What a job is and how far it is. `asked` is what the page asked for, `given` the task's."""

    id: str
    kind: str
    name: str
    created: str
    asked: dict[str, Any]
    given: dict[str, Any]
    state: State = "waiting"
    stage: str = "waiting"
    done: int = 0
    total: int = 0
    error: str | None = None
    finished: str | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    began: str | None = None
    left: float | None = None  # seconds that it may still take

    def to_json(self) -> dict[str, Any]:
        """What the page sees: no paths."""
        shown = {key: value for key, value in vars(self).items() if key not in ("asked", "given")}
        return shown | self.asked


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class Jobs:
    """All jobs of a state folder; at most `at_once` run."""

    def __init__(self, state: StateFolder, workers: Workers, at_once: int) -> None:
        self._state, self._workers = state, workers
        # who chooses columns does not wait until somebody's comparison is through
        self._turns = {COUNTS: asyncio.Semaphore(at_once)}
        self._turn = asyncio.Semaphore(at_once)
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._read()

    def _read(self) -> None:
        for folder in sorted((self._state.path / "jobs").iterdir()):
            kept = read_json(folder / RECORD)
            if not is_identifier(folder.name) or not isinstance(kept, dict):
                remove(folder)  # a job that was never written whole
                continue
            try:
                job = Job(**kept)
            except TypeError:
                continue  # of another version: left alone
            if job.state not in FINISHED:
                empty(folder, keep=(RECORD,))
                job = replace(job, state="failed", error=STOPPED, finished=now())
                write(folder / RECORD, asdict(job))
            self._jobs[job.id] = job

    def forget_unused(self, age: float = KEPT) -> None:
        """Remove uploads and counts that no job uses and nobody has touched for a while."""
        before = time.time() - age
        for job in self.all():
            if job.kind in ABOUT and self.folder(job).stat().st_mtime < before:
                self._drop(job)
        users = [job for job in self._jobs.values() if job.kind not in ABOUT]
        tables = [job.given["table"]["path"] for job in users if "table" in job.given]
        profiles = {job.asked.get("profile") for job in users}
        for room in ("uploads", "tables", "profiles"):
            for path in list((self._state.path / room).iterdir()):
                used = path.stem in profiles or any(Path(t).is_relative_to(path) for t in tables)
                if not used and path.stat().st_mtime < before:
                    remove(path)

    async def forget_table(self, path: Path) -> None:
        """Remove the upload at this path, if it is one, and everything that was counted of it.

        What still works with it is cancelled first.
        """
        for job in self.all():
            if job.given.get("table", {}).get("path") == str(path):
                await self.cancel(job.id)
                if job.kind in ABOUT:
                    self._drop(job)
        uploads = self._state.path / "uploads"
        if path.is_relative_to(uploads):
            remove(uploads / path.relative_to(uploads).parts[0])
        for room in ("tables", "profiles"):
            for file in list((self._state.path / room).glob("*.json")):
                kept = read_json(file) or {}
                if kept.get("declared", kept).get("path") == str(path):
                    remove(file)

    def all(self) -> list[Job]:
        """The newest first."""
        return sorted(self._jobs.values(), key=lambda job: job.created, reverse=True)

    def get(self, identifier: object) -> Job:
        job = self._jobs.get(str(identifier))
        if job is None:
            raise NoSuchJob("There is no such job. It may have been removed.")
        return job

    def finished(self, identifier: object, *kinds: str) -> Job:
        """A job of one of these kinds that has its result."""
        job = self.get(identifier)
        if job.kind not in kinds or job.state != "done":
            raise DataError("That job has not finished with a result of this kind.")
        return job

    def folder(self, job: Job) -> Path:
        return self._state.folder("jobs", job.id)

    def release(self, identifier: object) -> Path:
        """What a job published."""
        return self.folder(self.finished(identifier, "publish")) / "release"

    def new(self, kind: str, name: str, asked: dict[str, Any], given: dict[str, Any]) -> Job:
        """Start a job. `given` may name the job's folder as {folder}."""
        identifier = new_identifier()
        folder = self._state.folder("jobs", identifier)
        folder.mkdir(mode=0o700)
        placed = {
            key: value.replace("{folder}", str(folder)) if isinstance(value, str) else value
            for key, value in given.items()
        }
        job = Job(identifier, kind, name, now(), asked, placed)
        self._keep(job)
        self._tasks[job.id] = asyncio.create_task(self._run(job))
        return job

    async def _run(self, job: Job) -> None:
        try:
            async with self._turns.get(job.kind, self._turn):
                worker = await self._workers.fresh()
                try:
                    job = replace(job, state="running", stage="starting", began=now())
                    self._keep(job)
                    pace = Pace("starting")

                    def report(stage: str, done: int, total: int) -> None:
                        pace.tell(stage, done, total)
                        last = self._jobs[job.id]
                        now_at = replace(last, stage=stage, done=done, total=total)
                        self._show(replace(now_at, left=pace.left()))

                    summary = await worker.ask(job.kind, job.given, report)
                    last = self._jobs[job.id]
                    done = replace(last, state="done", stage="done", summary=summary)
                finally:
                    await asyncio.shield(self._workers.stop(worker))
                self._finish(replace(done, done=done.total))
        except TaskFailed as error:
            last = self._jobs[job.id]
            self._tidy(replace(last, state="failed", error=str(error), summary=error.details))
        except asyncio.CancelledError:
            last = self._jobs[job.id]
            if last.state not in FINISHED:
                self._tidy(replace(last, state="failed", error=STOPPED))
            raise
        except Exception as error:  # no process, no room on the disk: the page must hear of it
            failed = replace(self._jobs[job.id], state="failed", error=unexpected(error))
            self._show(replace(failed, finished=now()))
            with contextlib.suppress(OSError):
                self._tidy(failed)
        finally:
            self._tasks.pop(job.id, None)

    async def cancel(self, identifier: object) -> Job:
        """Kill the job's worker and remove what it wrote; a finished job stays as it is."""
        job = self.get(identifier)
        task = self._tasks.get(job.id)
        if job.state in FINISHED or task is None:
            return job
        self._show(replace(job, state="cancelled", stage="cancelled", finished=now()))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._tidy(self._jobs[job.id])
        return self._jobs[job.id]

    async def remove(self, identifier: object) -> None:
        """Forget a job and remove its files."""
        job = await self.cancel(identifier)
        self._drop(job)
        raw = job.given.get("table", {}).get("path")
        others = {
            job.given.get("table", {}).get("path")
            for job in self._jobs.values()
            if job.kind not in ABOUT
        }
        uploaded = raw is not None and Path(raw).is_relative_to(self._state.path / "uploads")
        # the last job that made something of a raw copy takes it along
        if uploaded and raw not in others and job.kind not in ABOUT:
            await self.forget_table(Path(raw))

    async def replaced(self, job: Job) -> None:
        """Forget the other jobs of this kind that were asked about the same."""
        about = ABOUT[job.kind]
        for each in self.all():
            same = each.kind == job.kind and each.asked[about] == job.asked[about]
            if same and each.id != job.id:
                await self.remove(each.id)

    def _drop(self, job: Job) -> None:
        self._jobs.pop(job.id, None)
        remove(self.folder(job))
        self._wake(job.id)

    async def watch(self, identifier: object) -> AsyncIterator[Job | None]:
        """The job whenever it changes, until it has finished; None from time to time."""
        job = self.get(identifier)
        while True:
            changed = self._changed.setdefault(job.id, asyncio.Event())
            yield job
            if job.state in FINISHED:
                return
            while True:
                try:
                    await asyncio.wait_for(changed.wait(), _BEAT)
                    break
                except TimeoutError:
                    yield None
            if job.id not in self._jobs:
                return
            job = self._jobs[job.id]

    async def close(self) -> None:
        """End what runs; it is marked as failed."""
        for task in [*self._tasks.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _tidy(self, job: Job) -> None:
        """A job that ends without a result leaves its record and nothing else."""
        empty(self.folder(job), keep=(RECORD,))
        self._finish(job)

    def _finish(self, job: Job) -> None:
        self._keep(replace(job, finished=now(), left=None))

    def _keep(self, job: Job) -> None:
        write(self.folder(job) / RECORD, asdict(job))
        self._show(job)

    def _show(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._wake(job.id)

    def _wake(self, identifier: str) -> None:
        event = self._changed.pop(identifier, None)
        if event is not None:
            event.set()
