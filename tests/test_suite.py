"""The suite itself: what tests share is made once, and draws follow from a test's name alone."""

from __future__ import annotations

import os

import pytest

from tests.conftest import own_name


@pytest.fixture(scope="module")
def shared() -> list[str]:
    return []


@pytest.mark.parametrize("user", ["one", "another"])
def test_users_of_what_is_shared_are_in_one_process(
    shared: list[str], user: str, request: pytest.FixtureRequest
) -> None:
    """A version of pytest that xdist did not know let every process make everything anew."""
    shared.append(user)
    assert own_name(request.node).endswith(f"[{user}]")
    if "PYTEST_XDIST_WORKER" in os.environ and request.config.getoption("loadgroup", False):
        assert request.node.nodeid == f"{own_name(request.node)}@{request.node.path}"
        assert shared == ["one", "another"][: len(shared)]
