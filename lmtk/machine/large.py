"""The one switch between small jobs and large ones.

A large job is worth kernels: to compile them takes seconds, once, and to load them 0.04 s. A small job runs the plain
twin of each kernel, in Python or numpy, unless it says which kernels it would run and the cache has them.
"""

# kind -> the least size that is large
LARGE = {
    "text": 1 << 21,  # bytes to look up words in
    "ngrams": 200_000,  # tokens to count, n-grams to estimate, print or score
    "arpa": 1 << 21,  # bytes to read
    "binary": 1 << 24,  # bytes to sum up
    "units": 1 << 12,  # hidden units with gates at a step
    "states": 1 << 14,  # theirs in all steps of a minibatch
}


def pays(kind, n, kernels=()):
    """Whether a job of size n is large; where the cache has its `kernels`, a sixteenth of the size is enough."""
    if n >= LARGE[kind] or n < LARGE[kind] >> 4 or not kernels:
        return n >= LARGE[kind]
    from lmtk.machine.jit import recorded

    return recorded(kernels)
