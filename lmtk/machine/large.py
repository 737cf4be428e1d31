"""The one switch between small jobs and large ones.

A large job is worth kernels: to compile them takes seconds, once, and to load them 0.04 s. A small job runs the plain
twin of each kernel, in Python or numpy.
"""

# kind -> the least size that is large
LARGE = {
    "text": 1 << 21,  # bytes to look up words in
    "ngrams": 200_000,  # tokens to count, n-grams to estimate, print or score
    "arpa": 1 << 21,  # bytes to read
    "binary": 1 << 24,  # bytes to sum up
    "units": 1 << 12,  # hidden units with gates at a step
}


def pays(kind, n):
    """Whether a job of size n is large."""
    return n >= LARGE[kind]
