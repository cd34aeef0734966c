"""Resampled releases: are the values drawn from the table's own distribution?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.audits.perturbed import fit_finding, grouped_counts
from sfumato.release import SyntheticRelease


def check_resampled(case: AuditCase) -> Iterator[Finding]:
    """Every record's value looks drawn from the raw histogram, whatever its own value was."""
    assert isinstance(case.release, SyntheticRelease)
    for index, column in enumerate(case.table.sensitive):
        if column not in case.release.resampled:
            continue
        counts = case.profile.histograms[column].counts
        shares = counts / max(int(counts.sum()), 1)
        raw, published = grouped_counts(case, index, column)
        every = np.tile(shares, (len(shares), 1))
        yield fit_finding(case, column, raw, published, every, catalogue.RESAMPLED)
