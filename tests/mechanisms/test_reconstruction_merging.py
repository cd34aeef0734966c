"""Merging quasi values: the test's size, both linkages, the log, wide domains."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import DataError
from sfumato.mechanisms.reconstruction.groups import personal_groups
from sfumato.mechanisms.reconstruction.merging import Merge, merge_values, pair_ratios
from sfumato.profile import Cells

FIVE = Fraction(1, 20)


@pytest.mark.parametrize("m", [2, 5, 50])
def test_the_test_has_its_size(m: int) -> None:
    # 4,000 pairs from one distribution: 5 % ± 4.5 standard errors (1 false alarm in 150,000); the
    # paper's m degrees of freedom would give 1.5, 2.4 and 3.5 % (errata R6)
    generator = np.random.default_rng(m)
    shares = generator.dirichlet(np.full(m, 5.0))
    rejected = [
        pair_ratios(generator.multinomial(3000, shares, size=2), FIVE)[0, 1] > 1
        for _ in range(4000)
    ]
    error = 4.5 * np.sqrt(0.05 * 0.95 / 4000)
    assert abs(np.mean(rejected) - 0.05) < error


def test_ratio_is_pearson_over_its_critical_value() -> None:
    from scipy import stats

    table = np.array([[30, 10, 0, 5], [20, 25, 0, 5], [0, 0, 7, 0]])
    found = pair_ratios(table, FIVE)
    used = table[:2][:, [0, 1, 3]]
    statistic = stats.chi2_contingency(used, correction=False).statistic
    assert found[0, 1] == pytest.approx(statistic / stats.chi2.isf(0.05, 2), rel=1e-6)
    assert (found == found.T).all()


def test_a_value_without_records_differs_from_nothing() -> None:
    assert pair_ratios(np.array([[5, 9], [0, 0]]), FIVE)[0, 1] == 0
    assert pair_ratios(np.array([[5, 0], [9, 0]]), FIVE)[0, 1] == 0


def chain() -> np.ndarray:
    """Neighbours do not differ, ends do."""
    shares = np.linspace(0.3, 0.7, 9)
    return np.rint(np.stack([shares, 1 - shares], axis=1) * 400).astype(np.int64)


def test_components_are_transitive_and_log_what_they_override() -> None:
    domain = tuple(range(9))
    merged = merge_values("age", domain, chain(), "components", FIVE)
    assert merged.count == 1
    assert merged.pairs == 36
    apart = pair_ratios(chain(), FIVE) > 1
    assert 0 < merged.rejected == int(np.triu(apart, 1).sum()) < 36


def test_complete_linkage_merges_no_rejected_pair() -> None:
    merged = merge_values("age", tuple(range(9)), chain(), "complete", FIVE)
    assert 1 < merged.count < 9
    assert merged.rejected == 0
    assert merged.classes.tolist() == sorted(merged.classes.tolist())


def test_complete_linkage_refuses_domains_that_do_not_fit() -> None:
    wide = np.ones((4001, 2), np.int64)
    with pytest.raises(DataError, match="merge=complete compares at most 4,000"):
        merge_values("zip", tuple(range(4001)), wide, "complete", FIVE)


def test_wide_domains_equal_the_definition() -> None:
    generator = np.random.default_rng(9)
    table = generator.poisson(generator.gamma(0.3, 4, size=(300, 20)))
    found = pair_ratios(table, FIVE)
    from scipy import stats

    for _ in range(300):
        i, j = generator.choice(300, 2, replace=False)
        both = table[[i, j]][:, table[[i, j]].sum(axis=0) > 0]
        if both.shape[1] < 2 or (both.sum(axis=1) == 0).any():
            assert found[i, j] == 0
            continue
        statistic = stats.chi2_contingency(both, correction=False).statistic
        critical = stats.chi2.isf(0.05, both.shape[1] - 1)
        assert found[i, j] == pytest.approx(statistic / critical, rel=1e-5, abs=1e-6)


def test_labels_are_short_and_different() -> None:
    classes = np.array([0, 1] * 60)
    labels = Merge(
        "zip", tuple(f"{n:05}" for n in range(120)), classes, 0, np.empty((0, 2), np.int64)
    ).labels()
    assert len(set(labels)) == 2
    assert all(len(label) <= 62 for label in labels)
    missing = Merge("a", ("x", None), np.array([0, 1]), 0, np.empty((0, 2), np.int64))
    assert missing.labels() == ("x", "(missing)")


def test_groups_are_the_cells_after_merging() -> None:
    generator = np.random.default_rng(3)
    rows = generator.integers(0, (4, 3, 2, 5), size=(3000, 4))
    rows[rows[:, 2] == 1, 3] //= 2  # the third column matters, the others do not
    key = (rows[:, 0] * 3 + rows[:, 1]) * 2 + rows[:, 2]
    code, counts = np.unique(key * 5 + rows[:, 3], return_counts=True)
    cells = Cells(
        ("a", "b", "c"), (tuple("wxyz"), (1, 2, 3), (True, False)), code // 5, code % 5, counts
    )
    plain = personal_groups(cells, 5, "none", FIVE)
    assert len(plain) == len(np.unique(key))
    assert int(plain.sizes.sum()) == 3000
    merged = personal_groups(cells, 5, "components", Fraction(1, 1000))
    assert [m.count for m in merged.merges] == [1, 1, 2]
    assert merged.sizes.tolist() == np.bincount(rows[:, 2]).tolist()
    wanted = [np.bincount(rows[rows[:, 2] == c, 3], minlength=5).max() for c in (0, 1)]
    assert merged.largest.tolist() == wanted
    assert merged.codes(np.array([1]))["c"].tolist() == [1]
