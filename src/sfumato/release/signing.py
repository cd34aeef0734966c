"""Signatures: whoever has the steward's public key can tell that a release is the steward's.

The manifest names the SHA-256 of every file, so a signature of the manifest covers the whole
folder. The signature is Ed25519 (RFC 8032), which leaves its maker nothing to choose: no bit can
be hidden in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BundleError, DataError
from sfumato.private import create_private, outside_release, require_private
from sfumato.release.manifest import NAME, SIGNATURE
from sfumato.release.reader import Release
from sfumato.release.signatures import (
    SignatureFile,
    key_fingerprint,
    read_signature,
    write_signature,
)
from sfumato.shown import Shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PURPOSE = b"sfumato release 1\n"  # so that no signature made for something else can stand here
PASSPHRASE = "SFUMATO_SIGNING_PASSPHRASE"
MOST_BYTES = 1024  # a larger file holds no Ed25519 key


@dataclass(frozen=True, repr=False)
class Signature(Shown):
    """A signature that was made or found good: of which release, by which key."""

    release: Path
    fingerprint: str
    rows: int
    files: int

    def __str__(self) -> str:
        return (
            f"{self.release} is signed by the key {self.fingerprint}: {self.files} "
            f"{'file' if self.files == 1 else 'files'} with {self.rows:,} rows, as they were "
            "when it was signed."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "release": str(self.release),
            "signed": True,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "files": self.files,
        }


class Signer:
    """A private key, read once and before any work is done."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @staticmethod
    def of(path: str | Path) -> Signer:
        """The key in a PEM file that nobody else may read; a passphrase is in the environment."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        place = Path(path)
        text = _read(place, "signing key")
        require_private(place, "the signing key", "sign in your name")
        said = os.environ.get(PASSPHRASE)
        try:
            key = load_pem_private_key(text, said.encode() if said else None)
        except TypeError:  # a passphrase for a key without one, or the other way round
            raise DataError(
                f"The signing key {str(place)!r} "
                + ("has no passphrase: unset " if said else "has a passphrase: put it into ")
                + f"{PASSPHRASE}."
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            raise _no_key(place, "private") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(place, "private")
        return Signer(key)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self._key.public_key())

    def sign(self, folder: Path) -> None:
        """Write the signature of the manifest into a folder."""
        made = self._key.sign(_message(folder))
        write_signature(folder, SignatureFile(self._key.public_key().public_bytes_raw(), made))


def release_signer(key: str | Path, release: Path) -> Callable[[Path], None]:
    """What signs the release to come with the key in a file, which must not lie in it."""
    outside_release(Path(key), release, "signing key")
    return Signer.of(key).sign


def sign(release: str | Path, key: str | Path) -> Signature:
    """Sign a release with the private key in the file `key`; nothing that is damaged is signed.

    >>> import tempfile, pyarrow as pa, sfumato as sf
    >>> folder = Path(tempfile.mkdtemp())
    >>> public, fingerprint = make_keys(folder / "key")
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> done = sf.publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                   to=folder / "release")
    >>> sf.sign(folder / "release", folder / "key").fingerprint == fingerprint
    True
    """
    signer, opened = Signer.of(key), Release(release)
    if (opened.path / SIGNATURE).exists():
        raise BundleError(
            f"{opened.where} is signed already. To sign it anew, remove its {SIGNATURE} first."
        )
    signer.sign(opened.path)
    return _told(opened, signer.fingerprint)


def verify(release: str | Path, key: str | Path) -> Signature:
    """Check that whoever has the private half of `key` signed this release as it stands.

    Hashes of all files, and every value against the domain that the manifest states, are checked
    as whenever a release is opened. `BundleError` where anything differs.

    >>> import tempfile, pyarrow as pa, sfumato as sf
    >>> folder = Path(tempfile.mkdtemp())
    >>> public, _ = make_keys(folder / "key")
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> done = sf.publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                   to=folder / "release", sign=folder / "key")
    >>> verify(folder / "release", public).files
    1
    """
    public = read_public_key(key)
    opened = Release(release)
    if not (opened.path / SIGNATURE).exists():
        raise BundleError(f"{opened.where} is not signed: it has no {SIGNATURE}.")
    found = read_signature(opened.path, opened.where)
    if found.public_key != public.public_bytes_raw():
        raise BundleError(
            f"{opened.where} is signed by another key. Its signature names {found.fingerprint}; "
            f"the key {str(key)!r} is {fingerprint(public)}."
        )
    if not _fits(public, found.signature, _message(opened.path)):
        raise BundleError(
            f"The signature of {opened.where} does not fit its manifest: the release was changed "
            "after it was signed. Fetch it again, and ask its steward."
        )
    return _told(opened, fingerprint(public))


def make_keys(path: Path) -> tuple[Path, str]:
    """Write a new private key to `path`, its public half beside it; that place, the fingerprint."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    beside = path.with_name(f"{path.name}.pub")
    if beside.exists():
        raise DataError(f"{str(beside)!r} exists already; a key is never overwritten.")
    key, said = Ed25519PrivateKey.generate(), os.environ.get(PASSPHRASE)
    locked = form.BestAvailableEncryption(said.encode()) if said else form.NoEncryption()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, locked)
    with os.fdopen(create_private(path, "key"), "wb") as opened:
        opened.write(private)
    public = key.public_key()
    beside.write_bytes(
        public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    return beside, fingerprint(public)


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """The public key in a PEM file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    place = Path(path)
    try:
        key = load_pem_public_key(_read(place, "public key"))
    except (ValueError, UnsupportedAlgorithm):
        raise _no_key(place, "public") from None
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key(place, "public")
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """What two people compare by telephone."""
    return key_fingerprint(key.public_bytes_raw())


def _told(opened: Release, by: str) -> Signature:
    return Signature(opened.path, by, opened.rows, len(opened.manifest.files))


def _message(folder: Path) -> bytes:
    return PURPOSE + hashlib.sha256((folder / NAME).read_bytes()).digest()


def _fits(public: Ed25519PublicKey, made: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(made, message)
    except InvalidSignature:
        return False
    return True


def _read(place: Path, what: str) -> bytes:
    try:
        if place.stat().st_size > MOST_BYTES:
            return b""
        return place.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read the {what} {str(place)!r}: {error.strerror}.") from None


def _no_key(place: Path, half: str) -> DataError:
    made = "" if half == "private" else ".pub"
    return DataError(
        f"{str(place)!r} does not hold the {half} half of an Ed25519 key in PEM form, or its "
        f"passphrase is another. 'sfumato keygen --signing KEY' writes KEY{made}."
    )
