"""Other programs: Mondrian and full-domain generalization, MST and PrivBayes of `dpmm`.

The two ways to generalize publish through sfumato, so that audits, answers and attacks treat them
as any other release. A group shows the smallest ranges and sets that hold its people: at least as
much as ARX and its like, which round to a level of a hierarchy.

The differentially private synthesizers run in a Python of their own, which `SFUMATO_DPMM_PYTHON`
names (`python -m venv V; V/bin/pip install "numpy<2" dpmm`). Domains are stated beforehand, as dpmm
asks; all columns are categories, and the whole ε goes into the model.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from sfumato.draws import Draws, IntArray
from sfumato.errors import DataError
from sfumato.guarantees import Guarantee, LDiversity
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.grouped import GroupedPlan
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis
from sfumato.mechanisms.protocol import one_column
from sfumato.profile import Profile

WIDTHS = (1, 2, 5, 10, 20, 40)  # of the ranges that a numeric column is rounded to, before "any"
SUPPRESSED = 0.05  # at most so many records show nothing of their quasi columns


def groups_of(codes: IntArray, fits: Callable[[IntArray], bool]) -> list[IntArray]:
    """Mondrian: cut at the median of the widest column, as long as both sides fit."""
    spans = np.maximum(np.ptp(codes, axis=0), 1)
    waiting, done = [np.arange(len(codes))], []
    while waiting:
        rows = waiting.pop()
        halves = _halves(rows, codes[rows], spans, fits)
        if halves is None:
            done.append(rows)
        else:
            waiting += halves
    return done


def _halves(
    rows: IntArray, codes: IntArray, spans: IntArray, fits: Callable[[IntArray], bool]
) -> list[IntArray] | None:
    """Those below the median and the others, in the widest column where both sides fit."""
    for column in np.argsort(-np.ptp(codes, axis=0) / spans, kind="stable"):
        middle = np.median(codes[:, column])
        for below in (codes[:, column] < middle, codes[:, column] <= middle):
            sides = [rows[below], rows[~below]]
            if all(len(side) and fits(side) for side in sides):
                return sides
    return None


def is_eligible(codes: IntArray, number: int) -> bool:
    """Whether the commonest value has at most ⌊n/ℓ⌋ of n records."""
    return len(codes) >= number and int(np.bincount(codes).max()) <= len(codes) // number


@dataclass(frozen=True, eq=False)
class GroupsPlan(GroupedPlan):
    """Groups in which no value has more than one record in ℓ."""

    @property
    def number(self) -> int:
        return int(1 / self.ceilings[0])


@dataclass(frozen=True, eq=False)
class MondrianPlan(GroupsPlan):
    """Cut at medians as long as both sides keep the promise."""

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, records: IntArray, draws: Draws
    ) -> list[IntArray]:
        people = np.stack([axis.codes for axis in axes], axis=1)
        return groups_of(people, lambda rows: is_eligible(codes[rows], self.number))


@dataclass(frozen=True, eq=False)
class FullDomainPlan(GroupsPlan):
    """One level per column for everybody: the finest levels at which few records have to be hidden.

    Of all combinations of levels that hide at most `SUPPRESSED`, the one with the smallest groups
    (discernibility: Σ size²), as ARX searches its lattice.
    """

    def classes(
        self, axes: Sequence[Axis], codes: IntArray, records: IntArray, draws: Draws
    ) -> list[IntArray]:
        columns = [levels_of(axis) for axis in axes]
        best: tuple[float, IntArray] | None = None
        for chosen in product(*columns):
            group = _numbered(chosen)
            size = np.bincount(group)
            largest = np.zeros(len(size), np.int64)
            each, count = np.unique(group * (codes.max() + 1) + codes, return_counts=True)
            np.maximum.at(largest, each // (codes.max() + 1), count)
            bad = largest * self.number > size
            hidden = int(size[bad].sum())
            if hidden > SUPPRESSED * len(codes):
                continue
            cost = float((size[~bad] ** 2).sum()) + hidden * len(codes)
            if best is None or cost < best[0]:
                best = cost, np.where(bad[group], len(size), group)
        assert best is not None  # everybody in one group keeps the promise
        order = np.argsort(best[1], kind="stable")
        starts = np.flatnonzero(np.diff(best[1][order])) + 1
        return self._joined(np.split(order, starts), codes)

    def _joined(self, groups: list[IntArray], codes: IntArray) -> list[IntArray]:
        """Hidden records that do not keep the promise among themselves take a group in."""
        groups = sorted(groups, key=lambda rows: is_eligible(codes[rows], self.number))
        while not is_eligible(codes[groups[0]], self.number):
            groups = [np.concatenate(groups[:2]), *groups[2:]]
        return groups


def levels_of(axis: Axis) -> list[IntArray]:
    """What every record shows at each level: ranges of growing width, or the value or nothing."""
    anything = np.zeros(len(axis.codes), np.int64)
    if isinstance(axis, NumericAxis):
        place = axis.positions[axis.codes]
        span = int(np.ptp(axis.positions))
        return [place // width for width in WIDTHS if width <= max(span // 2, 1)] + [anything]
    return [axis.codes, anything]


def _numbered(columns: Sequence[IntArray]) -> IntArray:
    """One number per combination."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, key = np.unique(key * (int(column.max()) + 1) + column, return_inverse=True)
    return key


