"""Threads are set in one place: -threads is for every model, objective and command, BLAS's own threads among them."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import FILES, in_process

from lmtk.machine import blas, threads
from lmtk.machine.threads import map_at_once, map_in_order

TRAIN = f"nplm-train -text {FILES}/tr.txt -heldout {FILES}/te.txt -unk -hidden 2 -features 2 -order 3 -epochs 1 -lm m"
PAIRS = f"-source {FILES}/nmt-train.en -target {FILES}/nmt-train.fr"


@pytest.mark.parametrize(
    "words",
    [
        *(f"{TRAIN} -objective {name}" for name in ("full", "sampled", "nce", "class", "tree")),
        *(f"{TRAIN} -model {name}" for name in ("tdnn", "rnn", "energy")),
        f"nmt-train {PAIRS} -hidden 2 -embedding 2 -maxout 2 -epochs 1 -save-every 0 -model m",
        f"translate -model {FILES}/nmt.bin -text {FILES}/nmt-held.en -write m",
        f"rescore -model {FILES}/nmt.bin -source {FILES}/nmt-held.en -nbest lists -write m",
        f"mix -lm {FILES}/wb.arpa {FILES}/uni.arpa -heldout {FILES}/te.txt -write m",
    ],
    ids=lambda words: "-".join(words.split()[0:1] + words.split()[-2:]).replace("/", " "),
)
def test_one_thread_is_one(tmp_path, monkeypatch, words):
    """When a file appears, its maker's BLAS has the threads that it worked with."""
    (tmp_path / "lists").write_text("0 ||| la maison ||| A= 0 ||| 0\n")
    for name in [name for name in os.environ if "THREADS" in name]:
        monkeypatch.delenv(name)
    replace, numbers, before = os.replace, [], blas.product_threads()

    def watched(old, new, **folders):  # of the cache of kernels
        if str(new).endswith("/m"):
            numbers.append((blas.product_threads(), threads.thread_count()))
        replace(old, new, **folders)

    monkeypatch.setattr(os, "replace", watched)
    try:
        blas.set_threads(2)
        status, _, err = in_process(tmp_path, *words.split(), "-threads", "1")
    finally:
        blas.set_threads(before or 1)
    assert status == 0 and (1, 1) in numbers, err


@pytest.mark.skipif(blas.product_threads() is None, reason="numpy is not the wheel's, with an OpenBLAS of its own")
def test_threads_of_products_are_restored():
    before = blas.product_threads()
    try:
        blas.set_threads(min(2, os.cpu_count()))
        given = blas.product_threads()
        assert map_at_once(lambda item: blas.product_threads(), [1, 2], 2) == [1, 1]
        assert blas.product_threads() == given
    finally:
        blas.set_threads(before)


@pytest.mark.parametrize("where", ["here", "there"])
def test_work_stops_at_the_first_error(where):
    done, caller, begun = [], threading.get_ident(), threading.Event()

    def work(item):
        if (threading.get_ident() == caller) == (where == "here"):
            begun.set()
            raise KeyboardInterrupt
        begun.wait()
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        map_at_once(work, range(100), 2)
    time.sleep(0.05)
    assert len(done) < 10


@pytest.mark.parametrize("number", [1, 3])
def test_results_come_in_the_order_of_items_and_end_with_the_first_error(number):
    def work(i):
        time.sleep(0.002 * (i % 3 == 0))
        if i == 17:
            raise ValueError(f"item {i}")
        return i

    assert list(map_in_order(work, range(17), number)) == list(range(17))
    done = []
    with pytest.raises(ValueError, match="item 17"):
        done.extend(map_in_order(work, range(20), number))
    assert done == list(range(17))


def test_work_in_threads_may_use_threads_itself():
    inner = lambda i: sum(map_at_once(lambda j: 10 * i + j, range(4), 3))
    assert map_at_once(inner, range(20), 3) == [40 * i + 6 for i in range(20)]


def test_a_forked_process_has_threads_of_its_own():
    code = """import os
from lmtk.machine.threads import map_at_once
square = lambda i: i * i
map_at_once(square, range(9), 3)
child = os.fork()
assert map_at_once(square, range(9), 3) == [i * i for i in range(9)]
if child:
    assert os.waitpid(child, 0)[1] == 0"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_a_forked_process_bounds_its_memory_too():
    code = """import os
from lmtk.files import bounded
bounded.limit_memory(1 << 30)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    bounded.limit_memory(1 << 30)
    os._exit(not bounded.watch.is_alive())"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_as_many_threads_as_items_may_wait_for_each_other():
    together = threading.Barrier(3)
    assert sorted(map_at_once(lambda _: together.wait(60), range(3), 3)) == [0, 1, 2]


def test_no_thread_works_if_one_cannot_be_started(tmp_path, monkeypatch):
    """A thread that had begun would work on after the error, or wait for ever for the thread that is missing."""
    pool, start, done = ThreadPoolExecutor(8), threading.Thread.start, []

    def start_two(thread):
        if len(pool._threads) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threads, "helper_pool", lambda process: pool)
    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RuntimeError, match="new thread"):
        map_at_once(done.append, range(8), 8)
    pool.shutdown()
    assert not done
    monkeypatch.setattr("lmtk.cli.carry_out", lambda words: map_at_once(done.append, range(8), 8))
    pool = ThreadPoolExecutor(8)
    message = "out of memory, or of processes: no new thread can be started; lower -threads or OMP_NUM_THREADS"
    assert in_process(tmp_path, "index", "-text", "x") == (1, b"", f"lmtk index: {message}\n")


def test_a_container_limits_the_threads(tmp_path, monkeypatch):
    """Docker's --cpus 1.5 is time for two threads. A limit above the number of processors changes nothing."""
    monkeypatch.setattr(threads, "wanted", None)
    monkeypatch.setattr(threads, "threads_of_environment", lambda: 0)
    monkeypatch.setattr(threads, "processors", lambda: set(range(8)))
    monkeypatch.setattr(threads, "CPU_MAX", str(tmp_path / "cpu.max"))
    counts = []
    for content in None, "150000 100000\n", "5000 100000\n", "2000000 100000\n", "max 100000\n":
        if content:
            (tmp_path / "cpu.max").write_text(content)
        threads.processor_limit.cache_clear()
        counts.append(threads.thread_count())
    threads.processor_limit.cache_clear()
    assert counts == [8, 2, 1, 8, 8]
