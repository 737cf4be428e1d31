"""The ranks of a job: `Alone`, or `Many` under mpiexec, of whom those of a node may have arrays in common (`Common`)
or be one, in as many threads (`pooled`).

A communicator has rank, size, sum, max, largest, join, share, follow, place and times, and `Many` what counting wants
besides; all ranks must call the same ones in the same order. In training (Bengio et al. 2003, section 3.2) each rank
holds a block of ceil(V / size) output units; what is not an output unit is the same on every rank.
"""

import atexit
import contextlib
import os
import sys
import time
import warnings

import numpy as np

from lmtk.errors import LmtkError, LmtkWarning, UsageError
from lmtk.machine import threads

# what mpiexec tells a process, by implementation: MPICH and Intel MPI, Open MPI
SIZES, RANKS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
PIECE = 1 << 23  # bytes sent together
IDLE = 0.01  # seconds between two looks of a rank that has nothing to do


class Alone:
    """The communicator of a run in one process."""

    rank, size, sent = 0, 1, 0

    def sum(self, a):
        return a

    def max(self, a):
        return a

    def join(self, rows, total, out=None):
        if out is None:
            return rows
        out[:] = rows
        return out

    def share(self, make):
        return make()

    def largest(self, number):
        return number

    def each(self, make):
        return make()

    def swap(self, parts):
        return parts

    def swap_all(self, parts):
        return np.concatenate(parts[0])

    def gather(self, thing):
        return [thing]

    def total(self, number):
        return number

    def follow(self):
        pass

    def times(self):
        return None

    def place(self, a):
        return a


ALONE = Alone()


class Common(Alone):
    """Asynchronous training (Bengio et al. 2003, section 3.1): each rank works as if alone, on arrays that those of its
    node have in common. Nothing keeps two from writing at the same time.
    """

    def __init__(self, comm):
        self.MPI = comm.MPI
        self.node, self.heads, self.nodes = nodes(comm)
        self.placed = []

    def place(self, a):
        """The array, C or Fortran contiguous, as the first rank of the node has it, in memory common to the node."""
        window = self.MPI.Win.Allocate_shared(a.nbytes if self.node.rank == 0 else 0, a.itemsize, comm=self.node)
        buffer = window.Shared_query(0)[0]
        out = np.ndarray(a.shape, a.dtype, buffer, strides=a.strides)
        if self.node.rank == 0:
            out[...] = a
        self.placed.append((window, np.frombuffer(buffer, a.dtype)))
        wait(self.node.Ibarrier())
        return out

    def average(self):
        """The mean over the nodes of all that is placed, on each; the ranks of a node wait for one another."""
        if self.nodes == 1:
            return
        wait(self.node.Ibarrier())
        if self.heads:
            for _, flat in self.placed:
                wait(self.heads.Iallreduce(self.MPI.IN_PLACE, flat))
                flat /= self.nodes
        wait(self.node.Ibarrier())


class Many:
    """The communicator of a rank of MPI.

    timed: time waiting and communication apart, by a barrier before each exchange.
    """

    def __init__(self, MPI, timed=False, world=None):
        self.MPI, self.world, self.timed = MPI, world or MPI.COMM_WORLD, timed
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.begun, self.waiting, self.communication = time.perf_counter(), 0.0, 0.0
        self.sent = 0  # bytes that `swap`, `join` and `send` gave to others

    def exchange(self, begin, *arguments):
        """Begin one of MPI's collective operations and wait until it is done."""
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
        return out

    def sum(self, a):
        """The sum over the ranks of an array, the same array on every rank."""
        return self.reduce(a, self.MPI.SUM)

    def max(self, a):
        """The maximum over the ranks of each element of an array."""
        return self.reduce(a, self.MPI.MAX)

    def largest(self, number):
        """The largest of the ranks' whole numbers."""
        return int(self.max(np.array([number]))[0])

    def join(self, rows, total, out=None):
        """The ranks' rows (V_i, D) under one another, (total, D), on every rank; in `out`, if that is given."""
        out = np.empty((total, rows.shape[1]), rows.dtype) if out is None else out
        self.sent += rows.nbytes * (self.size - 1)
        sizes = [n * rows.shape[1] for n in self.world.allgather(len(rows))]
        kind = self.MPI._typedict[rows.dtype.char]
        self.exchange(self.world.Iallgatherv, np.ascontiguousarray(rows), [out, sizes, None, kind])
        return out

    def share(self, make):
        """What `make` gives on rank 0, on every rank; the others do not call it. `times` counts from here on."""
        made = make() if self.rank == 0 else None
        wait(self.world.Ibarrier())
        made = self.world.bcast(made, root=0)
        self.begun, self.waiting, self.communication = time.perf_counter(), 0.0, 0.0
        return made

    def swap(self, parts):
        """From parts[i], (N_i, ...) of one kind for rank i, on every rank: what each rank has for this one, in their
        order.
        """
        shape = parts[0].shape[1:]
        out, ends = self.alltoall([[part.ravel()] for part in parts])
        return [part.reshape(-1, *shape) for part in np.split(out, ends[:-1])]

    def swap_all(self, parts):
        """The same of parts[i], a list of arrays (N,), with what comes from all ranks in one array."""
        return self.alltoall(parts)[0]

    def alltoall(self, parts):
        sizes = np.array([sum(map(len, some)) for some in parts])
        found = np.array(self.world.alltoall(sizes.tolist()))
        sent = np.concatenate([part for some in parts for part in some])
        out = np.empty(found.sum(), sent.dtype)
        self.sent += (sent.size - int(sizes[self.rank])) * sent.itemsize
        self.world.Alltoallv([sent, sizes], [out, found])
        return out, np.cumsum(found)

    def tell(self, number):
        """Sends a whole number to the other ranks. Returns a function that waits for those of all, in a list."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        sent = [self.world.isend(number, rank) for rank in others]

        def told():
            found = {rank: self.world.recv(source=rank) for rank in others} | {self.rank: number}
            for request in sent:
                request.wait()
            return [found[rank] for rank in range(self.size)]

        return told

    def send(self, size, get):
        """`size` bytes to rank 0, get(begin, end) being some of them, uint8."""
        self.world.send(size, 0)
        self.sent += size
        for begin in range(0, size, PIECE):
            self.world.Send(get(begin, min(begin + PIECE, size)), 0)

    def receive(self, rank, write):
        """On rank 0: what a rank sends, in pieces, to write(some)."""
        size = self.world.recv(source=rank)
        buffer = np.empty(min(size, PIECE), np.uint8)
        for begin in range(0, size, PIECE):
            some = buffer[: min(PIECE, size - begin)]
            self.world.Recv(some, rank)
            write(some.data)

    def gather(self, thing):
        """What each rank has, in a list, on every rank."""
        return self.world.allgather(thing)

    def total(self, number):
        """The sum of the ranks' whole numbers."""
        return int(self.sum(np.array([number]))[0])

    def each(self, make):
        """What `make` gives, on each rank; where it fails, one rank tells."""
        made, error = None, None
        try:
            made = make()
        except (LmtkError, OSError) as e:
            error = e
        failed = [rank for rank, it in enumerate(self.gather(error is not None)) if it]
        if failed:
            self.follow(failed[0])
            raise error
        return made

    def follow(self, rank=0):
        """On one rank nothing; the others wait here until it ends them."""
        if self.rank != rank:
            self.world.recv(source=rank)

    def place(self, a):
        return a

    def times(self):
        """Seconds of compute, communication and waiting, (3,), the mean over the ranks; None if not timed."""
        if not self.timed:
            return None
        whole = time.perf_counter() - self.begun
        mine = np.array([whole - self.communication - self.waiting, self.communication, self.waiting])
        return self.world.allreduce(mine) / self.size


