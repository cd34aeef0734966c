"""What publishing gives and what releases answer, held against what was pinned (see `corpus`)."""

from __future__ import annotations

import pytest

from tests.whole import corpus

QUICK = ("uniform", "splu", "optimal", "local-two")


def test_the_corpus_is_whole() -> None:
    """Sixty releases, a third of them asked, by every mechanism that `publish` offers."""
    from sfumato.mechanisms import MECHANISMS

    assert list(corpus.pinned_releases()) == list(corpus.RELEASES)
    assert len(corpus.RELEASES) >= 60
    offered = {name for name, cls in MECHANISMS.items() if cls.standing == "offered"}
    assert offered <= {corpus.mechanism_of(name) for name in corpus.RELEASES}
    stored = [lines for name in corpus.asked() for _, lines in corpus.stored_answers(name)]
    assert sum(map(corpus.numbers, stored)) >= 1500


@pytest.mark.parametrize("name", QUICK)
def test_some_answers_are_those_that_were_stored(name: str) -> None:
    assert not corpus.differing_answers(name, every=8)


@pytest.mark.slow
def test_all_answers_are_those_that_were_stored() -> None:
    """After a change that is meant: `python -m tests.whole.corpus answers`; look at its diff."""
    found = [line for name in corpus.asked() for line in corpus.differing_answers(name)]
    assert not found, f"{len(found)} answers differ:\n" + "\n".join(found)


@pytest.mark.slow
def test_publishing_gives_what_was_pinned() -> None:
    """After a change that is meant: `python -m tests.whole.corpus releases`."""
    found = corpus.differing(dict(corpus.publish_all()))
    assert not found, "\n".join(found)


def test_a_difference_is_seen_and_named() -> None:
    now = corpus.pinned_releases()
    now["sps"] = {**now["sps"], "plan": "another"}
    now["ring"] = {**now["ring"], "records": "others", "manifest": "another"}
    assert corpus.differing(now) == ["sps: sps (plan)", "ring: ring (records, manifest)"]
    assert corpus.same(["north | 16 4.7 6.1 25"], ["north | 16.0000000001 4.7 6.1 25"])
    assert not corpus.same(["north | 16 4.7 6.1 25"], ["north | 16.001 4.7 6.1 25"])
    assert not corpus.same(["north | 16 4.7 6.1 25"], ["south | 16 4.7 6.1 25"])
