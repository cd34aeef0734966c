"""Manifests and files with something changed: refused in a sentence, or answering as before.

What is changed and how is `benchmarks.fuzz`, which tries thousands; a few of each release here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import (
    FINE,
    RELEASES,
    answers,
    changed_manifests,
    damaged_files,
    outcome,
    published,
)

MUTATIONS = 10  # of each release
BROKEN = 5  # files of each release


@pytest.mark.parametrize("name", list(RELEASES))
def test_a_changed_release_is_refused_or_answers_as_before(name: str, tmp_path: Path) -> None:
    place = published(name, tmp_path)
    known = answers(place)
    found = [
        (where, outcome(place, known))
        for changes in (
            changed_manifests(name, place, MUTATIONS),
            damaged_files(name, place, BROKEN),
        )
        for where in changes
    ]
    assert [(where, ended) for where, ended in found if ended not in FINE] == []
    assert "refused" in {ended for _, ended in found}  # some are noticed
