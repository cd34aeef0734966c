"""What several sensitive columns tell together, computed from the table's own combinations."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Finding
from sfumato.engines.together import told_by_release
from sfumato.guarantees import OddsGuarantee


def check_together(case: AuditCase) -> Iterator[Finding]:
    """The largest chance of a value after seeing all columns, whether that is promised or not.

    A joint promise is judged by the product of the operators' amplifications, exactly; this is what
    it comes to for a reader who knows the table's shares and how its columns hang together.
    """
    if not isinstance(case.guarantee, OddsGuarantee):
        return
    for told in told_by_release(case.table, case.release, case.profile, case.guarantee):
        often = f"; {told.beyond:.1%} of what is shown goes beyond such a limit"
        yield Finding.info(
            catalogue.TOGETHER,
            float(f"{told.chance:.4g}"),
            column=told.column,
            about=told.value,
            witness=f"the promise about one column allows {told.ceiling:.4g}"
            + (often if told.exceeds else ""),
        )
