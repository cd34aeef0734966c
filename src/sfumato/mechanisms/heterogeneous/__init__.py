"""Heterogeneous generalization: every record gets its own matches (paper `004_…`, methods §6)."""
