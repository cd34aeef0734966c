"""A DuckDB for passing counts, whose spilled data never lie where somebody may look.

By itself DuckDB spills into `.tmp` of the current folder and leaves it there when it is killed.
Raw values must not stay behind in a place that the steward does not watch.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "512MB"


def scratch_database(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory database under a memory limit that spills into a private folder.

    The folder, readable by its owner alone, goes away with the connection.
    """
    import duckdb

    folder = tempfile.mkdtemp(prefix="sfumato-")
    connection = duckdb.connect(
        config={
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": folder,
            **({} if threads is None else {"threads": threads}),
        }
    )
    weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return connection
