"""Ratio disclosure: the paper's Table 2, quantiles against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from papers.laplace import laplace_noise
from papers.reconstruction.ratio_law import (
    approximate_spread,
    indicator,
    noise_scale,
    ratio_quantiles,
    simulated_ratios,
)
from sfumato.draws import Draws
from sfumato.errors import UsageError

TABLE_2 = {
    10: (0.000008, 0.0002, 0.0008, 0.005, 0.02),
    20: (0.000032, 0.0008, 0.0032, 0.02, 0.08),
    40: (0.000128, 0.0032, 0.0128, 0.08, 0.32),
    200: (0.0032, 0.08, 0.32, 2, 8),
}


def test_table_2_cell_by_cell() -> None:
    for scale, row in TABLE_2.items():
        found = [indicator(scale, x) for x in (5000, 1000, 500, 200, 100)]
        assert found == pytest.approx(row, rel=1e-12)
    assert [noise_scale(e) for e in (0.2, 0.1, 0.05, 0.01)] == pytest.approx([10, 20, 40, 200])


def test_laplace_noise_has_its_law() -> None:
    # 200,000 draws: mean |ξ| and variance within 4.5 standard errors
    noise = laplace_noise(3.0, 200_000, Draws.from_seed(1), "noise")
    assert np.abs(noise).mean() == pytest.approx(3.0, abs=4.5 * 3 / np.sqrt(200_000))
    assert noise.var() == pytest.approx(18.0, abs=4.5 * 18 * np.sqrt(5 / 200_000))
    assert abs(noise.mean()) < 4.5 * np.sqrt(18 / 200_000)


@pytest.mark.parametrize("scale", [4.0, 20.0, 200.0])
def test_quantiles_agree_with_simulation(scale: float) -> None:
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    exact = ratio_quantiles(scale, 501, 420, levels)
    found = simulated_ratios(scale, 501, 420, 200_000, Draws.from_seed(3))
    for level, quantile in zip(levels, exact, strict=True):
        # within 4.5 standard errors of a share of 200,000, and the quadrature's 5e-4
        error = 4.5 * np.sqrt(level * (1 - level) / 200_000) + 5e-4
        assert abs((found <= quantile).mean() - level) < error


def test_the_delta_method_is_right_where_it_may_be_used() -> None:
    # b/x = 1/25: erratum R10 measured 0.075 against 0.0737
    found = simulated_ratios(20, 501, 420, 200_000, Draws.from_seed(2))
    assert found.std() == pytest.approx(approximate_spread(20, 501, 420), rel=0.05)
    assert np.median(found) == pytest.approx(420 / 501, abs=0.002)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="'epsilon' must be above 0"):
        noise_scale(0)
