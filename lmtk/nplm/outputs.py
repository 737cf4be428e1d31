"""Output layers: the probabilities of words from z = [a | x | 1] (`kernels`), and updates of the output weights.

An output is a record of functions, looked up by its name: `full`, the softmax of section 2, and `tied` stand here,
`class`, `tree` and `energy` in `classes`, `tree` and `energy`.

An objective (`objectives`) trains an output. It makes a function see(z, w, epsilon, curvature) -> (L, dL/dz) that
updates the output weights in place. The objectives `full`, `sampled` and `nce` train the same output: on all words, on
a sample of them, or against noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lmtk.files.declared import optional, reals
from lmtk.machine import parallel
from lmtk.nplm import kernels, model
from lmtk.nplm.pace import slowed, variances

f32 = np.float32


@dataclass(frozen=True)
class Output:
    """An output layer.

    declared(V, h, seen, size): its arrays, as `files.declared` describes them; z has h activations and `seen` features;
    size(name, axis): of the arrays in the file.
    log_p(p, hidden, rows, w, W): ln p(w | context), (N,) float64, exact, for contexts `rows` (N, .) of ids below W and
    words w (N,); p has the arrays by letter; hidden(rows) -> z.
    variances(p, w): p (1 - p) of each output unit in the training words w, then of each class, for `pace.pace`.
    check(p, V, path): raises FormatError where the arrays do not fit together; about(p): what `lmtk info` shows.
    least: the smallest vocabulary; what: the name that `lmtk info` gives a network with it.
    """

    declared: Callable
    log_p: Callable
    variances: Callable = lambda p, w: (variances(w, len(p.b)),)
    check: Callable = lambda p, V, path: None
    about: Callable = lambda p: ()
    least: int = 1
    what: str = "neural probabilistic language model"


def of_words(V, h, seen, size):
    """U, W and b of V outputs."""
    return {"U": reals(V, h), "W": optional(reals(V, seen)), "b": reals(V)}


def softmax(p, hidden, rows, w, W):
    """p = e^y / sum_i e^(y_i), y = Mz. Equal contexts are computed once."""
    return of_outputs(kernels.outputs(p.U, p.W, p.b), hidden, rows, w, W)


def tied_softmax(p, hidden, rows, w, W):
    """The same with U = C (Press and Wolf 2017), m being h: a word's features are its weights."""
    return of_outputs(kernels.outputs(p.C[: len(p.b)], None, p.b), hidden, rows, w, W)


def of_outputs(M, hidden, rows, w, W):
    exp_rows = model.exponentials(len(rows) > model.MANY)

    def prepare(rows):
        z = hidden(rows)
        return model.log_sums_of_product(z, M, exp_rows), lambda k, w: np.einsum("kd,kd->k", z[k], M[w])

    return model.in_contexts(rows, w, W, prepare)


FULL = Output(of_words, softmax)
TIED = Output(lambda V, h, seen, size: {"C": reals(size("C", 0), h), "b": reals(V)}, tied_softmax)


@dataclass(frozen=True)
class Block:
    """The output units from `start` on, `size` of them. take() -> their weights MT (D, size); put(MT): has them again
    after an update, None: an update changes them in place.
    """

    start: int
    size: int
    take: Callable
    put: Callable | None = None


@dataclass
class Blocks:
    """The output units of a rank in blocks, which threads share. V: of all ranks.

    room: for the blocks' outputs y, kept between updates: fresh memory costs as much as a product.
    """

    blocks: list
    V: int
    comm: object = parallel.ALONE
    room: list = field(default_factory=list)

    def outputs(self, K):
        """An array (K, V_i) for each block."""
        if not self.room or len(self.room[0]) < K:
            self.room = [np.empty((K, block.size), f32) for block in self.blocks]
        return [y[:K] for y in self.room]


def number(threads):
    """How many blocks of outputs so many threads have: more than one each, so that a slower thread does fewer."""
    return threads if threads == 1 else 2 * threads


