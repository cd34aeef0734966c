"""Programs of others, each in a Python of its own: they need other versions of what sfumato uses.

An environment variable names that Python. The table goes there as CSV and comes back as CSV.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sfumato.errors import DataError


@dataclass(frozen=True)
class Outside:
    """A script that makes `synthetic.csv` of the `raw.csv` in the folder that it is given first."""

    title: str
    variable: str  # of the environment: the Python
    package: str  # that this Python must have
    script: str
    seconds: int = 3600  # of the processor, before it is ended

    def available(self) -> bool:
        """Whether the environment names a Python that has the package."""
        python = os.environ.get(self.variable)
        if not python or not Path(python).exists():
            return False
        tried = [python, "-c", f"import {self.package}"]
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0

    @property
    def missing(self) -> str:
        """Why it was not run, where it is not there."""
        return f"{self.variable} names no Python with {self.package}"

    def make(self, table: pa.Table, *arguments: object) -> pa.Table:
        """What the script makes of a table: columns of the same types.

        They must survive a CSV file as text: small integers and texts do.
        """
        import pyarrow.csv as csv

        if not self.available():
            raise DataError(
                f"{self.title} needs {self.package} in a Python of its own: name it in "
                f"{self.variable}."
            )
        with tempfile.TemporaryDirectory() as folder:
            csv.write_csv(table, Path(folder) / "raw.csv")
            python = os.environ[self.variable]
            limit = f"({self.seconds}, {self.seconds + 5})"
            script = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, {limit})\n"
            ran = subprocess.run(
                [python, "-c", script + self.script, folder, *map(str, arguments)],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
            if ran.returncode == -signal.SIGXCPU:
                raise DataError(f"{self.package} gave no answer in {self.seconds:,} CPU seconds.")
            if ran.returncode:
                last = (ran.stderr.strip().splitlines() or ["no message"])[-1]
                raise DataError(f"{self.package} failed: {last}.")
            types = csv.ConvertOptions(column_types=table.schema)
            made = csv.read_csv(Path(folder) / "synthetic.csv", convert_options=types)
        return made.select(table.schema.names)
