"""Run the candidates, several at once where processors and memory allow."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sfumato.engines.counting import Progress
from sfumato.evidence.compare.measure import TRIAL, WHOLE, Trial, measure
from sfumato.pace import part_of
from sfumato.processes import TaskFailed, Worker

_TASKS = "sfumato.evidence.compare.measure"
_BASE_MEGABYTES = 600
_BYTES_PER_ROW = 3_000  # of a worker, at the worst mechanism


def run_trials(
    trials: Mapping[str, Trial], *, at_once: int | None, rows: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """The results by name, whose order is that in which candidates start.

    `at_once` None is as many as there are processors; fewer start while memory is short. With 1
    everything happens in this process. Progress is told in thousandths of a candidate.
    """
    most = at_once if at_once is not None else (os.cpu_count() or 1)
    if most > 1 and len(trials) > 1:
        everything = _run(trials, most, rows, progress)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(everything)
        with ThreadPoolExecutor(1) as beside:  # a notebook has a loop of its own
            return beside.submit(asyncio.run, everything).result()
    results = {}
    for index, (name, trial) in enumerate(trials.items()):
        own_progress = part_of(progress, index * WHOLE, WHOLE, len(trials) * WHOLE)
        results[name] = measure(trial, _named(own_progress, name))
        shutil.rmtree(trial.folder, ignore_errors=True)
    return results


def _named(progress: Progress, name: str) -> Progress:
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)


async def _run(
    trials: Mapping[str, Trial], most: int, rows: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    room, running = asyncio.Semaphore(most), set[str]()
    reached = dict.fromkeys(trials, 0)

    def tell(name: str, stage: str, done: int) -> None:
        reached[name] = max(reached[name], done)
        progress(f"{name}: {stage}", sum(reached.values()), len(trials) * WHOLE)

    async def one(name: str, trial: Trial) -> dict[str, Any]:
        async with room:
            while running and not has_room(rows):
                await asyncio.sleep(1)
            running.add(name)
            tell(name, "starting", 0)
            (trial.folder / TRIAL).write_bytes(pickle.dumps(trial))
            worker = await Worker.start(_TASKS, trial.folder / "temporary")
            try:
                result: dict[str, Any] = await worker.ask(
                    "measure",
                    {"folder": str(trial.folder)},
                    lambda stage, done, _: tell(name, stage, done),
                )
            except TaskFailed as failure:
                result = {"failed": str(failure)}
            finally:
                running.discard(name)
                await worker.stop()
                shutil.rmtree(trial.folder, ignore_errors=True)
            tell(name, "done", WHOLE)
            return result

    results = await asyncio.gather(*(one(*pair) for pair in trials.items()))
    return dict(zip(trials, results, strict=True))


def has_room(rows: int) -> bool:
    """Whether memory allows one more worker, on a table of so many rows."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return True  # elsewhere than on Linux nobody tells
    free = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 0)
    return free * 1024 > _BASE_MEGABYTES * (1 << 20) + rows * _BYTES_PER_ROW
