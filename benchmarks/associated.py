"""Tables whose three sensitive columns go together, and with the quasi-identifiers.

`kdd` is like the census of the KDD archive: a class of work, a job that mostly follows from it, and
an answer that nearly everybody gives. `hospital` has diagnoses, treatments that most diagnoses
decide, and outcomes. Shares and associations are drawn from the seed.

>>> kdd(1_000, seed=1).column_names[-3:]
['work', 'job', 'veteran']
>>> hospital(1_000, seed=1).num_rows
1000
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

Codes = np.ndarray


def kdd(rows: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    quasi = _people(draw, rows, regions=6, schools=10)
    age, school, sex = quasi["age"] // 12, quasi["school"], quasi["sex"]
    work = _given(draw, (age, school), values=8, common=0.55, strength=1.2)
    job = _given(draw, (work, school, sex), values=36, common=0.2, strength=1.8)
    veteran = _given(draw, (work, age, sex), values=3, common=0.9, strength=1.0)
    return _table(quasi, work=work, job=job, veteran=veteran)


def hospital(rows: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    quasi = _people(draw, rows, regions=4, schools=3)
    age, sex, region = quasi["age"] // 10, quasi["sex"], quasi["region"]
    diagnosis = _given(draw, (age, sex), values=80, common=0.06, strength=1.2)
    treatment = _given(draw, (diagnosis, region), values=20, common=0.15, strength=2.2)
    outcome = _given(draw, (diagnosis, age), values=3, common=0.8, strength=1.2)
    return _table(quasi, diagnosis=diagnosis, treatment=treatment, outcome=outcome)


def _people(draw: np.random.Generator, rows: int, regions: int, schools: int) -> dict[str, Codes]:
    age = np.clip(draw.normal(45, 19, rows).round(), 16, 90).astype(np.int64)
    school = _given(draw, (age // 15,), values=schools, common=0.25, strength=0.8)
    marital = _given(draw, (age // 8,), values=5, common=0.4, strength=1.2)
    region = _given(draw, (school,), values=regions, common=0.3, strength=0.3)
    sex = draw.integers(0, 2, rows)
    return {"age": age, "sex": sex, "region": region, "school": school, "marital": marital}


def _given(
    draw: np.random.Generator,
    parents: Sequence[Codes],
    values: int,
    common: float,
    strength: float,
) -> Codes:
    """Codes of a column: of every value's log odds each parent moves a part, and all of them
    together a smaller one; the most frequent value has about the share `common`."""
    rest = 1 / (np.arange(values - 1) + 2.0)
    odds = np.log(np.append(common, (1 - common) * rest / rest.sum()))
    sizes = [int(parent.max()) + 1 for parent in parents]
    logits = np.broadcast_to(odds, (*sizes, values)).copy()
    for axis, size in enumerate(sizes):
        shape = [1] * len(sizes)
        shape[axis] = size
        logits += draw.normal(0, strength, (size, values)).reshape(*shape, values)
    logits += draw.normal(0, strength / 3, logits.shape)
    noise = draw.gumbel(size=(len(parents[0]), values))
    return np.asarray((logits[tuple(parents)] + noise).argmax(axis=1), np.int64)


def _table(quasi: dict[str, Codes], **sensitive: Codes) -> pa.Table:
    """Ages stay numbers; other codes are texts, c0 …"""
    columns = {"age": pa.array(quasi["age"])}
    for name, codes in (*list(quasi.items())[1:], *sensitive.items()):
        texts = np.array([f"{name[0]}{code}" for code in range(int(codes.max()) + 1)])
        columns[name] = pa.array(texts[codes])
    return pa.table(columns)
