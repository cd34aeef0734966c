"""A PostgreSQL server for the tests: on a free loopback port, stopped by its own process id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

USER, PASSWORD = "steward", "s3cret/pa@ss:w?rd%"
QUOTED = "s3cret%2Fpa%40ss%3Aw%3Frd%25"  # as it stands in an address


class PostgresServer:
    """A server of its own: its data in a private folder, its log beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self._as_user = _user_prefix(folder)
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def programs() -> Path | None:
        """Where the server's programs are, the newest first; None where there are none."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
        return found[0].parent if found else None

    def start(self) -> None:
        programs, data = self.programs(), self.folder / "data"
        assert programs is not None
        if not data.exists():
            secret = self.folder / "password"
            secret.write_text(PASSWORD + "\n")
            shutil.chown(secret, *_owner(self.folder))
            self._run(
                programs / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256",
                f"--pwfile={secret}", "--no-sync", "-E", "UTF8", "--locale=C",
            )  # fmt: skip
        settings = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
            "fsync": "off", "shared_buffers": "2MB", "autovacuum": "off",
        }  # fmt: skip
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user, str(programs / "postgres"), "-D", str(data), *given],
                stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        for _ in range(200):
            try:
                with self.connect():
                    return
            except Exception:
                time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    @property
    def pid(self) -> int:
        """The process id that the server wrote down itself."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self.pid, signal.SIGINT)  # a fast shutdown
            self._process.wait(30)

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}:{QUOTED}@127.0.0.1:{self.port}/{database}"

    def connect(self) -> Any:
        import adbc_driver_postgresql.dbapi as driver

        return driver.connect(self.address(), autocommit=True)

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def load(self, name: str, table: Any) -> None:
        """A table from Arrow."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")

    def _run(self, *command: object) -> None:
        done = subprocess.run(
            [*self._as_user, *map(str, command)], capture_output=True, text=True, cwd="/"
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _user_prefix(folder: Path) -> list[str]:
    """The server refuses to run as root: then it runs as nobody, who gets the folder."""
    if os.getuid():
        return []
    shutil.chown(folder, "nobody")
    return ["runuser", "-u", "nobody", "--"]


def _owner(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid


def start_server() -> tuple[PostgresServer, tempfile.TemporaryDirectory[str]]:
    """A started server and the folder that goes away after it."""
    # not under pytest's own folder, which others may not enter
    folder = tempfile.TemporaryDirectory(prefix="sfumato-postgres-", ignore_cleanup_errors=True)
    server = PostgresServer(Path(folder.name))
    server.start()
    return server, folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server that the tests share."""
    pytest.importorskip("adbc_driver_postgresql", reason="the extra [postgres] is not installed")
    if PostgresServer.programs() is None:
        pytest.skip("no PostgreSQL server is installed (tests/tools.sh)")
    if not os.getuid() and shutil.which("runuser") is None:
        pytest.skip("a PostgreSQL server cannot run as root, and there is no runuser")
    server, folder = start_server()
    try:
        yield server
    finally:
        server.stop()
        folder.cleanup()
