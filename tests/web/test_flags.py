"""How a server may be started, and what it says where it may not."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import UsageError
from sfumato.web.server import check_host, names_of


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost", "evil.example", "", "127.0.0.1/8"])
def test_hosts_that_are_no_address(host: str) -> None:
    for understood in (False, True):
        with pytest.raises(UsageError):
            check_host(host, understood)


def test_beyond_this_machine_only_for_those_who_understand() -> None:
    with pytest.raises(UsageError, match="add i_understand="):
        check_host("192.0.2.7", understood=False)
    assert check_host("192.0.2.7", understood=True) == "192.0.2.7"
    assert check_host("::1", understood=False) == "::1"
    assert names_of("::1", 80) == ["[::1]:80"]
    assert names_of("192.0.2.7", 80) == ["192.0.2.7:80"]
    assert names_of("127.0.0.1", 80) == ["127.0.0.1:80", "localhost:80"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--host", "192.0.2.7"), "--i-understand"),
        (("--host", "0.0.0.0", "--i-understand"), "the one address"),
        (("--data", "/nowhere/at/all"), "is not a folder of tables"),
        (("/nowhere/at/all",), "is not a folder of tables"),
        (("--upload-limit", "much"), "500MB"),
        (("--memory-limit", "-1GB"), "500MB"),
        (("--port", "99999"), "Choose another --port"),
        (("--state", "/proc/nothing"), "--state"),
    ],
)
def test_flags_that_make_no_sense(
    cli: Any, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    state = () if "--state" in flags else ("--state", tmp_path / "state")
    outcome = cli("serve", "--no-browser", "--port", "0", *state, *flags)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_without_the_extra(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sfumato.cli.serve as command

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    outcome = cli("serve", "--no-browser", "--state", tmp_path / "state")
    assert outcome.code == 2
    assert outcome.err == (
        "sfumato: The page needs starlette and uvicorn. Install them with: "
        "pip install 'sfumato[web]'\n"
    )


def test_the_browser_is_not_told_the_token_in_a_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading
    import webbrowser

    from sfumato.cli.serve import open_browser

    opened: list[str] = []
    done = threading.Event()

    def open_it(address: str) -> bool:
        opened.append(address)
        done.set()
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    open_browser("http://127.0.0.1:1/?token=secret&x", tmp_path)
    assert done.wait(10)
    assert opened == [(tmp_path / "open.html").as_uri()]
    assert "url=http://127.0.0.1:1/?token=secret&amp;x" in (tmp_path / "open.html").read_text()
    assert stat.S_IMODE((tmp_path / "open.html").stat().st_mode) == 0o600
