"""Networks that adapt to a text while they score it, by dynamic evaluation (Krause et al. 2018) and by a neural cache
(Grave et al. 2017).

`AdaptiveNetwork` reads a text segment by segment. It computes ln p of the words of a segment, mixes p with the cache,
and then lets the parameters take a gradient step on the segment. So each word is scored before anything is learned from
it, and at each word the probabilities sum to one.

symbol  shape  meaning
S       -      words in a segment
theta   -      all parameters of the network; theta_0: as they were trained
L       -      ln p of the words of a segment, summed
h_t     (h,)   the hidden activations that predict word t
N       -      words in the cache

Dynamic evaluation, after each segment: theta += rate dL/dtheta; then theta += decay (theta_0 - theta). This is the
paper's equation with plain gradients. The paper also divides gradients by their root mean square in the training text;
lmtk does not.

The cache (equations 2 and 3 of Grave et al.): p_cache(w) is proportional to the sum of exp(s h_t . h_i) over those of
the last N words i that are w; the scale s is the field theta of `Cache`. p = (1 - lambda) p_network + lambda p_cache;
while the cache is empty, p is p_network.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.errors import Diverged, counted
from lmtk.lm import scores_of
from lmtk.machine import memory
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import thread_count
from lmtk.nplm import objectives, running, sgd
from lmtk.nplm.layers import LAYERS, Batch
from lmtk.nplm.pace import Rates, full_pace
from lmtk.nplm.training import Data, Settings
from lmtk.text.corpus import contexts as text_contexts

f32 = np.float32
CHUNK = 1 << 15  # parameters that move towards theta_0 at once, few enough for the processor's cache
PART = 512  # words that the cache, or the network without dynamic evaluation, scores at once
ADAPTIVE = "full", "tied", "class", "tree"  # output layers that can follow a text


@dataclass(frozen=True)
class DynamicEvaluation:
    """rate: the learning rate for one word; segment: S; decay: how much of the difference from the trained parameters
    is taken back after each step (0: nothing, 1: all).
    """

    rate: float
    segment: int
    decay: float


@dataclass
class Cache:
    """A neural cache of the last `size` words. theta: the scale of h_t . h_i; weight: lambda.

    h (., h) and words (.,): the activations and the words in the cache, the oldest word first; None: no words yet.
    """

    size: int
    theta: float
    weight: float
    h: np.ndarray | None = None
    words: np.ndarray | None = None

    def mix(self, h, w, logp):
        """Mix the cache into logp, the network's ln p of words w (K,) with the activations h (K, .). Returns ln p,
        (K,). Each word sees only earlier words; all of them then join the cache.
        """
        if self.h is None:
            self.h, self.words = h[:0], w[:0]
        h, words = np.concatenate((self.h, h)), np.concatenate((self.words, w))
        place = np.arange(len(words) - len(w), len(words))[:, None]  # of w; a word sees the `size` words before it
        entries = np.arange(len(words))
        outside = (entries >= place) | (entries < place - self.size)
        similar = np.where(outside, -np.inf, self.theta * (h[place[:, 0]] @ h.T).astype(np.float64))
        same = np.where(words == w[:, None], similar, -np.inf)
        self.h, self.words = h[-self.size :], words[-self.size :]
        filled = place[:, 0] > 0
        mixed = logp.copy()
        with np.errstate(divide="ignore"):
            shares = np.log((1 - self.weight, self.weight))
        cached = np.logaddexp.reduce(same[filled], axis=1) - np.logaddexp.reduce(similar[filled], axis=1)
        mixed[filled] = np.logaddexp(shares[0] + logp[filled], shares[1] + cached)
        return mixed


@dataclass(frozen=True)
class Segment:
    """The words that were scored since the last step. contexts (k, n-1), or (k, 1) for a layer that carries its state;
    w (k,): ids, -1 for a word that is read but not predicted; fresh (k,) bool: whether a step begins a sentence.
    """

    contexts: np.ndarray
    w: np.ndarray
    fresh: np.ndarray

    def extend(self, other):
        return Segment(*(np.concatenate(pair) for pair in zip(vars(self).values(), vars(other).values())))

    def part(self, rows):
        return Segment(self.contexts[rows], self.w[rows], self.fresh[rows])


class AdaptiveNetwork:
    """A Network that adapts to one text, from its first block to the last. dynamic: a `DynamicEvaluation`, or None;
    cache: a `Cache`, or None. Make a new AdaptiveNetwork for each text.
    """

    def __init__(self, network, dynamic=None, cache=None):
        memory.keep()
        network = network.having({name: np.asarray(a) for name, a in network.named().items()})  # plain ndarrays
        self.network, self.vocab, self.order = network, network.vocab, network.order
        self.dynamic, self.cache, self.layer = dynamic, cache, LAYERS[network.layer]
        settings = step_settings(network, dynamic or DynamicEvaluation(0.0, PART, 0.0))
        words = np.zeros(1, np.int32)  # has no effect, because no words are drawn
        data = Data(np.zeros((1, max(network.order - 1, 1)), np.int32), words, None)
        pace = full_pace(len(network.C), len(network.theta.b), len(vars(network.theta).get("bc", ())))
        self.theta, self.trainer = objectives.make_parts(
            objectives.with_low(network), data, settings, pace, thread_count(), ALONE, settings.objective
        )
        self.rates = Rates(settings.rate, 0.0, settings.feature_rate)
        self.arrays = [a.ravel("K") for a in (*vars(self.theta.p).values(), *self.trainer.weights)]  # views
        self.trained = [a.copy() for a in self.arrays] if dynamic and dynamic.decay else []
        self.room = np.empty(CHUNK, f32)  # workspace of `learn`
        self.size, self.read, self.last, self.goes_on = settings.minibatch, 0, None, False
        width = 1 if self.layer.carries else network.order - 1
        self.segment = Segment(np.empty((0, width), np.int32), np.empty(0, np.int32), np.empty(0, bool))
        self.now = network

    @np.errstate(over="ignore", invalid="ignore")  # Diverged is raised instead
    def score(self, corpus):
        """ln p of every scored token. The text must follow the text of the previous call. Raises Diverged."""
        logp = np.where(corpus.scored, -np.inf, 0.0)
        at, coming = self.read_steps(corpus)
        begin = 0
        while begin < len(at):
            room = self.size - len(self.segment.w)
            rows = slice(begin, begin + room)
            logp[at[rows]] = self.follow(coming.part(rows))
            begin += room
        logp[~corpus.scored] = 0
        return scores_of(self.network.kind, logp)

    def read_steps(self, corpus):
        """The places of the words to read, and their Segment.

        A layer that carries its state reads each word once: it skips the words that a Corpus repeats from the previous
        Corpus.
        """
        ids, sos = corpus.ids, self.vocab.sos_id
        if self.layer.carries:
            text = running.text_steps(corpus, sos)
            new = slice(None)
            if self.goes_on and corpus.scored.any():
                new = slice(np.searchsorted(text.at, np.flatnonzero(corpus.scored)[0]), None)
            at, contexts, fresh = text.at[new], text.inputs[new, None], text.fresh[new]
            if self.goes_on and len(at):
                contexts[0], fresh[0] = self.last, False
        else:
            at = np.flatnonzero(corpus.scored)
            contexts = self.network.padded(text_contexts(corpus, self.order)[at])
            fresh = np.zeros(len(at), bool)
        self.last, self.goes_on = ids[-1] if len(ids) else self.last, corpus.goes_on
        w = np.where(corpus.scored[at] & (ids[at] < self.vocab.V), ids[at], -1)
        return at, Segment(contexts, w, fresh)

    def follow(self, coming):
        """ln p of the words of `coming`, a Segment that continues the current one, (k,). A full segment is learned."""
        segment = self.segment.extend(coming)
        batch = Batch([1] * len(segment.w), self.theta.state, segment.fresh, self.theta.threads)
        batch = batch if self.layer.carries else Batch(threads=self.theta.threads)
        z, *_ = results = sgd.forward(self.theta, segment.contexts, batch=batch)
        new = np.arange(len(segment.w) - len(coming.w), len(segment.w))
        logp = np.full(len(segment.w), -np.inf)
        at = new[segment.w[new] >= 0]
        if len(at):
            logp[at] = self.now.score_inputs(z[at], segment.w[at])
            if not np.isfinite(logp[at]).all():
                words = counted(self.read, "word")
                raise Diverged(f"the likelihood is not finite after {words}; try a lower -dynamic-rate")
            for i in range(0, len(at) if self.cache else 0, PART):  # `mix` takes memory by the square of the words
                part = at[i : i + PART]
                logp[part] = self.cache.mix(z[part, : self.network.h], segment.w[part], logp[part])
        self.read += len(new)
        self.segment = segment
        if len(segment.w) == self.size:
            self.learn(segment, results)
        return logp[new]

    def learn(self, segment, results):
        """Take the step on a whole segment. results: what `sgd.forward` returned for it."""
        self.segment = segment.part(slice(0))
        if not self.dynamic or not (segment.w >= 0).any():
            *_, self.theta.state = results
            return
        update = lambda *arguments: self.trainer.update(*arguments, None)  # None: no words are drawn
        sgd.update(self.theta, results, update, segment.w, self.rates)
        for a, trained in zip(self.arrays, self.trained):
            for i in range(0, a.size, CHUNK):
                part = a[i : i + CHUNK]
                back = np.subtract(trained[i : i + CHUNK], part, out=self.room[: len(part)])
                back *= f32(self.dynamic.decay)
                part += back
        self.now = self.network.having(vars(self.theta.p) | self.trainer.arrays())


def step_settings(network, dynamic):
    """The Settings of a training step on a segment, with the -feature-rate that the network was trained with."""
    objective = network.output if network.output in ("class", "tree") else "full"
    model, feature_rate = network.layer, network.settings.get("feature_rate", 1.0)
    sizes = network.order, network.h, network.m, bool(network.direct)
    return Settings(
        *sizes, rate=dynamic.rate, decay=0.0, weight_decay=0.0, feature_rate=feature_rate, minibatch=dynamic.segment,
        epochs=1, patience=0, seed=1, objective=objective, model=model,
    )  # fmt: skip
