"""The whole integer program at once: the reference of the paper's Sections 7.2 and 7.3."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import Limits, Setting, setting_of
from sfumato.mechanisms.solver import mixed_integer


def integer_program(
    counts: IntArray,
    limits: Limits,
    max_size: int,
    seconds: float = 60.0,
    most_sizes: int | None = None,
) -> Setting | None:
    """The least loss, with one variable per value and size.

    For small inputs only ("Optimal" in the paper's Section 7.2; with `most_sizes` = 2 that of its
    Section 7.3); None where it finds nothing in `seconds`.
    """
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron, vstack

    sizes = limits.usable_sizes(counts, max_size)
    if not len(sizes):
        return None
    allowed = limits.table(sizes).astype(np.float64)
    parts, values = allowed.shape
    position = np.arange(parts * values)
    room = csr_array(
        (-allowed.ravel(), (position, np.repeat(np.arange(parts), values))),
        shape=(parts * values, parts),
    )
    within = hstack([room, eye_array(parts * values)])
    filled = hstack(
        [
            csr_array((-sizes.astype(np.float64), (np.arange(parts), np.arange(parts)))),
            kron(eye_array(parts), np.ones((1, values))),
        ]
    )
    placed = hstack([csr_array((values, parts)), kron(np.ones((1, parts)), eye_array(values))])
    exact = np.concatenate([np.zeros(parts), counts.astype(np.float64)])
    most = int(counts.sum()) // sizes.astype(np.float64)  # buckets of each size
    opened = hstack([eye_array(parts), csr_array((parts, parts * values)), -diags_array(most)])
    flags = parts if most_sizes is not None else 0  # by size: whether it has buckets

    def wide(matrix: Any) -> Any:
        return csr_array(hstack([matrix, csr_array((matrix.shape[0], flags))]))

    constraints = [
        LinearConstraint(wide(within), -np.inf, 0),
        LinearConstraint(wide(vstack([filled, placed])), exact, exact),
    ]
    if most_sizes is not None:
        every = np.repeat([0.0, 1.0], [parts * (1 + values), parts])
        constraints += [
            LinearConstraint(csr_array(opened), -np.inf, 0),
            LinearConstraint(every, 0, most_sizes),
        ]
    lengths = [parts, parts * values, flags]
    result = mixed_integer(
        np.concatenate([(sizes - 1.0) ** 2, np.zeros(sum(lengths[1:]))]),
        constraints=constraints,
        integrality=np.repeat([1, 0, 1], lengths),
        bounds=Bounds(0, np.repeat([np.inf, np.inf, 1], lengths)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return None
    return setting_of(sizes, np.rint(result.x[:parts]).astype(np.int64))
