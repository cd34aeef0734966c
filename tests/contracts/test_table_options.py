"""One list says what can be said of a table; Python, flags, job files and the page follow it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import options as cli_options
from sfumato.cli.app import _whole_program, read_job
from sfumato.table_options import ROLES, TABLE_OPTIONS, TableOption
from sfumato.web.answers import Refusal
from sfumato.web.asked import options_of

BY_NAME = {option.name: option for option in TABLE_OPTIONS}
DECLARING = ("advise", "check", "compare", "describe", "publish")  # commands that declare a table

READING = ("attack", "audit", "report")  # commands that read one


def commands() -> dict[str, Any]:
    return dict(get_command(_whole_program()).commands)  # type: ignore[attr-defined]


def test_read_takes_every_option_and_nothing_else() -> None:
    taken = inspect.signature(sf.read).parameters
    assert list(taken) == ["origin", *BY_NAME]
    for option in TABLE_OPTIONS[2:]:  # the first two have to be given
        default = taken[option.name].default
        assert (default or None) == (option.default or None), option.name


@pytest.mark.parametrize("command", DECLARING)
def test_commands_have_every_option_as_a_flag(command: str) -> None:
    flags = {name: param for param in commands()[command].params for name in param.opts}
    for option in TABLE_OPTIONS:
        flag = flags[f"--{option.flag_name}"]
        assert flag.help == option.help
        assert flag.multiple == (option.form == "each")
        assert not flag.required


@pytest.mark.parametrize("command", READING)
def test_commands_that_read_a_raw_table_know_how(command: str) -> None:
    flags = {name for param in commands()[command].params for name in param.opts}
    assert {f"--{option.flag_name}" for option in TABLE_OPTIONS if option.reads} <= flags


@pytest.mark.parametrize("command", DECLARING)
def test_job_files_know_every_option(tmp_path: Path, command: str) -> None:
    said = {
        "column": '"a"', "text": '"a"', "columns": '["a", "b"]', "choice": '"drop"',
        "each": '{a = "1,2"}', "switch": "true",
    }  # fmt: skip
    lines = [f"{option.flag_name} = {said[option.form]}" for option in TABLE_OPTIONS]
    job = tmp_path / "sfumato.toml"

    job.write_text("\n".join(["[table]", *lines]))
    shared = read_job(job, commands())
    job.write_text("\n".join([f"[{command}]", *lines]))
    found = read_job(job, commands())[command]
    assert shared[command] == found
    for reader in READING:  # they take what they have
        assert set(shared[reader]) >= {o.name for o in TABLE_OPTIONS if o.reads}
    texts = {
        "column": "a", "text": "a", "columns": "a,b", "choice": "drop", "each": ["a=1,2"],
        "switch": True,
    }  # fmt: skip
    assert found == {option.name: texts[option.form] for option in TABLE_OPTIONS}


def test_the_page_takes_every_option() -> None:
    said = {"columns": ["a"], "choice": "drop", "each": {"a": "1,2"}, "switch": True}
    given = {option.name: said.get(option.form, "a") for option in TABLE_OPTIONS}
    passed = options_of(given)
    expected = [o.name for o in TABLE_OPTIONS if o.name not in ROLES]
    assert passed == {name: given[name] for name in expected}
    for name in expected:
        with pytest.raises(Refusal):
            options_of({name: 3})


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableOption]:
    """An option that nobody has heard of, in the list and in `read`, and nowhere else."""
    option = TableOption("nickname", "column", "How reports call the table.", flag="call-it")
    monkeypatch.setattr(cli_options, "TABLE_OPTIONS", (*TABLE_OPTIONS, option))
    return option


def test_a_new_option_is_one_entry(toy: TableOption, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    app = typer.Typer()
    monkeypatch.setattr(cli_options, "app", app)

    @cli_options.command(cli_options.TABLE, cli_options.Flag("more", int, "", 0), roles=True)
    def command(table: str, roles: dict[str, Any], more: int) -> None:
        seen.update(roles, table=table, more=more)

    told = CliRunner().invoke(app, ["people.csv", "--more", "2", "--call-it", "patients"])
    assert told.exit_code == 0, told.output
    assert (seen["nickname"], seen["quasi"], seen["more"]) == ("patients", "", 2)
    seen.clear()
    CliRunner().invoke(app, ["people.csv"])
    assert seen == {"table": "people.csv", "more": 0}  # nothing was said of the table
