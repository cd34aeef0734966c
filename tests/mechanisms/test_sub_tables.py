"""Sub-tables that keep their sentence for who reads them whole: the thesis's, many records, files.

Small ones, exactly: `tests/whole/oracle/drawn.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.audits.findings import CheckResult
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms import partitioned
from sfumato.mechanisms.partitioned import SubTables, cut_table
from sfumato.mechanisms.partitioning import coupling
from sfumato.mechanisms.partitioning.coupling import posterior_odds
from sfumato.profile import Histogram
from tests.whole.oracle import drawn

THESIS = [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]
SHARES = [round(1000 * 0.96**k) + 40 for k in range(50)]  # as CENSUS occupations: 4 % to 0.7 %


def cut_of(counts: list[int], promise: RhoPrivacy) -> SubTables:
    histogram = Histogram("s", tuple(range(len(counts))), np.array(counts, np.int64))
    promise.require_feasible(histogram)
    return cut_table(histogram, promise)


def worst(cut: SubTables) -> float:
    return float(drawn.worst_posterior(cut, [0.5] * len(THESIS), 6)) / 2  # type: ignore[list-item]


def test_the_thesis_example_breaks_its_sentence_and_ours_does_not() -> None:
    """Six records, one of each value: 720 assignments."""
    plain, kept = RhoPrivacy("1/3", "2/3"), RhoPrivacy("1/3", "2/3", reader="shares")
    assert worst(cut_of(THESIS, plain)) == pytest.approx(0.932, abs=5e-4)
    assert worst(cut_of(THESIS, kept)) <= 2 / 3


@pytest.mark.parametrize("kept", [(0.3, 0.3), (0.3, 0.15), (0.1, 0.3)])
@pytest.mark.parametrize("failure", [0.3, 1e-6])
def test_the_sharp_bound_fails_as_seldom_as_it_says(monkeypatch, kept, failure: float) -> None:
    """Two values, 20,000 records: every posterior of every shown histogram, exactly."""
    monkeypatch.setattr(coupling, "FAILURE", failure)
    counts, p = np.array([12_000, 8_000]), np.array(kept)
    matrix = np.diag(p) + ((1 - p) / 2)[:, None]
    bound = posterior_odds(counts, p, 2)
    own = counts * (1 + p) / (counts * (1 - p))[::-1]
    always = own * (1 + p[::-1]) / (1 - p)
    assert (bound < 0.9 * always).all()  # the sharp bound, not the one that always holds

    def law(a: int, b: int) -> np.ndarray:
        """The chance that so many are shown as the first value."""
        first, second = (
            binom.pmf(np.arange(n + 1), n, shown)
            for n, shown in zip((a, b), matrix[:, 0], strict=True)
        )
        return np.convolve(first, second)

    chances, without = law(12_000, 8_000), [law(11_999, 8_000), law(12_000, 7_999)]
    over = np.zeros(20_001, bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for y in (0, 1):
            # 19,999 others show one fewer of y than all do
            seen = [np.append(0, w) if y == 0 else np.append(w, 0) for w in without]
            odds = counts[0] * matrix[0, y] * seen[0] / (counts[1] * matrix[1, y] * seen[1])
            for each, limit in ((odds, bound[0]), (1 / odds, bound[1])):
                over |= each > limit * (1 + 1e-9)
    assert chances[over].sum() <= failure


def sampled_posteriors(
    counts: np.ndarray, matrix: np.ndarray, shown: np.ndarray, sweeps: int, generator
) -> np.ndarray:
    """Pr(x | whole sub-table) for a record shown as y, by [x, y]: swaps of true values.

    `shown` has one place for each record. A sweep pairs all records at random and swaps the true
    values of a pair with the chance that keeps the posterior (Metropolis).
    """
    m, n = len(counts), len(shown)
    true = np.repeat(np.arange(m), counts)
    met = np.zeros((m, m))
    logs = np.log(matrix)
    for sweep in range(-sweeps // 10, sweeps):
        order = generator.permutation(n)
        a, b = order[: n // 2], order[n // 2 : 2 * (n // 2)]
        gain = logs[true[b], shown[a]] + logs[true[a], shown[b]]
        gain -= logs[true[a], shown[a]] + logs[true[b], shown[b]]
        swap = np.log(generator.random(n // 2)) < gain
        true[a[swap]], true[b[swap]] = true[b[swap]], true[a[swap]]
        if sweep >= 0:
            met += np.bincount(true * m + shown, minlength=m * m).reshape(m, m)
    with np.errstate(invalid="ignore"):
        return met / met.sum(axis=0)


@pytest.mark.parametrize("people", [100, 1000])
def test_sampled_posteriors_of_a_census(people: int) -> None:
    """No record of a seeded release above rho2 = 1/3, beyond the noise of sampling (1 %)."""
    promise = RhoPrivacy("0.08", "1/3", reader="shares")
    generator = np.random.default_rng(people)
    counts = np.array(SHARES) * people // sum(SHARES)
    counts[: people - counts.sum()] += 1
    cut = cut_of(counts[counts > 0].tolist(), promise)
    highest = 0.0
    for quota, part in zip(cut.quotas, cut.operator.parts, strict=True):
        inner, matrix = quota[list(part.codes)], part.operator.matrix()
        true = np.repeat(np.arange(len(inner)), inner)
        draws = generator.random(len(true))[:, None]
        shown = (draws > np.cumsum(matrix, axis=1)[true][:, :-1]).sum(axis=1)
        posterior = sampled_posteriors(inner, matrix, shown, 3000, generator)
        highest = max(highest, float(np.nanmax(posterior)))
    assert 0.15 < highest <= float(promise.rho2) * 1.01


def test_publishing_by_sub_tables_says_for_which_reader(tmp_path, cli) -> None:
    """Named, it is used and says `reader=shares`; unnamed it is not."""
    table = pa.table({"q": ["a", "b"] * 10_000, "s": np.repeat(np.arange(40), 500)})
    pq.write_table(table, tmp_path / "t.parquet")
    common = [str(tmp_path / "t.parquet"), "--quasi", "q", "--sensitive", "s"]

    def published(guarantee: str, name: str, *more: str) -> tuple[sf.Manifest, str]:
        out = str(tmp_path / name)
        done = cli("publish", *common, "--guarantee", guarantee, "--out", out, *more)
        assert done.code == 0, done.err
        return sf.open(out).manifest, done.err

    plain, _ = published("rho-privacy(0.05, 0.2)", "plain")
    assert (plain.guarantee, plain.mechanism) == ("rho-privacy(0.05, 0.2)", "uniform")
    shares, told = published("rho-privacy(0.05, 0.2, reader=shares)", "shares")
    assert shares.mechanism.startswith("partitioned")
    assert "reader=shares" not in told
    named, told = published("rho-privacy(0.05, 0.2)", "named", "--mechanism", "partitioned")
    assert named.guarantee == "rho-privacy(0.05, 0.2, reader=shares)"
    assert "reader=shares" not in told
    assert "all of its records and the exact shares included" in named.statement[0]
    assert cli("audit", *common[:1], tmp_path / "named").code == 0


def test_the_audit_refuses_sub_tables_of_the_thesis_under_the_new_sentence(tmp_path) -> None:
    """A plan that forgot the other records."""
    table = sf.read(
        pa.table({"q": ["a", "b"] * 500, "s": np.repeat(np.arange(20), 50)}),
        quasi="q",
        sensitive="s",
    )
    asked, plain = "rho-privacy(0.1, 1/3)", RhoPrivacy("0.1", "1/3")
    for name, forgetful in (("kept", False), ("forgot", True)):
        with pytest.MonkeyPatch.context() as patch:
            if forgetful:
                patch.setattr(partitioned, "cut_table", lambda h, _: cut_table(h, plain))
            sf.publish(
                table,
                asked,
                to=tmp_path / name,
                mechanism="partitioned",
                receipt=tmp_path / f"{name} receipt",
            )
        audit = sf.audit(table, tmp_path / name, receipt=tmp_path / f"{name} receipt")
        failed = [
            finding.check.name for finding in audit.findings if finding.result is CheckResult.FAILED
        ]
        assert bool({"part-posterior", "sub-tables"} & {*failed}) is forgetful
        assert forgetful or not failed
