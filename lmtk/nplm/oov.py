"""Words unseen in training: their features and output units from their contexts (Bengio et al. 2003, end of section
5.1).

symbol  shape     meaning
V W     -         words predicted; words known in training, including those that only occur in contexts
J       -         words that have joined so far; their ids are W, W + 1, ..
z M     (K, D) (V, D)  [a | x | 1] and [U | W | b], as in `kernels`; a row of M is the output unit of a word
F       (V, m + D)  [C | M]: all parameters of a word
y       (K,)      y_new, the output of a word that has not yet joined

In a context where the network gives the training words i the probabilities P(i), a new word j gets F(j) = sum_i P(i)
F(i): C(j) as in the paper, and the output unit in the same way. An output is linear in its unit, so the output of j in
this context is sum_i P(i) y_i. This is ln S minus the entropy of P, with S = sum_i e^(y_i).

The paper defines C(j) and says that j then has a probability. It leaves open the following; this is what lmtk does: -
The output unit is made by the same sum. The paper's energy network has only a bias. - A word that occurs again: F(j) is
the mean of the sums of all its contexts so far; the word is predicted with the mean of the earlier contexts. - P is
over the training words only, whichever words have joined. - The normalization runs over the training words, the words
that have joined, and one new word, at every position. So the probabilities sum to one before the next word is known. A
new word is predicted as new; its spelling is not.
"""

import numpy as np

from lmtk.lm import scores_of
from lmtk.machine import threads
from lmtk.nplm import kernels
from lmtk.nplm.model import COLUMNS, MANY, ROWS, choose_exp_rows
from lmtk.text.corpus import Growing, contexts
from lmtk.text.vocab import Vocab


