"""`--help`: five commands to start with, few options, nothing cut off."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sfumato.cli.app import GROUPS

COMMANDS = [name for names in GROUPS.values() for name in names]


def test_the_first_screen_starts_with_five_commands(cli: Any) -> None:
    shown = cli("--help").out
    listed = re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)
    assert listed == COMMANDS
    assert shown.index("Start") < shown.index("Explore") < shown.index("More")


def test_publish_shows_25_options_at_most(cli: Any) -> None:
    shown = cli("publish", "--help").out
    options = set(re.findall(r"^\W*(--[a-z][a-z-]*)", shown, re.MULTILINE)) - {"--help"}
    assert len(options) <= 25, sorted(options)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_cut_off(cli: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(command, "--help").out
    sentence = shown.partition("╭")[0].split("\n\n", 1)[-1].strip().splitlines()[2].strip()
    listed = re.sub(r"[\s│]+", " ", cli("--help").out)
    assert sentence in listed
    assert max(map(len, shown.splitlines())) <= 80
