"""The figures of heterogeneous generalization, ring and BuReL on CENSUS, printed as a table.

    python benchmarks/heterogeneous.py small    GCP at 10,000 records
    python benchmarks/heterogeneous.py attained what every original record can be told
    python benchmarks/heterogeneous.py large    500,000: CPU, at most 4 times bare matching's
    python benchmarks/heterogeneous.py edges    each edge with chance 1/l
    python benchmarks/heterogeneous.py queries  range counts under beta = 3

Data: the folder in SFUMATO_DATA, else ../shared/data beside the repository.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sfumato.audits import audit
from sfumato.draws import Draws
from sfumato.engines.counting import take_profile
from sfumato.engines.publishing import publish
from sfumato.engines.whole import WholeTable
from sfumato.evidence.penalty import release_penalty
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.generalized import penalty
from sfumato.table import Table, read

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
STEPS = {
    "age": 78,
    "gender": 1,
    "education": 16,
    "marital": 5,
    "race": 8,
    "workclass": 9,
    "country": 82,
}


def census(name: str, rows: int | None, sensitive: str) -> Table:
    table = pq.read_table(DATA / name)
    if rows is not None:
        table = table.slice(0, rows)
    lows = {column: int(table.column(column).to_numpy().min()) for column in STEPS}
    return read(
        table,
        quasi=list(STEPS),
        sensitive=sensitive,
        categorical=[c for c in STEPS if c not in ("age", "education")],
        domain={c: f"{lows[c]}..{lows[c] + steps}" for c, steps in STEPS.items()},
    )


def measured(table: Table, promise: str, way: str) -> tuple[float, float]:
    """GCP and CPU seconds of one run, without files."""
    profile = take_profile(table)
    whole = WholeTable(table, profile, True)
    plan = parse_mechanism(way).plan(profile, parse_guarantee(promise), Draws.from_seed(1))
    began = time.process_time()
    made = plan.generalize(whole.axes, whole.codes, Draws.from_seed(1), lambda *_: None)
    return float(penalty(whole.axes, made)), time.process_time() - began


def small() -> None:
    table = census("occ100k.parquet", 10_000, "occupation")
    for promise, way, theirs in [
        ("l-diversity(10)", "heterogeneous(block=none, sweeps=0)", 0.1077),
        ("l-diversity(5)", "heterogeneous(block=none, sweeps=0)", 0.0800),
        ("beta-likeness(3)", "heterogeneous(block=none, sweeps=0)", 0.4039),
        ("l-diversity(10)", "heterogeneous(block=none)", None),
        ("l-diversity(10)", "heterogeneous(block=256)", None),
        ("l-diversity(10)", "heterogeneous(block=128)", None),
        ("l-diversity(10)", "heterogeneous(match=greedy, block=none, sweeps=0)", 0.1292),
        ("l-diversity(5)", "heterogeneous(match=greedy, block=none, sweeps=0)", 0.0921),
        ("beta-likeness(3)", "heterogeneous(match=greedy, block=none, sweeps=0)", 0.4528),
        ("l-diversity(5)", "ring", 0.0765),
        ("l-diversity(10)", "ring", 0.356),
        ("beta-likeness(1)", "burel", 0.666),
        ("beta-likeness(3)", "burel", 0.497),
    ]:
        found, seconds = measured(table, promise, way)
        shown = "" if theirs is None else f"  authors {theirs}"
        print(f"{promise:18} {way:52} GCP {found:.4f}  CPU {seconds:6.2f} s{shown}", flush=True)


def attained() -> None:
    for name, rows, sensitive in [
        ("occ100k.parquet", 10_000, "occupation"),
        ("sal500k.parquet", None, "salary_class"),
    ]:
        table = census(name, rows, sensitive)
        ways = ["heterogeneous(block=128, sweeps=0)"]
        if rows:
            ways.append("heterogeneous(block=128, sweeps=0, assignment=paper)")
        for promise in ("l-diversity(10)", "beta-likeness(3)"):
            for way in ways:
                with tempfile.TemporaryDirectory() as folder:
                    place = Path(folder)
                    made = publish(table, promise, to=place / "r", mechanism=way, trace=place / "t")
                    print(name, promise, way, made.manifest.withheld, "withheld", flush=True)
                    print(audit(table, place / "r", trace=place / "t"), flush=True)


def large() -> None:
    import scipy.optimize

    bare, lock, plain = [0.0], threading.Lock(), scipy.optimize.linear_sum_assignment

    def timed(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        began = time.thread_time()
        found = plain(cost)
        with lock:
            bare[0] += time.thread_time() - began
        return found

    scipy.optimize.linear_sum_assignment = timed
    table = census("sal500k.parquet", None, "salary_class")
    for way in ["heterogeneous", *sys.argv[2:]]:
        bare[0] = 0.0
        with tempfile.TemporaryDirectory() as folder:
            began, wall = time.process_time(), time.perf_counter()
            made = publish(table, "l-diversity(10)", to=Path(folder) / "r", mechanism=way)
            seconds = time.process_time() - began
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(
                f"{way}: GCP {release_penalty(made.release).whole:.4f}  CPU {seconds:.1f} s = "
                f"{seconds / bare[0]:.2f} x bare matching {bare[0]:.1f} s  wall "
                f"{time.perf_counter() - wall:.1f} s  peak {memory:.2f} GB",
                flush=True,
            )


def edges(publications: int = 5000) -> None:
    from scipy import stats

    table = census("occ100k.parquet", 240, "occupation")
    profile = take_profile(table)
    whole = WholeTable(table, profile, True)
    for how in ("shift", "paper"):
        way = parse_mechanism(f"heterogeneous(sweeps=0, assignment={how})")
        plan = way.plan(profile, parse_guarantee("l-diversity(6)"), Draws.from_seed(0))
        from sfumato.mechanisms.heterogeneous.paper import random_matching
        from sfumato.mechanisms.heterogeneous.shift import shifted

        fixed = plan.generalize(whole.axes, whole.codes, Draws.from_seed(0), lambda *_: None)
        (matches,) = fixed.matches
        number = matches.shape[1]
        members = matches.reshape(number, -1, number)
        used = np.zeros(matches.shape, np.int64)
        for seed in range(publications):
            draws = Draws.from_seed(seed)
            source = (
                shifted([members], draws) if how == "shift" else random_matching(matches, draws)
            )
            used += matches == source[:, None]
        expected = publications / number
        # rows and records are bound together, so the test looks at one row at a time
        values = [stats.chisquare(row).pvalue for row in used]
        least = min(values) * len(values)
        print(
            f"{how}: {publications} publications, {len(used)} rows, smallest p after Bonferroni "
            f"{least:.3f}, largest deviation {np.abs(used - expected).max():.0f} of {expected:.0f}"
        )


def queries() -> None:
    from papers.range_counts import median_errors

    table = census("occ100k.parquet", 10_000, "occupation")
    ways = ["heterogeneous(block=none)", "burel", "optimal"]
    for name, error in median_errors(table, "beta-likeness(3)", ways).items():
        print(f"beta-likeness(3) {name}: median relative error {error:.1%}")
    for name, error in median_errors(table, "l-diversity(10)", ["ring"]).items():
        print(f"l-diversity(10) {name}: median relative error {error:.1%}")


if __name__ == "__main__":
    {"small": small, "attained": attained, "large": large, "edges": edges, "queries": queries}[
        sys.argv[1] if len(sys.argv) > 1 else "small"
    ]()
