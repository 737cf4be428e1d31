import os
import signal
import sys
from pathlib import Path

import pytest

from lmtk.machine import memory

TESTS = Path(__file__).parent
FILES = TESTS / "files"
# one kernel cache for the whole suite, the same environment for every command
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "HOME": os.environ.get("HOME", "/"),
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "FILES": str(FILES),
    "BIN": str(TESTS.parent / "bin"),
}


# a shell's background jobs ignore interrupts, those of nohup a terminal that goes, and so would the commands tested
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="write what the golden cases print as what they should print"
    )
    parser.addoption("--all", action="store_true", help="tests/attacks: all of their random cases, not a few")
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
