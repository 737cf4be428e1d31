"""Systems without Linux's own functions, such as macOS, and Pythons without optional modules."""

import subprocess
import sys

from conftest import ENVIRONMENT, FILES

# what Python's os has on Linux only
WITHOUT = ("sched_getaffinity", "sched_setaffinity", "posix_fallocate", "memfd_create", "sendfile")
CODE = f"""
import os, sys
for name in {WITHOUT}:
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "darwin"
from lmtk.machine import objects
objects.by_objects()
sys.platform = "linux"
from lmtk.cli import main
from lmtk.machine.large import LARGE
LARGE["binary"] = 1
main()
"""
COMMANDS = [
    f"ngram-count -text {FILES}/tr.txt -order 3 -wbdiscount -lm lm -memuse",
    "ngram -lm lm -write-bin bin",
    f"ppl -lm bin -text {FILES}/te.txt",
    f"nplm-train -text {FILES}/tr.txt -hidden 2 -features 2 -order 3 -epochs 1 -quiet -lm net",
    f"ppl -lm net -text {FILES}/te.txt",
]


def test_commands_run_without_what_linux_alone_has(tmp_path):
    for command in COMMANDS:
        run = [sys.executable, "-c", CODE, *command.split()]
        done = subprocess.run(run, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "ppl=" in done.stdout
