"""Work for several processors: functions that let go of Python's lock, on items one after another."""

import os
from collections import deque
from itertools import islice


def count():
    """How many threads to use: as the environment says for OpenBLAS or OpenMP, else one a processor."""
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
