"""Threads: how many, set in one place for the whole process, and work for them, on items one after another or on all at
once, by functions that let go of Python's lock.

Matrix products run on one thread each, in threads of ours. OpenBLAS's own threads wait by spinning: they lose on
products of our sizes, and more so where a processor is busy.
"""

import os
from collections import deque
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain, islice

wanted = None  # as `use` was told


def use(number=None, products=1):
    """Work on so many threads from here on, None: as many as `count` finds; and on each matrix product that is not a
    Team's on `products` of BLAS's own.
    """
    from lmtk.machine import blas

    global wanted
    wanted = number
    blas.set_threads(products)
    blas.reserve(products)


def import_numpy():
    """Imports numpy, whose OpenBLAS starts a thread a processor unless the environment says otherwise: they spin for
    0.1 s each, and `use` asks for those that are wanted.
    """
    said = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import_module("numpy")
    if said is None:
        del os.environ["OPENBLAS_NUM_THREADS"]
    else:
        os.environ["OPENBLAS_NUM_THREADS"] = said


def at_most(number):
    """Work on no more threads than so many from here on, as each wants memory of its own."""
    global wanted
    wanted = min(count(), number)


def count():
    """How many threads to use: as `use` was told, else as the environment says, else one a processor."""
    return wanted or stated() or len(os.sched_getaffinity(0))


def stated():
    """What the environment says for OpenBLAS or OpenMP; 0 for nothing."""
    said = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return int(said) if said.isdigit() else 0


def in_threads(work, items):
    """work(item) for the items in turn; threads are a few items ahead. One item is no work for them."""
    items, threads = iter(items), count()
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(work, first)
        return
    from concurrent.futures import ThreadPoolExecutor  # as long to import as a small job takes otherwise

    with ThreadPoolExecutor(threads) as pool:
        ahead = deque()
        for item in chain(first, items):
            ahead.append(pool.submit(work, item))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def all_at_once(work, items):
    """[work(item) for item in items], as many at once as there are threads."""
    from concurrent.futures import ThreadPoolExecutor

    if count() == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(count()) as pool:
        return list(pool.map(work, items))


def in_parts(work, size):
    """[work(first, last)] of the numbers up to `size`, in parts, as many at once as there are threads."""
    some = part_of(size)
    parts = ((first, min(first + some, size)) for first in range(0, size, some))
    return all_at_once(lambda part: work(*part), parts)


def part_of(size):
    """How much of so much is a thread's at a time: they end together, and a part is worth a call."""
    return max(size // (16 * count()), 1 << 12)


def in_turn(work, items):
    """work(item, turn) for the items, as many at once as there are threads. What stands in a `with turn:`, once in
    each, happens in the order of the items.
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
    """The items, each made in a thread while the one before is in use."""
    from concurrent.futures import ThreadPoolExecutor

    items, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


class Scratch:
    """Memory that is lent to one piece of work after another: what is touched for the first time costs more than most
    work on it.
    """

    def __init__(self):
        self.free = []

    @contextmanager
    def lent(self):
        """A function that makes an array of a name, a shape and a kind; what it holds is not said."""
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
    """Threads that do the same work on different items, the matrix products of each on one thread.

    A thread that is done with an item takes the next, so that one that another process hinders does fewer.
    """

    def __init__(self, size):
        from concurrent.futures import ThreadPoolExecutor

        from lmtk.machine.blas import one_thread

        self.alone, self.size = one_thread, size
        self.pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __call__(self, work, items):
        """[work(item) for item in items], in this thread and the others, as many at once as there are threads."""
        items = list(items)
        found, places = [None] * len(items), iter(range(len(items)))

        def take():
            for i in places:
                found[i] = work(items[i])

        with self.alone():
            others = min(self.size, len(items)) - 1
            rest = [self.pool.submit(take) for _ in range(others)]
            take()
            for other in rest:
                other.result()
        return found
