"""A large text's model in buckets is the engine's: the same bytes, whatever the memory and the ranks."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import ENVIRONMENT, TESTS
from test_engine import TEXTS, by_suffixes, job, lmtk, outcome, written
from test_large import random_text
from test_mpi import APART, PAIRS, SMALL_BLOCKS, mpi, needs_mpi

from lmtk import cli
from lmtk.machine import threads
from lmtk.machine.large import LARGE
from lmtk.machine.parallel import ALONE
from lmtk.ngram import buckets, collection, kenlm_text, printing


@dataclass
class Parts:
    """What buckets want of a collection.Text."""

    ids: np.ndarray

    def seen(self, vocab):
        return np.bincount(self.ids, minlength=len(vocab.words) - 1).astype(np.int64)

    def parts(self, vocab):
        return np.array_split(self.ids, 3)


@pytest.mark.parametrize("seed", range(40))
def test_random_jobs_are_estimated_as_in_memory(seed, monkeypatch):
    """In memory and on disk; buckets of single words and of many, records dealt out in pieces of any size."""
    given = job(seed)
    monkeypatch.setattr(threads, "wanted", seed % 3 + 1)
    monkeypatch.setattr(buckets, "PART", 1 + 7 * (seed % 30))
    monkeypatch.setattr(buckets, "SOME", 1 + 13 * (seed % 7))
    monkeypatch.setattr(buckets, "BYTES", (1 << 30) // 600)

    def by_buckets(ids, marks, vocab, methods, exact, tell):
        fixed = (0.5, 1, 1.5), tell, None, exact
        return buckets.estimate(Parts(ids), vocab, methods, marks, (seed % 2) << 30, ALONE, *fixed), None

    model, _, told = outcome(by_suffixes, *given)
    other, _, heard = outcome(by_buckets, *given)
    assert heard == told
    if model:
        for layout in (None, kenlm_text.layout(given[2], len(given[3]))):
            assert written(buckets.write_arpa, other, None, layout) == written(printing.write_estimate, model, layout)


def in_buckets(monkeypatch, room):
    """Large texts are estimated in buckets of so many positions, unless words want more."""
    monkeypatch.setitem(LARGE, "ngrams", 1)
    monkeypatch.setattr(collection, "whole_size", lambda tokens, words: 1 << 60)
    monkeypatch.setattr(buckets, "LEAST", buckets.BYTES * room)


OPTIONS = [
    ["-order", "3", "-wbdiscount"],
    ["-order", "5", "-kenlm", "-discount-fallback", "-prune-by-count", "0", "1"],
    ["-order", "3", "-wbdiscount", "-vocab", "v", "-unk"],
    ["-order", "2", "-wbdiscount", "-vocab", "v"],
    ["-order", "3", "-wbdiscount", "-stream"],
    ["-order", "3", "-wbdiscount", "-no-sos", "-no-eos"],
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options))
def test_the_command_writes_the_same_in_little_memory(tmp_path, monkeypatch, text, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TEXTS[text])
    (tmp_path / "u").write_text("a c\n")
    (tmp_path / "v").write_text("a\nb\nnever\n")
    words = ["ngram-count", "-text", "t", "u", *options, "-write-vocab"]
    lmtk(monkeypatch, *words, "words", "-lm", "whole")
    in_buckets(monkeypatch, 100)
    lmtk(monkeypatch, *words, "more", "-lm", "parts", "-memory", "1K")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    assert (tmp_path / "words").read_bytes() == (tmp_path / "more").read_bytes()


def failing(monkeypatch, capsys, *words):
    """The line of a command that fails."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["lmtk", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            cli.main()
    assert done.value.code == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_too_little_memory_for_a_word_is_one_line(tmp_path, monkeypatch, capsys):
    in_buckets(monkeypatch, 10)
    (tmp_path / "t").write_text("a b\n" * 50)
    line = failing(monkeypatch, capsys, "ngram-count", "-text", tmp_path / "t", "-lm", tmp_path / "lm", "-memory", "1K")
    assert "-memory is too small: the n-grams around '</s>', 50 of 150 words, stay together in memory; give " in line
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize("written", [0, 30])
def test_a_full_temporary_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys, written):
    in_buckets(monkeypatch, 2000)
    text, left, write = random_text(tmp_path, 1), [written], os.pwrite

    def full(file, data, at):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: max(1, len(data) // 2)], at)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(os, "pwrite", full)
    words = "ngram-count", "-text", text, "-wbdiscount", "-lm", tmp_path / "lm", "-memory", "1K"
    line = failing(monkeypatch, capsys, *words)
    assert line == f"lmtk ngram-count: {tmp_path / 'temporary'}: No space left on device\n"
    assert not list((tmp_path / "temporary").iterdir()) and not (tmp_path / "lm").exists()


def test_what_is_killed_leaves_nothing(tmp_path):
    (tmp_path / "temporary").mkdir()
    os.mkfifo(tmp_path / "text")
    words = ["ngram-count", "-text", tmp_path / "text", "-lm", tmp_path / "lm", "-memory", "1M"]
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path / "temporary")}
    running = subprocess.Popen([sys.executable, "-m", "lmtk", *map(str, words)], env=environment)
    with open(tmp_path / "text", "wb", buffering=0) as out:
        out.write(b"a b\n" * 1000)
        running.kill()
        assert running.wait(60) == -9
    assert not list((tmp_path / "temporary").iterdir()) and not (tmp_path / "lm").exists()


@pytest.mark.parametrize(("words", "told"), [(["-lm"], False), (["-write-bin"], True), (["-sort", "-lm"], True)])
def test_a_line_says_where_memory_is_not_bounded(tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    in_buckets(monkeypatch, 1 << 20)
    text = random_text(tmp_path, 1)
    lmtk(monkeypatch, "ngram-count", "-text", text, "-wbdiscount", "-memory", "1K", *words, "out")
    assert ("more than -memory" in capsys.readouterr().err) == told


@needs_mpi
@pytest.mark.parametrize("ranks, where", [(2, {}), (2, APART), (3, APART), (4, PAIRS)])
@pytest.mark.parametrize("more", [["-kenlm", "-discount-fallback"], ["-wbdiscount", "-gt3min", "2", "-memory", "1K"]])
def test_ranks_write_the_model_of_one_process(tmp_path, ranks, where, more):
    texts = [random_text(tmp_path, 1), str(tmp_path / "u")]
    (tmp_path / "u").write_text("w1 w2 w3 new\n\nw2\n" * 9)
    words = ["1", "ngram-count", "-text", *texts, "-order", "4", *more, "-lm"]
    environment = ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
    python = [sys.executable, "-c", SMALL_BLOCKS]
    subprocess.run([*python, *words, "one"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    status, out, err = mpi(ranks, *words, "many", "-mpi", program=python, cwd=tmp_path, environment=where)
    assert (status, out) == (0, "") and len({*err.splitlines()}) == err.count("\n")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


FULL = """
import errno, os
from lmtk.ngram import buckets
if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    def full(file, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")
    buckets.put_at = full
"""


@needs_mpi
def test_a_rank_whose_disk_is_full_ends_all_and_leaves_nothing(tmp_path):
    words = ["1", "ngram-count", "-text", random_text(tmp_path, 1), "-wbdiscount", "-mpi", "-lm", "lm"]
    program = [sys.executable, "-c", FULL + SMALL_BLOCKS]
    status, out, err = mpi(2, *words, program=program, cwd=tmp_path, environment=APART)
    assert (status, out, err) == (1, "", "lmtk ngram-count: lm: No space left on device\n")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("lm")]
