"""Objectives: how each model learns from a minibatch.

An objective says which words the output layer is trained on. It is a function (now, data, settings, slow, team, comm,
C) -> `Sight`. now: the model that training starts from, which it leaves alone; data: a `training.Data`; settings: of
the run; slow: a Pace; team: threads; comm: the ranks; C: the features in training, which a tied output shares.

`begun` makes a `Learner` of a layer and an objective; the energy network has its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np

from lmtk.machine.blas import shares
from lmtk.machine.threads import Team
from lmtk.nplm import classes, energy, energy_sgd, kernels, nce, outputs, running, sampled, sgd, tree
from lmtk.nplm.layers import LAYERS, Given
from lmtk.nplm.network import OUTPUTS
from lmtk.nplm.pace import pace, variances


@dataclass(frozen=True)
class Sight:
    """An output layer in training.

    see(z, w, epsilon, curvature, at, epoch, number) -> (L, dL/dz): updates the weights from the examples `at`,
    minibatch `number` of `epoch`, both from 0. arrays() -> copies of the weights by letter; all ranks call it together.
    shrink(share, times): weight decay of many updates at once, each of which takes a share; None: each update decays
    all weights.
    """

    see: Callable
    arrays: Callable
    shrink: Callable | None = None


@dataclass(frozen=True)
class Learner:
    """A model that learns.

    step(at, epsilon, epoch, number) makes an update with the rate epsilon from the examples `at`. Returns the sum of ln
    p, or an estimate of it, before the update, and the norm of a gradient; where the former is not finite nothing is
    updated. network(): the model as it is now; all ranks call it together. state(): arrays by name that a resumed run
    needs besides the model's.
    """

    step: Callable
    network: Callable
    state: Callable = dict


def full(now, data, settings, slow, team, comm, C):
    """The softmax of section 2, over all words or over those of the shortlist."""
    p = now.theta
    mine = outputs.split(p.U, p.W, p.b, outputs.number(team.size), comm)

    def see(z, w, epsilon, curvature, at, epoch, number):
        return outputs.see(mine, team, slow.outputs, settings.weight_decay, z, w, epsilon, curvature)

    return Sight(see, lambda: outputs.join(mine, now.h, p.W is not None))


def sample(now, data, settings, slow, team, comm, C):
    """The softmax over a sample of the words; with the objective "full", of a tied output, over all of them."""
    rows, V = rows_of(now, comm, C), len(now.theta.b)
    draw = drawing(data, settings, V, rows)
    if settings.objective == "full":
        every = np.arange(V), np.zeros(V, np.float32)
        draw = lambda *_: every

    def see(z, w, epsilon, curvature, at, epoch, number):
        words = draw(z, w, at, epoch, number)
        return sampled.see(rows, team, blocks(team, z, words[0]), slow.outputs, *words, z, w, epsilon, curvature)

    return of_rows(rows, now, see)


def blocks(team, z, words):
    """How many blocks the outputs y = zM' of some words are cut into. Threads meet twice, forward and backward, so a
    block has twice the multiplications that one meeting asks for.
    """
    return shares(team, z.size * len(words) // 2)


def contrast(now, data, settings, slow, team, comm, C):
    """Noise-contrastive estimation."""
    rows = rows_of(now, comm, C)
    proposal = proposal_of(data, settings, len(now.theta.b))

    def see(z, w, epsilon, curvature, at, epoch, number):
        noise = proposal.sample(np.random.default_rng([settings.seed, epoch, number]), data.contexts[at])
        return nce.see(rows, team, blocks(team, z, noise[0]), slow.outputs, *noise, z, w, epsilon, curvature)

    return of_rows(rows, now, see)


def by_class(now, data, settings, slow, team, comm, C):
    """The softmax over the classes, and that over the words of each example's class."""
    mine = classes.split(now.theta, comm)

    def see(z, w, epsilon, curvature, at, epoch, number):
        return classes.see(mine, slow, z, w, epsilon, curvature)

    return Sight(see, lambda: classes.join(mine, now.h, now.theta.W is not None), partial(classes.shrink, mine))


def by_tree(now, data, settings, slow, team, comm, C):
    """The decisions at the nodes of a tree of words."""
    rows, ways = rows_of(now, comm, C), tree.paths(now.theta.tree)

    def see(z, w, epsilon, curvature, at, epoch, number):
        return tree.see(rows.M, *ways, slow.outputs, z, w, epsilon, curvature)

    return of_rows(rows, now, see)


def rows_of(now, comm, C):
    p = vars(now.theta)
    return outputs.rows(p.get("U"), p.get("W"), p["b"], comm, C)


def of_rows(rows, now, see):
    return Sight(see, lambda: outputs.of_rows(rows, now.h, vars(now.theta).get("W") is not None), rows.shrink)


def proposal_of(data, settings, V):
    """The `sampled.Proposal` of a run: `data.proposal`, the uniform distribution, or the unigram."""
    given = data.proposal
    if settings.proposal == "uniform":
        given = np.full(V, 1 / V)
    return sampled.Proposal(data.w, V, settings.samples, given)


