"""Messages about names that lmtk does not have point to commands and options that it has."""

import re

import pytest

from lmtk.commands import COMMANDS, click_command
from lmtk.commands.absent import OPTIONS, PROGRAMS, REFUSED
from lmtk.commands.spelling import table

EVERY = {name: set(table(click_command(name))) for name in COMMANDS}
TOP = {"-version", "-as", "-compile"}


@pytest.mark.parametrize("name", [*PROGRAMS, *OPTIONS])
def test_remedies_name_commands_and_options_that_exist(name):
    subject, remedy = PROGRAMS[name] if name in PROGRAMS else OPTIONS[name]
    assert subject or remedy
    command = None
    for word in re.findall(r"lmtk [a-z-]+|(?<![\w-])-[a-z][a-z-]*", remedy):
        if word.startswith("lmtk "):
            command = word.removeprefix("lmtk ")
            assert command in EVERY or command in TOP or remedy.endswith("man lmtk-python")
        elif command in EVERY:
            assert word in EVERY[command], f"lmtk {command} has no option {word}"
        else:
            assert word in TOP or any(word in options for options in EVERY.values()), word


def test_no_name_in_the_tables_is_a_command_or_an_option_of_every_command():
    assert not set(PROGRAMS) & set(COMMANDS)
    assert not [name for name in OPTIONS if all(name in options for options in EVERY.values())]


def test_a_command_does_not_have_the_options_that_it_refuses():
    """And some other command has them."""
    for name, commands in REFUSED.items():
        assert any(name in options for options in EVERY.values())
        assert [command for command in commands if name in EVERY[command]] == []
