"""Kneser and Ney's exchange: words move one after another to the class that gives the most likely text.

symbol  shape      meaning
W C G   -          words; classes; those of them, the first G, that words may move to
N       (C, C)     N[c, d]: bigrams of a word of class c and one of class d, int32
M       (C, C)     the same, transposed
n       (2, C)     the sums of N's rows (a class as history) and of its columns (as predicted), int64
g       (W,)       the class of each word, int32
start   (2, W + 1) word w's neighbours are place start[i, w] to start[i, w + 1] of the next two; i = 0: those after it,
                   i = 1: those before it, without itself, int64
word    (2, B)     the neighbours, int32
count   (2, B)     their bigrams with w, int32
own     (W,)       bigrams of w with itself, int32
f       (F,)       f[x] = x ln x, float64
"""

import math

import numpy as np

from lmtk.jit import jit

SMALL = 1e-5  # a gain that rounding may have made


@jit
def exchange(words, g, G, start, word, count, own, N, M, n, f):
    """Move each of `words` in turn to its best class; g, N, M, n change in place. Returns how many moved.

    The log likelihood, up to terms that no move changes, is sum_cd f(N[c, d]) - sum_c f(n[0, c]) - sum_c f(n[1, c])
    (Martin, Liermann, Ney 1998, section 3). Word w is taken out of its class; what it adds in each class b, gain[b], is
    a sum over the classes d of its neighbours, so that a word costs G times as many steps as these are. Among equals
    the old class wins, then the first. Counts that f has no entry for take a logarithm. n stays that of all bigrams
    while w is out, save for its own class. Bound by look-ups of f, most of them of small counts, in the first cache.
    """
    C, F = len(N), len(f)

    def xlogx(x):
        return f[x] if x < F else x * math.log(x)

    r = np.zeros((2, C), np.int64)  # bigrams of w and class d after it; before it
    near = np.empty((2, C), np.int64)  # the classes d of which there are such
    gain = np.empty(G)
    moved = 0
    for w in words:
        a, s = g[w], own[w]
        size = np.zeros(2, np.int64)
        total = np.full(2, s, np.int64)
        for i in range(2):
            for j in range(start[i, w], start[i, w + 1]):
                d = g[word[i, j]]
                if r[i, d] == 0:
                    near[i, size[i]] = d
                    size[i] += 1
                r[i, d] += count[i, j]
                total[i] += count[i, j]
        best = a
        for sign in (-1, 1):
            if sign == 1:
                for b in range(G):
                    gain[b] = 0
                    for i in range(2):
                        gain[b] -= xlogx(n[i, b] + total[i]) - xlogx(n[i, b])
                for i in range(2):
                    for j in range(size[i]):
                        d = near[i, j]
                        x = r[i, d]
                        row = M[d] if i == 0 else N[d]
                        if n[1 - i, d] < F:
                            for b in range(G):
                                gain[b] += f[row[b] + x] - f[row[b]]
                        else:
                            for b in range(G):
                                gain[b] += xlogx(row[b] + x) - xlogx(row[b])
                for b in range(G):
                    # the bigrams inside of b: w goes in as history and as predicted word at once
                    x, y, z = r[0, b], r[1, b], N[b, b]
                    if x + y + s:
                        gain[b] += xlogx(z + x + y + s) + xlogx(z) - xlogx(z + x) - xlogx(z + y)
                for b in range(G):
                    if gain[b] > gain[best] + SMALL:
                        best = b
            N[best, best] += sign * s
            M[best, best] += sign * s
            for i in range(2):
                n[i, best] += sign * total[i]
                for j in range(size[i]):
                    d = near[i, j]
                    x = sign * r[i, d]
                    c, e = (best, d) if i == 0 else (d, best)
                    N[c, e] += x
                    M[e, c] += x
        for i in range(2):
            for j in range(size[i]):
                r[i, near[i, j]] = 0
        g[w] = best
        moved += best != a
    return moved
