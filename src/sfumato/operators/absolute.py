"""E|error| of an estimate that is normal, from its bias and variance."""

from __future__ import annotations

import math

import numpy as np

from sfumato.operators.base import FloatArray


def expected_absolute(bias: FloatArray | float, variance: FloatArray | float) -> FloatArray:
    """E|Z| for Z ~ N(bias, variance): σ√(2/π)·exp(−b²/2σ²) + |b|·erf(|b|/σ√2).

    >>> expected_absolute(np.array([0.0, 3.0]), np.array([math.pi / 2, 0.0])).tolist()
    [1.0, 3.0]
    """
    from scipy.special import erf

    distance = np.abs(np.asarray(bias, np.float64))
    deviation = np.sqrt(np.maximum(np.asarray(variance, np.float64), 0.0))
    ratio = np.divide(
        distance,
        deviation,
        out=np.full(np.broadcast(distance, deviation).shape, np.inf),
        where=deviation > 0,
    )
    spread = deviation * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2)
    return np.asarray(spread + distance * erf(ratio / math.sqrt(2)))
