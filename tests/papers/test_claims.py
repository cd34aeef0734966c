"""Everything that a rerun prints is claimed by its paper."""

from __future__ import annotations

import pytest

from papers import PAPERS, paper, reproduce
from papers.steps import Claim, Step, below, beside_the_paper, chosen, run_steps, within
from sfumato.errors import UsageError
from sfumato.results import ResultTable


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_name_has_a_claim(name: str) -> None:
    module = paper(name)
    printed = [each for step in module.STEPS for each in step.prints]
    assert len(printed) == len(set(printed))
    assert {claim.about for claim in module.CLAIMS} == set(printed)


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
