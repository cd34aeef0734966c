"""A release that can be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.queries.answer import Answer
from sfumato.release import Release

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from sfumato.queries.crosstab import Crosstab


class OpenedRelease(Release):
    """A release folder, validated, that answers SQL."""

    def __init__(self, path: str | Path, *, verify: bool = True) -> None:
        super().__init__(path, verify=verify)

    def sql(
        self,
        sql: str,
        *,
        confidence: float = 0.95,
        estimator: str | None = None,
        threads: int | None = None,
    ) -> Answer:
        """Answer `sql` from this release alone: see `sfumato.queries.sources.Request`."""
        from sfumato.queries import ask

        return ask(
            self,
            sql,
            confidence=confidence,
            estimator=estimator,
            threads=threads,
        )

    def to_pandas(self, sample: int | None = None, *, seed: int | None = None) -> pandas.DataFrame:
        """The published rows as they are; of `sample` rows drawn at random, since files are sorted.

        What a column means stands in `frame.attrs`. Sensitive values may be drawn, decoys, or stand
        in a bucket's list: for estimates ask by `sql`, for likely values by `complete`.
        """
        import numpy as np

        from sfumato.draws import Draws

        if sample is not None and sample < 1:
            raise UsageError(f"'sample' must be a whole number from 1 up. Got {sample} instead.")
        table = self.table()
        if sample is not None and sample < len(table):
            draws = Draws.system() if seed is None else Draws.from_seed(seed)
            table = table.take(np.sort(draws.order("sample", len(table))[:sample]))
        try:
            frame: pandas.DataFrame = table.to_pandas()
        except ImportError:
            raise UsageError("to_pandas() needs the package pandas: pip install pandas.") from None
        frame.attrs = {name: self._meaning(name) for name in frame.columns}
        return frame

    def _meaning(self, name: str) -> str:
        for column in self.columns:
            if name in self.shown_as(column):
                if column.role == "quasi":
                    end = "" if name == column.name else f", an end of {column.name}"
                    return f"quasi-identifier{end}"
                return self.means(column)
        return "how the record was published: see the release format"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return open_release, (str(self.path),)

    def __dir__(self) -> list[str]:
        """What an analyst needs; the rest is for the program."""
        asked = ("sql", "crosstab", "complete", "to_pandas")
        return [*asked, "kind", "manifest", "path", "rows", "columns", "quasi", "sensitive"]

    def crosstab(
        self,
        rows: str,
        columns: str,
        *,
        where: str | None = None,
        confidence: float = 0.95,
        estimator: str | None = None,
        threads: int | None = None,
    ) -> Crosstab:
        """Two columns against each other: counts and shares."""
        from sfumato.queries.crosstab import crosstab
        from sfumato.queries.sources import Request

        request = Request(confidence, estimator=estimator, threads=threads)
        return crosstab(self, rows, columns, where, request)

    def complete(
        self,
        copies: int = 5,
        *,
        to: str | Path | None = None,
        seed: int | None = None,
        threads: int | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[Path] | list[pa.Table]:
        """Completed tables: every record with a likely sensitive value, drawn anew by copy.

        With `to`, a folder that must not exist, they are Parquet files and their paths come back;
        without it the tables do. `seed` repeats the draws; they hide nothing, so that is safe.
        """
        from sfumato.draws import Draws
        from sfumato.queries.complete import complete_in_memory, complete_to, completion_of

        draws = Draws.system() if seed is None else Draws.from_seed(seed)
        report_progress = progress or (lambda stage, done, total: None)
        completion = completion_of(self, copies, draws, threads, report_progress)
        if to is None:
            return complete_in_memory(completion)
        return complete_to(completion, Path(to))


def open_release(path: str | Path, *, verify: bool = True) -> OpenedRelease:
    """Open a release folder; `verify=False` skips hashes and values, for a folder just checked.

    >>> import tempfile, pyarrow as pa
    >>> from sfumato.engines.publishing import publish
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> made = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                to=tempfile.mkdtemp() + "/release")
    >>> open_release(made.release).sql("SELECT COUNT(*) FROM release WHERE age > 35").value
    3.0
    """
    return OpenedRelease(path, verify=verify)
