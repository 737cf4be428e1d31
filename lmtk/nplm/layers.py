"""Hidden layers: from the features x of a context to activations a, and back-propagation from dL/da to dL/dx.

A layer is a record of functions, `Layer`, that networks look up by name in LAYERS: `nplm` (the paper's), `tdnn`, `rnn`,
`gru`, `lstm` and `energy`. Its arrays are made by `initial_arrays`.

symbol  shape                meaning
C       (>= V, m)            feature vectors, C(i) in row i
x       (K, n-1, m)          features of the words of each context, the last word first: C(w_(t-1)) .. C(w_(t-n+1));
                             or (D, 1, m), each distinct word once, where H multiplies each word on its own
H d     (h, (n-1)m) (h,)     nplm: o = d + Hx, a = tanh(o)                                    (equation 1)
H d G e (h, rm) (h,) (h, (n-r)h) (h,)  tdnn: b_s = tanh(d + H(x_s, .. x_(s+r-1))), s = 1 .. n-r, r = GROUP;
                             a = tanh(e + G(b_1, .. b_(n-r)))                                 (section 5.2, item 4)
H R d   (h, m) (h, h) (h,)   rnn: A_k = tanh(d + Hx(n-k) + R A_(k-1)), k = 1 .. n-1, A_0 = 0, a = A_(n-1)
                             (section 5.2, item 4)
H d     (h, nm) (h,)         energy: o = d + Hx without the columns of the output word, its first m (section 5.1), a = o
H R d   (g h, m) (g h, h) (g h,)  gru, lstm: `units` over a running text, g = 3 and 4: [gates, proposed state]
a       (K, h)               activations; the outputs see a, and x with direct connections
gX      as X                 dL/dX, L being the log-likelihood

gru and lstm carry their state from word to word. They read the text in B rows side by side: a minibatch has the next T
words of each row, ordered by time. The state is carried to the next minibatch; back-propagation through time stops at
the first of the T words. gru-2, lstm-2 and so on are stacks of such layers (`make_stack`): each layer above the
lowest reads the activations of the layer below it, and has arrays of its own: H2 (g h, h), R2, d2, then H3 and so on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk import units
from lmtk.machine.blas import product, products

f32 = np.float32
GROUP = 3  # words in a group of the layer tdnn
HIGHEST = 4  # the most layers in a stack
SPREAD = 0.25  # `Layer.spread` of a stack; with 1/sqrt(inputs) a stack hardly learns from a short text


@dataclass(frozen=True)
class Gradient:
    """The gradients of one layer of weights.

    arrays: name -> gradient. go (N, .): dL/do; o is the input of the nonlinearity at each of the N steps of the
    minibatch. inputs: the arrays, (N, .) each, that the weights multiply to compute o.
    """

    arrays: dict
    go: np.ndarray
    inputs: tuple


@dataclass(frozen=True)
class Layer:
    """A hidden layer, or a stack of them.

    sees(n): the number of words whose features the direct connections see.
    shapes(n, m, h): name -> shape of the arrays, in the order in which they are initialized. H and d are among them.
    A name that begins with R is an array of recurrent weights, one with d has the biases that `open` gets.
    forward(p, x, batch) -> (a, kept, state): p has the arrays by name, batch is a `Batch`. The state is None if the
    layer does not carry one.
    backward(p, kept, ga) -> (gx, gradients): kept comes from the forward pass; gx = dL/dx has as many numbers as x;
    gradients is a list with a Gradient for each layer of weights, the lowest first.
    once: whether H multiplies each word separately, so that x needs each distinct word only once.
    carries: whether the state is carried from word to word of a text; width(h): how many numbers this state has.
    depth: the number of layers in the stack, as in -layers; 1 for a layer with two layers of weights too, such as tdnn.
    order: the default of -order. open(d): sets the biases of gates that start open, in place.
    spread: the standard deviation of H before training; in a stack, of the lowest layer's H. None: 1/sqrt(inputs).
    needs_context: whether it needs order 2 or more. needs_hidden: whether it needs hidden units.
    """

    sees: Callable
    shapes: Callable
    forward: Callable
    backward: Callable
    width: Callable = lambda h: 0
    once: bool = False
    carries: bool = False
    depth: int = 1
    order: int = 8
    open: Callable = lambda d: None
    spread: float | None = None
    needs_context: bool = False
    needs_hidden: bool = True

    @property
    def recurrent_arrays(self):
        """The names of the arrays of recurrent weights."""
        return [name for name in self.shapes(2, 1, 1) if name[0] == "R"]


@dataclass(frozen=True)
class Batch:
    """The inputs of a layer for a minibatch, in addition to x.

    threads: how many threads share the work.
    at (K, n-1): the row of x (D, 1, m) with the features of each word; None: x has a row for each word.
    between: factors, (K, h) each, of the activations that a layer of a stack gives to the next one; None: all are 1.
    The others are for a layer that carries its state. sizes: for each t, how many rows of the text have a t-th word.
    state (rows, width): the state before the first word; None: 0. fresh (K,) bool: words before which the state is
    reset to 0; None: it is never reset.
    """

    sizes: list | None = None
    state: np.ndarray | None = None
    fresh: np.ndarray | None = None
    threads: int = 1
    at: np.ndarray | None = None
    between: list | None = None


def as_rows(x, batch):
    """x as (D, m), and the row of x with the features of each word, (K, n-1)."""
    at = np.arange(math.prod(x.shape[:2])).reshape(x.shape[:2]) if batch.at is None else batch.at
    return x.reshape(-1, x.shape[2]), at


def window(p, x, batch):
    """Steps 1(a), 1(b) of section 3.2: o <- d + Hx; a <- tanh(o)."""
    x = x.reshape(len(x), -1)
    a = product(batch.threads, x, p.H.T)
    a += p.d
    np.tanh(a, out=a)
    return a, (x, batch, a), None


def window_back(p, kept, ga):
    """Step 2(c): dL/do = (1 - a^2) dL/da; dL/dx = H' dL/do."""
    x, batch, a = kept
    go = ga * (1 - a * a)
    gx, arrays = backward_inputs(p, x, batch, go)
    return gx, [Gradient(arrays, go, (x,))]


