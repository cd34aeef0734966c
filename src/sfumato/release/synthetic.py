"""Releases of records that were drawn anew."""

from __future__ import annotations

from typing import ClassVar

from sfumato.errors import BundleError
from sfumato.release.manifest import SyntheticManifest
from sfumato.release.reader import Release


class SyntheticRelease(Release):
    """Quasi columns as they are; sensitive values drawn anew. A record counts as what it shows."""

    kind: ClassVar[str] = "synthetic"
    manifest: SyntheticManifest

    @property
    def resampled(self) -> tuple[str, ...]:
        """The columns whose values were drawn from their overall distribution."""
        return self.manifest.plan.resampled

    def _read_plan(self) -> None:
        if not set(self.resampled) <= {column.name for column in self.sensitive}:
            raise BundleError(
                f"The plan of {self.where} has 'resampled', which must list sensitive columns."
            )
