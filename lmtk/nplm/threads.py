"""Threads of our own, with matrix products that run on one thread each.

OpenBLAS's own threads wait by spinning: they lose on products of our sizes, and more so where a processor is busy.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from lmtk.nplm import blas

wanted = None


def limit(threads):
    """Let scoring use so many threads (training is told its own); None: as many as `count` finds."""
    global wanted
    wanted = threads


def count():
    """Threads to use: as limited, else as the environment says for OpenBLAS, else a thread a processor."""
    stated = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return wanted or (stated.isdigit() and int(stated)) or len(os.sched_getaffinity(0))


class Team:
    """Threads that do the same work on different items."""

    def __init__(self, threads):
        blas.set_threads(1)
        self.pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def __call__(self, work, items):
        """[work(item) for item in items], the first in this thread; as many at once as there are threads."""
        if self.pool is None:
            return [work(item) for item in items]
        rest = [self.pool.submit(work, item) for item in items[1:]]
        return [work(items[0]), *(r.result() for r in rest)]
