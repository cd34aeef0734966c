"""Ratios against named references, each measured in one run. `make bench` runs them all."""
