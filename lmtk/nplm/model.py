"""What the output layers have in common when they score contexts.

`score_distinct_contexts` computes equal contexts once, and `run_in_stretches` shares the work among threads. `log_sums`
computes the normalizers of the softmax in blocks of outputs that fit into the caches.
"""

import numpy as np

from lmtk.exponential import exp_rows, exp_rows_plain
from lmtk.lm import unique_rows
from lmtk.machine.threads import map_at_once

ROWS, COLUMNS = 2048, 512  # contexts and outputs of one product while scoring: few enough for the caches
MANY = 20_000  # from this number of contexts on, a compiled kernel saves more time than it takes to load


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
