"""What mpiexec tells a process about its place, in variables: those of MPICH, Intel MPI and Open MPI. And a parent for
each rank, which says that the rank was killed.
"""

import os
import signal

SIZES, RANKS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
INHERITED = "PMI_FD"  # of MPICH and Intel MPI: the open file through which a rank and its child can reach mpiexec


def started():
    """How many ranks mpiexec has started; 1 without it."""
    return max(int(os.environ.get(name) or 1) for name in SIZES)


def first():
    """Whether this process is the first of these ranks."""
    return all((os.environ.get(name) or "0") == "0" for name in RANKS)


def supervise(program):
    """Goes on in a child process. Its parent ends with the child's status, and prints a line if a signal has ended it:
    when a rank is killed, mpiexec kills all processes of all ranks, and says on stdout only which process has died; but
    it waits until the parent has ended. Does nothing without an mpiexec of MPICH or Intel MPI: others name a killed
    rank themselves.
    """
    if INHERITED not in os.environ or not (child := os.fork()):
        return
    # mpiexec sends these signals to the child too
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if number != signal.SIGPIPE:  # by which a program ends silently when nobody reads what it prints
        name, hint = signal.Signals(number).name, ", perhaps because memory ran out" * (number == signal.SIGKILL)
        place = f"rank {os.environ[RANKS[0]]} of {started()} (process {child} on {os.uname().nodename})"
        os.write(2, f"{program}: {place} was killed by {name}{hint}\n".encode())
    os._exit(128 + number)
