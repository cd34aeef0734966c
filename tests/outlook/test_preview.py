"""What a promise would mean, told while one watches: as the plan itself tells it, but at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.mechanisms import MECHANISMS
from sfumato.outlook.catalogue import allowed_guarantees, guarantee_list
from sfumato.outlook.preview import preview
from sfumato.profile import Histogram, Profile


def people(values: int, exponent: float, rows: int = 200_000, column: str = "disease") -> Profile:
    weights = 1 / np.arange(1, values + 1) ** exponent
    counts = np.maximum(1, np.floor(weights / weights.sum() * rows)).astype(np.int64)
    histogram = Histogram(column, tuple(f"v{k}" for k in range(values)), counts)
    return Profile(int(counts.sum()), {column: histogram})


def test_every_promise_and_mechanism_has_its_words() -> None:
    assert [told["name"] for told in guarantee_list()] == list(GUARANTEES)
    for mechanism in MECHANISMS.values():
        assert mechanism.sentence.endswith(".")
        assert mechanism.standing in ("offered", "on request", "baseline")
    for told in guarantee_list():
        promise = parse_guarantee(told["example"])
        assert promise.name == told["name"]
        assert told["mechanisms"][0]["chosen"], told["name"]
        for parameter in told["parameters"]:
            default = float(Fraction(parameter["default"]))
            assert parameter["least"] <= default <= parameter["most"]
            assert parameter["less"].endswith(".")
            assert parameter["more"].endswith(".")
        # the page writes every parameter by its name
        given = ", ".join(f"{p['name']}={p['default']}" for p in told["parameters"])
        assert parse_guarantee(f"{told['name']}({given})") == promise


@pytest.mark.parametrize(("values", "exponent"), [(5, 0.0), (20, 0.5), (3, 2.0), (2, 0.0)])
def test_what_is_allowed_can_be_planned(values: int, exponent: float) -> None:
    profile = people(values, exponent, rows=5000)
    for name, allowed_guarantee in allowed_guarantees(profile).items():
        if name == "reconstruction-privacy":
            continue  # looks at cells
        if allowed_guarantee.allowed:
            assert allowed_guarantee.example
            choose_plan(
                profile, parse_guarantee(allowed_guarantee.example), None, Draws.from_seed(1)
            )
        assert allowed_guarantee.limit.endswith(".")


def test_the_limits_are_where_they_are_said_to_be() -> None:
    profile = people(20, 0.5, rows=5000)
    (histogram,) = profile.histograms.values()
    found = allowed_guarantees(profile)
    most = int(found["l-diversity"].limit.split("(")[1].split(")")[0])
    parse_guarantee(f"l-diversity({most})").require_feasible(histogram)
    with pytest.raises(InfeasibleGuarantee):
        parse_guarantee(f"l-diversity({most + 1})").require_feasible(histogram)
    with pytest.raises(InfeasibleGuarantee):
        parse_guarantee(f"small-sum(groups={most + 1})").require_feasible(histogram)
    rarest = min(histogram.shares)
    parse_guarantee(f"rho-privacy({rarest}, 0.9)").require_feasible(histogram)
    with pytest.raises(InfeasibleGuarantee):
        parse_guarantee(f"rho-privacy({rarest * Fraction(99, 100)}, 0.9)").require_feasible(
            histogram
        )


def test_one_value_allows_nothing_and_two_columns_allow_less() -> None:
    alone = Profile(9, {"s": Histogram("s", ("a",), np.array([9]))})
    assert not any(reach.allowed for reach in allowed_guarantees(alone).values())
    both = Profile(
        1000,
        {
            "s": Histogram("s", tuple("abcde"), np.full(5, 200)),
            "t": Histogram("t", tuple("abcdefghij"), np.full(10, 100)),
        },
    )
    found = allowed_guarantees(both)
    assert {name for name, reach in found.items() if reach.allowed} == {
        "rho-privacy", "fine-rho-privacy", "small-sum", "l-diversity", "beta-likeness", "f-privacy",
        "enhanced-beta-likeness",
    }  # fmt: skip
    seen = preview(both, "small-sum(groups=3)")
    assert {line["column"] for line in seen["ceilings"]} == {"s", "t"}
    assert {line["column"] for line in seen["errors"]} == {"s", "t"}


def test_ceilings_and_errors_by_value() -> None:
    profile = people(4, 1.0, rows=1000)
    seen = preview(profile, "rho-privacy(0.2, 0.5)")
    lines = seen["ceilings"]
    assert [round(line["share"], 3) for line in lines] == [0.48, 0.24, 0.16, 0.12]
    assert [line["ceiling"] for line in lines] == [1.0, 1.0, 0.5, 0.5]
    assert all(line["error"] > 0 for line in seen["by_value"])


def test_ranges_have_no_figures_and_infeasible_promises_say_so() -> None:
    profile = people(6, 0.0, rows=600)
    seen = preview(profile, "l-diversity(2)", "heterogeneous")
    assert not seen["quick"]
    assert all(line["error"] is None for line in seen["errors"])
    with pytest.raises(InfeasibleGuarantee):
        preview(profile, "l-diversity(7)")
    with pytest.raises(UsageError, match="does not keep"):
        preview(profile, "l-diversity(2)", "uniform")
    with pytest.raises(UsageError, match="count them first"):
        preview(profile, "reconstruction-privacy(0.3, 0.3)")


def test_a_preview_says_what_it_did_not_compare() -> None:
    seen = preview(people(10, 0.5), "l-diversity(3)")
    assert seen["mechanism"] == "optimal"
    assert [note for note in seen["notes"] if note.startswith("Publishing looks at local too")]
    named = preview(people(10, 0.5), "l-diversity(3)", "optimal")
    assert not [note for note in named["notes"] if "local" in note]


def test_exact_figures_of_several_columns_compare_what_publish_would() -> None:
    """`local` is for who names it there, and counts groups of people that nobody counted."""
    from sfumato.engines.choosing import profile_for

    rng = np.random.default_rng(2)
    people = {name: rng.choice(list("abcde"), 800) for name in ("age", "ill", "job")}
    table = sf.read(pa.table(people), quasi="age", sensitive="ill,job")
    promise = parse_guarantee("ill: l-diversity(3) and job: beta-likeness(2)")
    profile = profile_for(table, promise)
    quick, exact = (preview(profile, promise, exact=exact) for exact in (False, True))
    assert not quick["quick"]
    assert not exact["quick"]
    assert {line["column"] for line in exact["ceilings"]} == {"ill", "job"}
    assert not any("local" in note for note in quick["notes"])