def wait(request, pause=5e-5):
    """Until an operation is done: a moment at full speed, since most are short; then others may have the processor."""
    moment = time.perf_counter() + 2e-4
    while not request.Test():
        if time.perf_counter() > moment:
            time.sleep(pause)


def nodes(comm):
    """MPI's communicator of the ranks of this one's node; that of the first ranks of the nodes, None on the others; how
    many nodes there are.
    """
    node = comm.world.Split_type(comm.MPI.COMM_TYPE_SHARED)
    heads = comm.world.Split(0 if node.rank == 0 else comm.MPI.UNDEFINED)
    return node, heads if node.rank == 0 else None, comm.total(int(node.rank == 0))


def block(V, comm):
    """(first, last + 1) of the output units of a rank. Raises LmtkError where there are none."""
    size = -(-V // comm.size)
    first = comm.rank * size
    if (comm.size - 1) * size >= V:
        raise LmtkError(f"{V} words in blocks of {size} are too few for {comm.size} ranks; run with {-(-V // size)}")
    return first, min(first + size, V)


def started():
    """How many ranks mpiexec says that it started, 1 without it."""
    return max(int(os.environ.get(name) or 1) for name in SIZES)


def tell_alone():
    """One line, of the first rank, where mpiexec started several processes of a job that does not share its work."""
    if started() > 1 and all((os.environ.get(name) or "0") == "0" for name in RANKS):
        told = f"mpiexec started {started()} processes, each of which does the whole job; -mpi shares it among them"
        warnings.warn(told, LmtkWarning, stacklevel=2)


@contextlib.contextmanager
def ranks(timed=False):
    """A `Many` for a block of code, the same on every rank; if it fails on one, all are ended once its error is told.

    Raises UsageError without mpi4py, or where mpiexec and the MPI library do not belong together.
    """
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
    except ImportError:
        raise UsageError("-mpi needs the package mpi4py; pip install 'lmtk[mpi]'") from None
    except RuntimeError as e:
        raise UsageError(f"-mpi finds no MPI library ({e}); pip install 'lmtk[mpi]'") from None
    comm = Many(MPI, timed)
    if started() != comm.size:
        raise UsageError(
            f"mpiexec started {started()} ranks, the MPI library that mpi4py found sees {comm.size}; "
            "use the mpiexec of that library"
        )
    try:
        yield comm
        MPI.Finalize()  # who has more to do is not slowed down by others that wait for it
    except BaseException as e:
        # at exit, since the error's line is printed further up
        statuses = {SystemExit: getattr(e, "code", 1), KeyboardInterrupt: 130, UsageError: 2}
        atexit.register(end_all, comm, statuses.get(type(e), 1))
        raise


@contextlib.contextmanager
def pooled():
    """The communicator of the first ranks of the nodes, each of which works in the threads, and on the processors, of
    all ranks of its node: these have its memory in common, and nothing to send. None on the others, which wait.

    On one node it is ALONE, and MPI has ended. Raises as `ranks`.
    """
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(ranks())
        node, heads, many = nodes(world)
        lent = node.allgather((os.sched_getaffinity(0), threads.count()))
        if heads:
            processors = set().union(*(some for some, _ in lent))
            os.sched_setaffinity(0, processors)
            threads.use(min(len(processors), sum(number for _, number in lent)))
        if many == 1:
            stack.close()
            yield ALONE if heads else None
        else:
            yield heads and Many(world.MPI, world=heads)
            wait(world.world.Ibarrier(), IDLE)


def end_all(comm, status):
    """End every rank, at once; without a line of the MPI library's own behind that of the error."""
    sys.stderr.flush()
    # mpiexec drops what it has not passed on by the time it is told to end all
    time.sleep(0.5)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    comm.world.Abort(status)
