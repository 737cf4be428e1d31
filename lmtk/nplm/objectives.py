"""What training makes of a minibatch: the objectives of each model.

An objective is a function (now, data, settings, threads, comm) -> (step, network), from the model that training starts
from, which it leaves alone, a `training.Data`, the run's settings, a number of threads and the ranks:

step(at, epsilon, epoch, number) makes an update with the rate epsilon from the examples `at`, minibatch `number` of the
epoch, both from 0. Returns the sum of ln p, or an estimate of it, before the update, and the norm of a gradient; where
the former is not finite nothing is updated.
network() is the model then, of the kind of `now`; the ranks call it together.
"""

from dataclasses import replace

import numpy as np

from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import Team
from lmtk.nplm import classes, energy_sgd, kernels, nce, sampled, sgd, tree
from lmtk.nplm.pace import pace, variances


def full(now, data, settings, threads, comm):
    """The softmax of section 2."""
    slow = pace(settings, data, len(now.C), variances(data.w, len(now.b)))
    theta = sgd.placed(
        sgd.split(now.C, now.H, now.d, now.U, now.W, now.b, sgd.blocks(threads), comm, now.R, slow), comm
    )
    team = Team(threads)
    rates, keep = (settings.weight_decay, settings.feature_rate), dropping(settings)

    def step(at, epsilon, epoch, number):
        kept = keep(len(at), epoch, number)
        return sgd.step(theta, data.contexts[at], data.w[at], epsilon, *rates, team, kept=kept)

    return step, lambda: now.having(sgd.join(theta))


def short(now, data, settings, threads, comm):
    """The softmax over the words of a shortlist; examples of other words are passed over."""
    place = now.place[data.w]
    update, network = full(now, replace(data, w=place), settings, threads, comm)

    def step(at, epsilon, epoch, number):
        at = at[place[at] >= 0]
        return update(at, epsilon, epoch, number) if len(at) else (0.0, 0.0)

    return step, network


def sample(now, data, settings, threads, comm):
    """The softmax over a sample of the words."""
    slow = pace(settings, data, len(now.C), variances(data.w, len(now.b)))
    theta = sgd.placed(sampled.split(now.C, now.H, now.d, now.U, now.W, now.b, comm, now.R, slow), comm)
    draw, decay = drawing(data, settings, len(now.b), theta), sparse_decay(theta, data, settings)
    team, keep = Team(threads), dropping(settings)

    def step(at, epsilon, epoch, number):
        rows = data.contexts[at], data.w[at], *draw(at, epoch, number)
        kept = keep(len(at), epoch, number)
        found = sampled.step(theta, *rows, epsilon, settings.feature_rate, team, threads, kept)
        decay(epsilon, number)
        return found

    return step, lambda: now.having(sampled.join(theta))


def contrast(now, data, settings, threads, comm):
    """Noise-contrastive estimation."""
    slow = pace(settings, data, len(now.C), variances(data.w, len(now.b)))
    theta = sgd.placed(sampled.split(now.C, now.H, now.d, now.U, now.W, now.b, comm, now.R, slow), comm)
    proposal = proposal_of(data, settings, len(now.b))
    decay, team, keep = sparse_decay(theta, data, settings), Team(threads), dropping(settings)

    def step(at, epsilon, epoch, number):
        noise = proposal.sample(np.random.default_rng([settings.seed, epoch, number]), data.contexts[at])
        rows = data.contexts[at], data.w[at], *noise
        kept = keep(len(at), epoch, number)
        found = nce.step(theta, *rows, epsilon, settings.feature_rate, team, threads, kept)
        decay(epsilon, number)
        return found

    return step, lambda: now.having(sampled.join(theta))


def by_class(now, data, settings, threads, comm):
    """The softmax over classes and that over the words of one."""
    slow = pace(settings, data, len(now.C), *classes.variances(now, data.w))
    theta = sgd.placed(classes.split(now, slow), comm)
    decay, keep = sparse_decay(theta, data, settings), dropping(settings)

    def step(at, epsilon, epoch, number):
        kept = keep(len(at), epoch, number)
        found = classes.step(theta, data.contexts[at], data.w[at], epsilon, settings.feature_rate, kept)
        decay(epsilon, number)
        return found

    return step, lambda: now.having(classes.join(theta))


