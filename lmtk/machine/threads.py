"""Threads: their number, set in one place for the whole process, and ways to give them items of work. The work has to
release Python's lock.

Each matrix product runs on one of our threads. OpenBLAS's own threads wait by spinning, and so are slower for products
of our sizes, most of all on a busy processor.
"""

import os
import sys
from collections import deque
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain, islice

wanted = None  # the number given to `use`


def use(number=None, products=1):
    """Sets the number of threads; None leaves it to `count`. products: the number of BLAS's own threads for each matrix
    product that is not a Team's.
    """
    from lmtk.machine import blas

    global wanted
    wanted = number
    blas.set_threads(products)
    blas.reserve(products)


def import_numpy():
    """Imports numpy without OpenBLAS's threads. By default it starts one for each processor, which spins for 0.1 s;
    `use` starts those that are wanted. Raises MemoryError if there is too little memory for numpy.
    """
    if "numpy" in sys.modules:
        return
    from lmtk.machine import memory

    said = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    memory.try_out(lambda: import_module("numpy"), "numpy")
    import_module("numpy")
    if said is None:
        del os.environ["OPENBLAS_NUM_THREADS"]
    else:
        os.environ["OPENBLAS_NUM_THREADS"] = said


def at_most(number):
    """Sets an upper bound on the number of threads, for jobs in which each thread needs memory of its own."""
    global wanted
    wanted = min(count(), number)


def count():
    """The number of threads to use: the one given to `use`, else the environment's, else one for each processor."""
    return wanted or stated() or len(processors())


def processors():
    """The set of the processors that this process may use. Without a way to ask the system, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def stated():
    """The number of threads that the environment states for OpenBLAS or OpenMP, 0 for none."""
    said = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return int(said) if said.isdigit() else 0


def in_threads(work, items):
    """Yields work(item) for the items in turn; threads work a few items ahead. A single item needs no thread."""
    items, threads = iter(items), count()
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    from concurrent.futures import ThreadPoolExecutor  # its import takes as long as a small job

    with ThreadPoolExecutor(threads) as pool:
        ahead = deque()
        for item in chain(first, items):
            ahead.append(pool.submit(work, item))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def all_at_once(work, items):
    """[work(item) for item in items], on `count` threads."""
    from concurrent.futures import ThreadPoolExecutor

    if count() == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(count()) as pool:
        return list(pool.map(work, items))


def in_parts(work, size):
    """[work(first, last)] for parts of the numbers from 0 to below `size`, on `count` threads."""
    some = part_of(size)
    parts = ((first, min(first + some, size)) for first in range(0, size, some))
    return all_at_once(lambda part: work(*part), parts)


def part_of(size):
    """The size of a part of `size` items: small enough that threads end together, large enough to be worth a call."""
    return max(size // (16 * count()), 1 << 12)


def in_turn(work, items):
    """Calls work(item, turn) for the items, on `count` threads. Each call has one block `with turn:`, and these blocks
    run in the order of the items.
    """
    from threading import Condition

    now, failed, changed = 0, float("inf"), Condition()

    @contextmanager
    def turn(i):
        nonlocal now
        with changed:
            changed.wait_for(lambda: now == i or failed < i)
        if failed < i:
            raise RuntimeError("the work on an item before failed")
        yield
        with changed:
            now += 1
            changed.notify_all()

    def whole(pair):
        nonlocal failed
        i, item = pair
        try:
            work(item, turn(i))
        except BaseException:
            with changed:
                failed = min(failed, i)
                changed.notify_all()
            raise

    all_at_once(whole, enumerate(items))


def ahead(items):
    """Yields the items; a thread makes each while the one before is in use."""
    from concurrent.futures import ThreadPoolExecutor

    items, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


class Scratch:
    """Memory that is lent to one piece of work after another: touching fresh memory costs more than most work on it."""

    def __init__(self):
        self.free = []

    @contextmanager
    def lent(self):
        """Yields a function room(name, shape, kind) that returns an array, not initialised; calls with the same name
        get the same memory.
        """
        room = self.free.pop() if self.free else {}
        try:
            yield partial(array_in, room)
        finally:
            self.free.append(room)


def array_in(room, name, shape, kind):
    import numpy as np

    kind = np.dtype(kind)
    size = kind.itemsize * int(np.prod(shape))
    if name not in room or len(room[name]) < size:
        room[name] = np.empty(size, np.uint8)
    return room[name][:size].view(kind).reshape(shape)


class Team:
    """Threads that do the same work on different items, each matrix product on one thread.

    A thread that is done with an item takes the next one, so that a thread slowed down by another process does fewer.
    """

    def __init__(self, size):
        from concurrent.futures import ThreadPoolExecutor

        from lmtk.machine.blas import one_thread

        self.alone, self.size = one_thread, size
        self.pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __call__(self, work, items):
        """[work(item) for item in items], on this thread and the others of the team."""
        items = list(items)
        found, places = [None] * len(items), iter(range(len(items)))

        def take():
            try:
                for i in places:
                    found[i] = work(items[i])
            finally:
                deque(places, 0)  # after an error no thread takes another item

        with self.alone():
            others = min(self.size, len(items)) - 1
            rest = [self.pool.submit(take) for _ in range(others)]
            try:
                take()
            finally:
                for other in rest:
                    other.exception()  # waits
            for other in rest:
                other.result()
        return found
