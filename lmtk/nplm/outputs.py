"""Output layers: from z = [a | x | 1] (`kernels`) to probabilities of words, and updates of the output weights.

An output layer is a record of functions, `Output`, that networks look up by name. `full`, the softmax of section 2, and
`tied` are defined here; the modules `classes`, `tree` and `energy` define the others.

An objective (`objectives`) trains an output layer through a function update(z, w, epsilon, curvature) -> (L, dL/dz)
that changes the output weights in place. The objectives `full`, `sampled` and `nce` train the same layer: on all words,
on a sample of the words, or against noise. In training the weights are `Blocks` if every update changes all of them,
and `Rows` if an update changes a few.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lmtk.errors import LmtkError
from lmtk.files.declared import optional, reals
from lmtk.machine.blas import shares
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import map_at_once
from lmtk.nplm import kernels, model
from lmtk.nplm.pace import rate_factors, variances

f32 = np.float32


@dataclass(frozen=True)
class Output:
    """An output layer.

    declare(V, h, seen, size): the arrays of the layer, in the notation of `files.declared`. z has h activations and
    `seen` features; size(name, axis): a size of the arrays in the file.
    log_p(p, hidden, rows, w): exact ln p(w | context), (N,) float64, for contexts `rows` (N, .) of ids and
    words w (N,). p has the arrays by letter; hidden(rows) -> z.
    log_all(p, z): ln p of all words, (K, V); None: by log_p, see the function `log_all`.
    variances(p, w): p (1 - p) of each output unit in the training words w, then of each class, for `pace.make_pace`.
    check(p, V, path): raises FormatError if the arrays do not fit together; describe(p): lines for `lmtk info`.
    least: the smallest vocabulary; title: what `lmtk info` calls a network with this output layer.
    """

    declare: Callable
    log_p: Callable
    log_all: Callable | None = None
    variances: Callable = lambda p, w: (variances(w, len(p.b)),)
    check: Callable = lambda p, V, path: None
    describe: Callable = lambda p: ()
    least: int = 1
    title: str = "neural probabilistic language model"


def declare_softmax(V, h, seen, size):
    """The arrays U, W and b of V outputs."""
    return {"U": reals(V, h), "W": optional(reals(V, seen)), "b": reals(V)}


def make_softmax(declare, weights):
    """The Output of the softmax p = e^y / sum_i e^(y_i), y = b + Wx + Ua. weights(p): U, W, b. Equal contexts are
    computed once.
    """

    def log_p(p, hidden, rows, w):
        M, exp_rows = kernels.stack_weights(*weights(p)), model.choose_exp_rows(len(rows) > model.MANY)

        def prepare(rows):
            z = hidden(rows)
            block = lambda j, y: np.matmul(z, M[j : j + y.shape[1]].T, out=y)
            return model.log_sums(len(z), len(M), block, exp_rows), lambda k, w: np.einsum("kd,kd->k", z[k], M[w])

        return model.score_distinct_contexts(rows, w, prepare)

    return Output(declare, log_p, lambda p, z: log_softmax(outputs_of(z, *weights(p))))


def log_all(output, p, z, V):
    """ln p of all V words for the inputs z (K, D) of an output layer, an `Output`: (K, V) float64."""
    if output.log_all:
        return output.log_all(p, z)
    K = len(z)
    rows, w = np.repeat(np.arange(K), V)[:, None], np.tile(np.arange(V), K)
    return output.log_p(p, lambda rows: z[rows[:, 0]], rows, w).reshape(K, V)


def outputs_of(z, U, W, b):
    """y = b + Wx + Ua, (K, V) float64, for z = [a | x | 1] (K, D). W: None without direct connections."""
    h = U.shape[1]
    y = (z[:, :h] @ U.T + b).astype(np.float64)
    return y if W is None else y + z[:, h:-1] @ W.T


def log_softmax(y):
    """ln of the softmax of each row of y (K, V), in place."""
    y -= y.max(axis=1, keepdims=True)
    y -= np.log(np.exp(y).sum(axis=1, keepdims=True))
    return y


FULL = make_softmax(declare_softmax, lambda p: (p.U, p.W, p.b))
# U = C (Press and Wolf 2017): the features of a word are its output weights, so m is h
TIED = make_softmax(
    lambda V, h, seen, size: {"C": reals(size("C", 0), h), "b": reals(V)}, lambda p: (p.C[: len(p.b)], None, p.b)
)


@dataclass(frozen=True)
class Block:
    """A block of `size` output units, from unit `start` on.

    take() -> the weights MT (D, size) of the block and `low` (size,), what single precision rounds off its biases.
    put(MT, low) stores both after an update; None: updates change the result of take() in place.
    """

    start: int
    size: int
    take: Callable
    put: Callable | None = None


@dataclass
class Blocks:
    """The output units of one rank, cut into blocks for its threads. decay: the weight decay of U and W that each
    update applies; the bias b does not decay.

    buffers: memory for the outputs y of the blocks. It is kept between updates, because the first use of new memory
    takes as long as a matrix product.
    """

    blocks: list
    comm: object = ALONE
    threads: int = 1
    decay: float = 0.0
    buffers: list = field(default_factory=list)

    def output_buffers(self, K):
        """An array (K, V_i) for each block."""
        if not self.buffers or len(self.buffers[0]) < K:
            self.buffers = [np.empty((K, block.size), f32) for block in self.blocks]
        return [y[:K] for y in self.buffers]

    def shrink(self, keep):
        """Multiply U and W by `keep`: weight decay."""
        for block in self.blocks:
            block.take()[0][:-1] *= f32(keep)

    @property
    def weights(self):
        """The arrays that updates change in place."""
        return [a for block in self.blocks for a in block.take()]

    def gather(self, h, direct):
        """Gather copies of U, W, b and b_low from all ranks, on every rank. W is None without direct connections."""
        MT = np.concatenate([np.vstack(block.take()) for block in self.blocks], axis=1)
        return split_trained(self.comm.join(MT.T), h, direct)


def units_of_rank(V, comm):
    """(first, last + 1) of this rank's output units (Bengio et al. 2003, section 3.2): each rank holds a block of
    ceil(V / size); all other parameters are the same on every rank. Raises LmtkError if a rank would have none.
    """
    size = -(-V // comm.size)
    first = comm.rank * size
    if (comm.size - 1) * size >= V:
        raise LmtkError(
            f"{V} words in blocks of {size} are too few for {comm.size} ranks; run with {-(-V // size)} ranks"
        )
    return first, min(first + size, V)


def make_blocks(p, threads, comm=ALONE, decay=0.0):
    """Copy U, W and b of section 2, and b_low, what single precision rounds off b, out of the arrays p into the Blocks
    of this rank, in memory that `comm` provides.

    Each rank has ceil(V / ranks) output units, the last rank fewer (section 3.2). These are cut into blocks of equal
    size, the last block smaller: two for each thread, so that a slower thread can work on fewer, or one for one thread.
    decay: the weight decay that each update applies.
    """
    first, end = units_of_rank(len(p.b), comm)
    number = threads if threads == 1 else 2 * threads
    size, blocks = -(-(end - first) // number), []
    for start in range(first, end, size):
        part = slice(start, min(start + size, end))
        M = kernels.stack_weights(p.U[part], None if p.W is None else p.W[part], p.b[part])
        pair = comm.place(np.ascontiguousarray(M.T, f32)), comm.place(p.b_low[part].copy())
        blocks.append(Block(start, len(M), lambda pair=pair: pair))
    return Blocks(blocks, comm, threads, decay)


def split_trained(M, h, direct):
    """Copy U, W, b and b_low out of [U | W | b | b_low] (V, D + 1)."""
    return dict(zip("UWb", kernels.split_weights(M[:, :-1], h, direct))) | {"b_low": M[:, -1].copy()}


def update_output(layer, output_pace, z, w, epsilon, curvature, log_c=None):
    """Update the softmax over output units in blocks, as in section 3.2.

    For each block, a thread computes the outputs y, their maximum, the sum of their exponentials and the block's share
    of dL/dz, and updates the rows of M of the block. As in the paper, ranks share the maximum, the sum and dL/dz by
    Allreduce.

    layer: a `Blocks`. output_pace (V,): the field `outputs` of a Pace. z (K, D): the input of the output layer; w (K,):
    the target words; epsilon: the learning rate; curvature: as in `sgd.step`. log_c (V,): subtracted from the outputs,
    except from those of the target words; None: nothing is.
    Returns (L, dL/dz); if L is not finite, nothing changes and dL/dz is None.
    """
    K = len(w)

    def forward(work):
        block, y = work
        MT, low = block.take()
        return block, (MT, low), y, kernels.block_forward(z, w, block.start, MT, y, log_c)

    outputs = map_at_once(forward, zip(layer.blocks, layer.output_buffers(K), strict=True), layer.threads)
    logp, scale = kernels.normalize(*map(np.stack, zip(*(sums for *_, sums in outputs))), layer.comm)
    L = float(logp.sum())
    if not np.isfinite(L):
        return L, None
    rates = epsilon, 1 - K * epsilon * layer.decay, rate_factors(output_pace, curvature)

    def backward(work):
        (block, weights, y, _), scale = work
        gz = kernels.block_backward(z, w, block.start, weights, y, scale, rates)
        if block.put:
            block.put(*weights)
        return gz

    return L, layer.comm.sum(sum(map_at_once(backward, zip(outputs, scale, strict=True), layer.threads)))


class Rows:
    """The output units of one rank, from unit `first` on, for updates that change a few: M (V_i, D), row by row.

    If the output layer is tied, M is None, U is C, the array of features that the hidden layer trains too, and the
    field b has the biases. low (V_i,): what single precision rounds off the biases. threads: the number of threads for
    an update.
    """

    def __init__(self, p, threads=1, comm=ALONE, C=None):
        """Copy U, W, b and b_low out of the arrays p. Without U the layer is tied to C, which is not copied."""
        self.comm, self.threads, self.C = comm, threads, C
        self.first, end = units_of_rank(len(p.b), comm)
        part = slice(self.first, end)
        if hasattr(p, "U"):
            M = kernels.stack_weights(p.U[part], None if p.W is None else p.W[part], p.b[part])
            self.M, self.b = comm.place(np.ascontiguousarray(M, f32)), None
        else:
            self.M, self.b = None, comm.place(p.b.copy())
        self.low = comm.place(p.b_low[part].copy())

    def __len__(self):
        return len(self.b if self.M is None else self.M)

    def slices(self, words, z):
        """Cut the ascending ids `words` into slices for the threads: those of this rank, at least one slice.

        Threads wait for each other twice, after the forward and after the backward pass. So another thread needs
        twice the multiplications of y = zM' that `shares` asks for. z (K, D): the input of the output layer.
        """
        return slice_words(words, self.first, len(self), shares(self.threads, z.size * len(words) // 2))

    def take(self, words):
        """Copy the weights MT (D, .) of these words of this rank, and `low` of their biases; the weights of a word are
        contiguous.
        """
        if self.M is None:
            at = run_of(words)
            return np.vstack((self.C[at].T, self.b[at])), self.low[words]
        return self.M[words - self.first].T, self.low[words - self.first]

    def put(self, words, MT, low):
        self.low[words - self.first] = low
        if self.M is None:
            at = run_of(words)
            self.C[at], self.b[at] = MT[:-1].T, MT[-1]
        else:
            self.M[words - self.first] = MT.T

    def shrink(self, keep):
        """Multiply U and W by `keep`: weight decay. A tied U decays with the arrays of the hidden layer."""
        if self.M is not None:
            self.M[:, :-1] *= f32(keep)

    @property
    def weights(self):
        """The arrays that updates change in place."""
        return [self.b if self.M is None else self.M, self.low]

    def gather(self, h, direct):
        """Gather copies of U, W, b and b_low from all ranks, on every rank; only of the biases if the layer is tied."""
        if self.M is None:
            return {"b": self.b.copy(), "b_low": self.low.copy()}
        return split_trained(self.comm.join(np.column_stack((self.M, self.low))), h, direct)


def run_of(words):
    """Ascending ids, as a slice if none between them is missing: a slice of an array is not a copy."""
    is_run = len(words) and words[-1] - words[0] == len(words) - 1
    return slice(words[0], words[-1] + 1) if is_run else words


def slice_words(words, first, V, parts):
    """Cut the ascending ids `words` into at most `parts` slices, at least one, of ids from `first` up to first + V."""
    begin, end = np.searchsorted(words, (first, first + V))
    size = max(-(-(end - begin) // parts), 1)
    return [slice(i, min(i + size, end)) for i in range(begin, end, size)] or [slice(begin, begin)]
