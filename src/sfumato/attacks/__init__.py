"""Attacks: simulated adversaries, with the success that they reached."""
