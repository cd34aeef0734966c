"""One candidate from publishing to attack, and what was measured, as JSON."""

from __future__ import annotations

import pickle
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks import attack
from sfumato.audits import audit
from sfumato.columns import in_json
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.publishing import publish
from sfumato.errors import InfeasibleGuarantee, SfumatoError
from sfumato.evidence.compare.accuracy import measure_accuracy
from sfumato.evidence.compare.candidates import Candidate
from sfumato.evidence.penalty import release_penalty
from sfumato.guarantees import CeilingGuarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, parse_mechanism
from sfumato.mechanisms.burel import Burel
from sfumato.mechanisms.heterogeneous.mechanism import HeterogeneousGeneralization
from sfumato.mechanisms.ring import Ring
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction import workload_errors
from sfumato.pace import Progress, part_of
from sfumato.release import GeneralizedRelease, Release
from sfumato.table import Table
from sfumato.workloads import Workload, people_of, release_answers

# who matches whom cannot be audited without the receipt
_MATCHED: tuple[type[Mechanism], ...] = (HeterogeneousGeneralization, Ring, Burel)
TRIAL = "trial"  # the file in a trial's folder that a process takes it from
# how far a candidate is once each of its parts is done, in thousandths
_PUBLISHED, _ASKED, _AUDITED, WHOLE = 150, 300, 500, 1000
_FORETOLD = 100  # questions at most whose errors are foretold from the plan: each takes a while


@dataclass(frozen=True, eq=False)
class TrialSettings:
    """What is done alike to every candidate."""

    workload: Workload
    values: tuple[str, ...]  # what each question asks for, as charts name it
    truth: tuple[int, ...]
    attacks: tuple[str, ...]
    targets: int | None  # None: as many as an attack takes by default
    fresh: bool
    seed: int


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate, the table, and a private folder to work in."""

    candidate: Candidate
    table: Table
    folder: Path
    settings: TrialSettings


def slowest_first(candidate: Candidate) -> int:
    """A key to sort by: what takes longest starts first, so that nothing is waited for at the end.

    >>> texts = ["rho-privacy(0.1, 0.2) by uniform", "l-diversity(5) by heterogeneous"]
    >>> sorted(map(Candidate.parse, texts), key=slowest_first)[0].mechanism
    'heterogeneous'
    """
    mechanism = None if candidate.mechanism is None else parse_mechanism(candidate.mechanism)
    if isinstance(mechanism, _MATCHED):
        return 0
    return 1 if isinstance(parse_guarantee(candidate.guarantee), CeilingGuarantee) else 2


def measure(trial: Trial, progress: Progress) -> dict[str, Any]:
    """Publish, ask, audit, attack. A candidate that cannot be published is told by its reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of stands in the caveats
            return _measured(trial, progress)
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


def _measure_in(*, folder: str, progress: Progress) -> dict[str, Any]:
    """The trial that was left in its folder, which only its owner can read or write."""
    trial: Trial = pickle.loads((Path(folder) / TRIAL).read_bytes())
    return measure(trial, progress)


TASKS = {"measure": _measure_in}  # of `processes`


def _measured(trial: Trial, progress: Progress) -> dict[str, Any]:
    settings, seconds = trial.settings, {}
    named = trial.candidate.mechanism
    mechanism = None if named is None else parse_mechanism(named)
    receipt = trial.folder / "receipt" if isinstance(mechanism, _MATCHED) else None
    progress("publishing", 0, WHOLE)
    began = time.perf_counter()
    publication = publish(
        trial.table,
        trial.candidate.guarantee,
        to=trial.folder / "release",
        mechanism=mechanism,
        receipt=receipt,
        left_out=1,  # a comparison is for the steward, who sees whom each candidate leaves out
    )
    seconds["publish"] = time.perf_counter() - began
    release = Release(trial.folder / "release", verify=False)
    began = time.perf_counter()
    asking = part_of(progress, _PUBLISHED, _ASKED - _PUBLISHED, WHOLE)
    answers = release_answers(settings.workload, release, progress=asking)
    seconds["ask"] = time.perf_counter() - began
    began = time.perf_counter()
    auditing = part_of(progress, _ASKED, _AUDITED - _ASKED, WHOLE)
    verdict = audit(trial.table, release, receipt=receipt, progress=auditing)
    seconds["audit"] = time.perf_counter() - began
    began = time.perf_counter()
    attacking = part_of(progress, _AUDITED, WHOLE - _AUDITED, WHOLE)
    attacks, problem = _attacked(trial, release, attacking)
    seconds["attack"] = time.perf_counter() - began
    truth = np.array(settings.truth, np.int64)
    accuracy = measure_accuracy(truth, answers, settings.values, publication.rows)
    manifest = publication.manifest
    return {
        "guarantee": manifest.guarantee,
        "mechanism": manifest.mechanism,
        "kind": manifest.kind,
        "rows": manifest.rows,
        "withheld": manifest.suppressed,
        "statement": list(manifest.statement),
        "does_not_protect": list(manifest.does_not_protect),
        "caveats": list(manifest.caveats),
        "accuracy": accuracy.to_json(),
        "answers": {
            part: [_number(number) for number in getattr(answers, part).tolist()]
            for part in ("estimates", "stderrs", "low", "high")
        },
        "audit": verdict.to_json(),
        "attacks": attacks,
        "attack_problem": problem,
        "sizes": in_json(manifest.plan).get("sizes"),
        "penalty": (
            release_penalty(release, trial.table).to_json()
            if isinstance(release, GeneralizedRelease)
            else None
        ),
        "predicted": _predicted(trial, manifest.mechanism, np.abs(answers.estimates - truth)),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def _predicted(trial: Trial, mechanism: str, errors: FloatArray) -> dict[str, Any] | None:
    """The mean absolute error that the plan alone lets expect of some questions, and what it was;
    None where nothing can be told."""
    guarantee, chosen = parse_guarantee(trial.candidate.guarantee), parse_mechanism(mechanism)
    if isinstance(chosen, _MATCHED):
        return None
    workload = trial.settings.workload
    step = -(-len(workload) // _FORETOLD)  # small and large counts may stand apart
    some = Workload(workload.questions[::step], workload.source)
    try:
        profile = profile_for(trial.table, guarantee, chosen)
        _, plan = choose_plan(profile, guarantee, chosen, Draws.system())
        expected = workload_errors(plan, profile, people_of(trial.table), some)
    except SfumatoError:
        return None
    return {
        "mean_absolute_error": _number(float(expected.mean())),
        "measured": _number(float(np.mean(errors[::step]))),
    }


def _attacked(
    trial: Trial, release: Release, progress: Progress
) -> tuple[list[dict[str, Any]], str | None]:
    """The outcomes without the people: which rows are exposed is for `sfumato attack` to show."""
    settings = trial.settings
    try:
        outcomes = attack(
            trial.table,
            release,
            attacks=list(settings.attacks),
            column=settings.workload.questions[0].column,
            targets=settings.targets,
            fresh=settings.fresh,
            seed=settings.seed,
            progress=progress,
        )
    except SfumatoError as error:
        return [], str(error)
    outcomes_json = [outcome.to_json() for outcome in outcomes]
    for described in outcomes_json:
        del described["exposed"]
    return outcomes_json, None


def _number(value: float) -> float | None:
    return None if value != value else float(f"{value:.6g}")
