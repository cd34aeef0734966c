"""The gallery: charts that the program makes while the documents are built."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.datasets import GENERATORS, write_dataset

ROWS = 4000
CANDIDATES = ["l-diversity(5)", "rho-privacy(0.08, 1/3)", "small-sum(groups=4)"]


@dataclass(frozen=True)
class Shown:
    """A release whose report is shown."""

    name: str
    title: str
    guarantee: str
    mechanism: str
    told: str


RELEASES = (
    Shown(
        "buckets",
        "Buckets",
        "l-diversity(5)",
        "optimal",
        "People are dealt to buckets; a bucket shows its values, not whose they are.",
    ),
    Shown(
        "perturbed",
        "Redrawn values",
        "rho-privacy(0.08, 1/3)",
        "uniform",
        "Each value is kept with a known chance, or drawn anew. The chart is that matrix.",
    ),
    Shown(
        "small-sums",
        "Small sums hidden",
        "small-sum(groups=4)",
        "splu",
        "Large counts stay right, small ones are lost in decoys.",
    ),
)


def make_gallery() -> dict[str, bytes | str]:
    """The page of the gallery, and the pages that it shows, by their places."""
    roles = GENERATORS["census"]
    made: dict[str, bytes | str] = {}
    parts = [
        "# Gallery",
        "The program made these pages, and every chart in them, while this site was built, from "
        f"{ROWS:,} generated people. Each is one file that needs nothing else.",
    ]
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        write_dataset("census", ROWS, room / "people.parquet", 7)
        table = sf.read(
            room / "people.parquet",
            quasi=["age", "gender", "education"],
            sensitive=roles.sensitive,
            drop=[name for name in roles.quasi if name not in ("age", "gender", "education")],
        )
        few: dict[str, Any] = {"questions": 200, "targets": 1000}
        found = sf.compare(table, CANDIDATES, out=room / "comparison", fresh=False, **few)
        made["gallery/comparison.html"] = found.page.read_bytes()
        parts += _section(
            "Promises side by side",
            "comparison",
            "Risk against utility, error by size of count, success of attacks.",
            "sfumato compare people.parquet … "
            + " ".join(f"--guarantee '{each}'" for each in CANDIDATES),
        )
        for each in RELEASES:
            release = room / each.name
            sf.publish(table, each.guarantee, mechanism=each.mechanism, to=release)
            report = sf.report(
                release, table=room / "people.parquet", out=room / f"{each.name}-report", **few
            )
            made[f"gallery/{each.name}.html"] = report.page.read_bytes()
            parts += _section(
                each.title,
                each.name,
                each.told,
                f"sfumato publish people.parquet … --guarantee '{each.guarantee}' "
                f"--mechanism {each.mechanism} --out release\n"
                "sfumato report release --table people.parquet --out report",
            )
    made["gallery.md"] = "\n\n".join(parts) + "\n"
    return made


def _section(title: str, name: str, told: str, command: str) -> list[str]:
    frame = (
        f'<iframe src="gallery/{name}.html" title="{title}" loading="lazy" '
        'style="width:100%;height:42rem;border:1px solid #8888"></iframe>'
    )
    return [f"## {title}", told, f"```text\n{command}\n```", frame, f"[Alone](gallery/{name}.html)"]
