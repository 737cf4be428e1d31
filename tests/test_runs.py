"""Whole runs that a golden case cannot hold: interrupted ones, and input that is large."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from helpers import ENVIRONMENT, FILES, in_process

from lmtk.files import container
from lmtk.files.registry import load


def lmtk(*words, **settings):
    command = [sys.executable, "-m", "lmtk", *map(str, words)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=120, **settings)


def test_an_interrupt_before_the_program_has_begun_is_silent():
    """Where Python would print a traceback of imports: most of a small job."""
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "lmtk.commands":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from lmtk.__main__ import program
program()
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_training_goes_on_to_the_same_bytes(tmp_path, number, status):
    """Status 130, a whole checkpoint and no model; a run beside it is refused, -finish makes a model of a copy of it;
    -resume ends as the unbroken run does.
    """
    words, held = FILES / "words.txt", tmp_path / "held"
    shutil.copy(words, held)
    train = ["nplm-train", "-text", words, "-heldout", held, "-hidden", "8", "-features", "4"]
    train += ["-epochs", "50", "-minibatch", "16", "-threads", "1", "-debug", "1"]
    assert lmtk(*train, "-lm", tmp_path / "whole").returncode == 0
    running = subprocess.Popen(
        [sys.executable, "-m", "lmtk", *map(str, train), "-lm", str(tmp_path / "cut")],
        env=ENVIRONMENT, stderr=subprocess.PIPE,
    )  # fmt: skip
    running.stderr.readline()  # the first epoch is over
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == status
    assert err.decode().splitlines()[-1].startswith("lmtk nplm-train: interrupted; -resume continues from ")
    assert {p.name for p in tmp_path.iterdir()} == {"held", "whole", "cut.ckpt"}
    with open(tmp_path / "cut.ckpt", "rb") as stream:
        about, _ = container.read(stream, str(tmp_path / "cut.ckpt"))
    assert about["settings"]["state"]["epoch"] < 50
    refused = lmtk(*train, "-lm", tmp_path / "cut")
    assert refused.returncode == 1 and b"-resume continues it, -finish writes its best model" in refused.stderr
    shutil.copy(tmp_path / "cut.ckpt", tmp_path / "other.ckpt")
    assert lmtk("nplm-train", "-finish", "-lm", tmp_path / "other").returncode == 0
    made = load(str(tmp_path / "other")).settings["curve"]
    (tmp_path / "other").unlink()
    assert {p.name for p in tmp_path.iterdir()} == {"held", "whole", "cut.ckpt"}
    assert made == load(str(tmp_path / "whole")).settings["curve"][: len(made)]
    assert lmtk(*train, "-lm", tmp_path / "cut", "-resume").returncode == 0
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"held", "whole", "cut"}


def test_an_interrupted_training_in_python_can_be_caught(tmp_path):
    """So that an interactive session goes on."""
    code = f"""
import lmtk
try:
    lmtk.train({str(FILES / "words.txt")!r}, "model", hidden=4, features=4, epochs=1_000_000, threads=1, debug=1)
except KeyboardInterrupt:
    print("caught")
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, cwd=tmp_path, **pipes)
    running.stderr.readline()  # the first epoch is over
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, b"caught\n")
    assert {p.name for p in tmp_path.iterdir()} == {"model.ckpt"}


def test_an_interrupted_count_leaves_nothing(tmp_path):
    """A command that waits for its input: status 130, no line, no file."""
    command = [sys.executable, "-m", "lmtk", "ngram-count", "-text", "-", "-write", str(tmp_path / "counts")]
    read, write = os.pipe()
    running = subprocess.Popen(command, env=ENVIRONMENT, stdin=read, stderr=subprocess.PIPE)
    os.write(write, b"a b\n")
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    os.close(write)
    assert (running.returncode, err) == (130, b"")
    assert not list(tmp_path.iterdir())


def test_a_line_of_ten_megabytes(tmp_path):
    """A sentence of 2.5 million words is read; a word of more than 1 MB is an error that says where it is."""
    (tmp_path / "line").write_bytes(b"the cat saw the mat " * 500_000)
    status, out, _ = in_process(tmp_path, "ppl", "-lm", FILES / "wb.arpa", "-text", "line")
    assert status == 0 and b": 1 sentences, 2500000 words, 0 OOVs" in out
    _, out, _ = in_process(tmp_path, "ngram-count", "-text", "line", "-order", "1", "-sort")
    assert out == b"</s>\t1\n<s>\t1\ncat\t500000\nmat\t500000\nsaw\t500000\nthe\t1000000\n"
    (tmp_path / "word").write_bytes(b"a\nb " + b"x" * ((1 << 20) + 1) + b"\n")
    for command in (["ppl", "-lm", FILES / "wb.arpa"], ["ngram-count"], ["vocab"], ["normalize"]):
        status, _, err = in_process(tmp_path, *command, "-text", "word")
        assert status == 1 and "word:2: a word longer than 1 MB begins at byte 4;" in err


@pytest.mark.parametrize("text", [b"caf\xe9 \xff a\0b\n", b"\xef\xbb\xbfthe cat\r\nsat\r\n"])
def test_odd_bytes_pass_through(tmp_path, text):
    (tmp_path / "t").write_bytes(text)
    assert in_process(tmp_path, "normalize", "-text", "t")[:2] == (0, text.removeprefix(b"\xef\xbb\xbf"))
    assert in_process(tmp_path, "ppl", "-lm", FILES / "wb.arpa", "-text", "t")[0] == 0
