"""Signed releases: what the steward signed is recognized, and nothing else is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec

import sfumato as sf
from sfumato.errors import BundleError, DataError, UsageError
from sfumato.release.signing import PASSPHRASE, Signer, make_keys
from tests.conftest import make_people

ROLES = {"quasi": ["age", "sex"], "sensitive": "disease", "drop": ["region"]}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two keys, and a release that the first signed."""
    folder = tmp_path_factory.mktemp("signing")
    for name in ("steward", "stranger"):
        make_keys(folder / name)
    sf.publish(
        make_people(300), "l-diversity(3)", to=folder / "release", sign=folder / "steward", **ROLES
    )
    return folder


def copy(room: Path, to: Path) -> Path:
    shutil.copytree(room / "release", to / "copy")
    return to / "copy"


def test_what_the_steward_signed_is_recognized(room: Path) -> None:
    told = sf.verify(room / "release", room / "steward.pub")
    assert told.rows == 300
    assert told.files == 2
    assert told.fingerprint == Signer.of(room / "steward").fingerprint
    assert "2 files with 300 rows" in str(told)


def test_a_signed_release_is_asked_and_audited_like_any_other(room: Path) -> None:
    answer = sf.open(room / "release").sql("SELECT COUNT(*) FROM release")
    assert next(iter(answer.rows()[0].values())) == 300
    table = sf.read(make_people(300), **ROLES)
    assert sf.audit(table, room / "release").holds is True


def test_another_key_is_named(room: Path) -> None:
    with pytest.raises(BundleError, match="is signed by another key") as caught:
        sf.verify(room / "release", room / "stranger.pub")
    assert Signer.of(room / "steward").fingerprint in str(caught.value)


@pytest.mark.parametrize("name", ["records.parquet", "sensitive.parquet"])
def test_a_changed_file_is_noticed(room: Path, tmp_path: Path, name: str) -> None:
    release = copy(room, tmp_path)
    content = bytearray((release / name).read_bytes())
    content[len(content) // 3] ^= 1
    (release / name).write_bytes(content)
    with pytest.raises(BundleError, match="is not the file that was published"):
        sf.verify(release, room / "steward.pub")


def test_a_changed_manifest_is_noticed_even_where_it_is_valid(room: Path, tmp_path: Path) -> None:
    """One sentence of the promise, one blank: each leaves a release that opens."""
    for place, (before, after) in enumerate([("at most", "at least"), ("{\n", "{ \n")]):
        release = tmp_path / str(place)
        shutil.copytree(room / "release", release)
        text = (release / "manifest.json").read_text("utf-8")
        assert before in text
        (release / "manifest.json").write_text(text.replace(before, after, 1), "utf-8")
        sf.open(release)
        with pytest.raises(BundleError, match="was changed after it was signed"):
            sf.verify(release, room / "steward.pub")


def test_a_stranger_cannot_name_the_steward_s_key(room: Path, tmp_path: Path) -> None:
    """The stranger's signature under the steward's public key."""
    release = copy(room, tmp_path)
    own = json.loads((release / "manifest.sig").read_text())
    (release / "manifest.sig").unlink()
    sf.sign(release, room / "stranger")
    forged = json.loads((release / "manifest.sig").read_text())
    text = json.dumps({**forged, "public_key": own["public_key"]}, indent=2) + "\n"
    (release / "manifest.sig").write_text(text)
    with pytest.raises(BundleError, match="does not fit its manifest"):
        sf.verify(release, room / "steward.pub")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + " ",
        lambda text: text.replace("ed25519", "Ed25519"),
        lambda text: text.replace("{", '{"name": "Eva",'),
        lambda text: "[]",
        lambda text: "x" * 5000,
    ],
)
def test_nothing_can_be_hidden_in_a_signature_file(room: Path, tmp_path: Path, change: Any) -> None:
    release = copy(room, tmp_path)
    path = release / "manifest.sig"
    path.write_text(change(path.read_text()))
    with pytest.raises(BundleError, match="is not a signature of a release"):
        sf.open(release)


def test_signing_on_the_command_line(cli: Any, room: Path, tmp_path: Path) -> None:
    release = copy(room, tmp_path)
    (release / "manifest.sig").unlink()
    missing = cli("verify", release, "--key", room / "steward.pub")
    assert (missing.code, "is not signed" in missing.err) == (2, True)
    signed = cli("sign", release, "--key", room / "steward", "--json")
    assert signed.json["signed"] is True
    assert cli("verify", release, "--key", room / "steward.pub", "--json").json == signed.json
    assert "is signed already" in cli("sign", release, "--key", room / "steward").err
    # Ed25519 leaves nothing to choose: the same manifest has the same signature
    assert (release / "manifest.sig").read_bytes() == (
        room / "release" / "manifest.sig"
    ).read_bytes()


def test_keygen_and_publish_on_the_command_line(cli: Any, people_file: Path) -> None:
    key = people_file.with_name("key")
    made = cli("keygen", "--signing", key, "--json")
    assert made.json["fingerprint"].startswith("SHA256:")
    assert key.stat().st_mode & 0o777 == 0o600
    assert "never overwritten" in cli("keygen", "--signing", key).err
    to = people_file.with_name("release")
    flags = ("--quasi", "age,sex", "--drop", "region", "--sensitive", "disease", "--sign", key)
    done = cli("publish", people_file, *flags, "--guarantee", "l-diversity(3)", "--out", to)
    assert done.code == 0, done.err
    assert cli("verify", to, "--key", f"{key}.pub").code == 0


def test_bad_keys_are_one_sentence_before_any_work(room: Path, tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    for name, content in (("curve", pem), ("text", b"hello"), ("large", b"x" * 5000)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
        with pytest.raises(DataError, match="does not hold the private half"):
            sf.publish(
                make_people(50), "l-diversity(2)", to=tmp_path / "r", sign=tmp_path / name, **ROLES
            )
        assert not (tmp_path / "r").exists()
    with pytest.raises(DataError, match="does not hold the public half"):
        sf.verify(room / "release", room / "steward")
    with pytest.raises(DataError, match="No such file"):
        sf.sign(room / "release", tmp_path / "none")
    with pytest.raises(UsageError, match="would lie in the release"):
        sf.publish(
            make_people(50), "l-diversity(2)", to=tmp_path / "r", sign=tmp_path / "r" / "k", **ROLES
        )


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_keys(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    everywhere = all(folder.stat().st_mode & 0o011 for folder in tmp_path.resolve().parents)
    if not everywhere:
        pytest.skip("a folder above keeps others out already")
    with pytest.raises(DataError, match="sign in your name"):
        Signer.of(tmp_path / "key")


def test_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    make_keys(tmp_path / "key")
    assert Signer.of(tmp_path / "key").fingerprint
    monkeypatch.setenv(PASSPHRASE, "wrong")
    with pytest.raises(DataError, match="passphrase is another"):
        Signer.of(tmp_path / "key")
    monkeypatch.delenv(PASSPHRASE)
    with pytest.raises(DataError, match=f"put it into {PASSPHRASE}"):
        Signer.of(tmp_path / "key")


def test_keys_of_openssl_can_be_used(room: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    release, key = copy(room, tmp_path), tmp_path / "key"
    (release / "manifest.sig").unlink()
    for command in (
        f"openssl genpkey -algorithm ed25519 -out {key}",
        f"openssl pkey -in {key} -pubout -out {key}.pub",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    key.chmod(0o600)
    signed = sf.sign(release, key)
    assert sf.verify(release, f"{key}.pub") == signed
