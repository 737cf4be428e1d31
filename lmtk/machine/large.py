"""The one switch between small jobs and large ones.

A large job runs kernels, which take seconds to compile, once, and 0.04 s to load. A small job runs the plain twin of
each kernel, in Python or numpy. A job in between runs kernels if it has a name, and the cache has the kernels of an
earlier job of this name. A job that comes in many parts runs kernels once its parts make a large job.
"""

from collections import Counter

# kind -> the least size that is large
LARGE = {
    "text": 1 << 21,  # bytes to look up words in
    "ngrams": 200_000,  # tokens to count, n-grams to estimate, print or score
    "arpa": 1 << 21,  # bytes to read
    "units": 1 << 12,  # hidden units with gates at one time step
    "states": 1 << 14,  # of such units, at all time steps of a minibatch
}
done = set()  # the names of this process's large jobs
sizes = Counter()  # name -> the size of all parts of this process's jobs of this name


def pays(kind, n, job=""):
    """Whether kernels pay for a job of size n, or for the next part, of size n, of all jobs of this name. If the cache
    has the kernels of an earlier job of this name, a sixteenth of the size is enough.
    """
    if job:
        sizes[job] += n
    if n >= LARGE[kind] or sizes[job] >= LARGE[kind]:
        done.add(job)
        return True
    if not job or n < LARGE[kind] >> 4:
        return False
    from lmtk.machine.jit import recorded

    return recorded(job)


def learn():
    """Notes in the cache which kernels the large jobs of this process have used. To be called once these have ended
    without an error.
    """
    for job in done - {""}:
        from lmtk.machine.jit import record

        record(job)
