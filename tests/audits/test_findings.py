"""Findings are data: what was judged, what may be shown and what is fine follow from fields."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audits import AuditCheck, CheckResult, Finding, Verdict, catalogue
from sfumato.audits.findings import SHOWN


def test_a_figure_beyond_its_limit_is_never_called_fine() -> None:
    for check, value in ((catalogue.POSTERIOR, 3), (catalogue.DRAWS, 1), (catalogue.ROWS, 1)):
        with pytest.raises(ValueError, match="cannot be called fine"):
            Finding(check, CheckResult.OK, "s", value, 2)
        assert Finding.limited(check, value, 2).holds is False


def test_names_and_titles_of_checks_are_told_apart() -> None:
    """Every check has a name of its own, and every title can be rendered."""
    constants = [value for value in vars(catalogue).values() if isinstance(value, AuditCheck)]
    assert len({check.name for check in constants}) == len(constants)
    for check in constants:
        assert "{" not in check.title_of("a column", "something")


def test_text_is_cut_with_a_note_and_json_is_whole() -> None:
    def posterior(value: int) -> Finding:
        limit = 10 if value == 70 else 90
        return Finding.limited(catalogue.POSTERIOR, value, limit, column="s", about=f"'v{value}'")

    verdict = Verdict(tuple(posterior(value) for value in range(80)), "nothing in earnest")
    assert str(verdict).splitlines() == [
        "The release does NOT keep its promise (1 check failed): nothing in earnest.",
        "  failed  largest posterior of 'v70': 70 (at most 10)",
        "80 checks: 1 failed, 79 ok (--verbose shows them).",
    ]
    text = verdict.text(verbose=True)
    assert len(text.splitlines()) == 1 + SHOWN + 2
    assert text.splitlines()[1].startswith("  failed ")  # before what holds
    assert f"and {80 - SHOWN} more of the same check (--json)" in text
    assert len(verdict.to_json()["findings"]) == 80
    listed = Finding.info(catalogue.PART_SIZES, 9, listed=tuple("abcdefghi"))
    assert "and 4 more (--json)" in str(listed)
    assert len(listed.to_json()["listed"]) == 9


def test_the_headline_says_what_was_tested(tmp_path: Path) -> None:
    data = pa.table({"age": [20 + k % 40 for k in range(900)], "s": list("abcd") * 225})
    table = sf.read(data, quasi="age", sensitive="s")
    sf.publish(table, "l-diversity(3)", to=tmp_path / "r")
    told = str(sf.audit(data, tmp_path / "r")).splitlines()[0]
    assert told.startswith("The release keeps its promise: ")
    assert "l-diversity(3) of s for 900 people" in told
