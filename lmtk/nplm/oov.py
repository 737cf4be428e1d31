"""Words unseen in training: their features and output units from their contexts (Bengio et al. 2003, end of section
5.1).

symbol  shape     meaning
V W     -         words predicted; words known in training, including those that only occur in contexts
J       -         words that have joined so far; their ids are W, W + 1, ..
z       (K, D)    what the output layer reads: [a | x | 1] of `kernels`, or [o | 1] of `energy`
F       (V, .)    all parameters of a word: [C | U | W | b], or [C | b] of the energy network, or [C | b | v] if each
                  word has its own v
y       (K,)      y_new, the output of a word that has not yet joined

In a context where the network gives the training words i the probabilities P(i), a new word j gets F(j) = sum_i P(i)
F(i): C(j) as in the paper, and its other parameters in the same way. `Softmax` and `Energy` compute outputs from F. In
the softmax an output is linear in F, so the output of j in this context is sum_i P(i) y_i.

The paper defines C(j), for the energy network, and says that j then has a probability. It leaves open the following;
this is what lmtk does:
- b and v of j, or the output unit of j in the other networks, are made by the same sum.
- A word that occurs again: F(j) is the mean of the sums of all its contexts so far; the word is predicted with the mean
  of the earlier contexts.
- P is over the training words only, whichever words have joined.
- The normalization runs over the training words, the words that have joined, and one new word, at every position. So
  the probabilities sum to one before the next word is known. A new word is predicted as new; its spelling is not.
"""

import numpy as np

from lmtk.lm import scores_of
from lmtk.machine import threads
from lmtk.nplm import energy, kernels
from lmtk.nplm.model import COLUMNS, MANY, ROWS, choose_exp_rows
from lmtk.text.corpus import Growing, contexts
from lmtk.text.vocab import Vocab


class Softmax:
    """The outputs of the networks of section 2: y = z M', M = [U | W | b]. width: the columns of z."""

    def __init__(self, p):
        self.m = p.C.shape[1]
        self.F = np.hstack((p.C[: len(p.b)], kernels.stack_weights(p.U, p.W, p.b)))
        self.width = self.F.shape[1] - self.m

    def of_words(self, z, F):
        """The outputs of words with the parameters F (J, .) for all z (K, D), (K, J)."""
        return z @ F[:, self.m :].T

    def of_pairs(self, z, F):
        """The outputs of one word for each z: F (K, .), or one row for all. (K,)."""
        return np.einsum("kd,kd->k", z, np.broadcast_to(F[:, self.m :], z.shape))

    def of_new_word(self, z, wanted, exp_rows):
        """ln S (K,), y_new (K,), and F of a new word in the contexts `wanted`, a mask (K,)."""
        return expectations(z, self.F, self.of_words, wanted, exp_rows)


