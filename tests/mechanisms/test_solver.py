"""What the solver prints by itself never stands among answers."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from scipy.optimize import Bounds

from sfumato.mechanisms import solver
from sfumato.mechanisms.solver import mixed_integer

ONES = {"integrality": [1, 1], "bounds": Bounds(0.5, 3)}


def test_the_solver_solves_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """`disp` makes it talk; standard output is the same file all the while."""
    there = os.fstat(1)
    with ThreadPoolExecutor(2) as pool:
        talkative = {**ONES, "options": {"disp": True}}
        found = list(pool.map(lambda c: mixed_integer(c, **talkative), ([1.0, 1.0], [-1.0, 1.0])))
    assert [solved.x.tolist() for solved in found] == [[1.0, 1.0], [3.0, 1.0]]
    assert os.fstat(1) == there
    assert capfd.readouterr() == ("", "")


def test_a_child_that_is_gone_is_replaced() -> None:
    mixed_integer([1.0, 1.0], **ONES)
    (child,) = solver._children
    child.kill()
    child.wait()
    assert mixed_integer([1.0, 1.0], **ONES).x.tolist() == [1.0, 1.0]


def test_the_child_ends_with_its_parent() -> None:
    code = (
        "from sfumato.mechanisms import solver; from scipy.optimize import Bounds;"
        "solver.mixed_integer([1.0], integrality=[1], bounds=Bounds(0.5, 3));"
        "print(solver._children[0].pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
