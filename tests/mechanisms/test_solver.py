"""What the solver prints by itself never stands among answers."""

from __future__ import annotations

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scipy.optimize

from sfumato.mechanisms.solver import mixed_integer


def test_lines_of_the_solver_are_dropped(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def talkative(objective: list[int], **program: Any) -> list[int]:
        os.write(1, b"HighsMipSolverData::")
        ctypes.CDLL(None).printf(b"tmpSolver.run();\n")
        return objective

    monkeypatch.setattr(scipy.optimize, "milp", talkative)
    print("before", end=" ")  # noqa: T201
    assert mixed_integer([1, 2], constraints=[]) == [1, 2]
    print("after", end="")  # noqa: T201
    assert capfd.readouterr().out == "before after"


def test_the_solver_solves() -> None:
    found = mixed_integer([1.0, 1.0], integrality=[1, 1], bounds=scipy.optimize.Bounds(0.5, 3))
    assert found.x.tolist() == [1.0, 1.0]


def test_solves_that_overlap_leave_standard_output_open(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first to come would have been the last to go: the second kept what the first had put
    in place of standard output."""

    def slow(objective: list[float], **program: Any) -> list[float]:
        time.sleep(objective[0])
        return objective

    monkeypatch.setattr(scipy.optimize, "milp", slow)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(mixed_integer, ([0.2], [0.4])))
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"
