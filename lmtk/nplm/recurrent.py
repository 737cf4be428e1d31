"""The network with a recurrent hidden layer in place of the window (Bengio et al. 2003, section 5.2, item 4).

Its state starts at 0 before the n - 1 words of a context, so that what it says of a word depends on them alone: in
training, where its gradient goes back through all of them, and in scoring alike. How far context helps is a question
of n, which costs time and no parameters.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.files.declared import reals
from lmtk.nplm import kernels
from lmtk.nplm.network import Network, declared


@dataclass(frozen=True)
class Recurrent(Network):
    """A Network whose a is the last of the states A_k = tanh(d + Hx(n-k) + R A_(k-1)), k = 1 .. n-1, A_0 = 0.

    H (h, m), R (h, h), W (V, m), of the last word, or None; float32; the rest as in a Network.
    """

    kind, arrays = "nplm-rnn", (*Network.arrays, "R")

    R: np.ndarray

    def hidden(self, rows):
        x, A = kernels.recurrent(self.C, self.H, self.R, self.d, rows)
        return kernels.stack(A[-1], x[:, : self.C.shape[1]], self.W is not None)

    @staticmethod
    def holds(sizes, size):
        m, h = size("C", 1), size("d", 0)
        return declared(sizes.W, m, m, h, sizes.V) | {"R": reals(h, h)}


from_arrays = Recurrent.from_arrays
