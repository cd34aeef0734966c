"""The signature file of a release: it has room for a key and a signature, and for nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import BundleError
from sfumato.release.manifest import SIGNATURE

MOST_BYTES = 1024
KEY_BYTES, SIGNATURE_BYTES = 32, 64  # RFC 8032


@dataclass(frozen=True)
class SignatureFile:
    """What a signature file says: that the holder of a key made this signature."""

    public_key: bytes
    signature: bytes

    def to_text(self) -> str:
        """The only spelling that is read: another could carry a message to somebody."""
        parts = {"public_key": self.public_key, "signature": self.signature}
        coded = {name: base64.b64encode(part).decode() for name, part in parts.items()}
        return json.dumps({"algorithm": "ed25519", **coded}, indent=2) + "\n"

    @property
    def fingerprint(self) -> str:
        return key_fingerprint(self.public_key)


def key_fingerprint(public_key: bytes) -> str:
    """A name for a key, short enough to compare, written as OpenSSH writes it.

    >>> key_fingerprint(bytes(32))
    'SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU'
    """
    digest = base64.b64encode(hashlib.sha256(public_key).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"


def write_signature(folder: Path, signature: SignatureFile) -> None:
    """Put a signature into a release folder, where there is none."""
    with (folder / SIGNATURE).open("x", encoding="ascii") as file:
        file.write(signature.to_text())


def read_signature(folder: Path, where: str) -> SignatureFile:
    """The signature of a release, which nobody has compared with anything yet."""
    path = folder / SIGNATURE
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            raise ValueError
        text = path.read_text("ascii")
        described = json.loads(text)
        found = SignatureFile(
            *(base64.b64decode(described[name]) for name in ("public_key", "signature"))
        )
        sizes = len(found.public_key), len(found.signature)
        if sizes != (KEY_BYTES, SIGNATURE_BYTES) or text != found.to_text():
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise BundleError(f"{SIGNATURE} of {where} is not a signature of a release.") from None
    return found
