"""`report`: the steward's evidence about a release, as a page and as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import UsageError
from sfumato.evidence.places import report_folder
from sfumato.evidence.report.evidence import Evidence, collect
from sfumato.evidence.report.pages import report_page
from sfumato.pages import write_whole
from sfumato.release import FileEntry, Release
from sfumato.release.manifest import NAME
from sfumato.results import Result
from sfumato.version import __version__

LONGEST = 200  # letters of a name


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """A report on disk: `page` is the HTML file, `data` the JSON file beside it."""

    page: Path
    data: Path
    evidence: Evidence

    @property
    def holds(self) -> bool | None:
        """Whether the audit found the promise kept; None where it could not look at everything."""
        return self.evidence.holds

    def __str__(self) -> str:
        audited = self.evidence.headline or "Not audited: no table was given."
        lines = [audited, *self.evidence.reasons, f"The report is {self.page}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {"page": str(self.page), "data": str(self.data), **self.evidence.to_json()}


def write_report(
    release: Release | str | Path,
    *,
    table: Any | None = None,
    out: str | Path,
    receipt: str | Path | None = None,
    attacks: str | Sequence[str] = "all",
    targets: int | None = None,
    questions: int = 1000,
    seed: int = 0,
    table_name: str | None = None,
    release_name: str | None = None,
    author: str | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Write the evidence about a release to `out`: `report.html` and `report.json`.

    Without `table` it is what the release alone can tell. With it (a `Table`, or anything that
    `sfumato.read` takes; the roles come from the manifest) the release is audited, attacked and
    asked, and the figures are coarse enough to tell nothing that the release hides. `receipt` is
    what `publish` kept to repeat its draws, where there is one. At most `targets` people are
    attacked; `seed` decides whom, and which questions are asked. `table_name`, `release_name` and
    `author` are what the report calls them; the raw file's own name is told to nobody.

    >>> import tempfile, pyarrow as pa
    >>> from sfumato.engines.publishing import publish
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> folder = tempfile.mkdtemp()
    >>> _ = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...             to=folder + "/release")
    >>> write_report(folder + "/release", out=folder + "/report").page.name
    'report.html'
    """
    opened = release if isinstance(release, Release) else Release(release)
    about = _about(opened, {"table": table_name, "release": release_name, "author": author})
    with report_folder(out, beside=opened.path) as folder:
        evidence = collect(
            opened,
            table,
            about,
            receipt=receipt,
            attacks=attacks,
            targets=targets,
            questions=questions,
            seed=seed,
            progress=progress,
        )
        report = Report(folder / "report.html", folder / "report.json", evidence)
        text = json.dumps(evidence.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(report.data, text + "\n")
        write_whole(report.page, report_page(evidence))
    return report


def _about(release: Release, names: dict[str, str | None]) -> dict[str, str]:
    """Which report this is: the raw file's own name is told to nobody."""
    for name in filter(None, names.values()):
        if len(name) > LONGEST or not name.isprintable():
            raise UsageError(f"A name in a report is one line of at most {LONGEST} letters.")
    return {
        "release": release.path.resolve().name,
        **{what: name for what, name in names.items() if name},
        "date of this report": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "made by": f"sfumato {__version__}",
        "SHA-256 of its manifest": FileEntry.of(release.path / NAME).sha256,
    }


report = write_report  # its public name

__all__ = ["Report", "report", "write_report"]
