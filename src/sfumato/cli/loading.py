"""What a short command does not wait for: a third of its time was libraries that nothing uses."""

from __future__ import annotations

import sys
from typing import Any


class _NoPandas:
    """Says that there is no pandas, to whoever looks for it now."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def load_little() -> None:
    """PyArrow looks for pandas once, when it makes its first array, and SciPy copies every name of
    NumPy, its Fortran compiler among them. Both can be imported as ever afterwards."""
    import numpy

    vars(numpy).setdefault("f2py", None)
    if "pandas" not in sys.modules:
        import pyarrow

        sys.meta_path.insert(0, _NoPandas)
        try:
            pyarrow.array([None])
        finally:
            sys.meta_path.remove(_NoPandas)
