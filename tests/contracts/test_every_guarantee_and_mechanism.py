"""What every registered guarantee and mechanism must do; new ones are covered by being registered.

A guarantee without an example in `EXAMPLES` fails loudly.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.attacks import ATTACKS, parse_attack
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.counting import take_profile
from sfumato.errors import BundleError, SfumatoError, UsageError
from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms import MECHANISMS, mechanisms_for, parse_mechanism
from sfumato.public import values_of
from sfumato.release import Release, manifest_schema

# feasible on `contract_table`: 12 values, the commonest below 15 %
EXAMPLES: dict[str, tuple[str, ...]] = {
    "rho-privacy": ("rho-privacy(0.2, 0.5, reader=shares)", "rho-privacy(1/6, rho2=0.6)"),
    "fine-rho-privacy": ("fine-rho-privacy(theta=4)",),
    "small-sum": ("small-sum(groups=4)",),
    "f-privacy": ("f-privacy(theta=4)",),
    "l-diversity": ("l-diversity(4)",),
    "beta-likeness": ("beta-likeness(3)",),
    "enhanced-beta-likeness": ("enhanced-beta-likeness(3)",),
    "reconstruction-privacy": ("reconstruction-privacy(0.3, 0.3)",),
}
VALUES = 12


def contract_table(rows: int = 1800) -> pa.Table:
    rng = np.random.default_rng(8)
    shares = np.linspace(1.6, 0.7, VALUES)
    disease = rng.choice(VALUES, rows, p=shares / shares.sum())
    return pa.table(
        {
            "age": rng.integers(20, 50, rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "disease": np.array([f"d{i:02d}" for i in range(VALUES)])[disease],
        }
    )


def declared() -> sf.Table:
    return sf.read(contract_table(), quasi=["age", "sex"], sensitive="disease")


def examples(name: str) -> tuple[str, ...]:
    if name not in EXAMPLES:
        pytest.fail(f"add an example of the guarantee {name!r} to EXAMPLES, feasible on its table")
    return EXAMPLES[name]


def pairs() -> list[tuple[str, str]]:
    """Every mechanism form with one guarantee that it keeps."""
    found = []
    for name in GUARANTEES:
        for text in EXAMPLES.get(name, ())[:1]:
            found += [(str(way), text) for way in mechanisms_for(parse_guarantee(text))]
    return found


@pytest.mark.parametrize("name", sorted(GUARANTEES))
def test_guarantees_round_trip_and_speak(name: str) -> None:
    histogram = take_profile(declared()).histograms["disease"]
    for text in examples(name):
        promise = parse_guarantee(text)
        assert promise.name == name
        assert parse_guarantee(str(promise)) == promise
        assert str(parse_guarantee(str(promise))) == str(promise)
        with pytest.raises(dataclasses.FrozenInstanceError):
            promise.name = "other"  # type: ignore[misc]
        hash(promise)
        promise.require_feasible(histogram)
        assert len(promise.statement(histogram)) > 20
        assert promise.does_not_protect
        ceilings = promise.ceilings(histogram)
        assert len(ceilings) == VALUES
        assert all(0 < ceiling <= 1 for ceiling in ceilings)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_mechanisms_round_trip(name: str) -> None:
    ways = MECHANISMS[name].candidates()
    for way in ways or [MECHANISMS[name]()]:
        assert way.name == name
        assert parse_mechanism(str(way)) == way
        hash(way)


PARSERS: tuple[tuple[Any, Any], ...] = (
    (GUARANTEES, parse_guarantee),
    (MECHANISMS, parse_mechanism),
    (ATTACKS, parse_attack),
)


@pytest.mark.parametrize("name", sorted(GUARANTEES | MECHANISMS | ATTACKS))
def test_parameters_are_refused_by_their_name(name: str) -> None:
    """As they are declared: beyond a bound, a part of what is whole, and what is no option."""
    known, parse = next(pair for pair in PARSERS if name in pair[0])
    for parameter in known[name].parameters:
        steps = zip(("above", "least", "below", "most"), (0, -1, 0, 1), strict=True)
        bounds = [(getattr(parameter, bound), step) for bound, step in steps]
        wrong = [bound + step for bound, step in bounds if bound is not None]
        wrong = ["nothing"] if parameter.options else [*wrong, *[2.5] * parameter.whole]
        for given in () if parameter.form else wrong:
            told = f"The '{parameter.name}' parameter of {name} must be {parameter.wanted}"
            with pytest.raises(UsageError, match=re.escape(told)):
                parameter.read(given, name)
            with pytest.raises(UsageError):
                parse(f"{name}({parameter.name}={given})")
    with pytest.raises(UsageError, match=f"{name} has no parameter 'colour'"):
        parse(f"{name}(colour=red)")


def test_every_mechanism_is_tried() -> None:
    tried = {parse_mechanism(way).name for way, _ in pairs()}
    automatic = {name for name, cls in MECHANISMS.items() if cls.candidates()}
    assert automatic <= tried


@pytest.mark.parametrize(("way", "text"), pairs())
def test_plans_check_themselves(way: str, text: str) -> None:
    promise, mechanism = parse_guarantee(text), parse_mechanism(way)
    profile = profile_for(declared(), promise, mechanism)
    _, plan = choose_plan(profile, promise, mechanism, Draws.from_seed(1))
    plan.check()
    assert plan.predicted_error() > 0
    json.dumps(values_of(plan.public()), allow_nan=False)


def digest(folder: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(("way", "text"), pairs())
def test_releases_repeat_stream_open_and_pass(tmp_path: Path, way: str, text: str) -> None:
    """Seeded runs repeat; streamed is whole; the release opens, fits its schema and is audited."""
    table = declared()
    digests = set()
    for number, batch_rows in enumerate((1 << 17, 1 << 17, 171)):
        place = tmp_path / f"seeded{number}"
        sf.publish(table, text, to=place, mechanism=way, seed=5, batch_rows=batch_rows)
        digests.add(digest(place))
    assert len(digests) == 1
    sf.publish(table, text, to=tmp_path / "release", mechanism=way)
    release = Release(tmp_path / "release")
    promised = parse_mechanism(way).promised(parse_guarantee(text))
    assert release.manifest.guarantee == str(promised)
    assert release.manifest.mechanism == way
    assert release.rows + release.manifest.suppressed == 1800 or release.kind == "synthetic"
    described = json.loads((release.path / "manifest.json").read_text())
    jsonschema.validate(described, manifest_schema(), cls=jsonschema.Draft202012Validator)
    verdict = sf.audit(table, release)
    assert verdict.holds, verdict
    common = {"randomness", "rows", "quasi-columns"}
    own = {finding.check.name for finding in verdict.findings} - common
    assert own, f"no check of the audit looks at the promise of {way} for {text}"
    seeded = sf.audit(table, tmp_path / "seeded0")
    assert [f.check.name for f in seeded.findings if not f.holds] == ["randomness"]


def shuffled_values(table: pa.Table) -> pa.Table:
    """Move one quasi column against the others; a merged one may have a single value."""
    moved = next(name for name in ("age", "sex") if len(table.column(name).unique()) > 1)
    values, half = table.column(moved).to_pylist(), table.num_rows // 2
    index = table.schema.get_field_index(moved)
    return table.set_column(index, moved, pa.array(values[half:] + values[:half]))


@pytest.mark.parametrize(("way", "text"), pairs())
def test_audits_reject_a_mutated_release(tmp_path: Path, mutate: Any, way: str, text: str) -> None:
    """Quasi values that were moved to other people: every audit finds them, or it never opens."""
    table = declared()
    sf.publish(table, text, to=tmp_path / "release", mechanism=way)
    if Release(tmp_path / "release").kind == "generalized":
        pytest.skip("generalized releases have their own mutants")
    records = pq.read_table(tmp_path / "release" / "records")
    if all(len(records.column(name).unique()) == 1 for name in ("age", "sex")):
        pytest.skip("every quasi value was merged; sampled releases have their own mutants")
    bad = mutate(tmp_path / "release", tmp_path / "bad", records=shuffled_values)
    try:
        found = sf.audit(table, bad).holds
    except BundleError:
        found = False
    assert found is False


@pytest.mark.parametrize("name", sorted(GUARANTEES))
def test_publish_picks_the_most_accurate(tmp_path: Path, name: str) -> None:
    """Without a mechanism, the one with the smallest predicted error is taken.

    Where the choice itself would tell something, it follows from the promise alone: another test.
    """
    if name == "fine-rho-privacy":
        pytest.skip("a choice that looks at counts would tell them")
    text = examples(name)[0]
    table = declared()
    promise = parse_guarantee(text)
    if isinstance(promise, CeilingGuarantee):
        pytest.skip("blocks are chosen by quasi-identifiers: tests/mechanisms/test_local_trees.py")
    profile = profile_for(table, promise)
    errors = {}
    for way in mechanisms_for(promise):
        try:
            _, plan = choose_plan(profile, promise, way, Draws.from_seed(1))
        except SfumatoError:
            continue
        errors[str(way)] = plan.predicted_error()
    publication = sf.publish(table, text, to=tmp_path / "release", seed=1)
    chosen = publication.manifest.mechanism
    assert errors[chosen] == pytest.approx(min(errors.values()), rel=1e-9)
