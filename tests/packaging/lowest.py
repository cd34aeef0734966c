"""Prints constraints: the lowest version of every direct dependency that pyproject.toml allows."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def lowest(project: dict[str, object], extras: list[str]) -> Iterator[str]:
    """`numpy==2.0` for `numpy>=2.0,<3`.

    >>> list(lowest({"dependencies": ["numpy>=2.0,<3"], "optional-dependencies": {}}, []))
    ['numpy==2.0']
    """
    optional = project["optional-dependencies"]
    assert isinstance(optional, dict)
    needed = [project["dependencies"], *(optional[extra] for extra in extras)]
    for listed in needed:
        for said in listed:
            found = re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", said)
            if found is None:
                raise SystemExit(f"{said!r} states no lowest version.")
            yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    described = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    sys.stdout.write("\n".join(lowest(described, sys.argv[1:])) + "\n")
