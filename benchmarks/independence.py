"""How often does the test of independence say p < 0.05 where there is nothing, and where there is?

    python -m benchmarks.independence [KIND …] [--publications 200] [--rows 300]

Tables are drawn anew and published every time, once with sex and disease independent, once with a
share of the people whose disease follows from their sex. ± is twice the binomial error at 5 %. All
kinds get the same tables; the line `raw` is Pearson's test on these tables themselves.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.stats import chi2_contingency

import sfumato as sf
from benchmarks.measure import print_table

KINDS = {
    "uniform": ("rho-privacy(0.3, 0.6)", "uniform"),
    "partitioned": ("rho-privacy(0.3, 0.6, reader=shares)", "partitioned"),
    "splu": ("small-sum(groups=2)", "splu"),
    "buckets": ("l-diversity(3)", "optimal"),
    "local": ("l-diversity(3)", "local(min=100, columns=region)"),
}
TIED = 0.5
RAW = "raw"


def people(rows: int, seed: int, tied: float) -> pa.Table:
    draw = np.random.default_rng(seed)
    sex = draw.integers(0, 2, rows)
    disease = draw.integers(0, 6, rows)
    disease = np.where(draw.random(rows) < tied, 3 * sex + draw.integers(0, 3, rows), disease)
    return pa.table(
        {
            "sex": np.array(["F", "M"])[sex],
            "region": draw.integers(0, 3, rows),
            "disease": np.array(["cold", "cough", "flu", "gout", "HIV", "none"])[disease],
        }
    )


def p_value(kind: str, rows: int, seed: int, tied: float) -> float:
    if kind == RAW:
        frame = people(rows, seed, tied).to_pandas()
        counts = frame.groupby(["sex", "disease"]).size().unstack(fill_value=0)
        return float(chi2_contingency(counts, correction=False).pvalue)
    guarantee, mechanism = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release"
        sf.publish(
            people(rows, seed, tied),
            guarantee,
            to=place,
            mechanism=mechanism,
            quasi=["sex", "region"],
            sensitive="disease",
            seed=seed,
        )
        found = sf.open(place, verify=False).crosstab("sex", "disease").test.p_value
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=[RAW, *KINDS])
    parser.add_argument("--publications", type=int, default=200)
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for kind in given.kinds:
        seeds = range(given.publications)
        nothing = np.array([p_value(kind, given.rows, seed, 0.0) for seed in seeds])
        there = np.array([p_value(kind, given.rows, seed, TIED) for seed in seeds[::10]])
        error = 2 * np.sqrt(0.05 * 0.95 / len(nothing))
        rows.append(
            (
                kind,
                f"{(nothing < 0.05).mean():.1%} ± {error:.1%}",
                f"{(nothing < 0.01).mean():.1%}",
                f"{(nothing < 0.5).mean():.0%}",
                f"{(there < 0.05).mean():.0%}",
            )
        )
    print_table(
        f"Test of independence, {given.rows} people, {given.publications} publications each",
        ("release", "p < 0.05", "p < 0.01", "p < 0.5", f"p < 0.05, {TIED:.0%} tied"),
        rows,
    )


if __name__ == "__main__":
    main()
