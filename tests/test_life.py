"""The life of a run where its golden cases cannot go: a disk that is full, a process that is killed."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from itertools import count, islice
from types import SimpleNamespace

import pytest
from helpers import ENVIRONMENT, FILES
from small_models import life, prepared, settings

from lmtk import run
from lmtk.jobs.progress import Reporter
from lmtk.jobs.training import Life
from lmtk.nplm import training

TRAIN = ["-m", "lmtk", "nplm-train", "-text", FILES / "words.txt", "-hidden", "8"]
TRAIN += ["-features", "4", "-epochs", "40", "-minibatch", "16", "-threads", "1", "-debug", "1"]


def lmtk(folder, *more, **how):
    held = shutil.copy(FILES / "words.txt", folder / "held")
    words = [sys.executable, *map(str, TRAIN), "-heldout", held, "-lm", str(folder / "m"), *map(str, more)]
    return subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, **how)


def ended(process):
    _, err = process.communicate(timeout=100)
    return process.returncode, err.splitlines()


def test_a_checkpoint_that_cannot_be_written_is_a_warning(texts, monkeypatch, capsys):
    """One, in all epochs; the model itself, where it cannot be written either, is an error."""

    def full(path, lasting):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    made = settings(epochs=3)
    data, fresh = prepared(texts, made)
    cycle = life(texts / "m", made, data, fresh.vocab)
    monkeypatch.setattr(run, "open_out", full)
    progress = training.Progress(fresh)
    with pytest.raises(OSError, match="No space left"):
        run.run_training(cycle, progress, training.train(progress, data, made, 1), Reporter(cycle, progress, Life()))
    assert progress.epoch == 3 and not list(texts.glob("m*"))
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 1 and "m.ckpt: No space left on device; training continues without a new checkpoint" in err
    )


def test_minutes_end_a_run_within_an_epoch(texts):
    """The rate falls until then; the figures of the last epoch are of the words that it has read."""
    made = settings(epochs=1_000_000, patience=0, decay=None, minutes=0.01)
    data, fresh = prepared(texts, made)
    cycle, progress = life(texts / "m", made, data, fresh.vocab), training.Progress(fresh)
    run.run_training(cycle, progress, training.train(progress, data, made, 1), Reporter(cycle, progress, Life()))
    *_, before, last = progress.curve
    assert progress.out_of_time and (texts / "m").exists() and len(progress.curve) < 1_000_000
    assert 0 <= last.rate < before.rate < made.rate and last.training == pytest.approx(before.training, abs=1)


def test_the_rate_of_an_epoch_is_that_of_its_start(texts, monkeypatch):
    """With -minutes too. Here each look at the clock takes a second of the 60."""
    seconds = count()
    monkeypatch.setattr("lmtk.clock.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    made = settings(epochs=1_000_000, patience=0, decay=None, minutes=1)
    data, fresh = prepared(texts, made)
    progress = training.Progress(fresh)
    *_, last = (list(progress.curve) for _ in islice(training.train(progress, data, made, 1), 20))
    looks = 1 + 2 * training.count_steps(data, made)  # at the start of an epoch, and twice in each minibatch
    rates = [made.rate * (1 - (1 + looks * i) / 60) for i in range(len(last))]
    assert len(last) > 1 and [e.rate for e in last] == pytest.approx(rates)


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
    assert status == 0 and lines[0].startswith("continuing from ")
    assert (tmp_path / "m").read_bytes() == whole
    rows = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()]
    assert [row[0] for row in rows] == ["epoch", *map(str, range(1, 41))]
    seconds = [float(row[1]) for row in rows[1:]]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("command", ["ppl -text", "ngram -ppl"])
def test_sentences_in_a_pipe_are_scored_as_they_come(command):
    """As by SRILM's ngram, so that a program can write a sentence and wait for its score."""
    words = [sys.executable, "-m", "lmtk", *command.split(), "-", "-lm", FILES / "wb.arpa", "-debug", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, env=ENVIRONMENT, **pipes) as process:
        timer = threading.Timer(60, process.kill)  # instead of waiting for ever
        timer.daemon = True  # so that pytest does not wait for the timer after a failure
        timer.start()
        for sentence in (b"the cat sat\n", b"a dog saw the mat\n"):
            process.stdin.write(sentence)
            process.stdin.flush()
            report = [process.stdout.readline() for _ in range(4)]
            assert report[0] == sentence and b"1 sentences, " in report[1] and b"logprob= " in report[2]
            assert report[3] == b"\n"
        rest, _ = process.communicate()
        timer.cancel()
    assert rest.startswith(b"file -: 2 sentences, 8 words, 0 OOVs\n") and process.returncode == 0
