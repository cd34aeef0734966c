"""Private files stand at their place whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sfumato.errors import DataError
from sfumato.private import private_file


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(DataError, match=r"Cannot write the key to .*: No space left on device\.$"),
        private_file(tmp_path / "key", "key") as file,
    ):
        file.write(b"5a01")
    assert not list(tmp_path.iterdir())


def test_a_killed_run_blocks_nobody(tmp_path: Path) -> None:
    """It leaves a hidden file, which the next run takes away; what stands there is kept."""
    (tmp_path / ".key.partial").write_bytes(b"half")
    with private_file(tmp_path / "key", "key") as file:
        file.write(b"5a01")
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [
        ("key", 0o600)
    ]
    with pytest.raises(DataError, match="a key is never overwritten"):
        private_file(tmp_path / "key", "key").__enter__()
    assert (tmp_path / "key").read_bytes() == b"5a01"
