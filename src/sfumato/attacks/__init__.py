"""Simulated adversaries, one module each, with the success that they reach."""
