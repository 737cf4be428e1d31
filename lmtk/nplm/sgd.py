"""Stochastic gradient ascent on the log-likelihood (Bengio et al. 2003, sections 2 and 3.2), of any layer and output.

An update takes a minibatch forward through the hidden layer to z, lets the output layer update its own weights and
return dL/dz, and back-propagates dL/dz through the hidden layer to C.
"""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk.machine.blas import shares
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import Team
from lmtk.nplm import kernels, senses
from lmtk.nplm.layers import Given, Layer
from lmtk.nplm.pace import PASSES, Pace, even, slowed, stiffest

f32 = np.float32


@dataclass
class Parameters:
    """The parameters below the output layer in training: p has C and the arrays of the layer by letter.

    m: features of a sense; direct: how many words' features the outputs see, 0 without direct connections; pace:
    factors of the learning rates; state: of a layer that carries one, after the last minibatch; team: threads, where
    work pays for them.
    """

    layer: Layer
    p: SimpleNamespace
    m: int
    direct: int
    pace: Pace
    state: np.ndarray | None = None
    team: Team | None = None


def begun(layer, arrays, direct=0, pace=None, comm=ALONE, m=None, team=None):
    """Parameters with arrays by letter, copied to where `comm` places them.
    pace: None: all learn with the full rate. m: None: a word has one sense.
    """
    p = SimpleNamespace(**{name: comm.place(a.copy()) for name, a in arrays.items()})
    return Parameters(layer, p, m or p.C.shape[1], direct, pace or even(len(p.C), 0), team=team)


def arrays(theta):
    """Copies of the arrays, by letter."""
    return {name: a.copy() for name, a in vars(theta.p).items()}


def forward(theta, contexts, kept=None, given=None):
    """Steps 1(a) and 1(b): z (K, D), the input of the output layer; what `backward` needs; the layer's state.

    kept: dropout's factors for x (., (n-1)m) and a (K, h), from `kernels.keep`; recurrent connections get all of a.
    A layer with `once` gets each distinct word once, but not where dropout or senses make the features of its
    occurrences differ, or where direct connections need x of each context.
    """
    p, at = theta.p, None
    once = theta.layer.once and kept is None and theta.m == p.C.shape[1] and not theta.direct
    if once:
        words, at = kernels.distinct(contexts, len(p.C))
        contexts = words[:, None]
    x, chosen = senses.choose(p.C[contexts], theta.m)
    if kept is not None:
        x *= kept[0].reshape(x.shape)
    a, memory, state = theta.layer.forward(p, x, replace(given or Given(), at=at))
    a = a if kept is None else a * kept[1]
    return kernels.stack(a, x[:, : theta.direct].reshape(len(a), -1)), (memory, chosen, contexts, once), state


def backward(theta, memory, gz, epsilon, decay, feature_rate, kept=None):
    """Steps 2(c) and 2(d): updates C and the arrays of the layer in place, from dL/dz (K, D).

    The n - 1 steps of the layer rnn share its arrays, which learn with the mean of the steps' gradients: their sum
    diverges at rates that suit the other parameters.
    """
    p, pace, (K, D), m, (memory, chosen, contexts, once) = theta.p, theta.pace, gz.shape, theta.m, memory
    h = D - 1 - theta.direct * m
    g = theta.layer.backward(p, memory, gz[:, :h] if kept is None else gz[:, :h] * kept[1])
    gx = g.gx.reshape(len(contexts), -1)
    if theta.direct:
        gx[:, : theta.direct * m] += gz[:, h:-1]
    if kept is not None:
        gx *= kept[0]
    gx = senses.back(chosen, gx)
    steps, rates = max(len(g.go) / K, 1), np.full(len(p.C), f32(epsilon * feature_rate))
    rate = epsilon / steps
    if pace.H:
        behind, of_C = (g.go, K), (gx.reshape(-1, p.C.shape[1]), gx.size // p.C.shape[1])
        if once:
            of_C = g.go, len(g.go), p.H
        wanted = [behind, of_C, *((X, len(g.go)) for X in g.inputs)]
        run = theta.team if shares(theta.team, PASSES * sum(X.size for X, *_ in wanted)) > 1 else map
        back, features, *inputs = run(lambda of: stiffest(*of), wanted)
        rate *= slowed(pace.H / steps, sum(inputs) * back)
        rates *= slowed(pace.C, features)
    if decay:
        shrink(theta, K * epsilon * decay, feature_rate)
    for name, gradient in g.arrays.items():
        gradient *= f32(rate)
        a = getattr(p, name)
        a += gradient
    kernels.add_features(p.C, contexts, gx, rates)


def shrink(theta, share, feature_rate, times=1):
    """Weight decay of `times` updates: in each, every weight loses this share of itself, C feature_rate times that;
    biases stay.
    """
    for name, a in vars(theta.p).items():
        if a.ndim > 1:
            a *= f32((1 - share * (feature_rate if name == "C" else 1)) ** times)


@np.errstate(over="ignore", invalid="ignore")
def step(theta, see, contexts, w, epsilon, decay, feature_rate, kept=None, given=None):
    """One update from a minibatch: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place.

    see(z, w, epsilon, curvature) -> (L, dL/dz) updates the output layer; curvature: of L along its weights, found from
    z, 0 where all learn with the full rate. Where L is not finite nothing is updated.
    contexts (K, n-1) and w (K,): ids; an example with w below 0 is read, but not predicted.
    epsilon is the rate for one example, as in the paper; where theta has a pace, it is a factor of dL/dtheta. The decay
    is on C, H and R, not on d; C learns feature_rate times faster. kept: as in `forward`; given: a `layers.Given`.
    Returns (sum of ln p, norm of dL/dz), taken before the update.
    """
    z, memory, theta.state = forward(theta, contexts, kept, given)
    counted = np.flatnonzero(w >= 0)
    some = z if len(counted) == len(w) else z[counted]
    L, gz = see(some, w[counted], epsilon, stiffest(some, len(some)) if theta.pace.H else 0.0)
    if not math.isfinite(L):
        return L, math.nan
    norm = float(np.linalg.norm(gz))
    if some is not z:
        gz, part = np.zeros_like(z), gz
        gz[counted] = part
    backward(theta, memory, gz, epsilon, decay, feature_rate, kept)
    return L, norm
