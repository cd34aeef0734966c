"""Manifests and files with something changed: refused in a sentence, or answering as before.

A few of each release with `make test`; 10,000 manifests and 2,000 files with `make test-all`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.fuzz import (
    FINE,
    RELEASES,
    answers,
    changed_manifests,
    damaged_files,
    outcome,
    published,
)

FEW, MANY = (10, 5), (1_000, 200)  # manifests and files of each release


@pytest.mark.filterwarnings("ignore:.*promise of this release is false")  # called format 2
@pytest.mark.parametrize("name", list(RELEASES))
@pytest.mark.parametrize("numbers", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_changed_release_is_refused_or_answers_as_before(
    name: str, numbers: tuple[int, int], tmp_path: Path
) -> None:
    manifests, files = numbers
    place = published(name, tmp_path)
    known = answers(place)
    found = [
        (where, outcome(place, known))
        for changes in (
            changed_manifests(name, place, manifests),
            damaged_files(name, place, files),
        )
        for where in changes
    ]
    assert [(where, ended) for where, ended in found if ended not in FINE] == []
    assert "refused" in {ended for _, ended in found}  # some are noticed
