"""What the tree of local buckets tells whoever knows how it grows: tables gone through."""

from __future__ import annotations

from tests.enumeration.tree_reader import what_the_tree_tells


def test_knowing_the_tree_adds_little_and_less_with_more_people() -> None:
    """Every pair is believed with 1/2 by who does not know how trees grow; this much by who does.

    Figures of 40 seeded tables each: 0.52 of 8 people, 0.51 of 16.
    """
    few, more = what_the_tree_tells(2, 1, 40), what_the_tree_tells(4, 1, 40)
    assert 0.5 < more.believed < few.believed < 0.55
    assert few.cut > 0.5
    assert more.cut > 0.5
