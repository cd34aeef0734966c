"""Everything that a rerun prints is claimed by its paper or declared as beyond it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from papers import PAPERS, paper, reproduce
from papers.perturbation.data import Microdata
from papers.perturbation.generalized import PerturbedGeneralization, groups_of
from papers.perturbation.optrr import bounded, posteriors, search
from papers.steps import Claim, Step, below, beside_the_paper, chosen, run_steps, within
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.operators import Uniform
from sfumato.results import ResultTable


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_name_has_a_claim_or_is_beyond_the_paper(name: str) -> None:
    module = paper(name)
    printed = [each for step in module.STEPS for each in step.prints]
    assert len(printed) == len(set(printed))
    claimed = {claim.about for claim in module.CLAIMS}
    assert claimed | set(module.BEYOND) == set(printed)
    assert not claimed & set(module.BEYOND)


def test_only_what_is_asked_for_is_made() -> None:
    shares: list[float] = []
    report = reproduce(
        "reconstruction",
        only=["Table 2"],
        quick=True,
        progress=lambda what, share: shares.append(share),
    )
    assert [table.name for table in report.tables] == ["Table 2", "Verdicts"]
    assert report.tables[-1].rows[0][3] == "reproduced"
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(UsageError, match=r"'Table 9'.*There is: Table 1"):
        reproduce("reconstruction", only=["Table 9"], quick=True)
    assert not chosen("Figure 20", ["Figure 2"])


def test_a_claim_that_fails_says_why() -> None:
    table = ResultTable("T", "t", ("x", "ours"), [("a", 2.0), ("b", 4.0)])
    made = run_steps([Step(("T",), lambda _: ([table], []))], None, (), lambda *_: None)
    assert made.column("T", "ours", x="b") == [4.0]
    about = [
        Claim(name, "3", lambda found: within(found.column("T", "ours"), [2.0, 3.0], 0.2), "noise")
        for name in ("T", "not made")
    ]
    shown = beside_the_paper(about, made)
    assert shown is not None
    assert shown.rows == [("T", "3", "off by 33.3 % at most", "not reproduced: noise")]
    assert [below(x, 1.0, 1.2, "")[1] for x in (0.5, 1.1, 1.3)] == [
        "better",
        "reproduced",
        "not reproduced",
    ]


@pytest.fixture(scope="module")
def people() -> Microdata:
    rng = np.random.default_rng(2)
    rows = 3000
    age, sex = rng.integers(0, 40, rows), rng.integers(0, 2, rows)
    return Microdata({"age": age, "sex": sex}, (age // 10 + rng.integers(0, 2, rows)) % 4, 4)


def test_perturbed_generalization(people: Microdata) -> None:
    """k = 1 is uniform perturbation itself; groups have k people; counts come out on average."""
    operator = Uniform.for_amplification(4, Fraction(13))
    made = PerturbedGeneralization.of(people, operator, 1, Draws.from_seed(1))
    assert (made.sizes == 1).all()
    assert np.array_equal(made.low["age"], people.quasi["age"])
    groups = groups_of(np.stack(list(people.quasi.values()), axis=1), lambda rows: len(rows) >= 5)
    assert min(map(len, groups)) >= 5
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(3000))
    grown = PerturbedGeneralization.of(people, operator, 5, Draws.from_seed(1))
    assert grown.sizes.sum() == 3000
    assert grown.estimates({}).sum() == pytest.approx(3000)


def test_optrr_keeps_its_bound_and_beats_where_it_started() -> None:
    counts = np.array([500, 300, 150, 50])
    shares = counts / 1000
    rng = np.random.default_rng(1)
    drawn = rng.dirichlet(np.ones(4), size=(20, 4))
    assert posteriors(bounded(drawn, shares, 0.6), shares).max() <= 0.6 + 1e-9
    first, last = (search(counts, 0.6, generations, 1) for generations in (0, 40))
    assert np.allclose(last.matrices.sum(axis=2), 1)
    at = float(np.median(first.guessed))
    assert last.squares[last.best_at(at)] < first.squares[first.best_at(at)]
