"""Mixture weights by expectation-maximization on held-out text, one set of weights for each bin of contexts.

The probabilities of each held-out token under J models come in; `estimate_weights` returns the weights of the models.
They are used for mixtures of models and for the orders of deleted interpolation.
"""

import warnings

import numpy as np

from lmtk.errors import FormatError, LmtkWarning, counted, name_of


def estimate_weights(logp, bins, weights, iterations, tolerance, tell=None, times=None):
    """Weights (B, J) that increase the likelihood of p = sum_j weights[bin, j] p_j on held-out tokens.

    logp (N, J): ln p_j of each token; bins (N,): the bin of its context; weights (B, J): the first weights. Stops after
    `iterations`, or when no weight changes by more than `tolerance`. `tell(iteration, weights, L)` is called in each
    iteration with the weights and their log-likelihood, natural, before they change. A bin without tokens keeps its
    weights. times (N,): how often each token counts; None: once.
    """
    B, J = weights.shape
    top = logp.max(axis=1)
    p = np.exp(logp - top[:, None])
    possible = (p * weights[bins]).sum(axis=1) > 0  # with weights of 0 a token can have p = 0; it is ignored
    if not possible.all():
        p, top, bins = p[possible], top[possible], bins[possible]
        times = times if times is None else times[possible]
    each = 1 if times is None else times
    tokens = np.bincount(bins, times, B)
    visited = tokens > 0
    for iteration in range(1, iterations + 1):
        share = p * weights[bins]
        total = share.sum(axis=1)
        if tell:
            tell(iteration, weights, float(((np.log(total) + top) * each).sum()))
        share /= total[:, None]
        if times is not None:
            share *= times[:, None]
        new = weights.copy()
        for j in range(J):
            new[visited, j] = np.bincount(bins, share[:, j], B)[visited] / tokens[visited]
        moved = np.abs(new - weights).max()
        weights = new
        if moved <= tolerance:
            break
    return weights


def log_likelihood(logp, bins, weights):
    """ln p of the whole text under the weights."""
    top = logp.max(axis=1)
    return float((np.log((np.exp(logp - top[:, None]) * weights[bins]).sum(axis=1)) + top).sum())


def fill_unvisited(weights, bins):
    """Give each bin without tokens the weights of the nearest bin that has tokens (the lower one of two)."""
    visited = np.unique(bins)
    nearest = visited[np.abs(np.arange(len(weights))[:, None] - visited).argmin(axis=1)]
    return weights[nearest]


def check_weights(weights, path):
    """Check weights that were read from a file: an invalid one is an error, and sets that do not sum to one give one
    warning.
    """
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise FormatError(path, "a weight is negative or not a number")
    off = np.abs(weights.sum(axis=1) - 1)
    if (off > 1e-4).any():
        worst = weights.sum(axis=1)[off.argmax()]
        sets = counted((off > 1e-4).sum(), "set of weights does", "sets of weights do")
        message = f"{sets} not sum to one (worst sum: {worst:.7g}); the weights are used unchanged"
        warnings.warn(f"{name_of(path)}: {message}", LmtkWarning, stacklevel=2)
