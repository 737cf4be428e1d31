"""States of texts that go on word by word, many at once, for models of any kind.

They serve lists of next words, random sentences, and decoders that fuse the probabilities of a whole vocabulary.

A state is what a model remembers of the words before. The state of a back-off model is a number, as in `walking.step`;
the state of another model is a tuple of ids, the oldest word first.
"""

from functools import cached_property

import numpy as np

from lmtk.lm import LN10, after_each, distinct_contexts, reach
from lmtk.machine.threads import map_in_order
from lmtk.ngram.model import walking
from lmtk.ngram.model.backoff import Backoff
from lmtk.reports import kenlm
from lmtk.text.vocab import SOS

ROWS = 32  # states whose scores a thread computes at once
CELLS = 1 << 18  # scores of whole vocabularies that are computed at once for entropies
LEAST = -1000.0  # ln p below which e^x is 0


def extend_state(state, word, length):
    """A state, a tuple of ids, with one more word, cut to its last `length` words."""
    return (*state, word)[max(len(state) + 1 - length, 0) :]


def largest(values, k):
    """The places of the k largest of `values` (V,), the largest first, equal ones in order; -inf is left out."""
    k = min(k, len(values))
    if k < 1:
        return []
    places = np.flatnonzero(values >= -np.partition(-values, k - 1)[k - 1])
    places = places[np.argsort(-values[places], kind="stable")][:k]
    return places[values[places] > -np.inf].tolist()


class Follower:
    """The states of a model `lm`, (B,) each, and the probabilities of all words in them, in KenLM's arithmetic."""

    def __init__(self, lm):
        self.lm = lm

    @cached_property
    def walk(self):
        return kenlm.walk(self.lm, lengths=False)

    @cached_property
    def arrays(self):
        """The arrays of the walk; None for a model of another kind."""
        return self.walk.arrays if isinstance(self.lm, Backoff) else None

    def states(self, size, bos):
        """`size` states at the start of a sentence, or without context."""
        if isinstance(self.lm, Backoff):
            states = np.full(size, walking.AFTER_NOTHING, np.int64)
        else:
            states = np.empty(size, object)
            states[:] = [()] * size
        return self.advance(states, [self.lm.vocab.index[SOS]] * size) if bos else states

    @cached_property
    def sizes(self):
        """How many states of each order a back-off model has."""
        # after no word, there are walking.AFTER_NOTHING and AFTER_UNKNOWN
        return np.array([2, *(self.lm.nodes.size(k) for k in range(1, self.lm.order))])

    def checked(self, states):
        """The states of a caller as an array. Raises ValueError if they cannot be states of this model."""
        if isinstance(states, np.ndarray) and states.ndim == 1:
            if not isinstance(self.lm, Backoff):
                is_valid = all(isinstance(state, tuple) for state in states)
            elif is_valid := states.dtype == np.int64:
                order, place = states >> 32, states & 0xFFFFFFFF
                is_valid = ((order >= 0) & (order < len(self.sizes))).all() and (place < self.sizes[order]).all()
            if is_valid:
                return states
        raise ValueError("states must be an array that states() or advance() of the same model returned")

    def advance(self, states, ids):
        """The states after a word each; ids (B,)."""
        if isinstance(self.lm, Backoff):
            advanced = np.empty(len(states), np.int64)
            walking.advance(self.arrays, states, np.asarray(ids, np.int32), advanced)
            return advanced
        length, advanced = reach(self.lm), np.empty(len(states), object)
        advanced[:] = [extend_state(state, int(word), length) for state, word in zip(states, ids)]
        return advanced

    def scores(self, states):
        """log10 p of each predicted word in each state, (B, V) float32."""
        if not isinstance(self.lm, Backoff):
            return (after_each(self.lm, [list(state) for state in states]) / LN10).astype(np.float32)
        scores = np.empty((len(states), self.lm.vocab.V), np.float32)

        def fill(first):
            part = slice(first, first + ROWS)
            walking.fill_scores(self.arrays, states[part], scores[part])

        for _ in map_in_order(fill, range(0, len(states), ROWS)):
            pass
        return scores

    def entropies(self, corpus, positions):
        """The entropy of the distribution of the next word, - sum_w p(w) ln p(w) in nats, at each of P positions of a
        Corpus: (P,) float64. w: all words that the model predicts, also </s> and <unk>.

        Bound: e^x of V numbers for each distinct context.
        """
        rows, inverse = distinct_contexts(self.lm, corpus, positions)
        together, entropies = max(CELLS // self.lm.vocab.V, 1), np.empty(len(rows))
        for first in range(0, len(rows), together):
            part = slice(first, first + together)
            logp = np.maximum(self.scores(self.states_after(rows[part])) * np.float32(LN10), np.float32(LEAST))
            entropies[part] = -(np.exp(logp) * logp).sum(axis=1)
        return entropies[inverse]

    def states_after(self, rows):
        """The states after contexts, rows (B, n) as from `distinct_contexts`."""
        states = self.states(len(rows), False)
        for column in rows.T[::-1]:
            inside = column >= 0
            states[inside] = self.advance(states[inside], column[inside])
        return states
