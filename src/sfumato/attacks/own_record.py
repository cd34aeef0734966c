"""Own record: a rule learned from the release, weighed with what the person's own record shows.

The rule P(value | quasi) is a softmax regression, fitted to the release through what it shows:
published values by the operator, lists of buckets over all ways to deal them, rows by the people
that their ranges hold. The records that look like the person then say how likely each value is
(`attacks.believing`). Rule and record together reach more than either: a rule knows nothing of the
very person, and a record shows little where much was drawn or listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.believing import believe, learn_links
from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.draws import Draws
from sfumato.guarantees.words import Known


@dataclass(frozen=True)
class OwnRecord(Attack):
    """Learn the rule from the release, then weigh it with the person's own record.

    >>> str(OwnRecord())
    'own-record'
    """

    name: ClassVar[str] = "own-record"
    sentence: ClassVar[str] = (
        "Learns from the release how quasi columns and values hang together, and weighs "
        "that with the records that may be the person's."
    )
    knows: ClassVar[Known] = Known.LEARNED

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        if not targets.codes:
            chances = np.tile(knowledge.view.prior, (len(targets), 1))
        else:
            rule = learn_links(knowledge, draws)
            chances = believe(knowledge, rule, targets, draws)
        values = pick(chances, knowledge.view.prior, draws, "own record ties")
        return Guesses(values, chances[np.arange(len(chances)), values])
