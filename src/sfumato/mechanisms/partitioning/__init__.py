"""Sub-tables for partitioned perturbation: balance, arrange, merge (thesis, Section 4.3)."""

from __future__ import annotations

from sfumato.mechanisms.partitioning.arrange import reverse_cuthill_mckee
from sfumato.mechanisms.partitioning.balance import balanced_groups
from sfumato.mechanisms.partitioning.merge import Merging, best_merging, error_bound

__all__ = ["Merging", "balanced_groups", "best_merging", "error_bound", "reverse_cuthill_mckee"]
