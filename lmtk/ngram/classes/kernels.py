"""Word classes by kernels: Kneser and Ney's exchange, and Brown's merging.

`exchange` moves words one by one to the class in which they make the text most likely. `agglomerate` merges, again and
again, the two classes whose merger costs least likelihood.

symbol  shape      meaning
W C G   -          the numbers of words, of classes, and of classes that words may move to, which come first
N       (C, C)     N[c, d]: bigrams of a word of class c and one of class d, int32
M       (C, C)     the same, transposed
n       (2, C)     the sums of N's rows (a class as history) and of its columns (as predicted), int64
g       (W,)       the class of each word, int32
start   (2, W + 1) word[i] and count[i] have the neighbours of word w from start[i, w] up to start[i, w + 1]: for i = 0
                   the words after w, for i = 1 the words before w, both without w; int64
word    (2, B)     the neighbours, int32
count   (2, B)     how many bigrams each neighbour forms with w, int32
repeats (W,)       the number of bigrams w w, int32
f       (F,)       f[x] = x ln x, float64

Kernels get them in tuples: `neighbours` is start, word, count, repeats; `counts` is N, M, n, f.
"""

import math

import numpy as np

from lmtk.machine.jit import inlined, jit

SMALL = 1e-5  # nats; a gain below it may be rounding


@jit
def best_class(w, g, G, neighbours, counts, scratch):
    """Hard to read: counts that include w are corrected on the fly. Returns the class, among the first G, in which word
    w makes the text most likely; no count changes. The log likelihood, up to terms that no move changes, is sum_cd
    f(N[c, d]) - sum_c f(n[0, c]) - sum_c f(n[1, c]) (Martin, Liermann, Ney 1998, section 3). w is taken out of its
    class a. gain[b], the change when w joins class b, is a sum over the classes d of the neighbours of w, so that each
    d takes G steps. Ties go to a, then to the first class. Counts without an entry in f take a logarithm. Bound by
    look-ups of f; most are of small counts, whose entries stay in the first cache.

    Written to the `scratch` of `make_scratch`: r (2, C): r[0, d] and r[1, d] <- how many bigrams w forms with class d
    after and before it; near[i] <- the size[i] classes d whose r[i, d] is not 0; total (2,) <- the bigrams of w as
    history, and as predicted word. Before that, r is set back to 0 for the classes in `near` of the last call.
    """
    start, word, count, repeats = neighbours
    N, M, n, f = counts
    r, near, size, total, rows, gain = scratch
    F = len(f)

    def xlogx(x):
        return f[x] if x < F else x * math.log(x)

    a, s = g[w], repeats[w]
    for i in range(2):
        for j in range(size[i]):
            r[i, near[i, j]] = 0
        size[i], total[i] = 0, s
        for j in range(start[i, w], start[i, w + 1]):
            d = g[word[i, j]]
            if r[i, d] == 0:
                near[i, size[i]] = d
                size[i] += 1
            r[i, d] += count[i, j]
            total[i] += count[i, j]
    alone = N[a, a] - r[0, a] - r[1, a] - s  # the bigrams inside of a without w
    for i in range(2):
        row = M[a] if i == 0 else N[a]
        for b in range(len(N)):
            rows[i, b] = row[b]
        rows[i, a] -= s
        for j in range(size[1 - i]):
            d = near[1 - i, j]
            rows[i, d] -= r[1 - i, d]
    for b in range(G):
        gain[b] = 0
        for i in range(2):
            x = n[i, b] - total[i] if b == a else n[i, b]
            gain[b] -= xlogx(x + total[i]) - xlogx(x)
    for i in range(2):
        for j in range(size[i]):
            d = near[i, j]
            x = r[i, d]
            row, before = rows[i] if d == a else M[d] if i == 0 else N[d], gain[a]
            if n[1 - i, d] + x < F:
                for b in range(G):
                    gain[b] += f[row[b] + x] - f[row[b]]
            else:
                for b in range(G):
                    gain[b] += xlogx(row[b] + x) - xlogx(row[b])
            gain[a] = before + xlogx(row[a]) - xlogx(row[a] - x)  # the row still has the bigrams of w
    for b in range(G):
        # the bigrams inside of b: w goes in as history and as predicted word at once
        x, y, z = r[0, b], r[1, b], alone if b == a else N[b, b]
        if x + y + s:
            gain[b] += xlogx(z + x + y + s) + xlogx(z) - xlogx(z + x) - xlogx(z + y)
    best = a
    for b in range(G):
        if gain[b] > gain[best] + SMALL:
            best = b
    return best


