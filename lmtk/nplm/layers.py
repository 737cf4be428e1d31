"""Hidden layers: activations a from the features x of a context, and back-propagation from dL/da to dL/dx.

symbol  shape                meaning
C       (>= V, m)            feature vectors, C(i) in row i
x       (K, n-1, m)          features of the words of each context, the last word first: C(w_(t-1)) .. C(w_(t-n+1));
                             or (D, 1, m), each distinct word once, where H multiplies each word on its own
H d     (h, (n-1)m) (h,)     window: o = d + Hx, a = tanh(o)                                  (equation 1)
H R d   (h, m) (h, h) (h,)   rnn: A_k = tanh(d + Hx(n-k) + R A_(k-1)), k = 1 .. n-1, A_0 = 0, a = A_(n-1)
                             (section 5.2, item 4)
H d     (h, nm) (h,)         energy: o = d + Hx without the columns of the output word, its first m (section 5.1), a = o
H R d   (g h, m) (g h, h) (g h,)  gru, lstm: `units` over a running text, g = 3 and 4: [gates, proposed state]
a       (K, h)               activations; the outputs see a, and x with direct connections
gX      as X                 dL/dX, L being the log-likelihood

A layer that carries its state reads the text in B rows side by side. A minibatch has the next T words of each row, time
by time. The state goes on to the next minibatch; back-propagation through time stops at the first of the T words.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lmtk import units
from lmtk.machine.blas import product, products
from lmtk.machine.threads import Team

f32 = np.float32


@dataclass(frozen=True)
class Gradient:
    """What `backward` returns.

    gx: dL/dx, as many numbers as x has. arrays: letter -> gradient.
    go (N, .): dL/do, o being the input of the nonlinearity at each of the N steps of the minibatch.
    inputs: the arrays, (N, .) each, that the weights multiply to make o.
    """

    gx: np.ndarray
    arrays: dict
    go: np.ndarray
    inputs: tuple


@dataclass(frozen=True)
class Layer:
    """A hidden layer.

    sees(n): how many words' features the direct connections see.
    shapes(n, m, h): letter -> shape of its arrays, in the order of their initialization: Gaussian of deviation
    1/sqrt(inputs), those of one axis 0.
    forward(p, x, given) -> (a, memory, state): p has the arrays by letter, given is a Given.
    backward(p, memory, ga) -> Gradient: memory is that of the forward pass.
    once: whether H multiplies each word on its own, so that x needs each distinct word only once.
    carries: whether its state goes on from word to word of a text; width(h): how many numbers that state has.
    order: n without -order.
    """

    sees: Callable
    shapes: Callable
    forward: Callable
    backward: Callable
    width: Callable = lambda h: 0
    once: bool = False
    carries: bool = False
    order: int = 8


@dataclass(frozen=True)
class Given:
    """What a layer gets besides x.

    team: threads that share the work.
    at (K, n-1): the row of x (D, 1, m) that each word has; None: each has its own.
    sizes, state, fresh: for a layer that carries its state. sizes: for each t, how many rows of the text have a t-th
    word; state (rows, width): before the first word, None: 0; fresh (K,) bool: before which words the state becomes 0,
    None: before none.
    """

    sizes: list | None = None
    state: np.ndarray | None = None
    fresh: np.ndarray | None = None
    team: Team | None = None
    at: np.ndarray | None = None


def rows(x, given):
    """x as (D, m), and the row of it that each word has, (K, n-1)."""
    at = np.arange(math.prod(x.shape[:2])).reshape(x.shape[:2]) if given.at is None else given.at
    return x.reshape(-1, x.shape[2]), at


def window(p, x, given):
    """Steps 1(a), 1(b) of section 3.2: o <- d + Hx; a <- tanh(o)."""
    x = x.reshape(len(x), -1)
    a = product(given.team, x, p.H.T)
    a += p.d
    np.tanh(a, out=a)
    return a, (x, given, a), None


def window_back(p, memory, ga):
    """Step 2(c): dL/do = (1 - a^2) dL/da; dL/dx = H' dL/do."""
    x, given, a = memory
    go = ga * (1 - a * a)
    gx, arrays = inputs_back(p, x, given, go)
    return Gradient(gx, arrays, go, (x,))


def linear(p, x, given):
    """o = d + Hx, x without the output word. `energy` adds the part of the output word, then takes the tanh."""
    m, x = x.shape[2], x.reshape(len(x), -1)
    return x @ p.H[:, m:].T + p.d, (x, m), None


def linear_back(p, memory, ga):
    x, m = memory
    return Gradient(ga @ p.H[:, m:], {"H": ga.T @ x, "d": ga.sum(axis=0)}, ga, (x,))


