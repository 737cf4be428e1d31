"""The neural model of Bengio et al. 2003, section 2: what it holds, how it scores, its file."""

from dataclasses import dataclass

import numpy as np

from lmtk.files import container
from lmtk.files.declared import optional, reals
from lmtk.nplm import kernels, model
from lmtk.text.vocab import Vocab


@dataclass(frozen=True)
class Network(model.Neural):
    """theta = (b, d, W, U, H, C), equation (1): y = b + Wx + U tanh(d + Hx).

    C (words, m), H (h, (n-1)m), d (h,), U (V, h), W (V, (n-1)m) or None, b (V,), float32; shapes as in `kernels`.
    """

    kind, arrays = "nplm", ("C", "H", "d", "U", "W", "b")
    R = None  # no recurrent weights

    vocab: Vocab
    order: int
    C: np.ndarray
    H: np.ndarray
    d: np.ndarray
    U: np.ndarray
    W: np.ndarray | None
    b: np.ndarray
    settings: dict

    def score_contexts(self, rows, w):
        """ln p(w | context), (N,) float64, for contexts (N, n-1) and words w (N,)."""
        M = outputs(self.U, self.W, self.b)
        exp_rows = kernels.exp_rows if len(rows) > model.MANY else model.exp_rows_plain

        def prepare(rows):
            z = self.hidden(rows)
            return model.log_sums_of_product(z, M, exp_rows), lambda k, w: np.einsum("kd,kd->k", z[k], M[w])

        return model.in_contexts(rows, w, len(self.C), prepare)

    def hidden(self, rows):
        """z (K, D), what the outputs are made of, for contexts (K, n-1)."""
        x, a = kernels.hidden(self.C, self.H, self.d, rows)
        return kernels.stack(a, x, self.W is not None)

    @staticmethod
    def holds(sizes, size):
        m, seen = size("C", 1), sizes.order - 1
        return declared(sizes.W, m, seen * m, size("d", 0), sizes.V)

    def describe(self):
        yield "kind", f"{self.kind}: neural probabilistic language model"
        yield "order n", self.order
        yield "hidden units h", len(self.d)
        yield "features m", self.C.shape[1]
        yield "direct connections", "no" if self.W is None else "yes"
        yield "parameters", sum(a.size for a in self.named().values())
        yield "predicted words |V|", len(self.b)
        yield from container.shown(self.settings)


def declared(words, m, seen, h, V):
    """The arrays of a network of so many words, features of a word and of a context, hidden units and outputs."""
    C, H, d, U, W, b = reals(words, m), reals(h, seen), reals(h), reals(V, h), optional(reals(V, seen)), reals(V)
    return {"C": C, "H": H, "d": d, "U": U, "W": W, "b": b}


def outputs(U, W, b):
    """M (V, D): one row for each output, which z is multiplied with."""
    return np.column_stack((U, b) if W is None else (U, W, b))


from_arrays = Network.from_arrays
