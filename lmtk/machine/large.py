"""The one switch between small jobs and large ones.

A large job runs kernels, which take seconds to compile, once, and 0.04 s to load. A small job runs the plain twin of
each kernel, in Python or numpy. A job in between runs kernels if it says which, and the cache has them.
"""

# kind -> the least size that is large
LARGE = {
    "text": 1 << 21,  # bytes to look up words in
    "ngrams": 200_000,  # tokens to count, n-grams to estimate, print or score
    "arpa": 1 << 21,  # bytes to read
    "binary": 1 << 24,  # bytes of a file to check
    "units": 1 << 12,  # hidden units with gates at one time step
    "states": 1 << 14,  # of such units, at all time steps of a minibatch
}


def pays(kind, n, kernels=()):
    """Whether kernels pay for a job of size n. Where the cache has its `kernels`, a sixteenth of the size is enough."""
    if n >= LARGE[kind] or n < LARGE[kind] >> 4 or not kernels:
        return n >= LARGE[kind]
    from lmtk.machine.jit import recorded

    return recorded(kernels)
