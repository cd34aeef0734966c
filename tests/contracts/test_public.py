"""What is public follows from what it says: by types, by behaviour, and as the document has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.public import PublicPlan, from_stated
from sfumato.release import Manifest
from tests.contracts.test_every_guarantee_and_mechanism import contract_table, pairs

PAGE = Path(__file__).parents[2] / "docs" / "release-format.md"
WAYS = [*pairs(), ("local(min=100)", "l-diversity(4)"), ("splu", "small-sum(groups=4)"),
        ("fine-grain", "fine-rho-privacy(limits='*:0.2:0.5')")]  # fmt: skip


def table_of(disease: pa.Array) -> sf.Table:
    whole = contract_table()
    return sf.read(
        whole.set_column(2, "disease", disease), quasi=["age", "sex"], sensitive="disease"
    )


def planned(way: str, text: str, disease: pa.Array) -> PublicPlan:
    promise, mechanism = parse_guarantee(text), parse_mechanism(way)
    profile = profile_for(table_of(disease), promise, mechanism)
    return mechanism.plan(profile, mechanism.promised(promise), Draws.from_seed(1)).public()


def documented() -> dict[str, set[str]]:
    """The fields that the page lists, with what each may follow from."""
    (section,) = re.findall(r"^## What follows from what$(.*?)^## ", PAGE.read_text(), re.S | re.M)
    found: dict[str, set[str]] = {}
    for tag, fields in re.findall(r"^\| `([\w-]+)` \|.*?\|(.*)\|$", section, re.M):
        for field in re.findall(r"`plan\.(\w+)`", fields):
            found.setdefault(field, set()).add(tag)
    return found


@pytest.mark.parametrize(("way", "text"), WAYS)
def test_what_is_public_follows_from_what_it_says(way: str, text: str) -> None:
    disease = contract_table().column("disease").combine_chunks()
    rng = np.random.default_rng(3)
    exchanged = disease.take(pa.array(rng.permutation(len(disease))))
    others = pa.concat_arrays([disease[20:], pa.array(["d11"] * 20)])  # other counts
    public = planned(way, text, disease)
    for field, stated in public.items():
        assert stated.follows in documented()[field], field
    for values in (exchanged, others):
        again, alike = planned(way, text, values), {"domain", "quasi"}
        if values is exchanged and "blocks" not in public:  # whose own counts are shown, too
            alike.add("shown-counts")
        for field, stated in public.items():
            assert stated.follows not in alike or again[field] == stated, field


def test_a_raw_count_is_no_part_of_a_manifest() -> None:
    """mypy refuses it; whoever does not ask mypy finds that it does not work, either."""
    said: dict[str, Any] = {
        "sfumato": "0", "mechanism": "uniform", "guarantee": "none", "rows": 1, "suppressed": 0,
        "missing": "refuse", "randomness": "system",
    }  # fmt: skip
    operators = {"s": {"form": "decoy", "values": 3, "groups": 2}}
    with pytest.raises(AttributeError):
        Manifest.of("perturbed", {"operators": operators}, (), **said)  # type: ignore[dict-item]
    stated = {"operators": from_stated(operators), "floors": {"s": [0]}}
    with pytest.raises(AttributeError):
        Manifest.of("perturbed", stated, (), **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("promise", "mechanism", "roles", "fitted"),
    [
        ("rho-privacy(0.3, 0.6)", "uniform", {}, ("domain of disease",)),
        ("rho-privacy(0.3, 0.6)", "uniform", {"domain": True}, ()),
        ("rho-privacy(0.3, 0.6)", "uniform", {"domain": True, "recode": {"disease": "rare(2)"}},
         ("domain of disease",)),
        ("fine-rho-privacy(theta=4)", "fine-grain", {"domain": True}, ("operators",)),
        ("l-diversity(4)", "optimal", {}, ()),
        ("l-diversity(4)", "burel", {}, ("matches", "spans", "groups")),
        ("reconstruction-privacy(0.3, 0.3)", "sps", {"domain": True},
         ("sampling", "merges", "domain of age", "domain of sex")),
    ],
)  # fmt: skip
def test_a_release_says_what_is_fitted_and_for_whom_it_does_not_hold(
    tmp_path: Path, promise: str, mechanism: str, roles: dict[str, Any], fitted: tuple[str, ...]
) -> None:
    whole = contract_table()
    named = sorted(set(whole.column("disease").to_pylist()))
    given = {**roles, "domain": {"disease": [*named, *["other"] * ("recode" in roles)]}}
    given = given if roles.get("domain") else roles
    table = sf.read(whole, quasi=["age", "sex"], sensitive="disease", **given)
    done = sf.publish(table, promise, mechanism=mechanism, to=tmp_path / "release")
    assert done.manifest.fitted == fitted
    (statement,) = done.manifest.statement
    if fitted and "burel" not in mechanism:
        assert "hoever knows the values of everybody else" in statement
    elif not fitted:
        assert "everybody else" not in statement
    assert sf.audit(table, tmp_path / "release").holds is not False


def test_a_domain_that_was_stated_needs_no_declaration(tmp_path: Path) -> None:
    """Whether it was, only the receipt tells: an audit without one believes the manifest."""
    whole, release = contract_table(), tmp_path / "release"
    named = {"disease": sorted(set(whole.column("disease").to_pylist()))}
    stated = sf.read(whole, quasi=["age", "sex"], sensitive="disease", domain=named)
    sf.publish(stated, "rho-privacy(0.3, 0.6)", mechanism="uniform", to=release)
    assert sf.audit(sf.read(whole, quasi=["age", "sex"], sensitive="disease"), release).holds