class Energy:
    """The outputs -E of the energy network (section 5.1). p has one v for all words, (h, 1), or one for each."""

    def __init__(self, p):
        self.m, self.H, self.v = p.C.shape[1], p.H, p.v if p.v.shape[1] == 1 else None
        self.F = np.hstack((p.C[: len(p.b)], p.b[:, None], *([] if self.v is not None else [p.v.T])))
        self.width = len(p.d) + 1

    def parts(self, F):
        """B, v and c of `energy` for words with the parameters F (J, .): (h, J), (h, 1) or (h, J), (J,)."""
        v = self.v if self.v is not None else np.ascontiguousarray(F[:, self.m + 1 :].T)
        return energy.word_part(F[:, : self.m], self.H), v, energy.constant_part(v, F[:, self.m])

    def of_words(self, z, F):
        B, v, c = self.parts(F)
        y = np.empty((len(z), len(F)), np.float32)
        fill = energy.minus_energies if y.size > energy.PAIRS else energy.minus_energies_plain
        fill(energy.exp_twice(z[:, :-1]), B, v, c, 0, y)
        return y

    def of_pairs(self, z, F):
        B, v, c = self.parts(F)
        return c + (2 * v.T / (1 + energy.exp_twice(z[:, :-1]) * B.T)).sum(axis=1, dtype=np.float64)

    def of_new_word(self, z, wanted, exp_rows):
        lnS, _, F = expectations(z, self.F, self.of_words, np.ones(len(z), bool), exp_rows)
        return lnS, self.of_pairs(z, F.astype(np.float32)), F[wanted]


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
        self.outputs = (Energy if network.layer == "energy" else Softmax)(network.theta)
        self.F, self.count = np.zeros((0, self.outputs.F.shape[1]), np.float32), np.zeros(0, np.int64)

    def score(self, corpus):
        """ln p of every scored token. The text must follow the text of the previous call."""
        inner = self.network.vocab
        self.vocab = Vocab(self.index.words(), inner.V, inner.unk, inner.tokenizer)
        more = len(self.vocab.words) - len(self.network.vocab.words) - len(self.F)
        self.F = np.pad(self.F, ((0, more), (0, 0)))
        self.count = np.pad(self.count, (0, more))
        logp = np.zeros(len(corpus.ids))
        at = np.flatnonzero(corpus.scored)
        exp_rows = choose_exp_rows(len(at) > MANY)
        rows = self.network.padded(contexts(corpus, self.order))
        for top in range(0, len(at), ROWS):
            part = at[top : top + ROWS]
            logp[part] = self.score_stretch(rows[part], corpus.ids[part], exp_rows)
        return scores_of("nplm", logp)

    def score_stretch(self, rows, w, exp_rows):
        """ln p of the words w (K,) of a stretch of text in their contexts `rows` (K, n-1); new words join."""
        network, W, m = self.network, len(self.network.vocab.words), self.network.C.shape[1]
        at = np.flatnonzero(w >= W)
        rows, level, before = number_versions(rows, w, W, W + len(self.F))
        C = np.vstack((network.C, self.F[:, :m], np.empty((len(at), m), np.float32)))
        count = self.count.copy()
        # F after each occurrence, level by level: a context needs the F of lower levels
        F = np.empty((len(at), self.F.shape[1]), np.float32)
        z = np.empty((len(w), self.outputs.width), np.float32)
        lnS, y = np.empty(len(w)), np.empty(len(w))
        for step in range(level.max(initial=-1) + 1):
            now = np.flatnonzero(level == step)
            z[now] = network.having({"C": C}).hidden(rows[now])
            wanted = w[now] >= W

            def work(part, now=now, wanted=wanted):
                return self.outputs.of_new_word(z[now[part]], wanted[part], exp_rows)

            shares = min(threads.thread_count(), 1 + len(now) // 64)
            results = threads.map_at_once(work, np.array_split(np.arange(len(now)), shares))
            lnS[now], y[now], expected = (np.concatenate(parts) for parts in zip(*results, strict=True))
            for i, mean in zip(np.searchsorted(at, now[wanted]), expected, strict=True):
                j = w[at[i]] - W
                count[j] += 1
                old = self.F[j] if before[i] < 0 else F[before[i]]
                F[i] = old + (mean - old) / np.float32(count[j])
                C[W + len(self.F) + i] = F[i, :m]
        return self.join(z, w, lnS, y, at, F)

    def join(self, z, w, lnS, y, at, F):
        """ln p of a stretch, given the F of its new words. At each position in `at` a word joins or joins again."""
        outputs_of, W, V = self.outputs, len(self.network.vocab.words), len(self.outputs.F)
        logp = np.full(len(w), -np.inf)
        in_vocab = np.flatnonzero(w < V)
        logp[in_vocab] = outputs_of.of_pairs(z[in_vocab], outputs_of.F[w[in_vocab]])
        total = np.logaddexp(lnS, y)
        counted = np.flatnonzero(self.count)
        start = 0
        for i, end in enumerate([*at, len(w) - 1]):
            span = slice(start, end + 1)
            if len(counted):
                outputs = outputs_of.of_words(z[span], self.F[counted])
                top = outputs.max(axis=1)
                sums = np.log(np.exp(outputs - top[:, None]).sum(axis=1, dtype=np.float64)) + top
                total[span] = np.logaddexp(total[span], sums)
            start = end + 1
            if i < len(at):
                j = w[end] - W
                logp[end] = outputs_of.of_pairs(z[end : end + 1], self.F[j : j + 1])[0] if self.count[j] else y[end]
                if not self.count[j]:
                    counted = np.append(counted, j)
                self.F[j] = F[i]
                self.count[j] += 1
        return logp - total


def number_versions(rows, w, W, first):
    """Number the versions of F: each occurrence in w (K,) of a new word, an id from W on, makes a version of its F.

    Returns three things: `rows` (K, n-1), the contexts, in which a new word that occurred earlier in w is replaced by
    `first` plus the number of its latest version; level (K,), such that a context sees only versions made at lower
    levels; and, for each version, the number of the word's previous version, -1 if there is none.
    """
    rows, level, before = rows.copy(), np.zeros(len(w), np.int64), []
    last = {}  # word -> (the number of its latest version, the level at which that version is made)
    for t in np.flatnonzero((rows >= W).any(axis=1) | (w >= W)):
        for i in np.flatnonzero(rows[t] >= W):
            if rows[t, i] in last:
                number, made = last[rows[t, i]]
                rows[t, i] = first + number
                level[t] = max(level[t], made + 1)
        if w[t] >= W:
            number, made = last.get(w[t], (-1, -1))
            # a mean needs the word's previous mean, from a lower level: one level is computed in no order
            level[t] = max(level[t], made + 1)
            last[w[t]] = len(before), level[t]
            before.append(number)
    return rows, level, before


def expectations(z, F, outputs_of, wanted, exp_rows):
    """Over the training words, with P = e^y / S and y = outputs_of(z, F): ln S (K,), sum_i P_i y_i (K,), and
    sum_i P_i F_i.

    The last is computed only for the contexts `wanted`, a mask (K,). The sums run over blocks of words, each with its
    own maximum. Bound by the computation of y.
    """
    K = len(z)
    Q, S, Y = np.full(K, -np.inf), np.zeros(K), np.zeros(K)
    sums, (q, s) = np.zeros((wanted.sum(), F.shape[1])), np.empty((2, K), np.float32)
    for j in range(0, len(F), COLUMNS):
        block = F[j : j + COLUMNS]
        y = outputs_of(z, block)
        e = y.copy()
        exp_rows(e, q, s)
        top = np.maximum(Q, q)
        old, new = np.exp(Q - top), np.exp(q - top)
        S = S * old + s * new
        Y = Y * old + np.einsum("kv,kv->k", e, y) * new
        sums = sums * old[wanted, None] + (e[wanted] @ block) * new[wanted, None]
        Q = top
    return Q + np.log(S), Y / S, sums / S[wanted, None]
