"""Releases that version 0.1.0 wrote are opened, asked and audited as they were then.

`written_before` holds releases of 900 generated people, the answers that 0.1.0 gave, and the table.
A question that was refused then may be answered now. Seven things changed on purpose. Intervals of
redrawn values and decoys are the truths under which the estimate is likely; counts from `resample`
have one. The default intervals of bucketed releases hold for every truth, and a sum is shrunk as
its count is: there, the counts of single groups and their standard errors are what they were. Under
several retentions, no standard error is smaller than what redrawn values add: there, values are
what they were. Under decoys, several values together are estimated by an operator whose rows sum to
1. Ranges and sets are read as the people that they span. Error bars know the slots of fakes, and
those of several columns have a floor.
"""

import json
import math
import warnings
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import WeakPromiseWarning
from sfumato.release import BucketedRelease, PerturbedRelease, SyntheticRelease

HERE = Path(__file__).parent / "written_before"
KNOWN = json.loads((HERE / "answers.json").read_text(encoding="utf-8"))


def agree(found, known):
    if isinstance(known, dict):
        return found.keys() >= known.keys() and all(agree(found[k], known[k]) for k in known)
    if isinstance(known, list):
        return len(found) == len(known) and all(map(agree, found, known))
    if isinstance(known, float) and found is not None:
        return math.isclose(found, known, rel_tol=1e-9, abs_tol=1e-9)
    return found == known


def without(known, *ends):
    rows = [{k: v for k, v in row.items() if not k.endswith(ends)} for row in known["rows"]]
    return {**known, "rows": rows}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
def test_answers_are_the_same(name):
    release = sf.open(HERE / name)
    for asked in KNOWN[name]["asked"]:
        if "refused" in asked["answer"]:
            continue
        known = asked["answer"]
        if isinstance(release, BucketedRelease) and asked["estimator"] is None:
            if "AVG" in asked["sql"] or " OR " in asked["sql"]:
                continue
            known = without(known, "_low", "_high")
        elif isinstance(release, PerturbedRelease | SyntheticRelease):
            known = without(known, "_low", "_high")
        if name == "splu" and any(each in asked["sql"] for each in (" IN (", " OR ", " <> ")):
            continue
        if name == "heterogeneous" and asked["estimator"] is None:
            asked["estimator"] = "uniform"
        if name in ("fine-grain", "uniform-two-columns", "optimal-fakes"):
            known = without(known, "_low", "_high", "_stderr")
        found = release.sql(asked["sql"], estimator=asked["estimator"]).to_json()
        found = json.loads(json.dumps(found, default=str))
        assert agree(found, known), (asked["sql"], asked["estimator"])


@pytest.mark.parametrize("name", [name for name in KNOWN if KNOWN[name]["holds"]])
def test_audits_hold(name):
    sensitive = KNOWN[name]["sensitive"]
    rest = {"marital", "race", "workclass", "country"} - set(sensitive)
    table = sf.read(
        HERE / "people.parquet",
        quasi=["age", "gender", "education"],
        sensitive=sensitive,
        drop=sorted(rest),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        assert sf.audit(table, HERE / name).holds
