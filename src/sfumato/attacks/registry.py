"""The attacks by name."""

from __future__ import annotations

from sfumato.attacks.corruption import Corruption
from sfumato.attacks.linkage import Linkage
from sfumato.attacks.negative_association import NegativeAssociation
from sfumato.attacks.protocol import Attack
from sfumato.attacks.readers import DeFinetti, Linked, NaiveBayes, OwnRecord
from sfumato.errors import UsageError
from sfumato.release import Release
from sfumato.textform import split_call

ATTACKS: dict[str, type[Attack]] = {
    cls.name: cls
    for cls in (
        *(OwnRecord, Linked, NaiveBayes, DeFinetti, NegativeAssociation, Corruption, Linkage),
    )
}
ALL = "all"


def parse_attack(text: str) -> Attack:
    """Read an attack from its text form.

    >>> parse_attack("naive-bayes(alpha=0)")
    NaiveBayes(alpha=Fraction(0, 1), counts='estimated')
    """
    name, positional, keywords = split_call(text, "attack")
    if name not in ATTACKS:
        raise UsageError(
            f"There is no attack {name!r}. Choose one of: {ALL}, {', '.join(sorted(ATTACKS))}."
        )
    return ATTACKS[name].from_arguments(positional, keywords)


def attacks_for(kind: type[Release]) -> list[Attack]:
    """Every attack, in the forms that `all` means, that applies to a kind of release.

    `Release` itself stands for the raw table: what applies to every kind applies to it.

    >>> [str(attack) for attack in attacks_for(Release)]
    ['own-record', 'linked', 'naive-bayes', 'naive-bayes(alpha=0)', 'linkage']
    """
    attacks = [form for cls in ATTACKS.values() for form in cls.forms()]
    return [attack for attack in attacks if issubclass(kind, attack.kinds)]
