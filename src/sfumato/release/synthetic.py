"""Releases of records that were drawn anew."""

from __future__ import annotations

from typing import ClassVar

from sfumato.errors import BundleError
from sfumato.release.reader import Release


class SyntheticRelease(Release):
    """Quasi columns as they are; sensitive values drawn anew. A record counts as what it shows."""

    kind: ClassVar[str] = "synthetic"

    @property
    def resampled(self) -> tuple[str, ...]:
        """The columns whose values were drawn from their overall distribution."""
        return self._resampled

    def _read_plan(self) -> None:
        stated = self.plan.get("resampled", [])
        sensitive = {column.name for column in self.sensitive}
        if not isinstance(stated, list) or not all(
            isinstance(name, str) and name in sensitive for name in stated
        ):
            raise BundleError(
                f"The plan of {self.where} has 'resampled', which must list sensitive columns."
            )
        self._resampled = tuple(stated)
