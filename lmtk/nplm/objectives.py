"""Objectives: how each model learns from a minibatch.

A model and a name of an objective come in; a `Learner` goes out, whose `steps` makes updates. An objective decides
which words the output layer is trained on. It is a function (start, data, settings, pace, threads, comm, C) ->
`OutputTrainer`:
start     the model that training starts from; it is not changed
data      a `training.Data`
settings  a `training.Settings`
pace      a Pace, the limits of the learning rates
threads   the number of threads
comm      the ranks
C         the features in training, which a tied output layer shares

`make_learner` joins a hidden layer and an objective. `make_energy_learner` is for the energy network, and
`make_single_learner` for the paper's network with one example in an update.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from lmtk.errors import UsageError
from lmtk.machine.parallel import ALONE
from lmtk.nplm import classes, dropout, energy_sgd, nce, outputs, running, sampled, sgd, single, tree
from lmtk.nplm.layers import LAYERS, Batch
from lmtk.nplm.network import OUTPUTS
from lmtk.nplm.pace import Rates, make_pace, variances

f32 = np.float32
BIASES = "b", "bc"  # of words and classes
LEAST_DECAY = 2.0**-15  # weight decay waits until it takes away at least this share of the weights
TOGETHER = 64  # the most updates of one example in a call of their kernel
WORK = 1 << 28  # the most weights that such a call reads: a signal has to wait until the call ends
DECAY_EVERY = 64  # the fewest updates of a few rows of the output weights between two decays, which change all rows


class Minibatch(NamedTuple):
    """The examples `at`, indices, of an update; they are minibatch `number` of `epoch`, both from 0."""

    at: np.ndarray
    epoch: int
    number: int

    def random(self, seed):
        """A Generator for the words that the update draws, so that a resumed run draws the same words."""
        return np.random.default_rng([seed, self.epoch, self.number])


@dataclass(frozen=True)
class OutputTrainer:
    """An output layer in training.

    update(z, w, epsilon, curvature, minibatch) -> (L, dL/dz): updates the weights from z (K, D), the input of the
    output layer, and the words w (K,), with the learning rate epsilon; curvature: as in `sgd.step`; minibatch: the
    Minibatch, for an update that draws words; others ignore it. arrays() -> copies of the weights by letter; all ranks
    call it together. weights: the arrays that updates change in place. shrink(keep): multiplies the weights by `keep`,
    the weight decay of some updates, `every` or more; None: each update decays all weights.
    """

    update: Callable
    arrays: Callable
    weights: Sequence
    shrink: Callable | None = None
    every: int = 1


@dataclass(frozen=True)
class Learner:
    """A model in training.

    steps(batches, epsilons, epoch, numbers) makes one update for each minibatch. batches: the indices of the examples;
    epsilons: the learning rates; numbers: the numbers of the minibatches in the epoch. Returns (the sum of ln p, or an
    estimate; the number of updates; the norm of the gradient of the last update). ln p of a minibatch is computed
    before its update. If it is not finite, the sum is not finite either, and the other minibatches are skipped.
    together: how many minibatches a call should have. network() -> a copy of the model as it is now; all ranks call it
    together. state() -> the arrays by name that a resumed run needs in addition to the model.
    """

    steps: Callable
    network: Callable
    state: Callable = dict
    together: int = 1


def one_by_one(step):
    """`Learner.steps` from a function step(at, epsilon, epoch, number) -> (the sum of ln p, the norm of the gradient)
    for one minibatch.
    """

    def steps(batches, epsilons, epoch, numbers):
        total, norm = 0.0, math.nan
        for done, (at, epsilon, number) in enumerate(zip(batches, epsilons, numbers, strict=True)):
            L, next_norm = step(at, epsilon, epoch, number)
            total += L
            if not math.isfinite(L):
                return total, done, norm
            norm = next_norm
        return total, len(batches), norm

    return steps


def train_on_all(start, data, settings, pace, threads, comm, C):
    """Train the softmax of section 2 on all words, or on all words of the shortlist."""
    each = settings.weight_decay if is_fused(data, settings) else 0
    layer = outputs.make_blocks(start.theta, threads, comm, each)
    update = without_draws(partial(outputs.update_output, layer, pace.outputs))
    trainer = make_trainer(layer, start, update)
    return replace(trainer, shrink=None) if each else trainer


def without_draws(update):
    """The `update` of an OutputTrainer that draws no words, from update(z, w, epsilon, curvature)."""
    return lambda z, w, epsilon, curvature, minibatch: update(z, w, epsilon, curvature)


def train_on_one(start, data, settings, pace, threads, comm, C):
    """Train the softmax on all words by updates of one example, on one thread. Their rates have no limits (`pace`)."""
    layer = single.Layer(start.theta)
    update = without_draws(lambda z, w, epsilon, curvature: single.update_output(layer, z, int(w[0]), epsilon))
    return make_trainer(layer, start, update)


def train_on_sample(start, data, settings, pace, threads, comm, C):
    """Train the softmax on a sample of the words. A tied output layer with the objective "full" is trained on all."""
    rows = outputs.Rows(start.theta, threads, comm, C)
    draw = make_draw(data, settings, len(start.theta.b), rows)

    def update(z, w, epsilon, curvature, minibatch):
        candidates = draw(z, w, minibatch)
        return sampled.update_output(rows, candidates, pace.outputs, z, w, epsilon, curvature)

    return make_trainer(rows, start, update, DECAY_EVERY)


def train_against_noise(start, data, settings, pace, threads, comm, C):
    """Train by noise-contrastive estimation (`nce`)."""
    rows = outputs.Rows(start.theta, threads, comm, C)
    proposal = make_proposal(data, settings, len(start.theta.b))

    def update(z, w, epsilon, curvature, minibatch):
        noise = proposal.sample(minibatch.random(settings.seed), data.contexts[minibatch.at])
        return nce.update_output(rows, noise, pace.outputs, z, w, epsilon, curvature)

    return make_trainer(rows, start, update, DECAY_EVERY)


def train_classes(start, data, settings, pace, threads, comm, C):
    """Train the softmax over the classes and, for each example, the softmax over the words of its class."""
    layer = classes.Classes(start.theta, comm)
    return make_trainer(layer, start, without_draws(partial(classes.update_output, layer, pace)), DECAY_EVERY)


def train_tree(start, data, settings, pace, threads, comm, C):
    """Train the decisions at the nodes of a tree of words."""
    rows, ways = outputs.Rows(start.theta, threads, comm, C), tree.paths(start.theta.tree)
    update = without_draws(partial(tree.update_output, rows, ways, pace.outputs))
    return make_trainer(rows, start, update, DECAY_EVERY)


def make_trainer(layer, start, update, every=1):
    """The OutputTrainer of the output weights in training: a Blocks, Rows, Classes or `single.Layer`. update, every: as
    in OutputTrainer.
    """
    has_direct = vars(start.theta).get("W") is not None
    return OutputTrainer(update, partial(layer.gather, start.h, has_direct), layer.weights, layer.shrink, every)


def make_proposal(data, settings, V):
    """The `sampled.Proposal` of a run: `data.proposal`, the uniform distribution, or the unigram."""
    q = np.full(V, 1 / V) if settings.proposal == "uniform" else data.proposal
    return sampled.Proposal(data.w, V, settings.samples, q)


def make_draw(data, settings, V, rows=None):
    """A function draw(z, w, minibatch) -> the candidates, as in `sampled.Proposal.candidates`, for the words w of a
    Minibatch. With the objective "full" they are all words.

    With -effective-samples, the number of words drawn is doubled until the outputs of z reach the effective sample
    size; rows: the `outputs.Rows` that compute these outputs.
    """
    if settings.objective == "full":
        every = np.arange(V), np.zeros(V, f32)
        return lambda *_: every
    proposal = make_proposal(data, settings, V)

    def draw(z, w, minibatch):
        contexts, S = data.contexts[minibatch.at] if proposal.of_contexts else None, settings.samples
        while True:
            drawn, q = proposal.sample(minibatch.random(settings.seed), contexts, S)
            wanted = settings.effective_samples
            if not wanted or S >= V or not sampled.effective_sample_size(rows, z, drawn, q) < wanted:
                return proposal.candidates(w, drawn, q)
            S *= 2

    return draw


OBJECTIVES = {  # by output, and then by name
    "full": {"full": train_on_all, "one": train_on_one, "sampled": train_on_sample, "nce": train_against_noise},
    "tied": {"full": train_on_sample, "sampled": train_on_sample, "nce": train_against_noise},
    "shortlist": {"shortlist": train_on_all},
    "class": {"class": train_classes},
    "tree": {"tree": train_tree},
}
OF_WORDS = ["full", "shortlist", "sampled", "nce", "class", "tree"]
# the objectives of each -model; deeper stacks are chosen by -layers
MODELS = {name: OF_WORDS for name, layer in LAYERS.items() if layer.depth == 1}
MODELS["energy"] = ["full", "sampled"]
EXACT = {"full", "class", "tree"}  # objectives that give the exact perplexity of the training text
ESTIMATED = {"sampled", "nce"}  # objectives that estimate it from words that they draw


def make_learner(start, data, settings, threads, comm, state=None):
    """Make the Learner of a run that starts from the model `start`.

    state: for a resumed run, the arrays that `Learner.state` returned.
    """
    start, state = with_low(start), initial_state(settings) | (state or {})
    if start.layer == "energy":
        return make_energy_learner(start, data, settings, threads, comm, state)
    layer, w = LAYERS[start.layer], start.places(data.w)
    is_softmax = start.output == settings.objective == "full"
    is_single = is_softmax and settings.minibatch == 1 and data.fresh is None and comm is ALONE
    is_of_paper = start.layer == "nplm" and start.senses == 1 and not (settings.dropout or settings.word_dropout)
    if is_single and is_of_paper:
        return make_single_learner(start, data, settings, threads, state)
    pace = make_pace(settings, data, len(start.C), *OUTPUTS[start.output].variances(start.theta, w))
    objective = "one" if is_single else settings.objective
    theta, trainer = make_parts(start, replace(data, w=w), settings, pace, threads, comm, objective)
    pending, draw_dropout = state["decay"].copy(), dropout.make_draw(settings, theta)
    decay = make_decay(pending, trainer.every, trainer.shrink, theta.p, data, settings, comm.stride)
    each = settings.weight_decay if trainer.shrink is None else 0
    theta.state = state.get("state")
    _, B = running.minibatch_shape(settings)  # for a layer that carries its state

    def step(at, epsilon, epoch, number):
        if layer.carries:
            is_step = at < len(w)
            at = np.minimum(at, len(w) - 1)
            words, examples = np.where(is_step, w[at], -1), np.count_nonzero(is_step)
            batch = Batch([B] * (len(at) // B), theta.state if number else None, data.fresh[at], threads)
        else:
            at = at[w[at] >= 0]
            words, examples, batch = w[at], len(at), Batch(threads=threads)
        contexts = data.contexts[at]
        factors = draw_dropout(len(contexts), len(words), epoch, number)
        if not (words >= 0).any():
            if layer.carries:  # words that are not predicted still change the state
                *_, theta.state = sgd.forward(theta, contexts, factors, batch)
            decay(epsilon, number, examples)
            return 0.0, 0.0
        update = lambda *arguments: trainer.update(*arguments, Minibatch(at, epoch, number))
        rates = Rates(epsilon, each, settings.feature_rate)
        result = sgd.step(theta, update, contexts, words, rates, factors, batch)
        if math.isfinite(result[0]):
            decay(epsilon, number, examples)
        return result

    network = lambda: start.having(sgd.copy_arrays(theta.p) | trainer.arrays())
    carried = lambda: {} if theta.state is None else {"state": theta.state}
    return Learner(one_by_one(step), network, lambda: {"decay": pending.copy()} | carried())


def make_parts(start, data, settings, pace, threads, comm, objective):
    """(the `sgd.Parameters` below the output layer, the OutputTrainer) of a run that starts from the model `start`.
    objective: a name in OBJECTIVES[start.output].
    """
    p, layer = vars(start.theta), LAYERS[start.layer]
    before = {name: p[name] for name in ("C", *layer.shapes(start.order, start.m, start.h))}
    theta = sgd.Parameters(layer, sgd.place_copies(before, comm), start.m, start.direct, pace, threads)
    train = OBJECTIVES[start.output][objective]
    return theta, train(start, data, settings, pace, threads, comm, theta.p.C)


def with_low(network):
    """The network in training: with b_low, and bc_low where there are classes, what single precision rounds off the
    biases. They begin at 0.
    """
    arrays = network.named()
    return network.having({f"{name}_low": np.zeros_like(arrays[name]) for name in BIASES if name in arrays} | arrays)


def without_low(network):
    """The network as its file has it: without b_low and bc_low."""
    arrays = {name: a for name, a in vars(network.theta).items() if not name.endswith("_low")}
    return replace(network, theta=SimpleNamespace(**arrays))


def make_decay(pending, every, shrink, p, data, settings, stride=1):
    """A function decay(epsilon, number, K) that applies the weight decay of updates that do not do so themselves.

    An update of K examples keeps 1 - K epsilon decay of a weight. Single precision would round what it takes away, 1e-7
    or 1e-8 in the paper, to a multiple of 6e-8. So the updates are collected, and shrink(keep), for the output weights,
    and `sgd.shrink`, for the arrays p below them, get their product: at the end of an epoch, and after `every` updates
    or more that take away LEAST_DECAY or more. shrink: None if each update decays all weights. pending (3,) float64: ln
    keep, ln keep_C, for C alone, and the number of updates; checkpoints contain it. stride: the number of ranks that
    take turns; each applies the decay of its own updates.
    """
    steps = count_steps(data, settings)

    def decay(epsilon, number, K):
        share = K * epsilon * settings.weight_decay
        if share * max(settings.feature_rate, 1) >= 1:
            most = settings.weight_decay / (share * max(settings.feature_rate, 1))
            raise UsageError(
                f"-rate {settings.rate:g} and -weight-decay {settings.weight_decay:g} are too high together: an update "
                f"of {K} examples would reverse the signs of weights; lower -rate, or give a -weight-decay below "
                f"{most:.2g}"
            )
        if shrink is None:
            return
        pending[:] += math.log1p(-share), math.log1p(-share * settings.feature_rate), 1
        if number + stride >= steps or (pending[2] >= every and pending[0] <= -LEAST_DECAY):
            keep, keep_C = map(math.exp, pending[:2])
            shrink(keep)
            sgd.shrink(p, keep, keep_C)
            pending[:] = 0

    return decay


def is_fused(data, settings):
    """Whether each update of all output weights applies its weight decay, because its share is large enough."""
    return minibatch_size(data, settings) * settings.rate * settings.weight_decay >= LEAST_DECAY


def minibatch_size(data, settings):
    """The number of examples in a minibatch. A text that has fewer examples is one minibatch."""
    K = settings.minibatch if data.fresh is None else running.minibatch_size(settings)
    return min(K, len(data.w))


def count_steps(data, settings):
    """The number of minibatches of an epoch."""
    return -(-len(data.w) // minibatch_size(data, settings))


def initial_state(settings):
    """The arrays of `Learner.state` before training. decay (3,): `pending` of `make_decay`; state (rows, width): of a
    layer that carries its state.
    """
    state = {"decay": np.zeros(3)}
    if settings.layer.carries:
        width = settings.layer.width(settings.hidden)
        state["state"] = np.zeros((running.minibatch_shape(settings)[1], width), np.float32)
    return state


def make_single_learner(start, data, settings, threads, state):
    """Make the Learner of the paper's network and algorithm: one example in an update. state: the arrays of
    `Learner.state`.

    The weight decay of a call is applied after the call. So a call has so few updates that their decay is at most
    LEAST_DECAY.
    """
    p, pending = sgd.place_copies({name: getattr(start.theta, name) for name in "CHd"}), state["decay"].copy()
    layer = single.Layer(start.theta)
    team_size = single.TeamSize(threads, layer)
    decay = make_decay(pending, 1, layer.shrink, p, data, settings)

    def steps(batches, epsilons, epoch, numbers):
        at, rates = np.concatenate(batches), np.outer(epsilons, (1, settings.feature_rate)).astype(f32)
        examples = data.contexts[at], data.w[at], rates
        work = partial(single.update_in_turn, layer, (p.C, p.H, p.d), *examples)
        L, done, norm = team_size.run(work, len(at))
        for epsilon, number in zip(epsilons[:done], numbers):
            decay(epsilon, number, 1)
        return L, done, norm

    network = lambda: start.having(sgd.copy_arrays(p) | layer.gather(start.h, start.theta.W is not None))
    share = settings.rate * settings.weight_decay * max(settings.feature_rate, 1)  # the largest decay of an update
    together = max(min(TOGETHER, WORK // max(layer.M.size, 1), int(LEAST_DECAY / share) if share else TOGETHER), 1)
    return Learner(steps, network, lambda: {"decay": pending.copy()}, together)


def make_energy_learner(start, data, settings, threads, comm, state):
    """Make the Learner of the energy network, which is trained on all words or on a sample of the words. state: the
    arrays of `Learner.state`.
    """
    p = sgd.place_copies(start.named(), comm)
    V = len(p.b)
    pace = make_pace(settings, data, len(start.C), variances(data.w, V))
    fused, pending = is_fused(data, settings), state["decay"].copy()
    each = settings.weight_decay if fused else 0
    shrink = None if fused else lambda keep: None  # p has the output weights too
    decay = make_decay(pending, 1, shrink, p, data, settings, comm.stride)
    draw = make_draw(data, settings, V)

    def step(at, epsilon, epoch, number):
        examples = data.contexts[at], data.w[at]
        candidates = draw(None, examples[1], Minibatch(at, epoch, number))
        rates = Rates(epsilon, each, settings.feature_rate)
        result = energy_sgd.step(p, pace, examples, candidates, rates, threads)
        if math.isfinite(result[0]):
            decay(epsilon, number, len(at))
        return result

    network = lambda: start.having(sgd.copy_arrays(p))
    return Learner(one_by_one(step), network, lambda: {"decay": pending.copy()})
