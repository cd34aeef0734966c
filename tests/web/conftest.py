"""A server in this process for most tests, and one as a process of its own for the rest."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from sfumato.web.api import Settings
from sfumato.web.app import build
from sfumato.web.server import Server, listen, names_of
from sfumato.web.sessions import Sessions
from sfumato.web.state import StateFolder

ROLES = {"age": "quasi", "sex": "quasi", "region": "quasi", "disease": "sensitive"}


def some_people(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    names = np.array(["angina", "asthma", "cancer", "flu", "gastritis", "ulcer"])
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows), pa.int64()),
            "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, rows)]),
            "region": pa.array(np.array(["north", "south", "west"])[rng.integers(0, 3, rows)]),
            "disease": pa.array(names[rng.choice(6, rows, p=(0.3, 0.2, 0.2, 0.1, 0.1, 0.1))]),
        }
    )


@dataclass
class Site:
    """A server and a browser that has used the token."""

    client: Any
    data: Path
    state: Path
    base: str
    sessions: Any = None
    strangers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def port(self) -> str:
        return self.base.rpartition(":")[2]

    @property
    def own(self) -> dict[str, str]:
        """What the page's own requests carry."""
        return {"X-Sfumato": "1", "Origin": self.base}

    @property
    def secret(self) -> str:
        """The session's."""
        return str(self.client.headers["X-Sfumato-Session"])

    def enter(self, token: str) -> httpx.Response:
        """Use a token, as the page does."""
        answer = self.client.post("/api/session", json={"token": token}, headers=self.own)
        if answer.status_code == 200:
            self.client.headers["X-Sfumato-Session"] = answer.json()["session"]
        return answer

    def stranger(self, **headers: str) -> httpx.Client:
        """A client of the same server that has no session."""
        client = httpx.Client(base_url=self.base, headers=headers, timeout=60)
        self.strangers.enter_context(client)
        return client

    def post(self, path: str, /, **body: Any) -> Any:
        return self.client.post(path, json=body)

    def raw(self, sent: bytes) -> bytes:
        """What the server says to these bytes until it hangs up."""
        said = b""
        with (
            socket.create_connection(("127.0.0.1", int(self.port)), timeout=30) as line,
            contextlib.suppress(ConnectionResetError),
        ):
            line.sendall(sent)
            while piece := line.recv(4096):
                said += piece
        return said

    def request(self, line: str, length: int) -> bytes:
        """The head of a request that states the length of its body."""
        headers = self.own | {"Host": f"127.0.0.1:{self.port}", "X-Sfumato-Session": self.secret}
        headers |= {"Content-Length": str(length)}
        lines = [f"{line} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def table(self, path: str) -> dict[str, Any]:
        answer = self.post("/api/tables", source={"root": "0", "path": path})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def profile(self, path: str, roles: dict[str, str] | None = None) -> str:
        return str(self.counted(self.table(path)["table"], roles or ROLES)["profile"])

    def counted(self, table: str, roles: dict[str, str]) -> dict[str, Any]:
        """The profile of a table whose columns have roles."""
        job = self.wait(self.start(kind="counts", table=table, roles=roles))
        assert job["state"] == "done", job["error"]
        found: dict[str, Any] = self.client.get(f"/api/profiles/{job['summary']['profile']}").json()
        return found

    def start(self, **asked: Any) -> dict[str, Any]:
        answer = self.post("/api/jobs", **asked)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def job(self, identifier: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/jobs/{identifier}").json()
        return found

    def wait(
        self, job: dict[str, Any], until: Callable[[dict[str, Any]], bool] | None = None
    ) -> Any:
        """The job once it has finished, or once `until` says so."""
        done = until or (lambda found: found["state"] in ("done", "failed", "cancelled"))
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = self.job(job["id"])
            if done(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"job {found} takes too long")

    def published(self, path: str = "people.parquet") -> dict[str, Any]:
        profile = self.profile(path)
        job = self.wait(self.start(kind="publish", profile=profile, guarantee="l-diversity(2)"))
        assert job["state"] == "done", job
        return dict(job)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the server may choose from, and one beside it that it may not."""
    folder = tmp_path_factory.mktemp("web") / "data"
    (folder / "more").mkdir(parents=True)
    pq.write_table(some_people(2000), folder / "people.parquet")
    pq.write_table(some_people(500), folder / "more" / "others.parquet")
    secret = folder.parent / "secret"
    secret.mkdir()
    pq.write_table(some_people(50), secret / "secret.parquet")
    (folder / "out.parquet").symlink_to(secret / "secret.parquet")
    (folder / "outside").symlink_to(secret)
    (folder / "inside.parquet").symlink_to(folder / "more" / "others.parquet")
    (folder / ".hidden.parquet").symlink_to(folder / "people.parquet")
    pq.write_table(some_people(50), folder / "a*b.parquet")
    (folder / "notes.docx").write_text("no table")
    (folder / "broken.parquet").write_text("this is no Parquet file")
    return folder


@contextlib.contextmanager
def opened(data: Path, folder: Path, timeout: float = 120.0) -> Iterator[Site]:
    """A server in a thread of this process."""
    settings = Settings(
        folder, [data], upload_limit=1_000_000, memory_limit=2 << 30, timeout=timeout
    )
    state, sock, ready = StateFolder(settings.state), listen("127.0.0.1", 0), threading.Event()
    names = names_of(*sock.getsockname())
    sessions = Sessions()
    server = Server(build(settings, sessions, state, names), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert ready.wait(30)
        base = f"http://{names[0]}"
        with httpx.Client(base_url=base, timeout=120) as client:
            site = Site(client, data, state.path, base, sessions)
            with site.strangers:
                yield site
    finally:
        server.should_exit = True
        thread.join(20)
        sock.close()
        state.close()


@pytest.fixture(scope="session")
def site(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose token has been used by its client."""
    with opened(data, tmp_path_factory.mktemp("state") / "sfumato") as site:
        assert site.enter(site.sessions.token).status_code == 200
        site.client.headers.update(site.own)
        yield site


@pytest.fixture
def locked(data: Path, tmp_path: Path) -> Iterator[Site]:
    """A server whose token nobody has used yet."""
    with opened(data, tmp_path / "locked") as site:
        yield site


@pytest.fixture(scope="session")
def release(site: Site) -> dict[str, Any]:
    """A finished publish job."""
    return site.published()


@dataclass
class Program(Site):
    """`sfumato serve` as a process of its own."""

    process: Any = None

    def workers(self) -> list[int]:
        """The processes that the server started."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.process.pid:
                    found.append(int(folder.name))
        return found

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process runs; one that only waits to be noticed does not."""

    def running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return running


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start `sfumato serve`, and use the token that it prints."""
    started: list[Program] = []

    def start(data: Path, *flags: str, port: int = 0) -> Program:
        state = tmp_path / "state"
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from sfumato.cli import main; main()",
                "serve",
                "--no-browser",
                "--port",
                str(port),
                "--data",
                str(data),
                "--state",
                str(state),
                *flags,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"http://\S+", line)
        assert match, line + process.stdout.read()
        base, _, token = match[0].partition("/#token=")
        client = httpx.Client(base_url=base, headers={"X-Sfumato": "1", "Origin": base}, timeout=60)
        found = Program(client, data, state, base, process=process)
        assert found.enter(token).status_code == 200
        started.append(found)
        return found

    yield start
    for each in started:
        each.client.close()
        each.stop()