def drawing(data, settings, V, rows=None):
    """A function draw(z, w, at, epoch, number) that gives candidates for the words w of the examples `at`, as
    `sampled.Proposal.candidates` does; a resumed run draws the same ones for the same minibatch.

    With -effective-samples it doubles the number of words drawn until the effective sample size of z's outputs is
    reached; rows: the `outputs.Rows` of these.
    """
    proposal = proposal_of(data, settings, V)

    def draw(z, w, at, epoch, number):
        contexts, S = data.contexts[at] if proposal.of else None, settings.samples
        while True:
            drawn, q = proposal.sample(np.random.default_rng([settings.seed, epoch, number]), contexts, S)
            wanted = settings.effective_samples
            if not wanted or S >= V or not sampled.effective(rows, z, drawn, q) < wanted:
                return proposal.candidates(w, drawn, q)
            S *= 2

    return draw


OBJECTIVES = {  # by output, and then by name
    "full": {"full": full, "sampled": sample, "nce": contrast},
    "tied": {"full": sample, "sampled": sample, "nce": contrast},
    "shortlist": {"shortlist": full},
    "class": {"class": by_class},
    "tree": {"tree": by_tree},
}
OF_WORDS = ["full", "shortlist", "sampled", "nce", "class", "tree"]
MODELS = dict.fromkeys(LAYERS, OF_WORDS) | {"energy": ["full", "sampled"]}  # the objectives by model
EXACT = {"full", "class", "tree"}  # whose sums of ln p make a perplexity
ESTIMATED = {"sampled", "nce"}  # whose sums estimate it


def begun(now, data, settings, threads, comm, state=None):
    """The Learner of a run from the model `now`; state: what `Learner.state` gave, for a resumed run."""
    if now.layer == "energy":
        return energy_network(now, data, settings, threads, comm)
    p, layer, team = vars(now.theta), LAYERS[now.layer], Team(threads)
    w = now.places(data.w)
    slow = pace(settings, data, len(now.C), *OUTPUTS[now.output].variances(now.theta, w))
    before = {name: p[name] for name in ("C", *layer.shapes(now.order, now.m, now.h))}
    theta = sgd.begun(layer, before, now.direct, slow, comm, now.m, team)
    sight = OBJECTIVES[now.output][settings.objective](now, replace(data, w=w), settings, slow, team, comm, theta.p.C)
    decay, keep = sparse_decay(theta, sight, data, settings), dropping(settings, layer)
    each = settings.weight_decay if sight.shrink is None else 0
    theta.state = (state or {}).get("state")
    feed = running.fed(data.contexts, w, data.fresh, settings, team) if layer.carries else None

    def step(at, epsilon, epoch, number):
        if feed:
            contexts, words, given = feed(at, theta.state if number else None)
            at = np.minimum(at, len(w) - 1)
        else:
            at, given = at[w[at] >= 0], Given(team=team)
            contexts, words = data.contexts[at], w[at]
        kept = keep(len(contexts), len(words), epoch, number)
        if not (words >= 0).any():
            if feed:  # these words are read
                *_, theta.state = sgd.forward(theta, contexts, kept, given)
            decay(epsilon, number)
            return 0.0, 0.0
        see = lambda *z: sight.see(*z, at, epoch, number)
        found = sgd.step(theta, see, contexts, words, epsilon, each, settings.feature_rate, kept, given)
        decay(epsilon, number)
        return found

    network = lambda: now.having(sgd.arrays(theta) | sight.arrays())
    return Learner(step, network, lambda: {} if theta.state is None else {"state": theta.state})


def dropping(settings, layer):
    """A function keep(rows, K, epoch, number) -> dropout's factors, as `kernels.keep` makes them, for so many rows of x
    and K of a; it gives None without dropout.
    """
    words = 1 if layer.carries else settings.order - 1
    sizes = words * settings.features, settings.hidden

    def keep(rows, K, epoch, number):
        if settings.dropout:
            random = np.random.default_rng([settings.seed, epoch, number, 1])
            return kernels.keep(list(zip((rows, K), sizes)), settings.dropout, random)

    return keep


def sparse_decay(theta, sight, data, settings):
    """Weight decay where updates leave most of the parameters alone: that of many updates at once."""
    N, K = len(data.w), settings.minibatch
    steps = -(-N // K)
    if data.fresh is not None:
        K, steps = running.size(settings), running.minibatches(N, settings)

    def decay(epsilon, number):
        due = (number + 1) % sampled.DECAY_EVERY or sampled.DECAY_EVERY
        if sight.shrink and settings.weight_decay and (due == sampled.DECAY_EVERY or number + 1 == steps):
            share = K * epsilon * settings.weight_decay
            sight.shrink(share, due)
            sgd.shrink(theta, share, settings.feature_rate, due)

    return decay


def energy_network(now, data, settings, threads, comm):
    """The Learner of the energy network: on all words, or on a sample of them."""
    p, team = SimpleNamespace(**{name: comm.place(a.copy()) for name, a in now.named().items()}), Team(threads)
    V, weights = len(p.b), energy.WEIGHTS[now.output]
    slow = pace(settings, data, len(now.C), variances(data.w, V))
    rates = settings.weight_decay, settings.feature_rate
    draw = drawing(data, settings, V) if settings.objective == "sampled" else lambda *_: (np.arange(V), None)

    def step(at, epsilon, epoch, number):
        words = draw(None, data.w[at], at, epoch, number)
        return energy_sgd.step(p, weights, slow, data.contexts[at], data.w[at], *words, epsilon, *rates, team, threads)

    return Learner(step, lambda: now.having({name: a.copy() for name, a in vars(p).items()}))
