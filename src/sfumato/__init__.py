"""sfumato publishes a table of people: totals stay sharp, single lines vanish.

    table   = sf.read("patients.parquet", quasi=["age", "sex", "zip"], sensitive="disease")
    release = sf.publish(table, sf.RhoPrivacy("1/13", "1/6"), to="release/")
    answer  = sf.open("release/").sql("SELECT COUNT(*) FROM release WHERE disease = 'flu'")
    verdict = sf.audit(table, "release/")

The public names stand in `__init__.pyi`. They load on first use, so that `import sfumato` costs
next to nothing.
"""

import re
from importlib import import_module
from typing import Any

from sfumato.version import __version__ as __version__

_LINE = re.compile(r"^from (\S+) import \S+ as (\S+)$", re.MULTILINE)
with open(f"{__file__}i", encoding="utf-8") as _listed:  # noqa: PTH123 - pathlib loads slowly
    _PLACES = {name: room for room, name in _LINE.findall(_listed.read())}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({"__version__", *_PLACES})