class OpenNetwork:
    """A Network that adds the new words of a text to its vocabulary as it scores the text, from the first block to the
    last.

    index: word -> id, for the reader of the text, which gives new words the next ids. F (J, m + D) and count (J,): the
    parameters of the words that have joined, and the number of their contexts so far.
    """

    def __init__(self, network):
        self.network, self.order = network, network.order
        self.vocab = network.vocab
        self.index = Growing(network.vocab.words)
        p = network.theta
        self.F_known = np.hstack((p.C[: len(p.b)], kernels.stack_weights(p.U, p.W, p.b)))
        self.F, self.count = np.zeros((0, self.F_known.shape[1]), np.float32), np.zeros(0, np.int64)

    def score(self, corpus):
        """ln p of every scored token. The text must follow the text of the previous call."""
        self.vocab = Vocab(self.index.words(), self.network.vocab.V, self.network.vocab.unk)
        more = len(self.vocab.words) - len(self.network.vocab.words) - len(self.F)
        self.F = np.pad(self.F, ((0, more), (0, 0)))
        self.count = np.pad(self.count, (0, more))
        logp = np.zeros(len(corpus.ids))
        at = np.flatnonzero(corpus.scored)
        exp_rows = choose_exp_rows(len(at) > MANY)
        rows = self.network.padded(contexts(corpus, self.order))
        for top in range(0, len(at), ROWS):
            part = at[top : top + ROWS]
            logp[part] = self.stretch(rows[part], corpus.ids[part], exp_rows)
        return scores_of("nplm", logp)

    def stretch(self, rows, w, exp_rows):
        """ln p of the words w (K,) of a stretch of text in their contexts `rows` (K, n-1); new words join."""
        network, W, m = self.network, len(self.network.vocab.words), self.network.C.shape[1]
        at = np.flatnonzero(w >= W)
        rows, level, before = number_versions(rows, w, W, W + len(self.F))
        C = np.vstack((network.C, self.F[:, :m], np.empty((len(at), m), np.float32)))
        times = self.count.copy()
        count = np.empty(len(at), np.int64)
        for i, j in enumerate(w[at] - W):
            times[j] += 1
            count[i] = times[j]
        # F after each occurrence, level by level: a context needs those of lower levels
        F = np.empty((len(at), self.F.shape[1]), np.float32)
        z = np.empty((len(w), self.F.shape[1] - m), np.float32)
        lnS, y = np.empty(len(w)), np.empty(len(w))
        for step in range(level.max(initial=-1) + 1):
            now = np.flatnonzero(level == step)
            z[now] = network.having({"C": C}).hidden(rows[now])
            wanted = w[now] >= W

            def work(part, now=now, wanted=wanted):
                return expectations(z[now[part]], self.F_known, m, wanted[part], exp_rows)

            shares = min(threads.count(), 1 + len(now) // 64)
            found = threads.map_at_once(work, np.array_split(np.arange(len(now)), shares))
            lnS[now], y[now], expected = (np.concatenate(parts) for parts in zip(*found, strict=True))
            for i, mean in zip(np.searchsorted(at, now[wanted]), expected, strict=True):
                old = self.F[w[at[i]] - W] if before[i] < 0 else F[before[i]]
                F[i] = old + (mean - old) / np.float32(count[i])
                C[W + len(self.F) + i] = F[i, :m]
        return self.join(z, w, lnS, y, at, F, m)

    def join(self, z, w, lnS, y, at, F, m):
        """ln p of a stretch, given the F of its new words. At each position in `at` a word joins or joins again."""
        W, V = len(self.network.vocab.words), len(self.F_known)
        logp = np.full(len(w), -np.inf)
        own = np.flatnonzero(w < V)
        logp[own] = np.einsum("kd,kd->k", z[own], self.F_known[w[own], m:])
        total = np.logaddexp(lnS, y)
        known = np.flatnonzero(self.count)
        start = 0
        for i, end in enumerate([*at, len(w) - 1]):
            span = slice(start, end + 1)
            if len(known):
                outputs = z[span] @ self.F[known, m:].T
                top = outputs.max(axis=1)
                sums = np.log(np.exp(outputs - top[:, None]).sum(axis=1, dtype=np.float64)) + top
                total[span] = np.logaddexp(total[span], sums)
            start = end + 1
            if i < len(at):
                j = w[end] - W
                logp[end] = z[end] @ self.F[j, m:] if self.count[j] else y[end]
                if not self.count[j]:
                    known = np.append(known, j)
                self.F[j] = F[i]
                self.count[j] += 1
        return logp - total


def number_versions(rows, w, W, first):
    """Number the versions of F of the new words, with ids from W on, that the contexts see; each occurrence in w makes
    one.

    Returns `rows` with the numbers of versions, from `first` on, instead of new words that occurred in w before; level
    (K,): a context depends on versions made by contexts of lower levels; and for each occurrence the number of the
    previous one of the same word, -1 if there is none.
    """
    rows, level, before = rows.copy(), np.zeros(len(w), np.int64), []
    last = {}  # word -> (its last occurrence, the level at which that is made)
    for t in np.flatnonzero((rows >= W).any(axis=1) | (w >= W)):
        for i in np.flatnonzero(rows[t] >= W):
            if rows[t, i] in last:
                number, made = last[rows[t, i]]
                rows[t, i] = first + number
                level[t] = max(level[t], made + 1)
        if w[t] >= W:
            number, made = last.get(w[t], (-1, -1))
            # a mean needs the one before it, which has a lower level: within a level there is no order
            level[t] = max(level[t], made + 1)
            last[w[t]] = len(before), level[t]
            before.append(number)
    return rows, level, before


def expectations(z, F, m, wanted, exp_rows):
    """Over the training words, with P = e^y / S, y = Mz: ln S (K,), sum_i P_i y_i (K,), and sum_i P_i F_i.

    The last is computed only for the contexts `wanted`, a mask (K,). The sums run over blocks of words, each with its
    own maximum. Bound by the product zM'.
    """
    K = len(z)
    Q, S, Y = np.full(K, -np.inf), np.zeros(K), np.zeros(K)
    sums, (q, s) = np.zeros((wanted.sum(), F.shape[1])), np.empty((2, K), np.float32)
    for j in range(0, len(F), COLUMNS):
        block = F[j : j + COLUMNS]
        y = z @ block[:, m:].T
        e = y.copy()
        exp_rows(e, q, s)
        top = np.maximum(Q, q)
        old, new = np.exp(Q - top), np.exp(q - top)
        S = S * old + s * new
        Y = Y * old + np.einsum("kv,kv->k", e, y) * new
        sums = sums * old[wanted, None] + (e[wanted] @ block) * new[wanted, None]
        Q = top
    return Q + np.log(S), Y / S, sums / S[wanted, None]