@dataclass(frozen=True)
class _Groups(Mechanism):
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity,)
    plan_class: ClassVar[type[GroupsPlan]]

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> GroupsPlan:
        assert isinstance(guarantee, LDiversity)
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        return self.plan_class(histogram, tuple(guarantee.ceilings(histogram)))


@dataclass(frozen=True)
class Mondrian(_Groups):
    """Local recoding."""

    name: ClassVar[str] = "mondrian"
    sentence: ClassVar[str] = "Cuts people at medians into groups that look alike."
    plan_class = MondrianPlan


@dataclass(frozen=True)
class FullDomain(_Groups):
    """Global recoding with suppression."""

    name: ClassVar[str] = "full-domain"
    sentence: ClassVar[str] = "Rounds every column to one level for everybody."
    plan_class = FullDomainPlan


DELTA = 1e-5
ROUNDS = 1000  # of inference; by default dpmm takes 5,000, and several times as long
_SCRIPT = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
import numpy as np
import pandas as pd
import dpmm.pipelines
folder, model, epsilon, delta, rounds, seed, domains = sys.argv[1:8]
domains = {name: {"categories": values} for name, values in json.loads(domains).items()}
table = pd.read_csv(folder + "/raw.csv", dtype=str, keep_default_na=False)
for name, domain in domains.items():
    table[name] = pd.Categorical(table[name], categories=domain["categories"])
pipeline = getattr(dpmm.pipelines, model + "Pipeline")(
    epsilon=float(epsilon), delta=float(delta), n_jobs=1, proc_epsilon=None,
    gen_kwargs={"n_iters": int(rounds)})
pipeline.fit(table, domains, random_state=np.random.RandomState(int(seed)))
pipeline.generate(len(table)).to_csv(folder + "/synthetic.csv", index=False)
sys.stdout.flush()
os._exit(0)  # its pool of workers never ends by itself
"""
PYTHON = "SFUMATO_DPMM_PYTHON"  # of the environment: a Python that has dpmm
_CPU_SECONDS = 150  # before a synthesizer is ended


def why_no_dpmm() -> str | None:
    """Why the synthesizers cannot be run, where they cannot."""
    python = os.environ.get(PYTHON, "")
    tried = [python, "-c", "import dpmm"]
    if Path(python).is_file() and not subprocess.run(tried, capture_output=True).returncode:
        return None
    return f"{PYTHON} names no Python with dpmm"


@dataclass
class Synthesizer:
    """One model at one ε; each table that it makes has a seed of its own."""

    model: str  # "MST" or "PrivBayes"
    epsilon: float
    domains: Mapping[str, list[str]]
    seconds: list[float] = field(default_factory=list)  # of the processor, table by table

    @property
    def title(self) -> str:
        return f"{self.model}, ε = {self.epsilon:g}"

    def __call__(self, table: pa.Table) -> pa.Table:
        if why := why_no_dpmm():
            raise DataError(f"{why}.")
        before = _children()
        limit = f"({_CPU_SECONDS}, {_CPU_SECONDS + 5})"
        script = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, {limit})\n{_SCRIPT}"
        given = (self.model, self.epsilon, DELTA, ROUNDS, len(self.seconds))
        with tempfile.TemporaryDirectory() as folder:
            csv.write_csv(table, Path(folder) / "raw.csv")
            ran = subprocess.run(
                [os.environ[PYTHON], "-c", script, folder, *map(str, given),
                 json.dumps(self.domains)],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            if ran.returncode == -signal.SIGXCPU:
                raise DataError(f"dpmm gave no answer in {_CPU_SECONDS:,} CPU seconds.")
            if ran.returncode:
                last = (ran.stderr.strip().splitlines() or ["no message"])[-1]
                raise DataError(f"dpmm failed: {last}.")
            types = csv.ConvertOptions(column_types=table.schema)
            made = csv.read_csv(Path(folder) / "synthetic.csv", convert_options=types)
        self.seconds.append(_children() - before)
        return made.select(table.schema.names)


def domains_of(table: pa.Table) -> dict[str, list[str]]:
    """The values of every column, as text."""
    return {
        name: sorted(map(str, table.column(name).unique().to_pylist()))
        for name in table.column_names
    }


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
