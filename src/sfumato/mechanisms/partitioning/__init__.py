"""Sub-tables for partitioned perturbation: balance, arrange, merge (thesis, Section 4.3)."""
