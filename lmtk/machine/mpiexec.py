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
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # -n if signal n has ended the child
    # SIGPIPE ends a program silently when nobody reads what it prints
    if status < 0 and status != -signal.SIGPIPE:
        name, hint = signal.Signals(-status).name, ", perhaps because memory ran out" * (status == -signal.SIGKILL)
        place = f"rank {os.environ[RANKS[0]]} of {started()} (process {child} on {os.uname().nodename})"
        os.write(2, f"{program}: {place} was killed by {name}{hint}\n".encode())
    os._exit(status if status >= 0 else 128 - status)
