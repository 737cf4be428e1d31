"""A text for layers that carry their state from word to word: its words in order, sentence by sentence."""

from dataclasses import dataclass

import numpy as np

from lmtk.nplm.layers import Given

LENGTH, WORDS = 512, 1 << 13  # of a stretch while scoring; of the stretches scored together


@dataclass(frozen=True)
class Steps:
    """Steps of a layer, a word each: at (N,), where the words stand in the text; inputs (N,), ids of the words before
    them, <s> where there is none; fresh (N,) bool: whether a step is the first of a sentence.
    """

    at: np.ndarray
    inputs: np.ndarray
    fresh: np.ndarray


def steps(corpus, sos):
    """The steps of all words of a Corpus. A first word of a sentence that is not scored, as <s>, is only an input."""
    ids, N = corpus.ids, len(corpus.ids)
    firsts = np.unique(corpus.starts[:-1])
    firsts = firsts[firsts < N]
    inputs = np.concatenate(([sos], ids[:-1])).astype(np.int32)[:N]
    inputs[firsts] = sos
    fresh, kept = np.zeros(N + 1, bool), np.ones(N, bool)
    kept[firsts] = corpus.scored[firsts]
    fresh[firsts + ~kept[firsts]] = True
    at = np.flatnonzero(kept)
    return Steps(at, inputs[at], fresh[at])


def stretches(corpus, sos, n):
    """Yields groups of stretches of a Corpus for scoring: (Steps, packed time by time, longest stretch first; for each
    t, how many stretches have a t-th word; (P,) bool, which words count).

    A stretch is LENGTH words of one sentence, or fewer. Where it does not begin the sentence, the n - 1 words before it
    come first, to prepare the state, and do not count. So a word's probability depends on its sentence alone.
    """
    text = steps(corpus, sos)
    N, firsts = len(text.at), np.flatnonzero(text.fresh)
    ends = np.append(firsts[1:], N)
    number = -(-(ends - firsts) // LENGTH)
    which = np.repeat(np.arange(len(firsts)), number)
    piece = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
    begin = firsts[which] + piece * LENGTH
    length = np.minimum(begin + LENGTH, ends[which]) - begin
    lead = np.minimum(begin - firsts[which], n - 1)
    begin, length = begin - lead, length + lead
    order = np.argsort(-length, kind="stable")
    while len(order):
        mine, order = np.split(order, [max(WORDS // length[order[0]], 1)])
        time = np.arange(length[mine[0]])[:, None]
        there = time < length[mine]
        at = (begin[mine] + time)[there]
        counted = np.broadcast_to(time >= lead[mine], there.shape)[there]
        yield Steps(text.at[at], text.inputs[at], text.fresh[at]), there.sum(axis=1).tolist(), counted


def rows(settings):
    """(T, B): an update sees T consecutive words in each of B rows of the text."""
    T = min(settings.order, settings.minibatch)
    return T, settings.minibatch // T


def size(settings):
    """The words of a minibatch."""
    T, B = rows(settings)
    return T * B


def minibatches(N, settings):
    """How many minibatches the N steps of a text make, in B rows side by side."""
    T, B = rows(settings)
    L = -(-N // B)
    return -(-L // T)


def places(N, settings, number):
    """The indices of the steps of a minibatch, (T B,), time by time; an index from N on stands for no step."""
    T, B = rows(settings)
    L = -(-N // B)
    time = np.arange(number * T, min((number + 1) * T, L))
    return (time[:, None] + np.arange(B) * L).ravel()


def fed(inputs, w, fresh, settings, team=None):
    """A function feed(at, state) -> contexts (., 1), words (K,) and the `layers.Given` of the steps `at`, indices as
    `places` gives them.

    inputs (N, 1), w (N,) and fresh (N,): the text's; team: threads for the layer. Steps from N on have the word -1.
    """
    _, B = rows(settings)
    N = len(w)

    def feed(at, state):
        there = np.minimum(at, N - 1)
        words = np.where(at < N, w[there], -1)
        return inputs[there], words, Given([B] * (len(at) // B), state, fresh[there], team)

    return feed
