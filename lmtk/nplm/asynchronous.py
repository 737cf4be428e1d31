"""Asynchronous training (Bengio et al. 2003, section 3.1): the ranks of a node update the same parameters at once."""

import numpy as np

from lmtk.machine.parallel import Alone, split_by_machine, wait


class Common(Alone):
    """The communicator of asynchronous training: each rank works as if alone, on arrays that the ranks of its node
    share. Nothing keeps two ranks from writing at the same time. ranks: the communicator of all ranks.
    """

    def __init__(self, comm):
        self.MPI, self.ranks, self.stride = comm.MPI, comm, comm.size
        self.node, self.heads, self.nodes = split_by_machine(comm)
        self.placed = []

    def place(self, a):
        """A copy of the first rank's array in memory that the ranks of the node share. a: C or Fortran contiguous."""
        window = self.MPI.Win.Allocate_shared(a.nbytes if self.node.rank == 0 else 0, a.itemsize, comm=self.node)
        buffer = window.Shared_query(0)[0]
        out = np.ndarray(a.shape, a.dtype, buffer, strides=a.strides)
        if self.node.rank == 0:
            out[...] = a
        self.placed.append((window, np.frombuffer(buffer, a.dtype)))
        wait(self.node.Ibarrier())
        return out

    def gather_decay(self, pending):
        """The weight decay that the parameters of a node still lack, as a mean over the nodes. pending: the decay that
        this rank has yet to apply (`objectives.make_decay`). All ranks must call this function together.
        """
        return self.ranks.sum(pending) / self.nodes

    def hand_out_decay(self, pending):
        """The part of `pending`, the decay from `gather_decay`, that this rank applies in a resumed run. The first rank
        of a node applies all of it, so a run can be resumed with another number of ranks.
        """
        return pending if self.node.rank == 0 else np.zeros_like(pending)

    def average(self):
        """Sets all placed arrays to their means over the nodes. The ranks of a node wait for one another."""
        if self.nodes == 1:
            return
        wait(self.node.Ibarrier())
        if self.heads:
            for _, flat in self.placed:
                wait(self.heads.Iallreduce(self.MPI.IN_PLACE, flat))
                flat /= self.nodes
        wait(self.node.Ibarrier())
