"""Stochastic gradient ascent on the log-likelihood (Bengio et al. 2003, sections 2 and 3.2), for any layers.

`step` makes one update from a minibatch of contexts and words. It computes z by the hidden layer (`forward`), calls the
output layer, which updates its own weights and returns dL/dz, and back-propagates dL/dz to the hidden layer and to C
(`backward`).
"""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk.machine.blas import shares
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import map_at_once
from lmtk.nplm import dropout, kernels, senses
from lmtk.nplm.layers import Batch, Layer
from lmtk.nplm.pace import PASSES, Pace, largest_eigenvalue, rate_factors

f32 = np.float32


@dataclass
class Parameters:
    """The parameters below the output layer in training.

    layer: the `layers.Layer`; p: C and the arrays of the layer by name, which updates change in place; m: the number of
    features of a sense of a word; direct: the number of words whose features the direct connections see, 0 without
    them; pace: the limits of the learning rates; threads: the number of threads for large work; state: what the layer
    carries on after the last minibatch.
    """

    layer: Layer
    p: SimpleNamespace
    m: int
    direct: int
    pace: Pace
    threads: int = 1
    state: np.ndarray | None = None


def place_copies(arrays, comm=ALONE):
    """Copy the arrays, a dict by name, into memory that `comm` provides. Returns a namespace of the copies."""
    return SimpleNamespace(**{name: comm.place(a.copy()) for name, a in arrays.items()})


def copy_arrays(p):
    """Copy the arrays of a namespace. Returns a dict of the copies by name."""
    return {name: a.copy() for name, a in vars(p).items()}


def forward(theta, contexts, factors=dropout.NONE, batch=None):
    """Steps 1(a) and 1(b): from contexts (K, n-1) to z.

    factors: a `dropout.Factors`; batch: a `layers.Batch`.
    A layer with `once` gets each distinct word once. Exceptions: dropout or senses give the occurrences of a word
    different features, or direct connections need x of each context.
    Returns z (K, D), the input of the output layer; what `backward` needs; and the state of the layer.
    """
    p, at = factors.scale_weights(theta.p), None
    once = theta.layer.once and factors.x is None and theta.m == p.C.shape[1] and not theta.direct
    if once:
        words, at = kernels.distinct_ids(contexts, len(p.C))
        contexts = words[:, None]
    x, chosen = senses.choose(p.C[contexts], theta.m)
    factors.scale_features(x, contexts)
    a, of_layer, state = theta.layer.forward(p, x, replace(batch or Batch(), at=at, between=factors.between))
    return (
        kernels.stack_activations(factors.scale_activations(a), x[:, : theta.direct].reshape(len(a), -1)),
        (of_layer, p, chosen, contexts, once),
        state,
    )


def backward(theta, kept, gz, rates, factors=dropout.NONE):
    """Steps 2(c) and 2(d): update C and the arrays of the hidden layer in place, from gz = dL/dz (K, D). kept: the
    second result of `forward`; rates: a `pace.Rates`; factors: as in `forward`.

    The n - 1 steps of the layer rnn share its arrays, as do the groups of the layer tdnn. These arrays learn with the
    mean of the gradients of the steps, because the sum diverges at rates that suit the other parameters.
    """
    p, (K, D), m, (of_layer, scaled, chosen, contexts, once) = theta.p, gz.shape, theta.m, kept
    h = D - 1 - theta.direct * m
    gx, gradients = theta.layer.backward(scaled, of_layer, factors.scale_activations(gz[:, :h]))
    for layer in gradients:
        factors.scale_gradients(layer.arrays)
    gx = gx.reshape(len(contexts), -1)
    if theta.direct:
        gx[:, : theta.direct * m] += gz[:, h:-1]
    factors.scale_features(gx.reshape(*contexts.shape, m), contexts)
    gx = senses.back(chosen, gx)
    if once:  # dL/dx of each occurrence of a word is go H, which is not computed
        slopes_of_C = gradients[0].go, len(gradients[0].go), p.H
    else:
        slopes_of_C = gx.reshape(-1, p.C.shape[1]), gx.size // p.C.shape[1]
    of_C, of_layers = limited_rates(theta, gradients, slopes_of_C, rates, K)
    if rates.decay:
        shrink(theta.p, *rates.keep(K))
    for layer, rate in zip(gradients, of_layers):
        for name, gradient in layer.arrays.items():
            gradient *= f32(rate)
            a = getattr(p, name)
            a += gradient
    kernels.add_features(p.C, contexts, gx, of_C)


