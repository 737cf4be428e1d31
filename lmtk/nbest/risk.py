"""Minimum Bayes risk (Kumar and Byrne 2004, equation 5): choose the translation of a list that is most like the others.

The risk of a translation is the mean of 1 - BLEU against each translation of the list, weighted by the probability of
that translation.
"""

import numpy as np

from lmtk.nbest.tuning import ORDERS, ngrams

SCALE = 0.8  # of ln p, chosen on the held-out text of examples/4-multi30k


def pairwise_bleu(translations):
    """(N, N): BLEU, from 0 to 1, of the i-th translation, a list of words, with the j-th translation as its reference.

    1 is added to the matches and n-grams of orders 2 to 4 (Lin and Och 2004).
    """
    N, counts = len(translations), [ngrams(words) for words in translations]
    distinct = sorted(set().union(*counts), key=len)
    place = {ngram: i for i, ngram in enumerate(distinct)}
    C = np.zeros((N, len(distinct)), np.int32)
    for row, count in zip(C, counts, strict=True):
        row[[place[ngram] for ngram in count]] = list(count.values())
    T = np.array([len(words) for words in translations], float)[:, None]
    cuts = np.searchsorted([len(ngram) for ngram in distinct], range(1, ORDERS + 2))
    logs = np.minimum(0, 1 - T.T / np.maximum(T, 1)) * ORDERS
    with np.errstate(divide="ignore"):
        for k in range(ORDERS):
            columns = C[:, cuts[k] : cuts[k + 1]]
            matches = np.array([np.minimum(row, columns).sum(axis=1) for row in columns])
            logs += np.log((matches + (k > 0)) / np.maximum(np.maximum(T - k, 0) + (k > 0), 1))
    return np.exp(logs / ORDERS)


def least_risk(translations, logp, scale):
    """The number of the translation, a list of words, with the least risk; the first of equal ones.

    logp (N,): ln p of each, or the numbers that they are ranked by; the weight of a translation is e^(scale logp).
    """
    p = np.exp(scale * (np.asarray(logp) - max(logp)))
    return int(np.argmax(pairwise_bleu(translations) @ p))
