"""Places that cannot be written, keys, seeds and job files: message and exit code."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tables import first_problem

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")
PROMISE = ("--guarantee", "rho-privacy(0.3, 0.6)")


def run_program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def message_of(outcome: Any) -> str:
    assert "Traceback" not in outcome.err
    return first_problem(outcome.err)


def test_existing_output_folder(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    place = tmp_path / "release"
    place.mkdir()
    before = leftovers(tmp_path)
    outcome = cli("publish", people_file, *ROLES, *PROMISE, "--out", place)
    assert outcome.code == 2
    assert (
        message_of(outcome)
        == f"'{place}' exists already. Choose another place, or remove it first."
    )
    assert leftovers(tmp_path) == before


def test_dangling_link_at_the_place(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    place = tmp_path / "release"
    place.symlink_to(tmp_path / "elsewhere")
    outcome = cli("publish", people_file, *ROLES, *PROMISE, "--out", place)
    assert outcome.code == 2
    assert "exists already" in message_of(outcome)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_where_a_folder_should_be(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    before = leftovers(tmp_path)
    place = people_file / "release"
    outcome = cli("publish", people_file, *ROLES, *PROMISE, "--out", place)
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"Cannot write the release to '{place}': Not a directory. Nothing was left behind; free "
        "space or choose another place."
    )
    assert leftovers(tmp_path) == before


def test_unwritable_output(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    """A folder without the right to write; root has every right, so /proc stands for it then."""
    place = tmp_path / "locked" / "release"
    reason = "Permission denied"
    if os.geteuid() == 0:
        place, reason = Path("/proc/sfumato/release"), "No such file or directory"
    else:
        place.parent.mkdir(mode=0o500)
    outcome = cli("publish", people_file, *ROLES, *PROMISE, "--out", place)
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"Cannot write the release to '{place}': {reason}. Nothing was left behind; free space or "
        "choose another place."
    )
    assert not place.parent.exists() or leftovers(place.parent) == []


def test_disk_full(tmp_path: Path, leftovers: Any, people: Any) -> None:
    """A file may not grow beyond 40,000 bytes: writing fails midway, as on a full disk."""
    path = tmp_path / "people.parquet"
    data = people(60_000)
    data = data.append_column("number", pa.array(range(60_000)))
    pq.write_table(data, path)

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = run_program(
        "publish", path, "--quasi", "age,sex,region,number", "--sensitive", "disease", *PROMISE,
        "--out", tmp_path / "out" / "release", preexec_fn=small_files,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"sfumato: Cannot write the release to '{tmp_path}/out/release': ")
    assert last.endswith("Nothing was left behind; free space or choose another place.")
    assert "File too large" in last
    assert leftovers(tmp_path) == ["people.parquet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_disk_really_full(tmp_path: Path, leftovers: Any, people: Any, cli: Any) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        path = tmp_path / "people.parquet"
        data = people(60_000).append_column("number", pa.array(range(60_000)))
        pq.write_table(data, path)
        outcome = cli(
            "publish", path, "--quasi", "age,sex,region,number", "--sensitive", "disease",
            *PROMISE, "--out", disk / "release",
        )  # fmt: skip
        assert outcome.code == 2
        assert message_of(outcome) == (
            f"Cannot write the release to '{disk}/release': No space left on device. Nothing was "
            "left behind; free space or choose another place."
        )
        assert leftovers(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_seed_with_key_file(cli: Any, tmp_path: Path, leftovers: Any, people_file: Path) -> None:
    assert cli("keygen", tmp_path / "key").code == 0
    outcome = cli(
        "publish", people_file, *ROLES, *PROMISE,
        "--seed", 1, "--key-file", tmp_path / "key", "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2
    assert message_of(outcome) == "Give a seed or a key file, not both."
    assert leftovers(tmp_path) == ["key", "people.parquet"]


def test_key_file_without_key_column(
    cli: Any, tmp_path: Path, leftovers: Any, people_file: Path
) -> None:
    cli("keygen", tmp_path / "key")
    outcome = cli(
        "publish", people_file, *ROLES, *PROMISE,
        "--key-file", tmp_path / "key", "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2
    assert message_of(outcome) == (
        "A key file ties draws to people: name their key column with --key."
    )
    assert leftovers(tmp_path) == ["key", "people.parquet"]


@pytest.mark.parametrize("text", [None, "", "00ff", "zz" * 32, "é" * 64, "00" * 33])
def test_unusable_key_file(cli: Any, tmp_path: Path, text: str | None) -> None:
    people = tmp_path / "people.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "disease": ["a", "b", "c"]}), people)
    key = tmp_path / "key"
    if text is not None:
        key.write_text(text, "utf-8")
    outcome = cli(
        "publish", people, "--sensitive", "disease", "--key", "id", *PROMISE,
        "--key-file", key, "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"Cannot use the key file '{key}': expected one line of 64 hexadecimal digits. Make one "
        "with 'sfumato keygen FILE'."
    )


def test_keygen_never_overwrites(cli: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert cli("keygen", key).code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    text = key.read_text()
    outcome = cli("keygen", key)
    assert outcome.code == 2
    assert message_of(outcome) == f"'{key}' exists already; a key is never overwritten."
    assert key.read_text() == text
    assert "Cannot write the key" in message_of(cli("keygen", tmp_path / "no" / "key"))


def test_repeated_keys(cli: Any, tmp_path: Path, leftovers: Any) -> None:
    people = tmp_path / "people.parquet"
    data = pa.table({"id": [7, 8, 7, 7, 9], "disease": ["a", "b", "c", "d", "e"]})
    pq.write_table(data, people)
    flags = ("--sensitive", "disease", "--key", "id", *PROMISE, "--out", tmp_path / "release")
    outcome = cli("publish", people, *flags)
    assert outcome.code == 2
    assert message_of(outcome) == (
        f"The key column 'id' of {people} repeats in 2 rows, but the promises count one record per "
        "person. Say --person id instead of --key, and they hold for people with several rows."
    )
    assert leftovers(tmp_path) == ["people.parquet"]


def test_missing_key(cli: Any, tmp_path: Path) -> None:
    people = tmp_path / "people.parquet"
    pq.write_table(pa.table({"id": [1, None, 3], "disease": ["a", "b", "c"]}), people)
    outcome = cli(
        "publish", people, "--sensitive", "disease", "--key", "id", *PROMISE,
        "--out", tmp_path / "release",
    )  # fmt: skip
    assert outcome.code == 2
    assert message_of(outcome) == f"The key column 'id' of {people} is missing in 1 rows."


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--batch-rows", "0"), "'batch_rows' must be at least 1. Got 0 instead."),
    ],
)
def test_flags_that_make_no_sense(
    cli: Any, tmp_path: Path, people_file: Path, flags: tuple[str, str], message: str
) -> None:
    outcome = cli("publish", people_file, *ROLES, *PROMISE, *flags, "--out", tmp_path / "release")
    assert outcome.code == 2
    assert message_of(outcome) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "There is no job file '{job}'."),
        ("[publish\n", "Cannot read the job file '{job}': "),
        ('quasi = "age"\n', "The job file '{job}' has the key 'quasi' outside a table. Put it "
         "under [publish] or another command."),
        ('[publsh]\nquasi = "age"\n', "The job file '{job}' has a table [publsh], but there is no "
         "such command. Commands: "),
        ('[publish]\nguarante = "x"\n', "The job file '{job}' sets 'guarante' under [publish], "
         "which that command does not have. It has: "),
    ],
)  # fmt: skip
def test_bad_job_file(
    cli: Any, tmp_path: Path, people_file: Path, text: str | None, message: str
) -> None:
    job = tmp_path / "sfumato.toml"
    if text is not None:
        job.write_text(text, "utf-8")
    outcome = cli(
        "--job", job, "publish", people_file, *ROLES, *PROMISE, "--out", tmp_path / "release"
    )
    assert outcome.code == 2
    assert message_of(outcome).startswith(message.format(job=job))
    assert not (tmp_path / "release").exists()


def test_unknown_command_and_missing_flags(cli: Any, people_file: Path) -> None:
    assert cli("publsh").code == 2
    outcome = cli("publish", people_file)
    assert outcome.code == 2
    assert "--out" in outcome.err