@jit(forceinline=True)
def make_scratch(C, G):
    """The arrays r, near, size, total, rows (2, C) and gain (G,) of `best_class`."""
    r, near, rows = np.zeros((2, C), np.int64), np.empty((2, C), np.int64), np.empty((2, C), np.int32)
    return r, near, np.zeros(2, np.int64), np.empty(2, np.int64), rows, np.empty(G)


@jit
def exchange(words, g, G, neighbours, counts):
    """Moves each of `words` in turn to its best class. g, N, M, n change in place. Returns how many words moved."""
    _, _, _, repeats = neighbours
    N, M, n, _ = counts
    scratch = make_scratch(len(N), G)
    r, near, size, total, _, _ = scratch
    moved = 0
    for w in words:
        a = g[w]
        best = best_class(w, g, G, neighbours, counts, scratch)
        if best != a:
            moved += 1
            g[w] = best
            for sign, b in ((-1, np.int64(a)), (1, np.int64(best))):
                N[b, b] += sign * repeats[w]
                M[b, b] += sign * repeats[w]
                for i in range(2):
                    n[i, b] += sign * total[i]
                    for j in range(size[i]):
                        d = near[i, j]
                        x = sign * r[i, d]
                        c, e = (b, d) if i == 0 else (d, b)
                        N[c, e] += x
                        M[e, c] += x
    return moved


@jit
def find_best_classes(words, g, G, neighbours, counts, best):
    """best (K,) int32 <- the best class of each of `words`. No word moves."""
    scratch = make_scratch(len(counts[0]), G)
    for k in range(len(words)):
        best[k] = best_class(words[k], g, G, neighbours, counts, scratch)


@jit
def update_costs(k, R, K, tables):
    """Computes S[k], and L of the pairs of class k, afresh and in place; tables: N, n, S, L and f of `agglomerate`."""
    N, n, S, L, f = tables
    A = np.zeros(K)
    S[k] = 0
    for i in range(K):
        S[k] += f[N[k, i]] + f[N[i, k]]
    for d in range(K):
        x = N[d, k]
        for i in range(R, k):
            A[i] += f[N[d, i] + x]
        for i in range(k + 1, K):
            A[i] += f[N[d, i] + x]
    for i in range(R, K):
        if i != k:
            y = A[i] - S[i] - S[k]
            for d in range(K):
                y += f[N[i, d] + N[k, d]]
            s, x, v, u = N[i, i], N[i, k], N[k, i], N[k, k]
            y += f[s + x + v + u] + f[s] + f[x] + f[v] + f[u] - f[s + x] - f[v + u] - f[s + v] - f[x + u]
            for j in range(2):
                y -= f[n[j, i] + n[j, k]] - f[n[j, i]] - f[n[j, k]]
            L[min(i, k), max(i, k)] = y


@inlined
def add_terms(R, K, sign, pair, scratch, tables):
    """Adds to S, and to L of all pairs, sign (f(x) + f(y) - f(x + y)), x and y being the rows of N of a pair of
    classes, and then their columns. scratch: row, col (3, C) and change (C,).
    """
    (a, b), (row, col, change), (N, _, S, L, f) = pair, scratch, tables
    y, both = (0, 2) if sign > 0 else (2, 0)  # the terms f(row[0]) + sign f(row[1]) - f(row[2]) are added
    for i in range(K):
        row[1, i], row[y, i], row[both, i] = N[a, i], N[b, i], N[a, i] + N[b, i]
        col[1, i], col[y, i], col[both, i] = N[i, a], N[i, b], N[i, a] + N[i, b]
        x = f[row[0, i]] + sign * f[row[1, i]] - f[row[2, i]]
        change[i] = x + f[col[0, i]] + sign * f[col[1, i]] - f[col[2, i]]
        S[i] += change[i]
    for i in range(R, K):
        for j in range(i + 1, K):
            x = f[row[0, i] + row[0, j]] + sign * f[row[1, i] + row[1, j]] - f[row[2, i] + row[2, j]]
            y = f[col[0, i] + col[0, j]] + sign * f[col[1, i] + col[1, j]] - f[col[2, i] + col[2, j]]
            L[i, j] += x + y - change[i] - change[j]


