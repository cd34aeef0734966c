"""Run the candidates, several at once where processors and memory allow."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sfumato.engines.counting import Progress
from sfumato.evidence.compare.measure import WHOLE, Trial, measure
from sfumato.pace import part_of

_START = "from sfumato.evidence.compare.worker import main; main()"
_TIDYING = 2.0  # seconds that a worker has to remove its folders
_BASE_MEGABYTES = 600
_BYTES_PER_ROW = 3_000  # of a worker, at the worst mechanism
Told = tuple[int, dict[str, Any] | None]  # the trial's number; a message, or None at the end


def run_trials(
    trials: Mapping[int, Trial],
    names: Mapping[int, str],
    *,
    at_once: int | None,
    rows: int,
    progress: Progress,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, result) as the candidates finish.

    `at_once` None is as many as there are processors; fewer start while memory is short. With 1
    everything happens in this process. Progress is told in thousandths of a candidate.
    """
    done, all_of_it = 0, len(trials) * WHOLE
    most = at_once if at_once is not None else (os.cpu_count() or 1)
    if most <= 1 or len(trials) <= 1:
        for key, trial in trials.items():
            own = part_of(progress, done * WHOLE, WHOLE, all_of_it)
            result = measure(trial, _named(own, names[key]))
            shutil.rmtree(trial.folder, ignore_errors=True)
            done += 1
            yield key, result
        return
    waiting, reached = list(trials), dict.fromkeys(trials, 0)

    def tell(key: int, stage: str) -> None:
        far = done * WHOLE + sum(reached[other] for other in running)
        progress(f"{names[key]}: {stage}", far, all_of_it)

    told: queue.Queue[Told] = queue.Queue()
    with _workers() as running:
        while waiting or running:
            while waiting and len(running) < most and (not running or has_room(rows)):
                key = waiting.pop(0)
                running[key] = _start(key, trials[key], told)
                tell(key, "starting")
            try:
                key, message = told.get(timeout=1.0)
            except queue.Empty:
                continue  # perhaps there is room by now
            if message is not None and "stage" in message:
                reached[key] = max(reached[key], message["done"])
                tell(key, message["stage"])
            elif message is not None:
                running[key].result = message["result"]
            else:
                worker = running.pop(key)
                shutil.rmtree(trials[key].folder, ignore_errors=True)
                done += 1
                tell(key, "done")
                yield key, worker.outcome()


def _named(progress: Progress, name: str) -> Progress:
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)


class _Worker:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.result: dict[str, Any] | None = None

    def outcome(self) -> dict[str, Any]:
        """The result, or how the process ended without one."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # of a process that died before it read all
            self.process.stdin.close()
        code = self.process.wait()
        if self.result is not None:
            return self.result
        if code < 0:
            name = signal.Signals(-code).name
            return {
                "failed": f"The process was ended by {name}, perhaps for want of memory. Compare "
                "fewer candidates at once with --jobs 1."
            }
        return {"failed": "The process ended without a result. Publish this candidate by itself."}


@contextlib.contextmanager
def _workers() -> Iterator[dict[int, _Worker]]:
    """The running workers by number; whatever happens, none outlives this block."""
    running: dict[int, _Worker] = {}
    try:
        yield running
    finally:
        for worker in running.values():
            if worker.process.stdin is not None:
                with contextlib.suppress(OSError):
                    worker.process.stdin.close()  # it tidies up and ends
        for worker in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(_TIDYING)
            worker.process.kill()
            worker.outcome()


def _start(key: int, trial: Trial, told: queue.Queue[Told]) -> _Worker:
    process = subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    threading.Thread(target=_listen, args=(key, process, trial, told), daemon=True).start()
    return _Worker(process)


def _listen(
    key: int, process: subprocess.Popen[bytes], trial: Trial, told: queue.Queue[Told]
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as lines:  # closed too where the worker died before it was told
            process.stdin.write(pickle.dumps(trial))
            process.stdin.flush()  # and left open: its end ends the worker
            for line in lines:
                told.put((key, json.loads(line)))
    except (OSError, ValueError):
        pass  # the worker died meanwhile: its exit code tells
    finally:
        told.put((key, None))


def has_room(rows: int) -> bool:
    """Whether memory allows one more worker, on a table of so many rows."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return True  # elsewhere than on Linux nobody tells
    free = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 0)
    return free * 1024 > _BASE_MEGABYTES * (1 << 20) + rows * _BYTES_PER_ROW