def split(U, W, b, parts, comm=parallel.ALONE):
    """U, W, b as section 2 has them -> the Blocks of this rank, copied to where `comm` places them.

    A rank has ceil(V / ranks) output units, the last one fewer (section 3.2). They are cut into `parts` blocks
    likewise; `number` says how many there should be.
    """
    first, end = parallel.block(len(b), comm)
    size = -(-(end - first) // parts)
    rows = (slice(i, min(i + size, end)) for i in range(first, end, size))
    stacked = (U, b[:, None]) if W is None else (U, W, b[:, None])
    blocks = [(part.start, np.ascontiguousarray(np.hstack([a[part] for a in stacked]).T, f32)) for part in rows]
    blocks = [(start, comm.place(MT)) for start, MT in blocks]
    return Blocks([Block(start, MT.shape[1], lambda MT=MT: MT) for start, MT in blocks], len(b), comm)


def join(mine, h, direct):
    """Blocks -> U, W and b by letter, whole and copied, on every rank; W is None without direct connections."""
    MT = np.concatenate([block.take() for block in mine.blocks], axis=1)
    return dict(zip("UWb", kernels.output_weights(mine.comm.join(MT.T, mine.V), h, direct)))


def see(mine, team, pace, decay, z, w, epsilon, curvature, log_c=None):
    """An update of the softmax over the output units in blocks, as in section 3.2.

    A block computes its own outputs y, their maximum, the sum of their exponentials and its share of dL/dz, and updates
    its own rows of M. As in the paper, ranks share the maximum, the sum and dL/dz by Allreduce.

    pace (V,): eps_0 K c of the outputs; decay: of U and W, not of the bias b. log_c: as in `kernels.block_forward`.
    Returns (L, dL/dz); where L is not finite nothing is updated.
    """
    K = len(w)

    def forward(work):
        block, y = work
        MT = block.take()
        return block, MT, y, kernels.block_forward(z, w, block.start, MT, y, log_c)

    found = team(forward, zip(mine.blocks, mine.outputs(K), strict=True))
    logp, scale = kernels.normalize(*map(np.stack, zip(*(sums for *_, sums in found))), mine.comm)
    L = float(logp.sum())
    if not np.isfinite(L):
        return L, None
    keep, pace = 1 - K * epsilon * decay, slowed(pace, curvature)

    def backward(work):
        (block, MT, y, _), scale = work
        gz = kernels.block_backward(z, w, block.start, MT, y, scale, epsilon, keep, pace)
        if block.put:
            block.put(MT)
        return gz

    return L, mine.comm.sum(sum(team(backward, zip(found, scale, strict=True))))


@dataclass
class Rows:
    """The output units of a rank, from `first` on, for updates that change some: M (V_i, D), in memory row by row.

    Where the output is tied, M is None: U is C, the layer's own array of features, and b is apart.
    """

    M: np.ndarray | None
    V: int
    first: int = 0
    comm: object = parallel.ALONE
    C: np.ndarray | None = None
    b: np.ndarray | None = None

    def __len__(self):
        return len(self.b if self.M is None else self.M)

    def take(self, words):
        """MT (D, .) of some words of this rank, copied; the weights of a word are contiguous."""
        if self.M is None:
            return np.vstack((self.C[words].T, self.b[words]))
        return self.M[words - self.first].T

    def put(self, words, MT):
        if self.M is None:
            self.C[words], self.b[words] = MT[:-1].T, MT[-1]
        else:
            self.M[words - self.first] = MT.T

    def shrink(self, share, times):
        """Weight decay of `times` updates, of U and W, not of b. Where U is C it decays with the layer's arrays."""
        if self.M is not None:
            self.M[:, :-1] *= f32((1 - share) ** times)


def rows(U, W, b, comm=parallel.ALONE, C=None):
    """Rows of U, W and b, copied; U None: tied to C, which is not copied."""
    if U is None:
        return Rows(None, len(b), 0, comm, C, comm.place(b.copy()))
    first, end = parallel.block(len(b), comm)
    part = slice(first, end)
    M = kernels.outputs(U[part], None if W is None else W[part], b[part])
    return Rows(comm.place(np.ascontiguousarray(M, f32)), len(b), first, comm)


def of_rows(mine, h, direct):
    """Rows -> the letters and arrays that `join` gives; tied, b alone."""
    if mine.M is None:
        return {"b": mine.b.copy()}
    return dict(zip("UWb", kernels.output_weights(mine.comm.join(mine.M, mine.V), h, direct)))


def slices(words, first, V, parts):
    """Slices of `words`, ascending ids, over those of the V outputs from `first` on: at least one, at most `parts`."""
    begin, end = np.searchsorted(words, (first, first + V))
    size = max(-(-(end - begin) // parts), 1)
    return [slice(i, min(i + size, end)) for i in range(begin, end, size)] or [slice(begin, begin)]
