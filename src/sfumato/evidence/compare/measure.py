"""One candidate from publishing to attack, measured as JSON."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.attacks import Outcome, attack
from sfumato.audits import audit
from sfumato.draws import IntArray
from sfumato.engines.publishing import publish
from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.evidence.accuracy import measure_accuracy
from sfumato.evidence.compare.candidates import Candidate
from sfumato.pace import Progress, part_of
from sfumato.release import GeneralizedRelease, Release
from sfumato.results import as_json
from sfumato.scratch import scratch_space
from sfumato.table import Table
from sfumato.workloads import Workload, release_answers

# how far a candidate is once each of its parts is done, in thousandths
_PUBLISHED, _ASKED, _AUDITED, WHOLE = 150, 300, 500, 1000


@dataclass(frozen=True, eq=False)
class Trial:
    """The table, and what is done alike to all candidates."""

    table: Table
    workload: Workload
    values: tuple[str, ...]  # what each question asks for, as charts name it
    truth: IntArray
    column: str | None  # that is attacked; None: all
    attacks: Sequence[str]
    targets: int | None  # None: as many as an attack takes by default
    fresh: bool
    seed: int


def measure(trial: Trial, candidate: Candidate, progress: Progress) -> dict[str, Any]:
    """Publish, ask, audit, attack. A candidate that cannot be published is told by its reason."""
    try:
        with warnings.catch_warnings(), scratch_space() as folder:
            warnings.simplefilter("ignore")  # what they warn of stands in the caveats
            measured: dict[str, Any] = as_json(_measured(trial, candidate, folder, progress))
            return measured
    except InfeasibleGuarantee as error:
        return {"failed": str(error), "witness": error.witness, "nearest": error.nearest}
    except SfumatoError as error:
        return {"failed": str(error)}
    except MemoryError:
        return {"failed": "Out of memory. Allow more with --memory-limit."}
    except Exception as error:  # a mistake of ours must not take the other candidates with it
        return {
            "failed": f"A mistake in sfumato: {type(error).__name__}: {error}. Publish this "
            "candidate by itself to see more."
        }


def _measured(
    trial: Trial, candidate: Candidate, folder: Path, progress: Progress
) -> dict[str, Any]:
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - began, 3)

    progress("publishing", 0, WHOLE)
    with timed("publish"):
        publication = publish(
            trial.table,
            candidate.guarantee,
            to=folder / "release",
            mechanism=candidate.mechanism,
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
    manifest = publication.manifest
    names = ("guarantee", "mechanism", "kind", "rows", "statement", "does_not_protect", "caveats")
    return {
        **{name: getattr(manifest, name) for name in names},
        "withheld": manifest.suppressed,
        "accuracy": measure_accuracy(trial.truth, answers, trial.values, publication.rows),
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
            attacks=trial.attacks,
            column=trial.column,
            targets=trial.targets,
            fresh=trial.fresh,
            seed=trial.seed,
            progress=progress,
        ), None
    except SfumatoError as error:
        return [], str(error)