def delayed(p, x, batch):
    """A time-delay network: b_s = tanh(d + H(x_s, .. x_(s+r-1))) with the same H and d for all groups of r words that
    follow each other, then a = tanh(e + G(b_1, b_2, ..)).
    """
    K, n1, m = x.shape
    r = p.H.shape[1] // m
    groups = np.lib.stride_tricks.sliding_window_view(x.reshape(K, n1 * m), r * m, axis=1)[:, ::m]
    groups = groups.reshape(-1, r * m)
    b = np.tanh(product(batch.threads, groups, p.H.T) + p.d).reshape(K, -1)
    a = np.tanh(product(batch.threads, b, p.G.T) + p.e)
    return a, (x.shape, batch, groups, b, a), None


def delayed_back(p, kept, ga):
    """Back-propagation through both layers. A word's features get a gradient from each group that has the word."""
    (K, n1, m), batch, groups, b, a = kept
    go_above = ga * (1 - a * a)
    gb, gG = products(batch.threads, (go_above, p.G, None), (go_above.T, b, None))
    above = Gradient({"G": gG, "e": go_above.sum(axis=0)}, go_above, (b,))
    go = (gb * (1 - b * b)).reshape(len(groups), -1)
    ggroups, arrays = backward_inputs(p, groups, batch, go)
    ggroups, gx = ggroups.reshape(K, -1, p.H.shape[1]), np.zeros((K, n1 * m), f32)
    for s in range(ggroups.shape[1]):
        gx[:, s * m : s * m + p.H.shape[1]] += ggroups[:, s]
    return gx, [Gradient(arrays, go, (groups,)), above]