@jit
def agglomerate(words, sizes, forest, neighbours, tables, merged, m):
    """Hard to read: sums over all pairs of classes are kept up to date instead of being computed anew. Gives each of
    `words` in turn a class of its own; while there are more than C classes, merges the cheapest pair. Everything
    changes in place. sizes: C, R and K. Class 0 holds the words still to come; it and the other classes below R are not
    merged; K classes are in use. forest: parent (W,) int32, the word whose class a word was merged into, or itself;
    slot (W,) int32, the class of a word that is its own parent; root, the word of each class. tables: N, n, S, L and f.
    merged (W, 2): the m pairs of words whose classes were merged so far; the first keeps its class. Returns K and m.

    L[i, j], i < j, is the change of the text's log likelihood by the merger of i and j (Brown et al. 1992, section 3),
    at most 0; the pair with the largest is merged. With A[i, j] = sum_d f(N[i, d] + N[j, d]) + f(N[d, i] + N[d, j]) and
    S[i] = sum_d f(N[i, d]) + f(N[d, i]), it is A[i, j] - S[i] - S[j], corrected for the cells of i and j among
    themselves and for the sums n. A new word or a merger changes A by a few terms for each pair, so that it takes K^2
    steps. f has an entry for every possible count.
    """
    (C, R, K), (parent, slot, root) = sizes, forest
    start, word, count, repeats = neighbours
    N, n, S, L, _ = tables
    scratch = np.empty((3, len(N)), np.int64), np.empty((3, len(N)), np.int64), np.empty(len(N))
    for t in range(len(words) + 1):
        if t < len(words):
            w = words[t]
            k = K
            for d in range(K + 1):
                N[k, d] = N[d, k] = 0
            n[0, k] = n[1, k] = N[k, k] = repeats[w]
            N[0, 0] -= repeats[w]
            for i in range(2):
                for j in range(start[i, w], start[i, w + 1]):
                    v = word[i, j]
                    while parent[v] != v:
                        parent[v] = parent[parent[v]]
                        v = parent[v]
                    d, x = slot[v], count[i, j]
                    n[i, k] += x
                    if i == 0:
                        N[k, d] += x
                        N[0, d] -= x
                    else:
                        N[d, k] += x
                        N[d, 0] -= x
            add_terms(R, K, 1.0, (0, k), scratch, tables)
            slot[w], root[k] = k, w
            K += 1
            update_costs(k, R, K, tables)
        while K - R > C:
            a, b, best = R, R + 1, -np.inf
            for i in range(R, K):
                for j in range(i + 1, K):
                    if L[i, j] > best:
                        a, b, best = i, j, L[i, j]
            merged[m, 0], merged[m, 1] = root[a], root[b]
            m += 1
            add_terms(R, K, -1.0, (a, b), scratch, tables)
            for d in range(K):
                N[a, d] += N[b, d]
            for d in range(K):
                N[d, a] += N[d, b]
            parent[root[b]] = root[a]
            # the last class takes the place of b
            z = K - 1
            for i in range(2):
                n[i, a] += n[i, b]
                n[i, b] = n[i, z]
            for d in range(K):
                N[b, d] = N[z, d]
            for d in range(K):
                N[d, b] = N[d, z]
            for i in range(R, z):
                if i != b:
                    L[min(i, b), max(i, b)] = L[i, z]
            S[b], root[b] = S[z], root[z]
            slot[root[z]] = b
            K = z
            update_costs(a, R, K, tables)
    return K, m
