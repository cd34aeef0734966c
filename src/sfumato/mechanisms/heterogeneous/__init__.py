"""Heterogeneous generalization: every record gets its own matches (methods, section 6)."""
