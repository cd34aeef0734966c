"""Buckets, measured: python -m benchmarks.buckets [planning | accuracy | ranges | fakes …]."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from papers.telling_fakes import tell_fakes
from sfumato.draws import Draws
from sfumato.engines.publishing import publish
from sfumato.guarantees import LDiversity
from sfumato.mechanisms.buckets import OptimalBuckets
from sfumato.mechanisms.buckets.optimal import integer_program, optimal_setting
from sfumato.mechanisms.buckets.settings import Limits, mean_squared_error
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.operators.bucket_estimates import FITS
from sfumato.profile import Histogram, Profile
from sfumato.queries.bucket_table import read_bucket_table
from sfumato.release import Release
from sfumato.table import read

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
CLASSES = ((100, 500), (500, 2000), (2000, 10**9))


def occ_like(rows: int, values: int = 50) -> np.ndarray:
    shares = np.geomspace(0.075, 0.0018, values)
    counts = np.floor(shares / shares.sum() * rows).astype(np.int64)
    counts[: rows - counts.sum()] += 1
    return counts


def linear_limits(counts: np.ndarray, theta: int) -> Limits:
    rows = int(counts.sum())
    return Limits(
        tuple(min(Fraction(1), theta * Fraction(int(o), rows) + Fraction(1, 50)) for o in counts)
    )


def planning() -> None:
    """How near the optimum plans are (within 0.1 % of the bound), and how long planning takes."""
    print("theta  two-size MSE  optimal MSE   bound MSE     gap       seconds")
    for theta in (2, 4, 8, 16, 32):
        counts = occ_like(300_000)
        limits = linear_limits(counts, theta)
        two = best_two_size(counts, limits, 50)
        began = time.perf_counter()
        best = optimal_setting(counts, limits, 50)
        seconds = time.perf_counter() - began
        assert two is not None
        assert best is not None
        print(
            f"{theta:5}  {float(mean_squared_error(two)):12.4f} "
            f"{float(mean_squared_error(best.setting)):12.4f} {float(best.bound) / 299_999:11.4f} "
            f"{best.gap:10.2e} {seconds:9.2f}"
        )
    for rows in (10**5, 10**6, 10**7, 10**8):
        counts = occ_like(rows)
        limits = linear_limits(counts, 8)
        times = []
        for _ in range(9):
            began = time.perf_counter()
            best_two_size(counts, limits, 50)
            times.append(time.perf_counter() - began)
        print(f"two-size at {rows:>11,} records: {sorted(times)[4] * 1000:.2f} ms")
    counts = occ_like(300_000, 1600)
    limits = linear_limits(counts, 8)
    began = time.perf_counter()
    best = optimal_setting(counts, limits, 50)
    assert best is not None
    print(f"optimal, 1,600 values: gap {best.gap:.2e} in {time.perf_counter() - began:.1f} s")
    reference = integer_program(counts, limits, 50, seconds=60)
    print(f"integer program, 1,600 values, 60 s: {'nothing' if reference is None else reference}")


class Published:
    """A release made from real data with its rows kept in order, beside the raw codes."""

    def __init__(self, name: str, column: str, promise: str, way: str, rows: int, seed: int):
        table = pq.read_table(DATA / f"{name}.parquet").slice(0, rows)
        quasi = [c for c in table.column_names if c != column]
        self.quasi = {c: table.column(c).to_numpy() for c in quasi}
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            publish(
                read(table, quasi=quasi, sensitive=column),
                promise,
                to=place,
                mechanism=way,
                seed=seed,
                order="keep",
            )
            release = Release(place)
            self.buckets = read_bucket_table(release)
            self.bucket = pq.read_table(release.records[0]).column("bucket").to_numpy()
            self.plan = release.plan
        values = self.buckets.domain.to_pylist()
        code = {value: place for place, value in enumerate(values)}
        self.codes = np.array([code[v] for v in table.column(column).to_pylist()])
        self.shares = self.buckets.shares.toarray()

    def ask(self, mask: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
        true = np.bincount(self.codes[mask], minlength=self.shares.shape[1])
        beside = np.bincount(self.bucket[mask], minlength=len(self.shares)) @ self.shares
        return true, int(mask.sum()), beside


def conjunctions(quasi: dict[str, np.ndarray], number: int, seed: int) -> list[np.ndarray]:
    """Random conjunctions of 1–3 quasi columns that at least 100 records satisfy."""
    rng = np.random.default_rng(seed)
    domains = {name: np.unique(column) for name, column in quasi.items()}
    found = []
    while len(found) < number:
        chosen = rng.choice(list(quasi), rng.integers(1, 4), replace=False)
        mask = np.ones(len(next(iter(quasi.values()))), bool)
        for name in chosen:
            mask &= quasi[name] == rng.choice(domains[name])
        if mask.sum() >= 100:
            found.append(mask)
    return found


def accuracy(releases: int = 5, queries: int = 300) -> None:
    """Mean errors and coverage of the three estimators by size of the true count."""
    cases = [
        ("occ100k", "occupation", "l-diversity(5)", 100_000),
        ("occ100k", "occupation", "l-diversity(10)", 100_000),
        ("sal500k", "salary_class", "l-diversity(10)", 500_000),
    ]
    for name, column, promise, rows in cases:
        for way in ("optimal", "anatomy"):
            errors: dict[str, list[np.ndarray]] = {e: [] for e in FITS}
            truths: list[np.ndarray] = []
            for seed in range(releases):
                made = Published(name, column, promise, way, rows, seed)
                singular = len(made.buckets.operator.confused()) > 0
                for mask in conjunctions(made.quasi, queries // releases, seed):
                    true, number, beside = made.ask(mask)
                    large = true >= 100
                    truths.append(true[large])
                    for label in FITS:
                        if label == "inverse" and singular:
                            errors[label].append(np.full((int(large.sum()), 2), np.nan))
                            continue
                        found = made.buckets.fit(label).fit_counts(number, beside)
                        deviation = np.sqrt(np.maximum(np.diag(found.covariance), 0))
                        errors[label].append(
                            np.stack([found.mean - true, deviation], axis=1)[large]
                        )
            true = np.concatenate(truths)
            print(f"{name} {promise} {way}: condition {made.plan['condition']}")
            for low, high in CLASSES:
                inside = (true >= low) & (true < high)
                line = f"  counts {low:>4} … {high if high < 10**9 else '':<5} {inside.sum():>6} "
                for label, pieces in errors.items():
                    both = np.concatenate(pieces)[inside]
                    relative = np.mean(np.abs(both[:, 0]) / true[inside])
                    covered = np.mean(np.abs(both[:, 0]) <= 1.96 * both[:, 1])
                    line += f"| {label} {relative:6.2%} cover {covered:6.1%} "
                print(line)
            line = "  all counts "
            for label, pieces in errors.items():
                both = np.concatenate(pieces)
                line += f"| {label} cover {np.mean(np.abs(both[:, 0]) <= 1.96 * both[:, 1]):6.1%} "
            print(line)


def ranges(releases: int = 3, queries: int = 400) -> None:
    """β-likeness on 10,000 records, range counts of 25 % selectivity."""
    errors: dict[str, list[float]] = {"shrunk": [], "uniform": []}
    for seed in range(releases):
        made = Published("occ100k", "occupation", "beta-likeness(3)", "optimal", 10_000, seed)
        rng = np.random.default_rng(seed)
        domains = {name: np.unique(column) for name, column in made.quasi.items()}
        side = 0.25 ** (1 / 4)
        for _ in range(queries // releases):
            chosen = rng.choice(list(made.quasi), 3, replace=False)
            mask = np.ones(len(made.codes), bool)
            for name in chosen:
                domain = domains[name]
                length = max(1, round(len(domain) * side))
                first = rng.integers(0, len(domain) - length + 1)
                mask &= (made.quasi[name] >= domain[first]) & (
                    made.quasi[name] <= domain[first + length - 1]
                )
            width = made.shares.shape[1]
            length = max(1, round(width * side))
            first = rng.integers(0, width - length + 1)
            form = np.zeros(width)
            form[first : first + length] = 1
            true, number, beside = made.ask(mask)
            actual = float(form @ true)
            if actual == 0:
                continue
            for label in errors:
                found = made.buckets.fit(label).fit_counts(number, beside)
                errors[label].append(abs(float(form @ found.mean) - actual) / actual)
        confused = len(made.buckets.operator.confused())
        print(f"  sizes {[part['size'] for part in made.plan['sizes']]}, {confused} confused")
    for label, found in errors.items():
        print(f"beta-likeness(3), 10,000 records, {label}: median error {np.median(found):.2%}")


def fakes(trials: int = 10_000) -> None:
    """An adversary who knows all but one record of a bucket, and the histogram."""
    column = pq.read_table(DATA / "occ100k.parquet").column("occupation").to_numpy()
    values, counts = np.unique(column, return_counts=True)
    histogram = Histogram("occupation", tuple(values.tolist()), counts.astype(np.int64))
    profile = Profile(int(counts.sum()), {"occupation": histogram})
    for diversity, number in ((5, 0), (5, 1), (5, 2), (5, 4), (10, 2)):
        draws = Draws.from_seed(diversity + number)
        plan = OptimalBuckets(fakes=number).plan(profile, LDiversity(diversity), draws)
        print(f"l-diversity({diversity}), {number} fakes: {tell_fakes(plan, trials, draws)}")


PARTS = {"planning": planning, "accuracy": accuracy, "ranges": ranges, "fakes": fakes}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
