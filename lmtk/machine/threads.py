"""Threads: their number, two ways to give them work, and memory that the work uses again.

`use` sets the number of threads for the whole process. `map_in_order` works on items ahead of a caller that takes the
results one after the other. `map_at_once` works on all items before it returns. `Scratch` lends memory to one piece of
work after another. The work should release Python's lock, as kernels and numpy's large operations do.

A matrix product runs on one of these threads. OpenBLAS's own threads spin while they wait, which makes them slower for
products of our sizes, most of all on a busy processor.
"""

import math
import os
import sys
from collections import deque
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import chain, islice
from threading import Lock

CPU_MAX = "/sys/fs/cgroup/cpu.max"  # "TIME PERIOD" in microseconds, or "max PERIOD": the limit of a control group
wanted = None  # the number given to `use`


def use(number=None, products=1):
    """Sets the number of threads; None: `thread_count` decides. products: how many threads BLAS uses for each matrix
    product outside `map_at_once`.
    """
    from lmtk.machine import blas

    global wanted
    wanted = number
    blas.set_threads(products)
    blas.reserve(products)


def import_numpy():
    """Imports numpy without OpenBLAS's threads. By default it starts one for each processor, which spins for 0.1 s;
    `use` sets their number. Raises MemoryError if there is too little memory for numpy.
    """
    if "numpy" in sys.modules:
        return
    from lmtk.machine import memory

    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    memory.try_out(lambda: import_module("numpy"), "numpy")
    del os.environ["OPENBLAS_NUM_THREADS"]
    if before is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = before


def thread_count():
    """The number of threads to use: the one given to `use`, else the environment's, else one for each processor that
    this process may use, but no more than the container's limit.
    """
    return wanted or threads_of_environment() or min(len(processors()), processor_limit())


def processors():
    """The set of the processors that this process may use. Without a way to ask the system, all of them."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


@cache
def processor_limit():
    """The container's limit of processors, rounded up; inf without a limit. Docker's --cpus and Kubernetes' limits set
    it. The system pauses a container that uses more time. Only control groups of version 2 are read.
    """
    try:
        with open(CPU_MAX) as file:
            time, period = map(int, file.read().split())
    except (OSError, ValueError):  # "max" means no limit
        return math.inf
    return max(-(-time // period), 1)


def threads_of_environment():
    """The number of threads that the environment states for OpenBLAS or OpenMP, 0 for none."""
    number = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return int(number) if number.isdecimal() else 0


def map_in_order(work, items, threads=None):
    """Yields work(item) for each item, in the order of the items. Other threads, `thread_count` by default, work a few
    items ahead of the caller. A single item needs no thread. The items themselves are made by this thread.
    """
    items, threads = iter(items), threads or thread_count()
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    from concurrent.futures import ThreadPoolExecutor  # its import takes as long as a small job

    with ThreadPoolExecutor(threads) as pool:
        begun = (pool.submit(work, item) for item in chain(first, items))
        ahead = deque(islice(begun, 2 * threads - 1))
        while ahead:
            ahead.extend(islice(begun, 1))
            yield ahead.popleft().result()


def map_at_once(work, items, threads=None):
    """[work(item) for item in items], on this thread and others, by default `thread_count` in all. Each matrix product
    runs on one thread. A thread that is done with an item takes the next one, so that a thread slowed down by another
    process does fewer. After an error, no thread takes another item. If a thread cannot be started, no item is taken.
    With as many threads as items, all items are worked on side by side, so that they may wait for each other.
    """
    from lmtk.machine.blas import one_thread

    items, gate = list(items), Lock()
    results, places = [None] * len(items), iter(())

    def take():
        with gate:  # opens when all threads have been started, or one of them could not be started
            left = places
        try:
            for i in left:
                results[i] = work(items[i])
        finally:
            deque(left, 0)

    with one_thread():
        number = min(threads or thread_count(), len(items)) - 1
        with gate:
            helpers = [helper_pool(os.getpid()).submit(take) for _ in range(number)]
            places = iter(range(len(items)))
        try:
            take()
        finally:
            errors = [helper.exception() for helper in helpers if not helper.cancel()]  # waits
        for error in filter(None, errors):
            raise error
    return results


@cache
def helper_pool(process):
    """The threads of `map_at_once`. They start when they are first needed, and then wait for more work, because a start
    is slow. A forked process does not have its parent's threads, so each process has a pool. process: its number.
    """
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1024)  # at most so many threads


def parts_of(size):
    """The numbers from 0 to below `size` in ranges (first, end), as items for `map_at_once`."""
    step = part_size(size)
    return [(first, min(first + step, size)) for first in range(0, size, step)]


def part_size(size):
    """How many of `size` numbers make a range: few enough that threads end together, enough to be worth a call."""
    return max(size // (16 * thread_count()), 1 << 12)


class Scratch:
    """Memory that is lent to one piece of work after another: touching fresh memory takes longer than most work."""

    def __init__(self):
        self.free = []

    @contextmanager
    def lent(self):
        """Yields room(name, shape, kind), which makes an uninitialized array; a name always has the same memory."""
        import numpy as np

        memory = self.free.pop() if self.free else {}

        def room(name, shape, kind):
            size = np.dtype(kind).itemsize * int(np.prod(shape))
            if name not in memory or len(memory[name]) < size:
                memory[name] = np.empty(size, np.uint8)
            return memory[name][:size].view(kind).reshape(shape)

        try:
            yield room
        finally:
            self.free.append(memory)