def limited_rates(theta, layers, slopes_of_C, rates, K):
    """Limits the learning rates of an update of K examples by the `pace`. Returns (rates of the rows of C, (words,); a
    list with one rate for each layer). layers: a list of Gradients. slopes_of_C: the arguments with which
    `largest_eigenvalue` gives the curvature of the features.
    """
    pace = theta.pace
    of_C = np.full(len(theta.p.C), f32(rates.epsilon * rates.feature_rate))
    steps = [max(len(layer.go) / K, 1) for layer in layers]
    of_layers = [rates.epsilon / number for number in steps]
    if not pace.H:
        return of_C, of_layers
    products = [slopes_of_C]
    for layer in layers:
        products += [(layer.go, K), *((X, len(layer.go)) for X in layer.inputs)]
    threads = shares(theta.threads, PASSES * sum(X.size for X, *_ in products))
    eigenvalues = iter(map_at_once(lambda product: largest_eigenvalue(*product), products, threads))
    of_features = next(eigenvalues)  # then those of each layer, in the order of `products`
    for i, layer in enumerate(layers):
        of_go = next(eigenvalues)
        curvature = sum(next(eigenvalues) for _ in layer.inputs) * of_go
        of_layers[i] *= rate_factors(pace.H / steps[i], curvature)
    return of_C * rate_factors(pace.C, of_features), of_layers


def shrink(p, keep, keep_C):
    """Multiply the weights among the arrays p by `keep`, and C by keep_C: weight decay. Biases do not decay."""
    for name, a in vars(p).items():
        if a.ndim > 1:
            a *= f32(keep_C if name == "C" else keep)


@np.errstate(over="ignore", invalid="ignore")
def step(theta, update_output, contexts, w, rates, factors=dropout.NONE, batch=None):
    """Make one update, as `update` does, from contexts (K, n-1). factors: a `dropout.Factors`; batch: a
    `layers.Batch`.
    """
    return update(theta, forward(theta, contexts, factors, batch), update_output, w, rates, factors)


def update(theta, results, update_output, w, rates, factors=dropout.NONE):
    """Make one update: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place. results: what
    `forward` returned for the examples; rates: a `pace.Rates`; factors: as in `forward`.

    update_output(z, w, epsilon, curvature) -> (L, dL/dz) updates the output layer. curvature is the largest curvature
    of L along the output weights, estimated from z; 0 if all parameters learn with the full rate. If L is not finite,
    nothing changes.

    w (K,): ids; an example with w below 0 is read, but not predicted. The learning rate is that of one example, as in
    the paper, before the limits of theta.pace. Weights decay, biases do not.

    Returns (sum of ln p, norm of dL/dz), from before the update.
    """
    z, kept, theta.state = results
    predicted = np.flatnonzero(w >= 0)
    z_out = z if len(predicted) == len(w) else z[predicted]
    curvature = largest_eigenvalue(z_out, len(z_out)) if theta.pace.H else 0.0
    L, gz = update_output(z_out, w[predicted], rates.epsilon, curvature)
    if not math.isfinite(L):
        return L, math.nan
    norm = float(np.linalg.norm(gz))
    if z_out is not z:
        gz, part = np.zeros_like(z), gz
        gz[predicted] = part
    backward(theta, kept, gz, rates, factors)
    return L, norm
