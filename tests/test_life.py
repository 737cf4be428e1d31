"""The life of a run where its golden cases cannot go: a disk that is full, a process that is killed."""

import os
import resource
import signal
import subprocess
import sys

from conftest import ENVIRONMENT, FILES

TRAIN = ["-m", "lmtk", "nplm-train", "-text", FILES / "words.txt", "-heldout", FILES / "words.txt", "-hidden", "8"]
TRAIN += ["-features", "4", "-epochs", "40", "-minibatch", "16", "-threads", "1", "-debug", "1"]


def lmtk(folder, *more, **how):
    words = [sys.executable, *map(str, TRAIN), "-lm", str(folder / "m"), *map(str, more)]
    return subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, **how)


def ended(process):
    _, err = process.communicate(timeout=100)
    return process.returncode, err.splitlines()


def test_a_checkpoint_that_cannot_be_written_is_a_warning(tmp_path):
    """Files of at most 2000 bytes: one warning in all epochs; then the model itself is an error."""

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    status, lines = ended(lmtk(tmp_path, preexec_fn=small))
    assert status == 1 and lines[-1] == f"lmtk nplm-train: {tmp_path}/m: File too large"
    warnings = [line for line in lines if "warning" in line]
    assert warnings == [
        f"lmtk nplm-train: warning: {tmp_path}/m.ckpt: File too large; training goes on without a new checkpoint"
    ]
    assert sum(line.startswith("epoch") for line in lines) == 40 and not list(tmp_path.iterdir())


def test_a_run_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path):
    """To the same bytes; its log has every epoch once."""
    assert ended(lmtk(tmp_path))[0] == 0
    whole = (tmp_path / "m").read_bytes()
    (tmp_path / "m").unlink()
    running = lmtk(tmp_path, "-log", tmp_path / "log")
    for _ in range(3):
        running.stderr.readline()
    running.kill()
    assert ended(running)[0] == -signal.SIGKILL and os.path.exists(tmp_path / "m.ckpt")
    status, lines = ended(lmtk(tmp_path, "-log", tmp_path / "log", "-resume"))
    assert status == 0 and lines[0].startswith("going on from ")
    assert (tmp_path / "m").read_bytes() == whole
    rows = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()]
    assert [row[0] for row in rows] == ["epoch", *map(str, range(1, 41))]
    seconds = [float(row[1]) for row in rows[1:]]
    assert seconds == sorted(seconds)
