"""What sampling costs: the variance of counts that are estimated from copied groups."""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.tails import FloatArray, Setting


def published_moments(
    groups: PersonalGroups, samples: IntArray, setting: Setting, chosen: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each value's published count over the chosen groups.

    T is (N/n)·O but for rounding; O is the sum of two binomials on a sample whose number of hits
    is n·f rounded down, or up with chance φ, so Var O = n f a(1−a) + n (1−f) q(1−q) + p² φ(1−φ)
    with a = p + q. Rounding T up or down adds at most 1/4. Groups that are left out add nothing.
    """
    p, q = float(setting.retention), float(setting.background)
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    kept = samples > 0 if chosen is None else (samples > 0) & chosen
    cells = kept[owner]
    which, values, counts = owner[cells], groups.values[cells], groups.counts[cells]
    size, n = groups.sizes[which].astype(np.float64), samples[which].astype(np.float64)
    hits = n * counts / size
    phase = hits - np.floor(hits + 1e-9)
    noise = hits * ((p + q) * (1 - p - q) - q * (1 - q)) + p**2 * np.maximum(phase * (1 - phase), 0)
    rounding = np.where(n < size, 0.25, 0.0)
    m = setting.values
    cellwise = np.bincount(values, (size / n) ** 2 * noise + rounding, minlength=m)
    whole, sampled = groups.sizes[kept].astype(np.float64), samples[kept]
    variance = cellwise + float((whole**2 / sampled).sum()) * q * (1 - q)
    mean = np.bincount(values, counts, minlength=m) * p + float(whole.sum()) * q
    return np.asarray(mean, np.float64), np.asarray(variance, np.float64)


def inflation(
    groups: PersonalGroups, samples: IntArray, setting: Setting, chosen: BoolArray | None = None
) -> FloatArray:
    """By how much sampling raises the variance of each value's estimated count (errata R12)."""
    _, with_samples = published_moments(groups, samples, setting, chosen)
    whole = np.where(samples > 0, groups.sizes, 0)
    _, without = published_moments(groups, whole, setting, chosen)
    return np.asarray(with_samples / without)
