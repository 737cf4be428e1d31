"""Threads of our own, with matrix products that run on one thread each.

OpenBLAS's own threads wait by spinning: they lose on products of our sizes, and more so where a processor is busy.
"""

from concurrent.futures import ThreadPoolExecutor

from lmtk import threads
from lmtk.nplm import blas

wanted = None


def limit(number):
    """Let scoring use so many threads (training is told its own); None: as many as `count` finds."""
    global wanted
    wanted = number


def count():
    """Threads to use: as limited, else as `lmtk.threads` finds."""
    return wanted or threads.count()


class Team:
    """Threads that do the same work on different items."""

    def __init__(self, size):
        blas.set_threads(1)
        self.pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __call__(self, work, items):
        """[work(item) for item in items], the first in this thread; as many at once as there are threads."""
        if self.pool is None:
            return [work(item) for item in items]
        rest = [self.pool.submit(work, item) for item in items[1:]]
        return [work(items[0]), *(r.result() for r in rest)]
