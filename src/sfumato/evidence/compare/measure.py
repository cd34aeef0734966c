"""One candidate from publishing to attack, measured as JSON: here, or several at once."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks import Outcome, attack
from sfumato.audits import audit
from sfumato.engines.publishing import publish
from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.evidence.accuracy import measure_accuracy
from sfumato.evidence.compare.candidates import Candidate
from sfumato.pace import Progress, part_of
from sfumato.processes import TaskFailed, Worker
from sfumato.release import GeneralizedRelease, Release
from sfumato.results import as_json
from sfumato.table import Table
from sfumato.workloads import Workload, release_answers

# how far a candidate is once each of its parts is done, in thousandths
_PUBLISHED, _ASKED, _AUDITED, WHOLE = 150, 300, 500, 1000
_TRIAL = "trial"  # the file in a trial's folder that a process takes it from
_MEGABYTES, _BYTES_PER_ROW = 600, 3_000  # of a worker, at the worst mechanism


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate, the table, a private folder to work in, and what is done alike to all."""

    candidate: Candidate
    folder: Path
    table: Table
    workload: Workload
    values: tuple[str, ...]  # what each question asks for, as charts name it
    truth: tuple[int, ...]
    column: str | None  # that is attacked; None: all
    attacks: tuple[str, ...]
    targets: int | None  # None: as many as an attack takes by default
    fresh: bool
    seed: int


def measure(trial: Trial, progress: Progress) -> dict[str, Any]:
    """Publish, ask, audit, attack. A candidate that cannot be published is told by its reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of stands in the caveats
            measured: dict[str, Any] = as_json(_measured(trial, progress))
            return measured
    except InfeasibleGuarantee as error:
        return {"failed": str(error), "witness": error.witness, "nearest": error.nearest}
    except SfumatoError as error:
        return {"failed": str(error)}
    except MemoryError:
        return {"failed": "Out of memory. Compare fewer candidates at once with --jobs 1."}
    except Exception as error:  # a mistake of ours must not take the other candidates with it
        return {
            "failed": f"A mistake in sfumato: {type(error).__name__}: {error}. Publish this "
            "candidate by itself to see more."
        }


def _measured(trial: Trial, progress: Progress) -> dict[str, Any]:
    seconds, folder = dict[str, float](), trial.folder

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - began, 3)

    progress("publishing", 0, WHOLE)
    with timed("publish"):
        publication = publish(
            trial.table,
            trial.candidate.guarantee,
            to=folder / "release",
            mechanism=trial.candidate.mechanism,
            receipt=folder / "receipt",
            left_out=1,  # a comparison is for the steward, who sees whom each candidate leaves out
        )
    release = Release(folder / "release", verify=False)
    with timed("ask"):
        asking = part_of(progress, _PUBLISHED, _ASKED - _PUBLISHED, WHOLE)
        answers = release_answers(trial.workload, release, progress=asking)
    with timed("audit"):
        auditing = part_of(progress, _ASKED, _AUDITED - _ASKED, WHOLE)
        # who matches whom cannot be audited without the receipt
        receipt = folder / "receipt" if isinstance(release, GeneralizedRelease) else None
        verdict = audit(trial.table, release, receipt=receipt, progress=auditing)
    with timed("attack"):
        attacking = part_of(progress, _AUDITED, WHOLE - _AUDITED, WHOLE)
        outcomes, problem = _attacked(trial, release, attacking)
    truth = np.array(trial.truth, np.int64)
    manifest = publication.manifest
    names = ("guarantee", "mechanism", "kind", "rows", "statement", "does_not_protect", "caveats")
    return {
        **{name: getattr(manifest, name) for name in names},
        "withheld": manifest.suppressed,
        "accuracy": measure_accuracy(truth, answers, trial.values, publication.rows),
        "answers": {n: getattr(answers, n) for n in ("estimates", "stderrs", "low", "high")},
        "audit": verdict,
        # without the people: which rows are exposed is for `sfumato attack` to show
        "attacks": [{**outcome.to_json(), "exposed": None} for outcome in outcomes],
        "attack_problem": problem,
        "seconds": seconds,
    }


def _attacked(
    trial: Trial, release: Release, progress: Progress
) -> tuple[list[Outcome], str | None]:
    try:
        return attack(
            trial.table,
            release,
            attacks=list(trial.attacks),
            column=trial.column,
            targets=trial.targets,
            fresh=trial.fresh,
            seed=trial.seed,
            progress=progress,
        ), None
    except SfumatoError as error:
        return [], str(error)


# -- several at once -------------------------------------------------------------------------------


def run_trials(
    trials: Mapping[str, Trial], *, at_once: int | None, rows: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """The results by name.

    `at_once` None is as many as there are processors and memory for. With 1 everything happens in
    this process. Progress is told in thousandths of a candidate.
    """
    most = _most_at_once(rows) if at_once is None else at_once
    if most > 1 and len(trials) > 1:
        everything = _run(trials, most, progress)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(everything)
        with ThreadPoolExecutor(1) as beside:  # a notebook has a loop of its own
            return beside.submit(asyncio.run, everything).result()
    results = {}
    for index, (name, trial) in enumerate(trials.items()):
        part = part_of(progress, index * WHOLE, WHOLE, len(trials) * WHOLE)
        results[name] = measure(
            trial, lambda stage, *done, n=name, p=part: p(f"{n}: {stage}", *done)
        )
        shutil.rmtree(trial.folder, ignore_errors=True)
    return results


def _most_at_once(rows: int) -> int:
    """Processors, but no more workers than memory has room for, where the system tells it."""
    most = os.cpu_count() or 1
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free = sum(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        most = min(most, free * 1024 // ((_MEGABYTES << 20) + rows * _BYTES_PER_ROW))
    return max(most, 1)


async def _run(
    trials: Mapping[str, Trial], most: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    room, reached = asyncio.Semaphore(most), dict.fromkeys(trials, 0)

    def tell(name: str, stage: str, done: int) -> None:
        reached[name] = max(reached[name], done)
        progress(f"{name}: {stage}", sum(reached.values()), len(trials) * WHOLE)

    async def one(name: str, trial: Trial) -> dict[str, Any]:
        async with room:
            tell(name, "starting", 0)
            (trial.folder / _TRIAL).write_bytes(pickle.dumps(trial))
            worker = await Worker.start(__name__, trial.folder / "temporary")
            try:
                result: dict[str, Any] = await worker.ask(
                    "measure",
                    {"folder": str(trial.folder)},
                    lambda stage, done, _: tell(name, stage, done),
                )
            except TaskFailed as failure:
                result = {"failed": str(failure)}
            finally:
                await worker.stop()
                shutil.rmtree(trial.folder, ignore_errors=True)
            tell(name, "done", WHOLE)
            return result

    results = await asyncio.gather(*(one(*pair) for pair in trials.items()))
    return dict(zip(trials, results, strict=True))


def _measure_in(*, folder: str, progress: Progress) -> dict[str, Any]:
    """The trial that was left in its folder, which only its owner can read or write."""
    trial: Trial = pickle.loads((Path(folder) / _TRIAL).read_bytes())
    return measure(trial, progress)


TASKS = {"measure": _measure_in}  # of `processes`
