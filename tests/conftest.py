import signal
from functools import partial

import forking
import pytest
from helpers import ENVIRONMENT, HELD, TRAIN, set_large
from hypothesis import settings

from lmtk.files import bounded
from lmtk.machine import large, threads

# a shell's background jobs ignore interrupts, those of nohup a terminal that goes, and so would the commands tested
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
forking.forbid_fallback()


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="write what the golden cases print as what they should print"
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="all random cases and parameters, not a few, and the tests that take half a minute",
    )
    parser.addoption("--seed", type=int, default=1, help="tests/attacks: the seed of their random cases")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sample(size): without --all, only so many of a test's parameters, evenly spread"
    )
    settings.register_profile("few", max_examples=25, deadline=None)
    settings.register_profile("many", max_examples=100, deadline=None)
    settings.load_profile("many" if config.getoption("--all") else "few")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all"):
        return
    groups = {}
    for item in items:
        if mark := item.get_closest_marker("sample"):
            groups.setdefault(item.nodeid.split("[")[0], (mark.args[0], []))[1].append(item)
    left_out = set()
    for size, group in groups.values():
        left_out.update({*group} - {group[i * len(group) // size] for i in range(size)})
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def amount(request):
    """amount(few, many): the number of random cases, many of them with --all."""
    return lambda few, many: many if request.config.getoption("--all") else few


@pytest.fixture
def seed(request):
    return request.config.getoption("--seed")


@pytest.fixture(autouse=True)
def unbounded(monkeypatch):
    """A command that runs in this process with -memory or -threads does not limit the tests after it, and its jobs do
    not make theirs large.
    """
    monkeypatch.setattr(bounded, "bound", None)
    monkeypatch.setattr(threads, "wanted", None)
    monkeypatch.setattr(large, "sizes", {})


@pytest.fixture
def large_from(monkeypatch):
    """`helpers.set_large` for a test."""
    return partial(set_large, monkeypatch)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "train").write_text(TRAIN)
    (tmp_path / "held").write_text(HELD)
    return tmp_path


@pytest.fixture(scope="session")
def forked(tmp_path_factory):
    """The environment in which commands are forked."""
    with forking.started(tmp_path_factory.mktemp("forked"), ENVIRONMENT) as clients:
        yield ENVIRONMENT | {"PATH": f"{clients}:{ENVIRONMENT['PATH']}", "BIN": str(clients)}
