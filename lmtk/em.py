"""Mixture weights by expectation-maximisation on held-out text, one set of weights for each bin of contexts."""

import warnings

import numpy as np

from lmtk.errors import FormatError, LmtkWarning, counted, name_of


def em(logp, bins, weights, iterations, tolerance, tell=None, times=None):
    """Weights that raise the likelihood of p = sum_j weights[bin, j] p_j, (B, J).

    logp (N, J): ln p_j of each held-out token; bins (N,): the bin of its context; weights (B, J): where to start.
    Stops after `iterations`, or when no weight moves by more than `tolerance`. `tell(iteration, weights, L)` hears each
    iteration's weights and their log-likelihood, natural, before they change. A bin without tokens keeps its weights.
    times (N,): how often each token counts, once where it is None.
    """
    B, J = weights.shape
    top = logp.max(axis=1)
    p = np.exp(logp - top[:, None])
    possible = (p * weights[bins]).sum(axis=1) > 0  # weights of 0 can rule a token out; it then has no say
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


def likelihood(logp, bins, weights):
    """ln p of the whole text under the weights."""
    top = logp.max(axis=1)
    return float((np.log((np.exp(logp - top[:, None]) * weights[bins]).sum(axis=1)) + top).sum())


def neighbours_for_unvisited(weights, bins):
    """Give a bin that no token is in the weights of the nearest one that has tokens (the lower of two)."""
    visited = np.unique(bins)
    nearest = visited[np.abs(np.arange(len(weights))[:, None] - visited).argmin(axis=1)]
    return weights[nearest]


def check_weights(weights, path):
    """Weights read from a file: one that is no weight is an error, sets that do not sum to one are one warning."""
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise FormatError(path, "a weight is negative or no number")
    off = np.abs(weights.sum(axis=1) - 1)
    if (off > 1e-4).any():
        worst = weights.sum(axis=1)[off.argmax()]
        sets = counted((off > 1e-4).sum(), "set of weights does", "sets of weights do")
        warnings.warn(f"{name_of(path)}: {sets} not sum to one; one sums to {worst:.7g}", LmtkWarning, stacklevel=2)
