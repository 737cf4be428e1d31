"""The probabilities of all words after states, the contexts of a back-off model as `walking.step` numbers them."""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.model.nodes import AT, BOW, WIDE, WIDTH, P, children_of, suffix_of
from lmtk.ngram.model.walking import convert_p, step, weight_after

u64 = np.uint64


@jit(nogil=False)
def advance(arrays, states, ids, after):
    """after (B,) <- the state after each of the words ids (B,) in the states (B,), as `step` makes it."""
    for i in range(len(states)):
        after[i] = step(arrays, ids[i], states[i])[2]


@jit
def fill_scores(arrays, states, scores):
    """scores (B, V) float32 <- log10 p of each word in each of the states (B,), in KenLM's arithmetic.

    Contexts are taken from the shortest to the longest: the weight of a context is added to all words, and its children
    get their own probability. Bound: V numbers are written for each context, V being the size of the vocabulary.
    """
    (memory, where, _, _), logs, far, _, first = arrays
    n, V = len(where), scores.shape[1]
    orders, nodes = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    for i in range(len(states)):
        row, many = scores[i], 0
        for w in range(V):
            row[w] = convert_p(first[w], True)
        k, node = states[i] >> 32, states[i] & 0xFFFFFFFF
        while k:
            orders[many], nodes[many] = k, node
            many += 1
            k, node = suffix_of(memory, where, far, k, node)
        for j in range(many - 1, -1, -1):
            k, node = orders[j], nodes[j]
            low, high = children_of(memory, where, k, node)
            bow = weight_after(logs[u64(where[k - 1, AT] + WIDE * node + BOW)], high > low, True)
            if bow != 0:
                for w in range(V):
                    row[w] += bow
            for child in range(low, high):
                at = where[k, AT] + where[k, WIDTH] * child
                w, value = np.int64(memory[u64(at)]), logs[u64(at + where[k, P])]
                if 0 <= w < V and value < np.inf:
                    row[w] = convert_p(value, True)