def delayed_shapes(n, m, h):
    r = min(GROUP, n - 1)  # words in a group
    return {"H": (h, r * m), "d": (h,), "G": (h, (n - r) * h), "e": (h,)}


def linear(p, x, batch):
    """o = d + Hx, x without the output word. `energy` adds the part of the output word and takes the tanh."""
    m, x = x.shape[2], x.reshape(len(x), -1)
    return x @ p.H[:, m:].T + p.d, (x, m), None


def linear_back(p, kept, ga):
    x, m = kept
    return ga @ p.H[:, m:], [Gradient({"H": ga.T @ x, "d": ga.sum(axis=0)}, ga, (x,))]


def recurrent(p, x, batch):
    """A_0 = 0, A_k = tanh(d + Hx(n-k) + R A_(k-1)). The array A (n, K, h) holds the states from A_0 to A_(n-1)."""
    x, at = as_rows(x, batch)
    (K, n1), h = at.shape, len(p.d)
    o = (product(batch.threads, x, p.H.T) + p.d)[at]
    A = np.zeros((n1 + 1, K, h), f32)

    def forward(share):
        for k in range(n1):
            np.tanh(o[share, n1 - 1 - k] + A[k, share] @ p.R.T, out=A[k + 1, share])

    units.run_shares(batch.threads, forward, K, K * n1 * p.R.size)
    return A[-1], (x, at, batch, A), None


def recurrent_back(p, kept, ga):
    """Back-propagation through the n - 1 steps: dL/do_k = (1 - A_k^2) (dL/dA_k + R' dL/do_(k+1))."""
    x, at, batch, A = kept
    n1, K, h = len(A) - 1, *A.shape[1:]
    go = np.empty((K, n1, h), f32)

    def backward(share):
        step, gR = ga[share], np.zeros_like(p.R)
        for k in range(n1, 0, -1):
            step = (1 - A[k, share] * A[k, share]) * step
            go[share, n1 - k] = step
            gR += step.T @ A[k - 1, share]
            step = step @ p.R
        return gR

    gR = sum(units.run_shares(batch.threads, backward, K, K * n1 * p.R.size))
    gx, arrays = backward_inputs(p, x, batch, go.reshape(-1, h))
    return gx, [Gradient(arrays | {"R": gR}, go.reshape(-1, h), (x[at.ravel()], A[:-1].reshape(-1, h)))]


def backward_inputs(p, x, batch, go, *more):
    """dL/dx and the gradients of H and d, from dL/do of all words, (., h); x (D, m).

    more: other products, as `blas.products` takes them, which are computed in the same call.
    """
    ge = go if batch.at is None else units.sum_rows(go, batch.at.ravel(), len(x))
    gx, gH, *_ = products(batch.threads, (ge, p.H, None), (ge.T, x, None), *more)
    return gx, {"H": gH, "d": ge.sum(axis=0)}


