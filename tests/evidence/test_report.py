"""The report of a release: complete, coarse where the raw table speaks, silent where it must be."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits import AuditCheck, CheckResult, Finding
from sfumato.audits.catalogue import ELIGIBILITY, POSTERIOR
from sfumato.columns import domain_text
from sfumato.errors import DataError, UsageError
from sfumato.evidence.report import Report, write_report
from sfumato.evidence.report.discreet import shown_attack, shown_finding
from sfumato.evidence.report.expected import expected_errors
from sfumato.evidence.report.pages import report_page
from sfumato.guarantees import GUARANTEES, parse_guarantee
from sfumato.pages import Chart, sections_page
from sfumato.pages.render import page_scripts
from sfumato.release import Release
from sfumato.results import untitled
from sfumato.workloads import answers_of_shares

# odd and far from round numbers, so that no coarse figure looks like one of them by accident
COUNTS = (2137, 1973, 1811, 1663, 1487, 1319, 1151, 997, 863, 719, 577, 433)
VALUES = tuple(f"disease {chr(97 + index)}" for index in range(len(COUNTS)))
ROWS = sum(COUNTS)


def make_table() -> pa.Table:
    """People whose disease depends on their age a little; the histogram is COUNTS, exactly."""
    rng = np.random.default_rng(5)
    disease = rng.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    age = np.clip(rng.integers(20, 80, ROWS) + 2 * (disease % 4), 20, 80)
    return pa.table(
        {
            "age": pa.array(age // 5 * 5, pa.int64()),
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, ROWS)]),
            "disease": pa.array(np.array(VALUES)[disease]),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "people.parquet"
    pq.write_table(make_table(), path)
    return path


CASES = [
    ("rho-privacy(0.15, 1/3)", "uniform"),
    ("rho-privacy(0.15, 1/3)", "partitioned"),
    ("fine-rho-privacy(theta=3)", "fine-grain"),
    ("small-sum(groups=4)", "splu"),
    ("reconstruction-privacy(0.3, 0.3)", "sps"),
    ("l-diversity(4)", "optimal(fakes=2)"),
]


# each takes seconds to publish, audit and attack: one that draws and one that deals, every day
EVERYDAY = ("uniform", "optimal(fakes=2)")
MARKED = [
    pytest.param(case, id=case[1], marks=() if case[1] in EVERYDAY else pytest.mark.slow)
    for case in CASES
]


@pytest.fixture(scope="module", params=MARKED)
def case(
    request: pytest.FixtureRequest, table: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Report, Path]:
    guarantee, mechanism = request.param
    folder = tmp_path_factory.mktemp("case")
    declared = sf.read(table, quasi="age,sex", sensitive="disease", categorical="age")
    sf.publish(declared, guarantee, mechanism=mechanism, to=folder / "release")
    report = write_report(folder / "release", table=table, out=folder / "report", questions=150)
    return report, folder / "release"


def own_text(report: Report) -> str:
    """The page without the vendored scripts, and the JSON."""
    page = report.page.read_text("utf-8")
    for script in page_scripts():
        assert script in page
        page = page.replace(script, "")
    return page + report.data.read_text("utf-8")


def numbers(text: str) -> Iterator[tuple[str, float]]:
    """Every number that stands by itself, separators of thousands left out."""
    for found in re.finditer(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])", text):
        token = found[0].rstrip(",")
        plain = token.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", token) else token
        for part in plain.split(","):
            if part:
                yield part, float(part)


def test_no_count_that_the_release_hides(case: tuple[Report, Path]) -> None:
    """Neither a true count nor a share that gives it away stands in page or JSON."""
    report, _ = case
    counts = set(COUNTS)
    for token, number in numbers(own_text(report)):
        assert number not in counts, f"the page says {token}"
        digits = len(token.replace(".", "").lstrip("0").split("e")[0])
        if 0 < number < 1 and digits >= 4:  # a share that is precise enough to count by
            off = min(abs(number * ROWS - count) for count in counts)
            # operators stand there in full and are public; a share in full is a count exactly
            assert off > (0.5 if digits <= 7 else 1e-3), f"the page says {token}, which is a share"


def test_it_says_what_it_must(case: tuple[Report, Path]) -> None:
    report, release = case
    manifest = Release(release).manifest
    text = report.page.read_text("utf-8")
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    for sentence in (*manifest.statement, *manifest.does_not_protect, *manifest.caveats):
        assert sentence in plain
    for entry in manifest.files.values():
        assert entry.sha256 in plain
    for column in manifest.columns:
        assert domain_text(column.domain, 40) in plain
    assert parse_guarantee(manifest.guarantee).formula() in plain
    assert "operating system's randomness" in plain
    assert sf.__version__ in plain
    described = json.loads(report.data.read_text("utf-8"))
    assert described["audit"]["holds"] is True
    assert report.holds is True
    assert described["attacks"]
    assert all("exposed" not in each for each in described["attacks"])
    assert [one["column"] for one in described["utility"]] == ["disease"]
    assert described["utility"][0]["by_count"]
    assert described == json.loads(json.dumps({k: report.to_json()[k] for k in described}))


def test_no_path_of_the_machine(case: tuple[Report, Path], table: Path) -> None:
    report, release = case
    text = own_text(report)
    assert str(table.parent) not in text
    assert str(release.parent) not in text


def test_without_a_table_it_tells_what_the_release_tells(
    case: tuple[Report, Path], tmp_path: Path
) -> None:
    _, release = case
    report = write_report(release, out=tmp_path / "report")
    assert report.holds is None
    described = report.evidence.to_json()
    assert described["audit"] is None
    assert described["attacks"] is None
    assert described["utility"] is None
    assert described["predicted"]
    assert "Not audited" in report.page.read_text("utf-8")


@pytest.mark.parametrize(("guarantee", "mechanism"), [*CASES[:4], CASES[-1]])
def test_predicted_errors_are_those_of_the_error_bars(
    guarantee: str, mechanism: str, table: Path, tmp_path: Path
) -> None:
    """Sex has nothing to do with the disease: so are the errors of a share of the people."""
    declared = sf.read(table, quasi="age,sex", sensitive="disease")
    sf.publish(declared, guarantee, mechanism=mechanism, to=tmp_path / "r")
    share = float(np.mean(np.array(make_table().column("sex")) == "F"))
    counts, stderrs = answers_of_shares(Release(tmp_path / "r"), "disease", np.array([share]))
    sql = "SELECT disease, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY disease"
    rows = sf.open(tmp_path / "r").sql(sql).rows()
    stated = np.array([row["n_stderr"] for row in sorted(rows, key=lambda row: row["disease"])])
    assert np.median(stderrs[0] / stated) == pytest.approx(1, rel=0.15)
    expected = expected_errors(Release(tmp_path / "r"), "disease")
    assert not isinstance(expected, str)
    # the curve goes through these points: of a count that is as large, the error is the same
    own = np.sqrt(2 / np.pi) * stderrs[0] / counts[0]
    for size in expected.by_count:
        if counts.min() < size.count < counts.max():
            assert 0.5 * own.min() < size.best <= size.worst < 2 * own.max()


def test_a_failed_audit_is_in_plain_sight(cli: Any, table: Path, tmp_path: Path) -> None:
    declared = sf.read(table, quasi="age,sex", sensitive="disease")
    sf.publish(declared, CASES[0][0], mechanism="uniform", to=tmp_path / "release", seed=1)
    outcome = cli(
        "report", tmp_path / "release", "--table", table, "--out", tmp_path / "report",
        "--questions", 50, "--attack", "naive-bayes",
    )  # fmt: skip
    assert outcome.code == 4
    assert "does NOT keep its promise" in outcome.out
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "This release protects nobody" in page


def test_the_command_line(
    cli: Any, case: tuple[Report, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, release = case
    monkeypatch.chdir(tmp_path)
    outcome = cli("report", release, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["page"] == "release-report/report.html"
    assert (tmp_path / "release-report" / "report.json").is_file()
    outcome = cli("report", release, "--out", release / "report")
    assert outcome.code == 2
    assert "inside a release" in outcome.err
    Release(release)  # nothing was put into it


def test_the_release_that_shows_counts_may_be_reported_with_them(
    table: Path, tmp_path: Path
) -> None:
    declared = sf.read(table, quasi="age,sex", sensitive="disease")
    sf.publish(declared, "beta-likeness(2)", mechanism="optimal", to=tmp_path / "release")
    report = write_report(
        tmp_path / "release",
        table=table,
        out=tmp_path / "report",
        attacks="naive-bayes",
        questions=50,
    )
    posterior = [f for f in report.evidence.findings or () if f.check is POSTERIOR]
    assert posterior
    assert all(finding.limit is not None for finding in posterior)


def test_a_check_that_says_nothing_of_disclosure_keeps_its_figures() -> None:
    tomorrow = AuditCheck("tomorrow", "a check of tomorrow")
    for check in (tomorrow, ELIGIBILITY):
        finding = Finding.limited(
            check, 2137, 2138, column="disease", witness="row 17 has disease a"
        )
        assert shown_finding(finding) == Finding(check, CheckResult.OK, "disease")


def test_attack_figures_are_coarse(table: Path, tmp_path: Path) -> None:
    """With few people a step is ten of them; the interval is never narrower than the true one."""
    declared = sf.read(make_table().slice(0, 400), quasi="age,sex", sensitive="disease")
    sf.publish(declared, "rho-privacy(0.3, 0.6)", mechanism="uniform", to=tmp_path / "release")
    for outcome in sf.attack(declared, tmp_path / "release", fresh=False):
        shown = shown_attack(outcome)
        assert shown.rounded_to == pytest.approx(10 / 400)
        assert shown.success.low <= outcome.success.low
        assert shown.success.high >= outcome.success.high
        steps = shown.success.value / shown.rounded_to
        assert steps == pytest.approx(round(steps))


def test_every_guarantee_has_a_formula() -> None:
    for guarantee in GUARANTEES.values():
        assert len(guarantee.usual().formula()) > 20
    for text in ("f-privacy(theta=8, floor=0.02)", "beta-likeness(3)", "l-diversity(7)"):
        assert "≤" in parse_guarantee(text).formula()


def test_nothing_on_a_page_is_markup() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    figures = untitled((evil,), [(evil,)])
    chart = Chart("one", evil, evil, [(evil, {"title": evil})], figures)
    blocks = [evil, {evil: evil}, [evil], figures, chart]
    page = sections_page(evil, evil, [(evil, blocks)], evil)
    for script in page_scripts():
        page = page.replace(script, "")
    assert "<img" not in page
    assert "<script>alert" not in page


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """People with up to three rows, of whom one row each is published."""
    folder = tmp_path_factory.mktemp("stays")
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(900), rng.integers(1, 4, 900))
    values = np.minimum(rng.geometric(0.15, len(who)), 30)
    columns = {"who": who, "age": rng.integers(20, 60, len(who)), "ill": values}
    table = pa.table({**columns, "ward": who % 7})
    pq.write_table(table, folder / "stays.parquet")
    promise = "beta-likeness(3)"
    roles = {"quasi": "age", "sensitive": "ill", "person": "who", "drop": "ward"}
    sf.publish(folder / "stays.parquet", promise, to=folder / "release", **roles)
    return folder / "stays.parquet", folder / "release"


def test_questions_about_drawn_rows_are_rehearsed(stays: tuple[Path, Path], tmp_path: Path) -> None:
    table, release = stays
    report = sf.report(release, table=table, out=tmp_path / "out", attacks=[], questions=60)
    assert not report.evidence.problems
    assert report.evidence.utility is not None
    assert report.evidence.utility[0].rehearsed
    assert "Measured in a rehearsal" in report.page.read_text("utf-8")
    unseen = (Finding.skipped(POSTERIOR, about="x"),)
    page = report_page(replace(report.evidence, findings=unseen))
    assert '<div class="verdict plain">' in page
    assert "<p>Audit: " in page


def test_every_sensitive_column_is_measured_and_no_reason_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first column was, and a refusal stood there in its own words."""
    table = make_table().slice(0, 1500)
    table = table.append_column("work", table.column("disease").take(np.arange(1500)[::-1]))
    roles = {"quasi": "age,sex", "sensitive": "disease,work"}
    sf.publish(table, "l-diversity(3)", to=tmp_path / "r", mechanism="optimal", **roles)

    def refused(*_: object, **__: object) -> None:
        raise DataError("row 17 has disease a")

    monkeypatch.setattr("sfumato.evidence.report.evidence.attack", refused)
    report = sf.report(tmp_path / "r", table=table, out=tmp_path / "out", questions=200)
    assert [one.column for one in report.evidence.utility or ()] == ["disease", "work"]
    assert all(one.by_count for one in report.evidence.utility or ())
    assert "row 17 has disease a" in str(report)
    assert "row 17" not in own_text(report) + json.dumps(report.to_json())
    assert "no figures on attacks" in own_text(report)


def test_a_misspelled_attack_is_refused_at_once(stays: tuple[Path, Path], tmp_path: Path) -> None:
    table, release = stays
    with pytest.raises(UsageError, match="telepathy"):
        sf.report(release, table=table, out=tmp_path / "out", attacks=["linkage", "telepathy"])
    assert not (tmp_path / "out").exists()


def test_publish_report_and_audit_count_the_same_rare_values(stays: tuple[Path, Path]) -> None:
    from sfumato.engines.exposure import exposure_of

    table, release = stays
    verdict = sf.audit(table, release)
    assert verdict.exposure is not None
    of_audit = [column.rare_values for column in verdict.exposure.columns]
    assert of_audit == [column.rare_values for column in exposure_of(sf.open(release)).columns]
