"""Signals at random moments: a job ends at once, leaves nothing behind but a checkpoint, and can be done again."""

import random
import signal
import subprocess
import sys
import time

import jobs
import pytest
from helpers import ENVIRONMENT, FILES

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """(seconds that a job takes, what it writes), by its name; found once for each job."""
    expected = {}

    def outcome(name):
        if name not in expected:
            folder = jobs.prepare(tmp_path_factory.mktemp("whole") / "job")
            for _ in range(2):  # kernels are compiled by the first
                begun = time.monotonic()
                process = jobs.start(folder, name)
                assert process.communicate() == ("", "") and process.returncode == 0
            expected[name] = time.monotonic() - begun, jobs.written(folder)
        return expected[name]

    return outcome


def test_a_job_that_is_ended_leaves_nothing_and_can_be_done_again(tmp_path, amount, seed, whole):
    rng = random.Random(seed)
    for case in range(amount(6, 120)):
        name, number = rng.choice(list(jobs.JOBS)), rng.choice(SIGNALS)
        seconds, expected = whole(name)
        delay = rng.uniform(0, 1.1) * seconds
        label = f"seed {seed}, case {case}: {name}, {number.name} after {delay:.3f} of {seconds:.3f} s"
        folder = jobs.prepare(tmp_path / str(case))
        process = jobs.start(folder, name)
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        files = jobs.written(folder)
        # Python itself prints a traceback where it is interrupted before lmtk is there, or inside a callback
        by_python = number == signal.SIGINT and "KeyboardInterrupt" in err and "/lmtk/cli.py" not in err
        if not by_python:
            assert process.returncode in (0, -number, 128 + number), f"{label}: status {process.returncode}\n{err}"
            assert not err or (err.count("\n") == 1 and "interrupted" in err), f"{label}:\n{err}"
        left = {file for file in files if file not in expected}
        if number == signal.SIGKILL:
            left = {file for file in left if ".tmp." not in file}  # the next run removes it
        assert left <= {"out.ckpt"}, f"{label}: {left} stay"
        assert all(files[file] == expected[file] for file in files if file in expected), f"{label}: part of a file"
        process = jobs.start(folder, name, ["-resume"] * ("out.ckpt" in files))
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, f"{label}, again:\n{err}"
        assert jobs.written(folder) == expected, f"{label}, again: {sorted(jobs.written(folder))}"


PLACES = """
import ctypes, os, signal, sys
import lmtk.__main__, lmtk.cli

def send():
    os.kill(os.getpid(), int(sys.argv[2]))

class Sender:
    def __set_name__(self, owner, name):
        send()

def in_class_body():
    class Owner:
        sender = Sender()

def in_callback():
    ctypes.CFUNCTYPE(None)(send)()

def run(*_):
    globals()[sys.argv[3]]()
    for _ in range(1 << 30):
        pass

lmtk.cli.run = run
sys.argv[1] = "info"
lmtk.__main__.program()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("place", ["send", "in_class_body", "in_callback"])
def test_an_exception_of_a_signal_that_is_wrapped_or_lost(place, number):
    """Python 3.11 wraps what is raised in a class body, and prints and forgets what is raised in a callback."""
    words = [sys.executable, "-c", PLACES, "info", str(int(number)), place]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (128 + number, "")


@pytest.mark.parametrize(
    "job", ["make-big-lm -read counts -order 2 -wbdiscount -lm -", "ngram-count -lm - -read counts"]
)
def test_no_temporary_files_stay_when_the_reader_has_gone(tmp_path, job):
    folder = jobs.prepare(tmp_path / "job")
    environment = ENVIRONMENT | {"TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(FILES.parents[1])}
    command = f"{{ {sys.executable} -m lmtk -as {job}; echo $? >&2; }} | true"
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] in ("141", "0") and "Traceback" not in done.stderr
    assert not jobs.written(folder)
