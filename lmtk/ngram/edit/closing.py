"""Adds the parts of n-grams that a model lacks: every n-gram without its first word, and every context.

Pruning can remove the end of a longer n-gram, which decoders need that look n-grams up from the last word back. An
added n-gram gets its backed-off probability and a back-off weight of 1 (log10: 0), so no probability changes.
"""

import numpy as np

from lmtk.ngram.arpa.reader import make_rows, mend, nodes_of_rows
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.nodes import is_suffix_closed


def is_closed(nodes):
    """Whether the model has every suffix and every context of two words or more of its n-grams, with a probability."""
    return not any(np.isnan(level["log10p"][:-1]).any() for level in nodes.levels[2:]) and is_suffix_closed(nodes)


def close(model):
    """Returns a Backoff with the same probabilities that has every suffix and every context of its n-grams. The added
    probabilities are sums in KenLM's order and rounding. A 1-gram without a probability stays as it is.
    """
    if is_closed(model.nodes):
        return model
    nodes, W = model.nodes, len(model.vocab.words)
    rows = [make_rows(*model.ngrams(k)) for k in range(1, nodes.order + 1)]
    for k in range(nodes.order, 2, -1):
        has_suffix = np.zeros(len(rows[k - 1]), bool)  # not those that were added
        has_suffix[: nodes.size(k)] = nodes.levels[k]["suffix"][:-1] >= 0
        rows[k - 2] = np.concatenate((rows[k - 2], make_rows(rows[k - 1][~has_suffix, 1:k], np.nan, 0)))
    mend(rows)  # the model's own n-gram comes first among equal ones
    for level in rows[1:]:
        log10p = level.view(np.float32)[:, -2]
        is_bare = np.isnan(log10p)
        log10p[is_bare] = model.log10p_of(level[is_bare, :-2], kenlm=True)
    return Backoff(model.vocab, nodes_of_rows(rows, W)[0])
