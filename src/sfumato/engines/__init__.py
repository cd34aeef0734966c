"""Engines: how a plan is applied to a table, on one machine or on many."""
