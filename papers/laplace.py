"""Laplace noise, for playing differentially private answers."""

from __future__ import annotations

import numpy as np

from sfumato.draws import Draws, Positions
from sfumato.operators.base import FloatArray


def laplace_noise(scale: float, count: int, draws: Draws, purpose: str) -> FloatArray:
    """Laplace noise: from opendp where it is installed and the draws are not for repetition.

    opendp's sampler is safe against the holes of floating point; the other one is good enough to
    play the adversary, and protects nobody.

    >>> noise = laplace_noise(2.0, 20_000, Draws.from_seed(1), "demo")
    >>> bool(abs(np.abs(noise).mean() - 2) < 0.1)
    True
    """
    if draws.origin != "seeded":
        try:
            import opendp.prelude as dp  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            pass
        else:
            dp.enable_features("contrib")
            space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
            return np.asarray(dp.m.make_laplace(*space, scale=scale)([0.0] * count), np.float64)
    words = draws.words(purpose, Positions(0, count)) >> np.uint64(11)
    share = (words.astype(np.float64) + 0.5) / (1 << 53) - 0.5
    return np.asarray(-scale * np.sign(share) * np.log1p(-2 * np.abs(share)))
