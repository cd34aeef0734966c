"""Every verb on every kind of release: it works, or it refuses in one sentence.

Kinds of release × one or two sensitive columns × one or several rows of a person × with and without
blocks, receipt and missing values. `make test` walks the plain cells and the fullest ones, `make
test-all` all of them.
"""

from __future__ import annotations

import itertools
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from tests.tables import TABLES, release, table

PUBLISHED = {  # mechanism: a guarantee that it keeps on these tables
    "uniform": "rho-privacy(0.4, 0.7)",
    "fine-grain": "fine-rho-privacy(theta=4)",
    "partitioned": "rho-privacy(0.4, 0.7, reader=shares)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "l-diversity(2)",
    "optimal(fakes=1)": "l-diversity(2)",
    "optimal(objective=two-size)": "beta-likeness(2)",
    "local(min=40)": "l-diversity(2)",
    "heterogeneous": "l-diversity(2)",
    "ring": "l-diversity(2)",
    "burel": "beta-likeness(2)",
}
SHAPES = ("clinic", "two", "stays", "stays-two", "missing", "numbers")
QUICK = {"clinic", "stays-two"}


def ask(path: Path, sql: str) -> Any:
    """A question; the value that it names is one that the column has."""
    release = sf.open(path)
    disease = next(column for column in release.columns if column.name == "disease")
    return release.sql(sql.replace("FLU", "'flu'" if disease.kind == "categorical" else "3"))


VERBS: dict[str, Callable[[Any, Path, Path], object]] = {
    "count": lambda t, r, _: ask(r, "SELECT COUNT(*) FROM release"),
    "by value": lambda t, r, _: ask(
        r, "SELECT disease, COUNT(*) FROM release GROUP BY disease ORDER BY disease"
    ).rows(),
    "average": lambda t, r, _: ask(
        r, "SELECT sex, AVG(age) FROM release WHERE disease = FLU GROUP BY sex"
    ),
    "median": lambda t, r, _: ask(r, "SELECT MEDIAN(age) FROM release WHERE disease = FLU"),
    "joined": lambda t, r, _: ask(
        r, "SELECT COUNT(*) FROM release WHERE disease = FLU OR region = 'north'"
    ),
    "crosstab": lambda t, r, _: sf.open(r).crosstab("sex", "disease"),
    "complete": lambda t, r, _: list(sf.open(r).complete(1)),
    "to_pandas": lambda t, r, _: ask(
        r, "SELECT sex, COUNT(*) FROM release GROUP BY sex"
    ).to_pandas(),
    "shown": lambda t, r, _: (repr(sf.open(r)), sf.open(r)._repr_html_()),
    "audit": lambda t, r, _: sf.audit(t, r),
    "audit with receipt": lambda t, r, _: sf.audit(t, r, receipt=r.with_suffix(".receipt")),
    "attack": lambda t, r, _: sf.attack(t, r, fresh=False, targets=40),
    "report": lambda t, r, to: sf.report(r, out=to / "report", questions=20, targets=20),
    "publish again": lambda t, r, to: sf.publish(
        t, sf.open(r).manifest.guarantee, to=to / "again", previous=r
    ),
}


def cells() -> list[Any]:
    walked = itertools.product(PUBLISHED, SHAPES)
    return [
        pytest.param(mechanism, shape, marks=() if shape in QUICK else pytest.mark.slow)
        for mechanism, shape in walked
    ]


def one_sentence(error: SfumatoError) -> bool:
    text = str(error)
    return "\n" not in text and text.strip().endswith((".", "?")) and len(text) < 1500


@pytest.mark.parametrize(("mechanism", "shape"), cells())
def test_every_verb_works_or_refuses_in_a_sentence(
    mechanism: str, shape: str, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = release(shape, PUBLISHED[mechanism], mechanism)
        except SfumatoError as error:
            if one_sentence(error):
                return
            raise
        raw = sf.read(table(shape), **TABLES[shape].roles)
        failed = []
        for name, verb in VERBS.items():
            try:
                verb(raw, made, tmp_path)
            except SfumatoError as error:
                if not one_sentence(error):
                    failed.append(f"{name}: {error}")
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
        shutil.rmtree(tmp_path, ignore_errors=True)
    assert not failed, "\n".join(failed)
