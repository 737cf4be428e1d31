"""Texts for layers that carry their state from word to word (gru, lstm).

`text_steps` turns a text into steps, one for each word, in the order of the text. For scoring, `cut_stretches` cuts the
sentences into stretches that are computed side by side. For training, the text is read in B rows side by side, and
`minibatch_places` gives the steps of a minibatch.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.lm import ranges

LENGTH = 1024  # words of a stretch, for scoring
LEAD = 128  # words that are read, but not scored, before a stretch that begins inside a sentence
WORDS = 1 << 13  # words of a group of stretches


@dataclass(frozen=True)
class Steps:
    """Steps of a layer, one for each word.

    at (N,): the places of the words in the text; inputs (N,): ids of the words before them, <s> at the start of a
    sentence; fresh (N,) bool: whether a step is the first of a sentence.
    """

    at: np.ndarray
    inputs: np.ndarray
    fresh: np.ndarray


def text_steps(corpus, sos):
    """The steps of all words of a Corpus. The first word of a sentence follows <s>; a first word <s> is only an
    input.
    """
    ids, N = corpus.ids, len(corpus.ids)
    firsts = np.unique(corpus.starts[:-1])
    firsts = firsts[firsts < N]
    inputs = np.concatenate(([sos], ids[:-1])).astype(np.int32)[:N]
    inputs[firsts] = sos
    fresh, kept = np.zeros(N + 1, bool), np.ones(N, bool)
    kept[firsts] = ids[firsts] != sos
    fresh[firsts + ~kept[firsts]] = True
    at = np.flatnonzero(kept)
    return Steps(at, inputs[at], fresh[at])


def cut_stretches(corpus, sos):
    """Yield groups of stretches of a Corpus for scoring.

    A group is (Steps, packed time by time, longest stretch first; for each t, the number of stretches that have a t-th
    word; (P,) bool, the words to score).

    A stretch has at most LENGTH words of one sentence. If it begins inside the sentence, the LEAD words before it come
    first, to prepare the state; these are not scored. So the probability of a word depends on its sentence alone.
    """
    text = text_steps(corpus, sos)
    N, firsts = len(text.at), np.flatnonzero(text.fresh)
    ends = np.append(firsts[1:], N)
    number = -(-(ends - firsts) // LENGTH)
    sentence = np.repeat(np.arange(len(firsts)), number)
    piece = ranges(0, number)
    begin = firsts[sentence] + piece * LENGTH
    length = np.minimum(begin + LENGTH, ends[sentence]) - begin
    lead = np.minimum(begin - firsts[sentence], LEAD)
    begin, length = begin - lead, length + lead
    order = np.argsort(-length, kind="stable")
    while len(order):
        group, order = np.split(order, [max(WORDS // length[order[0]], 1)])
        time = np.arange(length[group[0]])[:, None]
        present = time < length[group]
        at = (begin[group] + time)[present]
        scored = np.broadcast_to(time >= lead[group], present.shape)[present]
        yield Steps(text.at[at], text.inputs[at], text.fresh[at]), present.sum(axis=1).tolist(), scored


def minibatch_shape(settings):
    """(T, B): an update reads T consecutive words in each of B rows of the text."""
    T = min(settings.order, settings.minibatch)
    return T, settings.minibatch // T


def minibatch_size(settings):
    """The number of words of a minibatch."""
    T, B = minibatch_shape(settings)
    return T * B


def minibatch_places(N, settings, number, first=0):
    """The indices of the steps of a minibatch, (T B,), time by time; an index of N or more stands for no step.

    The first row begins with step `first`. Step 0 follows the last step of the text.
    """
    T, B = minibatch_shape(settings)
    L = -(-N // B)
    time = np.arange(number * T, min((number + 1) * T, L))
    at = (time[:, None] + np.arange(B) * L).ravel()
    return np.where(at < N, (at + first) % N, at)
