"""Models kept between questions, outside the releases that they were fitted to.

A model follows from its release alone, so it is no secret; but what is read back must be what was
written: a file lies in a folder of the user's own, under the hash of the release's manifest, and is
refused unless everything in it has the expected shape. What is refused, or cannot be written, is
fitted anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.operators.links import Links
from sfumato.operators.model import KNOTS, Model
from sfumato.queries.quasi_codes import QuasiCode
from sfumato.release import Release
from sfumato.version import __version__

_OTHERS = 0o077


def store() -> Path:
    """The folder of the models: `$SFUMATO_CACHE`, or `sfumato` where caches are kept."""
    own = os.environ.get("SFUMATO_CACHE")
    if own:
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "sfumato"


def place_of(release: Release, column: str) -> Path:
    """Where the model of a release's sensitive column is kept."""
    digest = hashlib.sha256(f"{__version__}\0{column}\0".encode())
    digest.update((release.path / "manifest.json").read_bytes())
    return store() / f"{digest.hexdigest()}.npz"


def keep_model(place: Path, coded: Sequence[QuasiCode], model: Model) -> None:
    """Write a model whole, or not at all."""
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "pairs": model.pairs,
        "variances": model.variances,
        "bias": model.bias,
        "following": model.following,
        "shared": model.shared,
        "scalars": np.array([model.stiffness, model.leverage, model.share]),
    }
    for number, (code, coarse) in enumerate(zip(coded, model.coarse, strict=True)):
        arrays[f"coarse{number}"] = coarse
        if code.edges is not None:
            arrays[f"edges{number}"] = code.edges
        else:
            assert code.texts is not None
            arrays[f"texts{number}"] = code.texts
    for half, rule in enumerate(model.rules):
        arrays[f"start{half}"] = rule.start
        for number, table in enumerate(rule.tables):
            arrays[f"table{half}.{number}"] = table.astype(np.float32)
        if model.parts is not None:
            arrays[f"parts{half}"] = model.parts[half]
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=place.parent, suffix=".npz")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return  # a model that is not kept is fitted again


def kept_model(
    place: Path, columns: int, values: int, parts: int
) -> tuple[list[QuasiCode], Model] | None:
    """The model that is kept there, or None; `parts` is the number of sub-tables, 0 for none."""
    try:
        found = place.stat()
        if found.st_uid != os.getuid() or found.st_mode & _OTHERS:
            return None
        with np.load(place, allow_pickle=False) as arrays:
            return _read(arrays, columns, values, parts)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _read(
    arrays: np.lib.npyio.NpzFile, columns: int, values: int, parts: int
) -> tuple[list[QuasiCode], Model] | None:
    def numbers(name: str, *shape: int | None) -> npt.NDArray[np.float64]:
        found = arrays[name]
        fits = len(found.shape) == len(shape) and all(
            wanted in (None, given) for wanted, given in zip(shape, found.shape, strict=True)
        )
        if not fits or found.dtype.kind not in "fi" or not np.isfinite(found).all():
            raise ValueError(name)
        return np.asarray(found, np.float64)

    coded, coarse = [], []
    for number in range(columns):
        if f"edges{number}" in arrays:
            edges = numbers(f"edges{number}", None)
            coded.append(QuasiCode(edges, None))
            ascending = bool((np.diff(edges) > 0).all())
        else:
            texts = arrays[f"texts{number}"]
            ascending = texts.dtype.kind == "U" and texts.ndim == 1
            ascending = ascending and bool((texts[1:] > texts[:-1]).all())
            coded.append(QuasiCode(None, texts))
        if not ascending:
            raise ValueError(f"codes of column {number}")
        coarse.append(numbers(f"coarse{number}", coded[-1].size).astype(np.int64))
    pairs = numbers("pairs", None, 2).astype(np.int64)
    if any((each < 0).any() or (each >= len(each)).any() for each in coarse):
        raise ValueError("coarse")
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < columns:
        raise ValueError("pairs")
    sizes = [each.size for each in coded]
    sizes += [int((coarse[i].max() + 1) * (coarse[j].max() + 1)) for i, j in pairs.tolist()]
    rules = []
    for half in range(2):
        tables = [numbers(f"table{half}.{n}", size, values) for n, size in enumerate(sizes)]
        rules.append(Links("softmax", numbers(f"start{half}", values), tuple(tables)))
    shares = [numbers(f"parts{half}", parts, values) for half in range(2)] if parts else []
    known = [
        numbers("variances", values, values),
        numbers("bias", len(KNOTS)),
        numbers("following", len(KNOTS)),
        numbers("shared", len(KNOTS)),
        numbers("scalars", 3),
    ]
    if any((each < 0).any() for each in (*known, *shares)):
        raise ValueError("negative")
    variances, bias, following, shared, (stiffness, leverage, share) = known
    model = Model(
        (rules[0], rules[1]),
        tuple(coarse),
        pairs,
        (shares[0], shares[1]) if shares else None,
        variances,
        bias,
        float(stiffness),
        float(leverage),
        following,
        shared,
        float(share),
    )
    return coded, model
