"""Work for several processors: functions that let go of Python's lock, on items one after another or on all at once.

Matrix products run on one thread each, in threads of ours. OpenBLAS's own threads wait by spinning: they lose on
products of our sizes, and more so where a processor is busy.
"""

import os
from collections import deque
from itertools import islice

wanted = None


def limit(number):
    """Let scoring use so many threads (training is told its own); None: as many as `count` finds."""
    global wanted
    wanted = number


def count():
    """How many threads to use: as `limit` says, else the environment for OpenBLAS or OpenMP, else one a processor."""
    if wanted:
        return wanted
    stated = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return (stated.isdigit() and int(stated)) or len(os.sched_getaffinity(0))


def in_threads(work, items):
    """work(item) for the items in turn; threads are a few items ahead."""
    from concurrent.futures import ThreadPoolExecutor  # as long to import as a small job takes otherwise

    items, threads = iter(items), count()
    yield from map(work, islice(items, 1))  # compiles
    with ThreadPoolExecutor(threads) as pool:
        ahead = deque()
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def ahead(items):
    """The items, each made in a thread while the one before is in use."""
    from concurrent.futures import ThreadPoolExecutor

    items, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


class Team:
    """Threads that do the same work on different items."""

    def __init__(self, size):
        from concurrent.futures import ThreadPoolExecutor

        from lmtk.machine import blas

        blas.set_threads(1)
        blas.reserve(size)
        self.pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __call__(self, work, items):
        """[work(item) for item in items], the first in this thread; as many at once as there are threads."""
        if self.pool is None:
            return [work(item) for item in items]
        rest = [self.pool.submit(work, item) for item in items[1:]]
        return [work(items[0]), *(r.result() for r in rest)]
