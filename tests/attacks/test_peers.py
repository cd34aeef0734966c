"""What sfumato is compared with: noisy counts; and the rerun of Figure 11."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from papers.attacks import answered_counts
from papers.coded import laplace_noise
from sfumato.attacks import parse_attack
from sfumato.attacks.people import Domains, People
from sfumato.attacks.protocol import Knowledge
from sfumato.attacks.views import raw_view
from sfumato.draws import Draws
from sfumato.errors import UsageError


def linked(rows: int) -> People:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, rows)
    codes = [np.where(rng.random(rows) < 0.6, truth, rng.integers(0, 4, rows)) for _ in range(3)]
    domains = Domains(("a", "b", "c"), tuple(pa.array(np.arange(4)) for _ in range(3)))
    return People(np.arange(rows), domains, codes, "s", 4, truth)


def test_laplace_noise_follows_its_law() -> None:
    """Median of |noise| is ln 2 times the scale; 100,000 draws, within 1.5 %: five deviations."""
    noise = laplace_noise(3.0, 100_000, Draws.from_seed(5), "law")
    assert np.median(np.abs(noise)) == pytest.approx(3 * np.log(2), rel=0.025)
    assert abs(np.median(noise)) < 0.08


def test_noise_decides_what_noisy_counts_tell() -> None:
    people = linked(4000)
    way = parse_attack("naive-bayes")
    draws = Draws.from_seed(2)

    def success(view: object) -> float:
        knowledge = Knowledge(view, people, numeric=(True,) * 3)  # type: ignore[arg-type]
        return float((way.guess(knowledge, people, draws).values == people.truth).mean())

    plain = success(raw_view(people))
    assert success(answered_counts(people, 1e6, draws)) == pytest.approx(plain, abs=0.001)
    assert success(answered_counts(people, 1.0, draws)) > plain - 0.05
    assert success(answered_counts(people, 1e-4, draws)) < 0.5
    with pytest.raises(UsageError):
        answered_counts(people, 0.0, draws)
