"""Threads are set in one place: -threads is for every model, objective and command, BLAS's own threads among them."""

import os
import subprocess
import sys
import threading
import time

import pytest
from helpers import ENVIRONMENT, FILES

from lmtk.machine import blas, threads
from lmtk.machine.threads import Team, in_turn

TRAIN = f"nplm-train -text {FILES}/tr.txt -heldout {FILES}/te.txt -unk -hidden 2 -features 2 -order 3 -epochs 1 -lm m"
PAIRS = f"-source {FILES}/nmt-train.en -target {FILES}/nmt-train.fr"
CODE = """import sys, lmtk.cli
from lmtk.machine import blas, threads
blas.set_threads(2)
def told(event, arguments):
    if event == "os.rename" and arguments[1].endswith("/m"):
        print("threads", blas.threads(), threads.count())
sys.addaudithook(told)
lmtk.cli.main()"""


@pytest.mark.parametrize(
    "words",
    [
        *(f"{TRAIN} -objective {name}" for name in ("full", "sampled", "nce", "class", "tree")),
        *(f"{TRAIN} -model {name}" for name in ("rnn", "energy")),
        f"nmt-train {PAIRS} -hidden 2 -embedding 2 -maxout 2 -epochs 1 -save-every 0 -model m",
        f"translate -model {FILES}/nmt.bin -text {FILES}/nmt-held.en -write m",
        f"rescore -model {FILES}/nmt.bin -source {FILES}/nmt-held.en -nbest lists -write m",
        f"mix -lm {FILES}/wb.arpa {FILES}/uni.arpa -heldout {FILES}/te.txt -write m",
    ],
    ids=lambda words: "-".join(words.split()[0:1] + words.split()[-2:]).replace("/", " "),
)
def test_one_thread_is_one(tmp_path, words):
    """When a file appears, its maker's BLAS has the threads that it worked with."""
    (tmp_path / "lists").write_text("0 ||| la maison ||| A= 0 ||| 0\n")
    command = [sys.executable, "-c", CODE, *words.split(), "-threads", "1"]
    environment = {name: value for name, value in ENVIRONMENT.items() if "THREADS" not in name}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "threads 1 1" in done.stdout.splitlines(), done.stderr


@pytest.mark.skipif(blas.threads() is None, reason="numpy is not the wheel's, with an OpenBLAS of its own")
def test_a_team_leaves_the_threads_of_others_alone():
    before = blas.threads()
    try:
        blas.set_threads(min(2, os.cpu_count()))
        given = blas.threads()
        assert Team(2)(lambda item: blas.threads(), [1, 2]) == [1, 1]
        assert blas.threads() == given
    finally:
        blas.set_threads(before)


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_team_stops_at_the_first_error(where):
    done, mine, begun = [], threading.get_ident(), threading.Event()

    def work(item):
        if (threading.get_ident() == mine) == (where == "here"):
            begun.set()
            raise KeyboardInterrupt
        begun.wait()
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        Team(2)(work, range(100))
    time.sleep(0.05)
    assert len(done) < 10


@pytest.mark.parametrize("number", [1, 3])
def test_turns_come_in_the_order_of_items_and_end_with_the_first_error(number, monkeypatch):
    monkeypatch.setattr(threads, "wanted", number)
    done = []

    def work(i, turn, bad=None):
        time.sleep(0.002 * (i % 3 == 0))
        if i == bad:
            raise ValueError(f"item {i}")
        with turn:
            done.append(i)

    in_turn(work, range(20))
    assert done == list(range(20))
    done.clear()
    with pytest.raises(ValueError, match="item 7"):
        in_turn(lambda i, turn: work(i, turn, 7), range(20))
    assert done == list(range(7))
