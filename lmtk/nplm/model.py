"""What the neural models have in common: the interface that training and files use, and the scoring of contexts.

A text goes in, exact ln p of each word goes out. `Neural.score` finds the words and their contexts,
`score_distinct_contexts` computes equal contexts once, and `run_in_stretches` shares the work among threads.
`log_sums` computes the normalizers of the softmax in blocks of outputs that fit into the caches.
"""

import numpy as np

from lmtk.exponential import exp_rows
from lmtk.files import container
from lmtk.files.declared import OPTIONS, ORDER, VOCABULARY
from lmtk.lm import scores_of, unique_rows
from lmtk.machine.threads import map_at_once
from lmtk.text.corpus import contexts
from lmtk.text.vocab import vocab_settings

ROWS, COLUMNS = 2048, 512  # contexts and outputs of one product while scoring: few enough for the caches
MANY = 20_000  # from this number of contexts on, a compiled kernel saves more time than it takes to load


class Neural:
    """A frozen dataclass with C (words, m), the feature vectors of words, and other arrays.

    kind: the kind in its file; vocab; order: n; settings: the options that trained it.
    named(): the arrays by their names in files and checkpoints; having(arrays): a copy with these arrays replaced.
    score_contexts(rows, w): exact ln p(w | context), (N,) float64, for contexts (N, n-1) and words w (N,).
    """

    SETTINGS = VOCABULARY | {"order": ORDER, "training": OPTIONS}

    def score(self, corpus):
        """Exact ln p of every scored token. Memory does not grow with the text."""
        logp = np.zeros(len(corpus.ids))
        at = np.flatnonzero(corpus.scored)
        logp[at] = -np.inf
        at = at[corpus.ids[at] < self.vocab.V]
        if len(at):
            logp[at] = self.log_p(corpus, at, corpus.ids[at])
        return scores_of(self.kind, logp)

    def log_p(self, corpus, at, w):
        """ln p of the words w, (K,), at the places `at` of a text."""
        return self.score_contexts(self.padded(contexts(corpus, self.order)[at]), w)

    def padded(self, rows):
        """Contexts in which <s> replaces ids below 0, the places before the start of a sentence."""
        return np.where(rows < 0, self.vocab.sos_id, rows)

    def parts(self):
        """The contents of the model's file, as `container.write` takes them."""
        about = {"order": self.order, **vocab_settings(self.vocab), "training": self.settings}
        return self.kind, about, self.named(), self.vocab.words

    def write(self, out):
        """Write the model's file to a stream."""
        container.write(out, *self.parts())


def score_distinct_contexts(rows, w, prepare):
    """ln p(w | context), (N,) float64, for contexts (N, n-1) of ids, and w (N,); equal contexts once.

    prepare(rows) -> (ln sum_i e^(y_i) of each context, (K,); a function outputs_of(k, w) that gives the outputs y_w of
    words w in the contexts numbered k).
    """
    distinct, number = unique_rows(rows)
    by_context = np.argsort(number, kind="stable")
    ends = np.searchsorted(number, np.arange(len(distinct)), "right", sorter=by_context)
    logp = np.empty(len(w))

    def score(part):
        sums, outputs_of = prepare(distinct[part])
        tokens = by_context[ends[part.start - 1] if part.start else 0 : ends[part.stop - 1]]
        context = number[tokens] - part.start
        # in steps, since one context may be asked for every word of the vocabulary
        for i in range(0, len(tokens), ROWS):
            k, at = context[i : i + ROWS], tokens[i : i + ROWS]
            logp[at] = outputs_of(k, w[at]) - sums[k]

    run_in_stretches(score, len(distinct))
    return logp


def run_in_stretches(work, N):
    """Call work(slice) for each stretch of ROWS of N rows, in threads."""
    map_at_once(lambda top: work(slice(top, min(top + ROWS, N))), range(0, N, ROWS))


def log_sums(K, V, block, exp_rows):
    """ln sum_i e^(y_i), (K,) float64, over V outputs: block(j, y) fills y (K, .) with the outputs from j on.

    Each block of outputs has its own maximum.
    """
    y, (q, s) = np.empty((K, COLUMNS), np.float32), np.empty((2, K), np.float32)
    Q, S = np.full(K, -np.inf), np.zeros(K)
    for j in range(0, V, COLUMNS):
        out = y if V - j >= COLUMNS else np.empty((K, V - j), np.float32)
        block(j, out)
        exp_rows(out, q, s)
        top = np.maximum(Q, q)
        S = S * np.exp(Q - top) + s * np.exp(q - top)
        Q = top
    return Q + np.log(S)


def choose_exp_rows(many):
    """`exp_rows` for large jobs, or the same in numpy for small jobs, where compiling a kernel would take longer."""
    return exp_rows if many else exp_rows_plain


def exp_rows_plain(y, q, s):
    y.max(axis=1, out=q)
    y -= q[:, None]
    np.exp(y, out=y)
    s[:] = y.sum(axis=1)
