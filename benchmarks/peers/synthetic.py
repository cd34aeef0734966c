"""Differentially private synthetic records: MST and PrivBayes of `dpmm`, in a Python of its own.

`SFUMATO_DPMM_PYTHON` names it (`python -m venv V; V/bin/pip install "numpy<2" dpmm`). The domains
of the columns are told beforehand, as dpmm asks for; all columns are categories, and the whole ε
goes into the model.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from papers.outside import Outside

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
DPMM = Outside("Differentially private synthesis", "SFUMATO_DPMM_PYTHON", "dpmm", _SCRIPT, 150)


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
        before = _children()
        told = json.dumps(self.domains)
        arguments = (self.model, self.epsilon, DELTA, ROUNDS, len(self.seconds), told)
        made = DPMM.make(table, *arguments)
        self.seconds.append(_children() - before)
        return made


def domains_of(table: pa.Table) -> dict[str, list[str]]:
    """The values of every column, as text."""
    return {
        name: sorted(map(str, table.column(name).unique().to_pylist()))
        for name in table.column_names
    }


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
