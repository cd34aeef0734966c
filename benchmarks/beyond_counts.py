"""Do the intervals of every aggregate hold, and is it right on average?

    python -m benchmarks.beyond_counts [NAME …] [--publications 200] [--rows 2000]
        [--sums | --quantiles]

One generated table is published again and again; every aggregate of the dialect is asked of every
release, with its default 95 % interval, and held against the raw rows. The aggregates of sums are
asked in four age bands at once (`--sums`: these alone; `--quantiles`: only those), those of a quasi
column under a condition on the sensitive one. The bias is the mean error over its standard error
(largest of the bands). Three exact lines check what is never estimated. ± is twice the binomial
error of a share, as if bands were independent.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.measure import own_cpu, print_table

NAMES = {  # mechanism, guarantee, estimator
    "uniform": ("uniform", "rho-privacy(0.05, 0.5)", "inverse"),
    "noise": ("noise", "rho-privacy(0.05, 0.5)", "inverse"),
    "partitioned": ("partitioned", "rho-privacy(0.05, 0.5, reader=shares)", "inverse"),
    "splu": ("splu", "small-sum(groups=4)", "inverse"),
    "buckets": ("optimal", "l-diversity(4)", "shrunk"),  # the one with error bars: not unbiased
}
SPREADS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
PAIRS = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2")
IN_BANDS = {
    "COUNT": "COUNT(*) FILTER (WHERE cost >= 150)",
    "SUM": "SUM(cost)",
    "AVG": "AVG(cost)",
    **{f"{each} sensitive": f"{each}(cost)" for each in SPREADS},
    **{f"{each} quasi": f"{each}(size) FILTER (WHERE cost >= 100)" for each in SPREADS},
    **{each: f"{each}(cost, size)" for each in PAIRS},
    "share": "COUNT(*) FILTER (WHERE cost >= 150) / COUNT(*)",
    "ratio": "SUM(size) FILTER (WHERE cost >= 100) / SUM(cost)",
    "difference": "AVG(cost) FILTER (WHERE sex = 'F') - AVG(cost) FILTER (WHERE sex = 'M')",
}
ORDERED = {
    "MEDIAN quasi": "MEDIAN(size)",
    "QUANTILE_CONT quasi": "QUANTILE_CONT(size, 0.25)",
    "QUANTILE_DISC quasi": "QUANTILE_DISC(size, 0.8)",
}
OF_SENSITIVE = {
    "MEDIAN sensitive": "MEDIAN(cost)",
    "QUANTILE_CONT sensitive": "QUANTILE_CONT(cost, 0.25)",
    "QUANTILE_DISC sensitive": "QUANTILE_DISC(cost, 0.8)",
}
EXACT = {"MIN": "MIN(size)", "MAX": "MAX(size)", "COUNT DISTINCT": "COUNT(DISTINCT age)"}
QUESTIONS = (
    (IN_BANDS, "age // 15", ""),
    (ORDERED, "1", "WHERE cost >= 100"),
    (OF_SENSITIVE, "sex", "WHERE age < 55"),
    (EXACT, "sex", ""),
)


def people(rows: int, seed: int = 3) -> pa.Table:
    """Ages, sexes, a number with 60 values, and a cost with 40 that goes with the three."""
    draw = np.random.default_rng(seed)
    age, size = draw.integers(15, 75, rows), draw.integers(0, 60, rows)
    female = draw.random(rows) < 0.45
    middle = 3 + 0.3 * (age - 15) + 0.2 * size + 3 * female
    step = np.clip(np.round(middle + draw.normal(0, 9, rows)), 0, 39)
    return pa.table(
        {
            "age": age,
            "sex": np.where(female, "F", "M"),
            "size": size,
            "cost": (5 + 6 * step).astype(np.int64),
        }
    )


def asked(aggregates: dict[str, str], key: str, where: str) -> str:
    wanted = ", ".join(f"{sql} AS a{place}" for place, sql in enumerate(aggregates.values()))
    return f"SELECT {key} AS k, {wanted} FROM release {where} GROUP BY k ORDER BY k"


def measured(
    table: pa.Table, name: str, publications: int, questions: slice
) -> dict[str, np.ndarray]:
    """By aggregate: (publications, groups, 4), the truth, the answer and the interval."""
    mechanism, guarantee, estimator = NAMES[name]
    raw = duckdb.connect()
    raw.register("release", table)
    found: dict[str, list[Any]] = defaultdict(list)
    for number in range(publications):
        with tempfile.TemporaryDirectory() as folder:
            sf.publish(
                table,
                guarantee,
                to=Path(folder) / "release",
                mechanism=mechanism,
                quasi=["age", "sex", "size"],
                sensitive="cost",
                seed=number,
            )
            release = sf.open(Path(folder) / "release", verify=False)
            for aggregates, key, where in QUESTIONS[questions]:
                sql = asked(aggregates, key, where)
                rows = release.sql(sql, estimator=estimator).rows()
                truths = raw.execute(sql).fetchall()
                for place, each in enumerate(aggregates):
                    parts = [f"a{place}{part}" for part in ("", "_low", "_high")]
                    found[each].append(
                        [
                            [true[1 + place], *(row[part] for part in parts)]
                            for row, true in zip(rows, truths, strict=True)
                        ]
                    )
    return {each: np.array(rows, np.float64) for each, rows in found.items()}


def line(each: str, rows: np.ndarray) -> tuple[object, ...]:
    true, value, low, high = np.moveaxis(rows, 2, 0)
    if each in EXACT:
        return each, "exact" if (true == value).all() else "WRONG", "", "", ""
    room, answered = 1e-9 * np.abs(true), ~np.isnan(value)
    inside = ((low - room <= true) & (true <= high + room))[answered]
    share, error = inside.mean(), 2 * np.sqrt(0.05 * 0.95 / inside.size)
    off = np.nanmean(value - true, axis=0)
    scatter = np.nanstd(value, axis=0, ddof=1)
    bias = np.abs(off / np.maximum(scatter / np.sqrt(len(value)), 1e-12)).max()
    least, most = (0.92, 0.98) if each in ORDERED or each in OF_SENSITIVE else (0.93, 0.97)
    within = "" if least <= share <= most else "outside"
    relative = np.abs(off / np.maximum(scatter, 1e-12)).max()
    held = f"{share:.1%} ± {error:.1%}"
    if not answered.all():
        held += f" of {answered.mean():.1%} answered"
    return each, held, within, f"{bias:.1f}", f"{relative:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--publications", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2_000)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--sums", dest="part", action="store_const", const=slice(1))
    alone.add_argument("--quantiles", dest="part", action="store_const", const=slice(1, 3))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = people(given.rows)
    for name in given.names:
        began = own_cpu()
        found = measured(table, name, given.publications, given.part or slice(None))
        mechanism, guarantee, estimator = NAMES[name]
        print_table(
            f"Beyond counts: {guarantee} by {mechanism}, estimator {estimator}, {given.rows:,} "
            f"rows, {given.publications} publications, {own_cpu() - began:.0f} CPU s",
            ("aggregate", "held", "93–97 %", "bias / its error", "bias / spread"),
            [line(each, rows) for each, rows in found.items()],
        )


if __name__ == "__main__":
    main()
