"""What mpiexec tells a process about its place, in variables: those of MPICH, Intel MPI and Open MPI."""

import os

SIZES, RANKS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


def started():
    """How many ranks mpiexec has started; 1 without it."""
    return max(int(os.environ.get(name) or 1) for name in SIZES)


def first():
    """Whether this process is the first of these ranks."""
    return all((os.environ.get(name) or "0") == "0" for name in RANKS)
