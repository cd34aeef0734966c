"""Attacks: simulated adversaries, with the success that they reached. One module per adversary."""

from __future__ import annotations

from sfumato.attacks.protocol import Attack, Guesses, Knowledge, Outcome
from sfumato.attacks.registry import ATTACKS, attacks_for, parse_attack
from sfumato.attacks.running import attack

__all__ = [
    "ATTACKS",
    "Attack",
    "Guesses",
    "Knowledge",
    "Outcome",
    "attack",
    "attacks_for",
    "parse_attack",
]
