"""Results as JSON that every reader takes: no infinities, no objects of our own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.columns import value_to_json


def plain(result: Any) -> Any:
    """Dictionaries, lists, texts, finite numbers, truths and None.

    >>> plain({"error": float("nan"), "counts": np.array([1, 2]), "rows": (np.int64(3),)})
    {'error': None, 'counts': [1, 2], 'rows': [3]}
    """
    if isinstance(result, dict):
        return {str(key): plain(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [plain(value) for value in result]
    if isinstance(result, np.ndarray):
        return plain(result.tolist())
    if isinstance(result, np.generic):
        return plain(result.item())
    if isinstance(result, float):
        return result if math.isfinite(result) else None
    if result is None or isinstance(result, (bool, int, str)):
        return result
    told = value_to_json(result)
    return told if isinstance(told, (bool, int, float, str)) else str(told)
