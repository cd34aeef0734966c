"""Reconstruction privacy: what sampling costs in accuracy and in time.

python -m benchmarks.reconstruction [speed | accuracy | copies]
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import DATA, cost_of, print_table
from papers.copies import copies_attack
from sfumato.datasets import read_census
from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.reconstruction.drawing import Drawn, draw_block
from sfumato.mechanisms.reconstruction.prediction import published_moments
from sfumato.mechanisms.sps import SampledPlan
from sfumato.table import read

PROMISE = "reconstruction-privacy(0.3, 0.3)"
QUASI = ("age", "gender", "education", "marital", "race", "workclass", "country")
REAL = Path(os.environ.get("SFUMATO_DATA", "../shared/data"))
ROWS, COMBINATIONS = 10_000_000, 3_450_000  # about 3.1 million of them occur
RUNS, QUERIES, SELECTIVITY = 40, 200, 0.005


def many_groups() -> Path:
    """Ten million records in about three million personal groups, made once."""
    path = DATA / "groups-10M.parquet"
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    generator = np.random.default_rng(1)
    place = (generator.random(ROWS) ** 1.6 * COMBINATIONS).astype(np.int64)
    key = generator.permutation(COMBINATIONS)[place]
    columns, rest = {}, key
    for name, values in zip(reversed(QUASI), (12, 8, 10, 6, 16, 2, 80), strict=True):
        rest, code = np.divmod(rest, values)
        columns[name] = code.astype(np.int8)
    shares = np.exp(-np.arange(50) / 15)
    drawn = generator.choice(50, ROWS, p=shares / shares.sum())
    columns["occupation"] = np.where(generator.random(ROWS) < 0.3, key % 50, drawn).astype(np.int8)
    pq.write_table(pa.table(columns), path, row_group_size=1 << 20)
    return path


def speed() -> None:
    source = many_groups()
    target = DATA / "copy.parquet"
    copy = cost_of([sys.executable, "-m", "benchmarks.copy_parquet", str(source), str(target)])
    target.unlink()
    rows: list[tuple[object, ...]] = [("pyarrow copy", copy.cpu, 1.0, copy.megabytes)]
    for mechanism in ("sps(merge=none)", "sps", "sps(bound=chernoff, merge=none)"):
        out = DATA / "release"
        shutil.rmtree(out, ignore_errors=True)
        flags = ["--quasi", ",".join(QUASI), "--sensitive", "occupation", "--out", str(out)]
        flags += ["--guarantee", PROMISE, "--mechanism", mechanism]
        program = "from sfumato.cli import main; main()"
        cost = cost_of([sys.executable, "-c", program, "publish", str(source), *flags])
        shutil.rmtree(out)
        rows.append((mechanism, cost.cpu, cost.cpu / copy.cpu, cost.megabytes))
    columns = ("10 million rows, 3.1 million groups", "CPU s", "× copy (≤ 12)", "MB (≤ 2000)")
    print_table("Sampling, perturbing, scaling: speed", columns, rows)


def plan_of(table: pa.Table, quasi: tuple[str, ...], sensitive: str, text: str) -> SampledPlan:
    declared = read(table.select([*quasi, sensitive]), quasi=quasi, sensitive=sensitive)
    promise, way = parse_guarantee(PROMISE), parse_mechanism(text)
    profile = profile_for(declared, promise, way)
    plan = choose_plan(profile, promise, way, Draws.from_seed(1))[1]
    assert isinstance(plan, SampledPlan)
    return plan


def drawn_table(plan: SampledPlan, samples: IntArray, draws: Draws) -> IntArray:
    published = np.zeros((len(plan.groups), plan.setting.values), np.int64)
    for run in plan.groups.blocks():
        drawn = draw_block(plan.groups, samples, run, plan.operator, draws)
        published[drawn.groups, drawn.values] = drawn.counts
    return published


def accuracy() -> None:
    """`sal500k`, education, counts of at least 0.5 %; predictions should be within 15 %."""
    table = read_census(REAL / "sal500k.parquet")
    quasi = tuple(name for name in QUASI if name != "education")
    rows = []
    for text in (
        "sps(bound=chernoff, merge=none)",
        "sps(bound=chernoff)",
        "sps(merge=none)",
        "sps",
    ):
        plan = plan_of(table, quasi, "education", text)
        rows.append((text, *_accuracy(plan)))
    columns = ("mechanism", "groups", "error, uniform", "error", "inflation", "predicted", "ratio")
    print_table("Counts of at least 0.5 %, sal500k, education", columns, rows)


def _accuracy(plan: SampledPlan) -> tuple[object, ...]:
    groups, m = plan.groups, plan.setting.values
    generator = np.random.default_rng(5)
    codes = groups.codes(np.arange(len(groups)))
    truth = np.zeros((len(groups), m), np.int64)
    truth[np.repeat(np.arange(len(groups)), np.diff(groups.starts)), groups.values] = groups.counts
    masks, values = [], []
    while len(masks) < QUERIES:
        asked = generator.choice(list(codes), int(generator.integers(1, 4)), replace=False)
        mask = np.ones(len(groups), np.bool_)
        for name in asked:
            mask &= codes[name] == generator.choice(codes[name])
        value = int(generator.integers(m))
        if truth[mask, value].sum() >= SELECTIVITY * truth.sum():
            masks.append(mask)
            values.append(value)
    chosen, value = np.stack(masks).astype(np.float64), np.array(values)
    right = (chosen @ truth)[np.arange(QUERIES), value]
    p, q = float(plan.setting.retention), float(plan.setting.background)
    estimates = {}
    for name, samples in (("uniform", groups.sizes), ("sps", plan.samples)):
        found = np.zeros((RUNS, QUERIES))
        for seed in range(RUNS):
            counts = chosen @ drawn_table(plan, samples, Draws.from_seed(seed).child(name))
            found[seed] = (counts[np.arange(QUERIES), value] - q * counts.sum(axis=1)) / p
        estimates[name] = found
    predicted = [
        [
            published_moments(groups, s, plan.setting, mask)[1][v]
            for s in (plan.samples, groups.sizes)
        ]
        for mask, v in zip(masks, values, strict=True)
    ]
    with_samples, without = np.array(predicted).sum(axis=0)
    measured = (
        estimates["sps"].var(axis=0, ddof=1).sum() / estimates["uniform"].var(axis=0, ddof=1).sum()
    )
    errors = [float((np.abs(estimates[k] - right) / right).mean()) for k in ("uniform", "sps")]
    inflation = float(with_samples / without)
    return len(groups), *errors, float(measured), inflation, inflation / float(measured)


def copies() -> None:
    """`occ100k`, the largest share read off the copies: should miss by 10 % in 9 of 10 groups."""
    table = read_census(REAL / "occ100k.parquet")
    rows = []
    for text in ("sps", "sps(merge=complete)", "sps(merge=none)", "sps(bound=chernoff)"):
        plan = plan_of(table, QUASI, "occupation", text)
        parts = [
            draw_block(plan.groups, plan.samples, run, plan.operator, Draws.from_seed(7))
            for run in plan.groups.blocks()
        ]
        drawn = Drawn(
            *(
                np.concatenate([getattr(p, f) for p in parts])
                for f in ("groups", "values", "counts")
            )
        )
        sampled = (plan.samples > 0) & (plan.samples < plan.groups.sizes)
        found = copies_attack(plan.groups, drawn, plan.levels, sampled)
        missed_of_all = 1 - found.read_off / found.groups
        rows.append((text, found.groups, found.sampled, found.missed, missed_of_all))
    columns = ("mechanism", "groups", "sampled", "missed, of sampled", "missed, of all")
    print_table("Largest share not read off the copies within 10 %, occ100k", columns, rows)


def main() -> None:
    wanted = sys.argv[1:] or ["copies", "accuracy", "speed"]
    for name in wanted:
        {"copies": copies, "accuracy": accuracy, "speed": speed}[name]()


if __name__ == "__main__":
    main()
