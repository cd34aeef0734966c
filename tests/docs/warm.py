"""`sfumato` for the documents' shells, without the second that each start takes.

One process loads the program; for each command it forks, and the child takes over the caller's
arguments, folder, environment and open files and runs the program to its end. What starts it is a
script named `sfumato`, first on the PATH. Everything after the imports is as it is for everybody.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import sfumato

CALLER = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({place!r})
    told = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(line, [len(told).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(told)
    code = line.recv(1)
os._exit(code[0] if code else 70)
"""
LIBRARIES = (
    "scipy.stats",
    "pyarrow.parquet",
    "jsonschema",
    "sqlglot.optimizer",
    "pandas",
    "pydantic",
)
ELSEWHERE = ("sfumato.web", "sfumato.engines.spark")  # load servers, which documents seldom start


@contextmanager
def warm_program(folder: Path) -> Iterator[Path]:
    """A folder with a `sfumato` that starts at once."""
    place = str(folder / "line")
    caller = folder / "sfumato"
    caller.write_text(CALLER.format(python=sys.executable, place=place), "utf-8")
    caller.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, place], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def serve(place: str) -> None:
    """Answer callers until this process is ended; returns in a child that is to run the program."""
    rooms = [room.name for room in walk_packages(sfumato.__path__, "sfumato.")]
    for name in (*rooms, *LIBRARIES):
        if not name.startswith(ELSEWHERE):
            import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        os.write(1, b"ready\n")
        while True:
            line, _ = door.accept()
            head, files, _, _ = socket.recv_fds(line, 4, 3)
            told = line.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
            child = os.fork()
            if child == 0:
                become(told, files)
                return
            for file in files:
                os.close(file)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with line:
                line.sendall(bytes([code if code >= 0 else 128 - code]))


def become(told: bytes, files: list[int]) -> None:
    """Take over what the caller has."""
    arguments, folder, environment = json.loads(told)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments


if __name__ == "__main__":
    serve(sys.argv[1])
    from sfumato.cli import main

    main()