def by_tree(now, data, settings, threads, comm):
    """The decisions at the nodes of a tree of words."""
    slow = pace(settings, data, len(now.C), tree.variances(now.tree, data.w))
    theta = sgd.placed(sampled.split(now.C, now.H, now.d, now.U, now.W, now.b, ALONE, None, slow), comm)
    ways, decay, keep = tree.paths(now.tree), sparse_decay(theta, data, settings), dropping(settings)

    def step(at, epsilon, epoch, number):
        kept = keep(len(at), epoch, number)
        found = tree.step(theta, *ways, data.contexts[at], data.w[at], epsilon, settings.feature_rate, kept)
        decay(epsilon, number)
        return found

    return step, lambda: now.having(sampled.join(theta))


def energy_full(now, data, settings, threads, comm):
    """The exact gradient of the energy network."""
    every = np.arange(len(now.b))
    return energy(now, data, settings, threads, comm, lambda at, epoch, number: (every, None))


def energy_sample(now, data, settings, threads, comm):
    """The gradient of the energy network on a sample of the words."""
    return energy(now, data, settings, threads, comm, drawing(data, settings, len(now.b)))


def energy(now, data, settings, threads, comm, draw):
    """An objective of the energy network; draw(at, epoch, number): the words to update on, and
    their chances or None."""
    theta, team = now.having(comm.place(a.copy()) for a in now.named().values()), Team(threads)
    slow = pace(settings, data, len(now.C), variances(data.w, len(now.b)))
    rates = settings.weight_decay, settings.feature_rate

    def step(at, epsilon, epoch, number):
        words = draw(at, epoch, number)
        return energy_sgd.step(theta, slow, data.contexts[at], data.w[at], *words, epsilon, *rates, team, threads)

    return step, lambda: theta.having(a.copy() for a in theta.named().values())


def proposal_of(data, settings, V):
    """What the words of updates are drawn from: `data.proposal`, the uniform distribution, or the unigram."""
    given = data.proposal
    if settings.proposal == "uniform":
        given = np.full(V, 1 / V)
    return sampled.Proposal(data.w, V, settings.samples, given)


def drawing(data, settings, V, theta=None):
    """draw(at, epoch, number), as `sampled.Proposal.draw`: the same for the same minibatch of a run that goes on.

    With -effective-samples as many words are drawn, twice as many each time, as the outputs of theta ask for.
    """
    proposal = proposal_of(data, settings, V)

    def draw(at, epoch, number):
        contexts, S = data.contexts[at], settings.samples
        while True:
            drawn, q = proposal.sample(np.random.default_rng([settings.seed, epoch, number]), contexts, S)
            wanted = settings.effective_samples
            if not wanted or S >= V or not sampled.effective(theta, contexts, drawn, q) < wanted:
                return proposal.candidates(data.w[at], drawn, q)
            S *= 2

    return draw


def dropping(settings):
    """keep(K, epoch, number), as `kernels.keep` for x and a of K examples; None without dropout."""
    sizes = (settings.order - 1) * settings.features, settings.hidden

    def keep(K, epoch, number):
        if settings.dropout:
            random = np.random.default_rng([settings.seed, epoch, number, 1])
            return kernels.keep([(K, size) for size in sizes], settings.dropout, random)

    return keep


def sparse_decay(theta, data, settings):
    """Weight decay for updates that leave most of the parameters alone: that of many updates at once."""
    steps = -(-len(data.w) // settings.minibatch)

    def decay(epsilon, number):
        due = (number + 1) % sampled.DECAY_EVERY or sampled.DECAY_EVERY
        if settings.weight_decay and (due == sampled.DECAY_EVERY or number + 1 == steps):
            sampled.shrink(theta, due * settings.minibatch * epsilon * settings.weight_decay, settings.feature_rate)

    return decay


OBJECTIVES = {  # by model, and then by name
    "nplm": {"full": full, "shortlist": short, "sampled": sample, "nce": contrast, "class": by_class, "tree": by_tree},
    "rnn": {"full": full, "sampled": sample, "nce": contrast},
    "energy": {"full": energy_full, "sampled": energy_sample},
}
EXACT = {"full", "class", "tree"}  # whose sums of ln p make a perplexity
ESTIMATED = {"sampled", "nce"}  # whose sums estimate it
