"""The ranks of a job: `Alone`, or `Many` under mpiexec; with `pooled`, the ranks of a node become threads of one rank.

A communicator has rank, size, sum, max, join, share, swap, gather and place;
only Many has tell, send, receive and times. All ranks must call the same methods in the same order.
"""

import atexit
import contextlib
import os
import re
import sys
import time
import warnings
from functools import partial

import numpy as np

from lmtk.errors import LmtkError, LmtkWarning, UsageError
from lmtk.machine import mpiexec, threads

IDLE = 0.01  # seconds between two checks of a rank that has nothing to do
TURN = 1.5  # seconds that a rank which fails waits for each rank below it
TURNS = 5  # the most ranks that it waits for
SEGMENT = re.compile(r" (/dev/shm/mpich_shm_\w+)$", re.M)  # memory that MPICH's ranks on one node share


class Alone:
    """The communicator of a run in one process. stride: how many ranks take turns with the minibatches of an epoch."""

    rank, size, sent, stride = 0, 1, 0, 1

    def sum(self, a):
        return a

    max = swap = place = join = sum

    def share(self, make):
        return make()

    def gather(self, part):
        return [part]


ALONE = Alone()


class Many:
    """The communicator of a rank of MPI. timed: whether waiting is timed by itself, with a barrier before exchanges."""

    def __init__(self, MPI, timed=False, world=None):
        self.MPI, self.world, self.timed = MPI, world or MPI.COMM_WORLD, timed
        self.rank, self.size, self.stride = self.world.Get_rank(), self.world.Get_size(), 1  # all work on a minibatch
        self.begun, self.waiting, self.communication = time.perf_counter(), 0.0, 0.0
        self.sent = 0  # bytes that `swap` and `send` have sent to others

    def exchange(self, begin, *arguments):
        """Begins one of MPI's collective operations and waits until it is done."""
        begun = time.perf_counter()
        if self.timed:
            wait(self.world.Ibarrier())
        ready = time.perf_counter()
        wait(begin(*arguments))
        self.waiting += ready - begun
        self.communication += time.perf_counter() - ready

    def reduce(self, a, operation):
        out = np.empty_like(a, order="C")
        self.exchange(self.world.Iallreduce, np.ascontiguousarray(a), out, operation)
        return out if isinstance(a, np.ndarray) else out.item()

    def sum(self, a):
        """The sum over the ranks of an array or a number, the same on every rank."""
        return self.reduce(a, self.MPI.SUM)

    def max(self, a):
        """The maximum over the ranks of each element of an array, or of a number."""
        return self.reduce(a, self.MPI.MAX)

    def join(self, rows):
        """The ranks' rows (V_i, D) one below the other, (sum of V_i, D), on every rank."""
        sizes, D = self.world.allgather(rows.size), rows.shape[1]
        out = np.empty((sum(sizes) // D, D), rows.dtype)
        self.exchange(self.world.Iallgatherv, np.ascontiguousarray(rows), [out, sizes])
        return out

    def share(self, make):
        """The result of make() on rank 0, on every rank; the others do not call it. `times` counts from here on."""
        made = make() if self.rank == 0 else None
        wait(self.world.Ibarrier())
        made = self.world.bcast(made, root=0)
        self.begun, self.waiting, self.communication = time.perf_counter(), 0.0, 0.0
        return made

    def swap(self, parts):
        """Sends parts[i], (N_i, ...) of one type, to rank i. Returns the parts of all ranks, in the order of ranks."""
        sizes = np.array([part.size for part in parts])
        received = np.array(self.world.alltoall(sizes.tolist()))
        sent = np.concatenate([part.ravel() for part in parts])
        out = np.empty(received.sum(), sent.dtype)
        self.sent += (sent.size - int(sizes[self.rank])) * sent.itemsize
        self.world.Alltoallv([sent, sizes], [out, received])
        return [part.reshape(-1, *parts[0].shape[1:]) for part in np.split(out, np.cumsum(received)[:-1])]

    def tell(self, number):
        """Sends a whole number to the other ranks. Returns a function that waits for all ranks' numbers, a list."""
        sent, numbers = np.array([number]), np.empty(self.size, np.int64)
        request = self.world.Iallgather(sent, numbers)

        def hear():
            wait(request)
            return numbers.tolist()

        return hear

    def send(self, parts):
        """Sends a list of bytes to rank 0."""
        self.sent += sum(map(len, parts))
        for part in (*parts, None):
            self.world.send(part, 0)

    def receive(self, rank):
        """On rank 0, an iterator over the bytes that a rank sends by `send`."""
        return iter(partial(self.world.recv, source=rank), None)

    def gather(self, part):
        """The list of the ranks' parts, in the order of ranks, on every rank."""
        return self.world.allgather(part)

    place = Alone.place

    def times(self):
        """Seconds of computation, communication and waiting, (3,), the mean over the ranks. Only if `timed`."""
        whole = time.perf_counter() - self.begun
        seconds = np.array([whole - self.communication - self.waiting, self.communication, self.waiting])
        return self.world.allreduce(seconds) / self.size


def wait(request, pause=5e-5):
    """Waits until an operation is done. It polls without pauses at first, since most operations are short, and then
    with pauses, so that others get the processor.
    """
    moment = time.perf_counter() + 2e-4
    while not request.Test():
        if time.perf_counter() > moment:
            time.sleep(pause)


def split_by_machine(comm):
    """Splits the ranks by machine. Returns MPI's communicator of the ranks on this machine; the communicator of the
    first ranks of all machines, on other ranks MPI's null, which is false; and the number of machines.
    """
    node = comm.world.Split_type(comm.MPI.COMM_TYPE_SHARED)
    return node, comm.world.Split(0 if node.rank == 0 else comm.MPI.UNDEFINED), comm.sum(int(node.rank == 0))


def tell_alone(remedy="; with -mpi they share the job"):
    """Warns, on the first rank, if mpiexec started several processes that share no work. remedy: the warning's end."""
    if (size := mpiexec.started()) > 1 and mpiexec.first():
        text = f"mpiexec started {size} processes, and each does the whole job{remedy}"
        warnings.warn(text, LmtkWarning, stacklevel=2)


@contextlib.contextmanager
def ranks(timed=False):
    """Yields a `Many` for a block of code that all ranks run. If one rank fails, all are ended after its error is
    printed. Raises UsageError without mpi4py, or if mpiexec and the MPI library do not belong together.
    """
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
    except ImportError:
        raise UsageError("-mpi needs the package mpi4py; pip install mpi4py mpich") from None
    except RuntimeError as e:
        raise UsageError(f"-mpi needs an MPI library ({e}); pip install mpich") from None
    comm = Many(MPI, timed)
    if mpiexec.started() != comm.size:
        numbers = f"mpiexec started {mpiexec.started()} ranks, but the MPI library of mpi4py sees {comm.size}"
        raise UsageError(f"{numbers}; use the mpiexec of that library")
    forget_segments(comm)
    try:
        yield comm
        MPI.Finalize()  # now, so that ranks that are done do not slow down one that is not
    except BaseException as e:
        # at exit, since a caller prints the error's line
        statuses = {SystemExit: getattr(e, "code", 1), KeyboardInterrupt: 130, UsageError: 2}
        atexit.register(end_all, comm, statuses.get(type(e), 1))
        if isinstance(e, Exception):  # an error that all ranks meet is printed by the first, which ends the others
            time.sleep(TURN * min(comm.rank, TURNS))
        if isinstance(e, UsageError):
            raise LmtkError(str(e)) from None  # which every rank prints; usage errors are printed by the first rank
        raise


def forget_segments(comm):
    """Removes the names of the memory that MPICH's ranks share, once all ranks have it: a rank that is killed or that
    ends all others would leave them in /dev/shm for ever.
    """
    wait(comm.world.Ibarrier())
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for name in set(SEGMENT.findall(maps.read())):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


@contextlib.contextmanager
def pooled():
    """Yields the communicator of the first ranks of the nodes; None on the others, which wait. A first rank works in as
    many threads as all ranks of its node have, and on their processors: threads share memory and need not send. On a
    single node the communicator is ALONE, and MPI has ended. Raises as `ranks`.
    """
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(ranks())
        node, heads, number_of_nodes = split_by_machine(world)
        lent = node.allgather((threads.processors(), threads.thread_count()))
        if heads:
            processors = set().union(*(each for each, _ in lent))
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, processors)
            threads.use(min(len(processors), sum(number for _, number in lent)))
        if number_of_nodes == 1:
            stack.close()
            yield ALONE if heads else None
        else:
            yield Many(world.MPI, world=heads) if heads else None
            wait(world.world.Ibarrier(), IDLE)


def end_all(comm, status):
    """Ends every rank at once, without a line from the MPI library after the error message."""
    sys.stderr.flush()
    # when mpiexec is told to end all ranks, it drops output that it has not passed on
    time.sleep(0.5)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    comm.world.Abort(status)
