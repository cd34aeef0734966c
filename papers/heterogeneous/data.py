"""The paper's data: CENSUS and COIL where the user has them, generated records where not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from papers import public_files
from sfumato import datasets
from sfumato.draws import Draws, Positions
from sfumato.table import Table, read

NUMERIC = ("age", "education")
COIL_QUASI = ("MAANTHUI", "MGEMOMV", "MGEMLEEF", "MOSHOOFD")


@dataclass(frozen=True)
class Setting:
    """How much of the paper to rerun."""

    rows: int
    diversities: tuple[int, ...]
    likenesses: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: tuple[int, ...]
    skews: tuple[float, ...]
    questions: int
    widths: tuple[int, ...] = (2, 3, 4, 5, 6, 7)

    @staticmethod
    def quick() -> Setting:
        return Setting(600, (2, 5), (2, 3), (300, 600), (32, 64), (0.5, 0.9), 12, (2, 7))

    @staticmethod
    def full() -> Setting:
        sizes = (1000, 10_000, 100_000, 500_000)
        skews = (0.5, 0.6, 0.7, 0.8, 0.9)
        return Setting(10_000, (2, 4, 6, 8, 10), (1, 2, 3, 4, 5), sizes, (64, 128, 256), skews, 300)


@dataclass(frozen=True, eq=False)
class People:
    """Records with their roles; tables with fewer records, fewer columns or other values."""

    records: pa.Table
    quasi: tuple[str, ...]
    sensitive: str
    rows: int

    def table(
        self, *, rows: int | None = None, quasi: int | None = None, law: str = "own"
    ) -> Table:
        """`law` own keeps the sensitive column; uniform and zipf(θ) draw it anew (Section 5)."""
        wanted = self.rows if rows is None else rows
        chosen = self.quasi if quasi is None else self.quasi[:quasi]
        records = self.records.slice(0, wanted).select([*chosen, self.sensitive])
        if law != "own":
            theta = 0.0 if law == "uniform" else float(law.removeprefix("zipf(").removesuffix(")"))
            codes = _drawn(records.num_rows, 50, theta)
            records = records.set_column(len(chosen), self.sensitive, pa.array(codes))
        categorical = [name for name in chosen if name not in NUMERIC]
        return read(records, quasi=chosen, sensitive=self.sensitive, categorical=categorical)


def _drawn(rows: int, values: int, theta: float) -> np.ndarray:
    """Values 0 … with shares proportional to rank^−θ."""
    weights = 1 / np.arange(1, values + 1) ** theta
    edges = np.cumsum(weights) / weights.sum()
    draws = Draws.from_seed(4).below("skewed values", Positions(0, rows), 1 << 40) / (1 << 40)
    return np.minimum(np.searchsorted(edges, draws), values - 1)


def census(data_dir: Path | None, rows: int, most: int = 100_000) -> tuple[People, list[str]]:
    """CENSUS with occupation; its first records, as in the paper. `most` are generated at most."""
    quasi = ("age", "gender", "education", "marital", "race", "workclass", "country")
    path = data_dir / "occ100k.parquet" if data_dir else None
    if path is not None and path.is_file():
        return People(public_files.read_census(path), quasi, "occupation", rows), [
            "CENSUS: real data."
        ]
    made = datasets.census(max(rows, most), seed=1)
    return People(made, quasi, "occupation", rows), ["CENSUS: generated records stand in."]


def coil(data_dir: Path | None, rows: int) -> tuple[People, list[str]]:
    """COIL 2000 with four quasi columns; generated records of as many columns where absent."""
    path = data_dir / "coil2000.parquet" if data_dir else None
    if path is not None and path.is_file():
        records = public_files.read_coil(path)
        return People(records, COIL_QUASI, "MOSTYPE", min(rows, records.num_rows)), [
            "COIL: real data."
        ]
    made = datasets.census(rows, seed=2)
    quasi = ("gender", "marital", "race", "workclass")
    return People(made, quasi, "occupation", rows), ["COIL: generated records stand in."]
