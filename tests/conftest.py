import signal

import pytest
from helpers import HELD, TRAIN

from lmtk.machine import memory

# a shell's background jobs ignore interrupts, those of nohup a terminal that goes, and so would the commands tested
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="write what the golden cases print as what they should print"
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="all random cases of tests/attacks, not a few, and the tests that take half a minute",
    )
    parser.addoption("--seed", type=int, default=1, help="tests/attacks: the seed of their random cases")


@pytest.fixture
def amount(request):
    """amount(few, many): the number of random cases, many of them with --all."""
    return lambda few, many: many if request.config.getoption("--all") else few


@pytest.fixture
def seed(request):
    return request.config.getoption("--seed")


@pytest.fixture(autouse=True)
def unbounded(monkeypatch):
    """A command that runs in this process with -memory bounds the tests behind it too, but for this."""
    monkeypatch.setattr(memory, "bound", None)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "train").write_text(TRAIN)
    (tmp_path / "held").write_text(HELD)
    return tmp_path