def recurrent(p, x, given):
    """A_0 = 0, A_k = tanh(d + Hx(n-k) + R A_(k-1)). A (n, K, h) has the states from A_0 to A_(n-1)."""
    x, at = rows(x, given)
    (K, n1), h = at.shape, len(p.d)
    o = (product(given.team, x, p.H.T) + p.d)[at]
    A = np.zeros((n1 + 1, K, h), f32)

    def go(some):
        for k in range(n1):
            np.tanh(o[some, n1 - 1 - k] + A[k, some] @ p.R.T, out=A[k + 1, some])

    units.shared(given.team, go, K, K * n1 * p.R.size)
    return A[-1], (x, at, given, A), None


def recurrent_back(p, memory, ga):
    """Back-propagation through the n - 1 steps: dL/do_k = (1 - A_k^2) (dL/dA_k + R' dL/do_(k+1))."""
    x, at, given, A = memory
    n1, K, h = len(A) - 1, *A.shape[1:]
    go = np.empty((K, n1, h), f32)

    def back(some):
        step, gR = ga[some], np.zeros_like(p.R)
        for k in range(n1, 0, -1):
            step = (1 - A[k, some] * A[k, some]) * step
            go[some, n1 - k] = step
            gR += step.T @ A[k - 1, some]
            step = step @ p.R
        return gR

    gR = sum(units.shared(given.team, back, K, K * n1 * p.R.size))
    gx, arrays = inputs_back(p, x, given, go.reshape(-1, h))
    return Gradient(gx, arrays | {"R": gR}, go.reshape(-1, h), (x[at.ravel()], A[:-1].reshape(-1, h)))


def inputs_back(p, x, given, go, *more):
    """dL/dx and the gradients of H and d, from dL/do of all words, (., h); x (D, m).
    more: further products to be made with these, as `blas.products` takes them.
    """
    ge = go if given.at is None else units.summed(go, given.at.ravel(), len(x))
    gx, gH, *_ = products(given.team, (ge, p.H, None), (ge.T, x, None), *more)
    return gx, {"H": gH, "d": ge.sum(axis=0)}


def following(unit):
    """The fields of the Layer of a `units.Unit`, forward and backward among them."""

    def forward(p, x, given):
        (x, at), g = rows(x, given), unit.gates * p.R.shape[1]
        inputs = product(given.team, x, p.H.T), at.ravel(), p.d
        how = given.sizes, p.R[:g].T, p.R[g:].T, given.state, given.fresh, given.team
        a, memory, state = units.follow(unit, *inputs, *how)
        return a, (x, at, given, memory), state

    def backward(p, memory, ga):
        (x, at, given, memory), h = memory, p.R.shape[1]
        g, gR = unit.gates * h, np.empty_like(p.R.T)
        go = units.follow_back(unit, ga, given.sizes, p.R[:g].T, p.R[g:].T, memory, given.team)
        weights = units.of_weights(unit, memory, go, gR[:, :g], gR[:, g:])
        gx, arrays = inputs_back(p, x, given, go, *weights)
        return Gradient(gx, arrays | {"R": gR.T}, go, (x[at.ravel()], memory[2][:, :h]))

    return {
        "sees": lambda n: 1, "forward": forward, "backward": backward, "once": True, "carries": True, "order": 32,
        "shapes": lambda n, m, h: with_R(m, h, unit.gates + 1), "width": lambda h: unit.width * h,
    }  # fmt: skip


def with_R(m, h, g=1):
    return {"H": (g * h, m), "d": (g * h,), "R": (g * h, h)}


LAYERS = {  # by the name of -model, which is its name in a file too
    "nplm": Layer(lambda n: n - 1, lambda n, m, h: {"H": (h, (n - 1) * m), "d": (h,)}, window, window_back),
    "rnn": Layer(lambda n: 1, lambda n, m, h: with_R(m, h), recurrent, recurrent_back, once=True, order=10),
    "gru": Layer(**following(units.GATED)),
    "lstm": Layer(**following(units.LSTM)),
    "energy": Layer(lambda n: 1, lambda n, m, h: {"H": (h, n * m), "d": (h,)}, linear, linear_back),
}


def begun(layer, random, n, m, h):
    """The arrays of a layer before training, letter -> array."""
    made = {}
    for name, shape in layer.shapes(n, m, h).items():
        made[name] = np.zeros(shape, f32)
        if len(shape) > 1:
            made[name][:] = random.standard_normal(shape).astype(f32) / f32(math.sqrt(max(shape[1], 1)))
    return made
