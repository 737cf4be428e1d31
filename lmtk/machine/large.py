"""The one switch between small jobs and large ones.

A large job runs kernels, which take seconds to compile, once, and 0.04 s to load. A small job runs the plain twin of
each kernel, in Python or numpy. A job in between runs kernels if it has a name, and an earlier job of this name has run
them. The parts of a job that has a name add up, until they are large together.
"""

# kind -> the least size that is large
LARGE = {
    "text": 1 << 21,  # bytes to look up words in
    "ngrams": 200_000,  # tokens to count, n-grams to estimate, print or score
    "arpa": 1 << 21,  # bytes to read
    "units": 1 << 12,  # hidden units with gates at one time step
    "states": 1 << 14,  # of such units, at all time steps of a minibatch
}
sizes = {}  # (kind, name) -> the size of all of this process's jobs of this name


def pays(kind, n, job=""):
    """Whether kernels pay for a job of size n, together with all that was done under its name. If an
    earlier job of this name has run kernels, a sixteenth of the size is enough.
    """
    sizes[kind, job] = n + (sizes.get((kind, job), 0) if job else 0)
    if sizes[kind, job] >= LARGE[kind]:
        return True
    if not job or n < LARGE[kind] >> 4:
        return False
    from lmtk.machine.jit import recorded

    return recorded(job)


def learn():
    """Notes in the cache that this process's large jobs have run kernels; to be called after they succeeded."""
    for job in {job for (kind, job), size in sizes.items() if job and size >= LARGE[kind]}:
        from lmtk.machine.jit import record

        record(job)
