"""serve: the steward's page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sfumato.cli import stopping
from sfumato.cli.options import QUESTION, Flag, command
from sfumato.errors import UsageError
from sfumato.limits import memory_of_machine, size


@command(
    Flag(
        "folder", Path, "Tables to choose from; or a release, to explore by clicking.",
        argument=True,
    ),
    Flag("data", list[Path], "A further folder of tables. Repeatable."),
    Flag("port", int, "The port; 0 takes a free one.", 8734),
    Flag("host", str, "The address; this machine alone by default.", "127.0.0.1"),
    Flag("i_understand", bool, "That a --host beyond this machine shows all to it.", False),
    Flag("state", Path, "Folder for jobs, releases and uploads; private to you."),
    Flag("upload_limit", str, "The largest file to upload.", "2GB"),
    Flag("memory_limit", str, "Memory per job; half of the machine's by default."),
    Flag("timeout", float, "Seconds that a question may take.", QUESTION, least=1),
    Flag("jobs", int, "Jobs that run at once.", 2, least=1),
    Flag("no_browser", bool, "Do not open a browser.", False),
)  # fmt: skip
def serve(
    folder: Path | None,
    data: list[Path] | None,
    port: int,
    host: str,
    i_understand: bool,
    state: Path | None,
    upload_limit: str,
    memory_limit: str | None,
    timeout: float,
    jobs: int,
    no_browser: bool,
) -> None:
    """Open the steward's page, or explore a release that somebody gave you.

    The steward chooses a table and a promise, publishes, audits, asks. With a release the page
    shows its columns and its promise, and builds questions to it by clicking.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The page needs {' and '.join(missing)}. Install them with: pip install 'sfumato[web]'"
        )
    from sfumato.web.api import Settings
    from sfumato.web.server import check_host, listen
    from sfumato.web.server import serve as run

    stopping.leave()  # the server has handlers of its own
    memory = size(memory_limit, "--memory-limit") if memory_limit else memory_of_machine() // 2
    from sfumato.release import Release
    from sfumato.release.manifest import NAME

    release, tables = None, list(data or ())
    if folder is not None and (folder / NAME).is_file():
        release = Release(folder).path.resolve()  # refused here, in one sentence, where it is none
    elif folder is not None:
        tables.insert(0, folder)
    settings = Settings(
        release=release,
        state=state or usual_state(),
        data=tuple(tables),
        upload_limit=size(upload_limit, "--upload-limit"),
        memory_limit=memory,
        timeout=timeout,
        jobs=jobs,
    )
    sock = listen(check_host(host, i_understand), port)

    def ready(address: str) -> None:
        print(f"Open {address}", flush=True)
        print("The address works once. Stop the server with Ctrl+C.", flush=True)
        if not no_browser:
            open_browser(address, settings.state)

    try:
        run(settings, sock, ready)
    finally:
        sock.close()


def usual_state() -> Path:
    """Where a server keeps its state unless told otherwise."""
    import os

    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "sfumato"


def open_browser(address: str, state: Path) -> None:
    """Open the page without writing the token where others look: in a command line.

    A file that only the steward can read leads to the address.
    """
    import contextlib
    import html
    import os
    import threading
    import webbrowser

    path = state / "open.html"
    with contextlib.suppress(OSError, webbrowser.Error):
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(
                "<!doctype html><meta charset=utf-8><title>sfumato</title>"
                f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">'
            )
        # some browsers return only when they are closed
        opened = threading.Thread(
            target=webbrowser.open, args=(path.resolve().as_uri(),), daemon=True
        )
        opened.start()
