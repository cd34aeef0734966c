"""Every measure against its definition, and right where a well-known checker is wrong."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.checks import check, parse_requirement
from sfumato.errors import DataError, UsageError


def by_definition(quasi: list[Any], sensitive: list[Any]) -> dict[str, float]:
    """The measures, written down as the papers define them."""
    rows = len(sensitive)
    prior = {x: Fraction(n, rows) for x, n in Counter(sensitive).items()}
    classes: dict[Any, Counter[Any]] = defaultdict(Counter)
    for key, value in zip(quasi, sensitive, strict=True):
        classes[key][value] += 1
    values = sorted(prior)
    found: dict[str, list[float]] = defaultdict(list)
    for counts in classes.values():
        size = sum(counts.values())
        share = {x: Fraction(counts[x], size) for x in values}
        found["k-anonymity"].append(-size)
        found["distinct-l-diversity"].append(-len(counts))
        found["l-diversity"].append(-1 / float(max(share.values())))
        gains = {x: (share[x] - prior[x]) / prior[x] for x in values if share[x] > prior[x]}
        found["beta-likeness"].append(float(max(gains.values(), default=0)))
        enhanced = [math.inf if g > -math.log(prior[x]) else float(g) for x, g in gains.items()]
        found["enhanced-beta-likeness"].append(max(enhanced, default=0.0))
        distance = sum(abs(share[x] - prior[x]) for x in values) / 2
        found["t-closeness"].append(float(distance))
    return {name: abs(max(figures)) for name, figures in found.items()}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40))
@settings(max_examples=150, deadline=None)
def test_measures_follow_their_definitions(rows: list[tuple[int, int]]) -> None:
    table = pa.table({"q": [q for q, _ in rows], "s": [s for _, s in rows]})
    found = check(table, quasi="q", sensitive="s")["s"]
    for name, figure in by_definition([q for q, _ in rows], [s for _, s in rows]).items():
        assert found[name] == pytest.approx(figure, abs=1e-12), name


# -- where a well-known checker is wrong ------------------------------------------------------


def four_rows() -> pd.DataFrame:
    """Two classes; in the first everybody has the same value."""
    return pd.DataFrame({"q": ["a", "a", "b", "b"], "s": ["x", "x", "x", "y"]})


def test_shuffled_frame() -> None:
    """Labels of a shuffled index must not be taken for positions."""
    for order in itertools.permutations(range(4)):
        found = check(four_rows().iloc[list(order)], quasi="q", sensitive="s")["s"]
        assert found["distinct-l-diversity"] == 1
        assert found["beta-likeness"] == 1.0  # y: 1/2 in b, 1/4 in the table


def test_null_in_a_quasi_column_is_a_class_of_its_own() -> None:
    frame = pd.DataFrame({"q": ["a", "a", None, "a"], "s": ["x", "y", "x", "y"]})
    found = check(frame, quasi="q", sensitive="s")
    assert (found.classes, found.alone) == (2, 1)
    assert found["s"]["k-anonymity"] == 1
    assert found["s"]["distinct-l-diversity"] == 1


def test_null_and_nan_are_one_sensitive_value() -> None:
    table = pa.table({"q": [1, 1, 1], "s": pa.array([None, float("nan"), 2.0])})
    assert check(table, quasi="q", sensitive="s")["s"]["distinct-l-diversity"] == 2


def test_enhanced_beta_of_a_homogeneous_class_is_infinite() -> None:
    """Prior .99: (1 − .99)/.99 = .0101 exceeds −ln .99 = .01005, whatever beta is."""
    table = pa.table({"q": [0] + [1] * 99, "s": ["x"] * 99 + ["y"]})
    found = check(table, quasi="q", sensitive="s")["s"]
    assert found["enhanced-beta-likeness"] == math.inf
    assert found["beta-likeness"] < 0.02
    for beta in ("0.02", "5", "1000000"):
        require = [f"enhanced-beta-likeness({beta})"]
        assert not check(table, quasi="q", sensitive="s", require=require).holds


@pytest.mark.parametrize("value", [3, 2.5])
def test_constant_numeric_column(value: float) -> None:
    table = pa.table({"q": [0, 0, 1], "s": [value] * 3})
    found = check(table, quasi="q", sensitive="s", require=["t-closeness(0)"])
    assert found["s"]["t-closeness"] == 0
    assert found.holds


# -- requirements, forms and edges --------------------------------------------------------------


def test_requirements_are_exact_at_the_limit() -> None:
    table = pa.table({"q": [0, 0, 0, 1, 1, 1], "s": ["a", "b", "c"] * 2})
    for text in (
        "k-anonymity(3)",
        "l-diversity(3)",
        "distinct-l-diversity(3)",
        "beta-likeness(1/1000000)",
        "t-closeness(0)",
    ):
        assert check(table, quasi="q", sensitive="s", require=[text]).holds, text
    for text in ("k-anonymity(4)", "l-diversity(4)", "distinct-l-diversity(4)"):
        assert not check(table, quasi="q", sensitive="s", require=[text]).holds, text


def test_sfumato_l_diversity_is_about_shares() -> None:
    """Three different values, but one of them has half of the class."""
    table = pa.table({"q": [0] * 4, "s": ["a", "a", "b", "c"]})
    found = check(
        table, quasi="q", sensitive="s", require=["distinct-l-diversity(3)", "l-diversity(3)"]
    )
    assert [requirement.holds for requirement in found.requirements] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("k-anonymity(0)", "at least 1"),
        ("rho-privacy(1/13, 1/6)", "no requirement 'rho-privacy'"),
        ("t-closeness(-1)", "at least 0"),
        ("t-closeness(0.1, ordered)", "Write t-closeness(t)"),
        ("entropy-l-diversity(2)", "no requirement 'entropy-l-diversity'"),
        ("l-diversity", "needs l"),
    ],
)
def test_bad_requirements(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        parse_requirement(text)


def test_columns_must_have_a_role() -> None:
    table = pa.table({"a": [1], "b": [1], "c": [1]})
    with pytest.raises(DataError, match="without a role: c"):
        check(table, quasi="a", sensitive="b")
    with pytest.raises(DataError, match="no column 'z'"):
        check(table, quasi="z", sensitive="b")
    with pytest.raises(DataError, match="no rows"):
        check(table.slice(0, 0), quasi="a", sensitive="b", drop="c")


def test_many_wide_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(3)
    rows = 3000
    columns = {f"q{k}": rng.integers(0, 2**62, rows) for k in range(8)}
    table = pa.table({**columns, "s": rng.integers(0, 3, rows)})
    found = check(table, quasi=list(columns), sensitive="s")
    assert (found.classes, found.alone) == (rows, rows)


def test_command_line(cli: Any, tmp_path: Any) -> None:
    path, page = tmp_path / "t.parquet", tmp_path / "page.html"
    pq.write_table(pa.table({"q": [1, 1, 2], "s": ["<b>", "y", "y"]}), path)
    base = ("check", path, "--quasi", "q", "--sensitive", "s")
    ran = cli(*base, "--html", page)
    assert ran.code == 0
    assert "k-anonymity" in ran.out
    assert "&lt;b&gt;" in page.read_text("utf-8")
    failed = cli(*base, "--require", "l-diversity(2)", "--json")
    assert failed.code == 4
    assert failed.json["holds"] is False
    assert failed.json["columns"][0]["measures"][4]["figure"] == "inf"
    assert cli(*base, "--require", "k-anonymity(1)").code == 0
    assert cli(*base, "--require", "nonsense(1)").code == 2
    json.dumps(failed.json, allow_nan=False)


def test_the_job_file_has_the_roles(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("zip;disease\n10;flu\n20;flu\n")
    roles = 'file = "bad.csv"\nquasi = ["zip"]\nsensitive = ["disease"]\n'
    Path("sfumato.toml").write_text(f"[table]\n{roles}")
    failed = cli("check", "--require", "l-diversity(2)")
    assert failed.code == 4
    assert "FAILS l-diversity(2) for 'disease'" in failed.out


@pytest.mark.parametrize("command", ["check", "advise"])
def test_a_release_is_no_table(cli: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    for roles in ((), ("--quasi", "a", "--sensitive", "b")):
        refused = cli(command, tmp_path, *roles)
        assert refused.code == 2
        assert "is a release" in refused.err
