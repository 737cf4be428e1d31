"""Systems without Linux's own functions, such as macOS, and versions of numba whose inner parts are different."""

import subprocess
import sys

import pytest
from helpers import ENVIRONMENT, FILES

MAIN = """
import atexit, sys, lmtk.cli
atexit.register(lambda: print("lmtk.machine.fallback" in sys.modules))
from lmtk.files import container
from lmtk.machine.large import LARGE
container.LARGE = 1
LARGE.update(text=1, ngrams=1)
lmtk.cli.main()
"""
AWAY = {
    # all modules of numba that are not public, for imports by lmtk; what is in the cache was made with them
    "numba's inner parts": """
import builtins
from lmtk.machine import kernel_cache
kernel_cache.read = lambda name: None
usual = builtins.__import__
PUBLIC = "numba", "numba.types", "numba.extending"
def guarded(name, scope=None, *more):
    if name.split(".")[0] == "numba" and name not in PUBLIC and (scope or {}).get("__name__", "").startswith("lmtk"):
        raise ImportError(name)
    return usual(name, scope, *more)
builtins.__import__ = guarded
""",
    "numba's C modules": """
from lmtk.machine import objects
usual = objects.package_file
def without(package, *names):
    if names != ("_version.py",):
        raise OSError(names)
    return usual(package, *names)
objects.package_file = without
""",
    # what Python's os has on Linux only
    "Linux": """
import os, sys
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fallocate", "memfd_create", "sendfile"):
    if hasattr(os, name):
        delattr(os, name)
from lmtk.machine import objects
sys.platform = "darwin"
assert not objects.is_usable()
sys.platform = "linux"
""",
}
COMMANDS = [
    f"ngram-count -text {FILES}/tr.txt -order 3 -wbdiscount -lm lm",
    "ngram -lm lm -write-bin bin",
    f"ppl -lm bin -text {FILES}/te.txt",
    f"nplm-train -text {FILES}/tr.txt -hidden 2 -features 2 -order 3 -epochs 1 -threads 1 -quiet -lm net",
    f"ppl -lm net -text {FILES}/te.txt",
]


def figures(folder, away, commands):
    """The numbers that the commands print, and whether the fallback has run the kernels of one of them."""
    numbers, fallback = [], False
    for command in commands:
        run = [sys.executable, "-c", away + MAIN, *command.split()]
        done = subprocess.run(run, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        *words, ran = done.stdout.split()
        numbers += [float(word) for word in words if word.lstrip("-")[0].isdigit()]
        fallback |= ran == "True"
    return numbers, fallback


@pytest.fixture(scope="module")
def usual(tmp_path_factory, request):
    """A folder with the models that the commands make, and their figures."""
    folder, commands = tmp_path_factory.mktemp("usual"), COMMANDS if request.config.getoption("--all") else COMMANDS[:3]
    return folder, *figures(folder, "", commands)


@pytest.mark.sample(2)
@pytest.mark.parametrize("away", AWAY)
def test_commands_give_the_same_figures_without(tmp_path, usual, away):
    folder, expected, usual_fallback = usual
    # all kernels are compiled, which takes long; the first two commands print no figures
    commands = {"Linux": COMMANDS, "numba's C modules": COMMANDS[2:3]}.get(away, COMMANDS[:3])
    numbers, fallback = figures(folder if commands == COMMANDS[2:3] else tmp_path, AWAY[away], commands)
    assert len(numbers) > 5 and numbers == pytest.approx(expected[: len(numbers)], rel=1e-6)
    assert fallback and not usual_fallback