def make_stack(unit, depth):
    """The Layer that is a stack of `depth` layers of a recurrent `units.Unit`."""

    def forward(p, x, batch):
        states = [None] * depth if batch.state is None else np.split(batch.state, depth, axis=1)
        kept = []
        for number, state in enumerate(states):
            x, at = as_rows(x, batch)
            q = SimpleNamespace(**{letter: getattr(p, name_in_stack(letter, number)) for letter in "HdR"})
            g = unit.gates * q.R.shape[1]
            inputs = product(batch.threads, x, q.H.T), at.ravel(), q.d
            state = None if state is None else np.ascontiguousarray(state)
            arguments = batch.sizes, (q.R[:g].T, q.R[g:].T), state, batch.fresh, batch.threads
            a, memory, states[number] = units.follow(unit, inputs, *arguments)
            kept.append((q, x, at, batch, memory))
            x, batch = scale_between(a, batch, number)[:, None], replace(batch, at=None)
        return a, kept, np.concatenate(states, axis=1)

    def backward(p, kept, ga):
        gradients = []
        for number, (q, x, at, batch, memory) in reversed(list(enumerate(kept))):
            ga = scale_between(ga, batch, number)
            h = q.R.shape[1]
            g, gR = unit.gates * h, np.empty_like(q.R.T)
            go = units.follow_back(unit, ga, batch.sizes, (q.R[:g].T, q.R[g:].T), memory, batch.threads)
            weights = units.weight_products(unit, memory, go, gR[:, :g], gR[:, g:])
            ga, arrays = backward_inputs(q, x, batch, go, *weights)  # ga: of the layer below, or dL/dx
            arrays = {name_in_stack(letter, number): a for letter, a in (arrays | {"R": gR.T}).items()}
            gradients.insert(0, Gradient(arrays, go, (x[at.ravel()], memory[2][:, :h])))
        return ga, gradients

    def shapes(n, m, h):
        layers = [recurrent_shapes(h if number else m, h, unit.gates + 1) for number in range(depth)]
        return {name_in_stack(letter, i): shape for i, layer in enumerate(layers) for letter, shape in layer.items()}

    return Layer(
        lambda n: 1, shapes, forward, backward, width=lambda h: depth * unit.width * h, once=True, carries=True,
        depth=depth, order=32, open=lambda d: units.open_gates(unit, d), spread=SPREAD if depth > 1 else None,
    )  # fmt: skip


def recurrent_shapes(m, h, g=1):
    return {"H": (g * h, m), "d": (g * h,), "R": (g * h, h)}


def name_in_stack(letter, number):
    """The name of an array of a layer of a stack; the lowest layer has the number 0."""
    return f"{letter}{number + 1}" if number else letter


def scale_between(a, batch, number):
    """The activations a (K, h) of a layer of a stack as the next layer reads them, or their gradient. Those of the
    highest layer stay as they are.
    """
    if batch.between is None or number == len(batch.between):
        return a
    return a * batch.between[number]


def stack_name(kind, depth):
    """The name in LAYERS of a stack of `depth` layers of a kind, gru or lstm."""
    return kind if depth == 1 else f"{kind}-{depth}"


# fmt: off
LAYERS = {  # by the name in -model and in files
    "nplm": Layer(
        lambda n: n - 1, lambda n, m, h: {"H": (h, (n - 1) * m), "d": (h,)}, window, window_back, needs_hidden=False,
    ),
    "tdnn": Layer(lambda n: n - 1, delayed_shapes, delayed, delayed_back, needs_context=True),
    "rnn": Layer(
        lambda n: 1, lambda n, m, h: recurrent_shapes(m, h), recurrent, recurrent_back, once=True, order=10,
        needs_context=True,
    ),
    **{
        stack_name(kind, depth): make_stack(unit, depth)
        for depth in range(1, HIGHEST + 1)
        for kind, unit in (("gru", units.GATED), ("lstm", units.LSTM))
    },
    "energy": Layer(lambda n: 1, lambda n, m, h: {"H": (h, n * m), "d": (h,)}, linear, linear_back),
}
# fmt: on


def initial_arrays(layer, random, n, m, h):
    """The arrays of a layer before training, by name. Biases are 0, but 1 for gates that start open. Weights are
    Gaussian with the standard deviation 1/sqrt(inputs), but `Layer.spread` for the H of the lowest layer of a stack.

    random: a numpy Generator.
    """
    arrays = {}
    for name, shape in layer.shapes(n, m, h).items():
        arrays[name] = np.zeros(shape, f32)
        if len(shape) > 1:
            divisor = 1 / layer.spread if layer.spread and name == "H" else math.sqrt(max(shape[1], 1))
            arrays[name][:] = random.standard_normal(shape).astype(f32) / f32(divisor)
        if name[0] == "d":
            layer.open(arrays[name])
    return arrays
