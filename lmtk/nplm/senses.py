"""Several feature vectors for a word, its senses (Bengio et al. 2003, section 5.2, item 6).

The context chooses among the senses by the means of the vectors of its words, as in Huang et al. 2012 and Neelakantan
et al. 2014, but the choice is soft: x is a weighted mean of the senses.

symbol  shape             meaning
s       -                 senses of a word; C is (words, s m), the senses of a word side by side
X       (K, n1, s m)      rows of C for the n1 words of each context
v       (K, n1, m)        the mean of the senses of a word
c       (K, n1, m)        the context of a word: the sum of v over the other words
a       (K, n1, s)        the weight of each sense: e^(C_k c) / sum over the senses
x       (K, n1, m)        sum_k a_k C_k, the input of the layer

A word that is alone in its context gets the mean of its senses.
"""

import numpy as np


def choose(X, m):
    """X -> (x, what `back` needs). If words have one sense, x is X."""
    K, n1, width = X.shape
    if width == m:
        return X, None
    X = X.reshape(K, n1, width // m, m)
    v = X.mean(axis=2)
    c = v.sum(axis=1, keepdims=True) - v
    a = np.einsum("kism,kim->kis", X, c)
    a -= a.max(axis=2, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(axis=2, keepdims=True)
    return np.einsum("kis,kism->kim", a, X), (X, c, a)


def back(kept, gx):
    """dL/dX, (K, n1 s m), from dL/dx, (K, n1 m).

    With e_k = C_k c: dL/de_k = a_k (dL/dx C_k - sum_j a_j dL/dx C_j); dL/dC_k = a_k dL/dx + dL/de_k c + dL/dv / s;
    dL/dc = sum_k dL/de_k C_k; dL/dv is the sum of dL/dc over the other words.
    """
    if kept is None:
        return gx
    X, c, a = kept
    K, n1, s, m = X.shape
    gx = gx.reshape(K, n1, m)
    ga = np.einsum("kim,kism->kis", gx, X)
    ge = a * (ga - (a * ga).sum(axis=2, keepdims=True))
    gc = np.einsum("kis,kism->kim", ge, X)
    gv = gc.sum(axis=1, keepdims=True) - gc
    gX = a[..., None] * gx[:, :, None]
    gX += ge[..., None] * c[:, :, None]
    gX += gv[:, :, None] / np.float32(s)
    return gX.reshape(K, -1)
