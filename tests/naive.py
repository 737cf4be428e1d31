"""Slow, obvious twins of what lmtk computes fast, straight from the definitions."""

import math
from collections import Counter

import numpy as np


def ngrams(sentences, order):
    """Counter of the n-grams (tuples) of lists of words, up to `order`."""
    counts = Counter()
    for sentence in sentences:
        for i in range(len(sentence)):
            for k in range(1, order + 1):
                if i + k <= len(sentence):
                    counts[tuple(sentence[i : i + k])] += 1
    return counts


def interpolated(counts, events, order, alpha, context, word):
    """p(word | context) of section 4.1: counts of tuples, alpha[bin][k], context oldest word first."""
    T = sum(n for w, n in counts.items() if len(w) == 1 and w[0] in events)
    context = tuple(context[max(len(context) - order + 1, 0) :])
    p = [1 / len(events)]
    for k in range(1, order + 1):
        if k - 1 > len(context):
            p.append(p[-1])
            continue
        seen = context[len(context) - k + 1 :]
        total = sum(n for w, n in counts.items() if len(w) == k and w[:-1] == seen and w[-1] in events)
        p.append(counts.get((*seen, word), 0) / total if total else p[-1])
    x = counts.get(context, 0) if context else T
    bin = max(math.ceil(-math.log((1 + x) / T)), 0)
    return sum(a * b for a, b in zip(alpha[bin], p, strict=True))


def backoff(model, context, word):
    """log10 p by Katz's recursion: model maps tuples to (log10 p, log10 back-off weight)."""
    if (*context, word) in model:
        return model[(*context, word)][0]
    if not context:
        return -math.inf
    return model.get(tuple(context), (0, 0))[1] + backoff(model, context[1:], word)


def prune_rise(model, words, ngram):
    """By what share the perplexity rises when `ngram` is left out: 10^D - 1, D = p(h) sum_w p(w | h) (log10 p(w | h) -
    log10 p'(w | h)), p' being the model without it, its weight for h made anew. model as in `backoff`; words: the
    predicted ones.
    """
    h, shorter = ngram[:-1], ngram[1:-1]
    rest = [w for w in words if (*h, w) not in model or (*h, w) == ngram]
    seen = [w for w in words if w not in rest]
    left = 1 - sum(10 ** model[(*h, w)][0] for w in seen)
    bow = math.log10(left / (1 - sum(10 ** backoff(model, shorter, w) for w in seen)))
    D = 0.0
    for w in rest:
        before, after = backoff(model, h, w), bow + backoff(model, shorter, w)
        D += 10**before * (before - after) if before > -math.inf else 0.0
    # the probability of the context; <s> has none, and that of </s> stands for it
    start = b"</s>" if h[0] == b"<s>" else h[0]
    history = backoff(model, (), start) + sum(backoff(model, h[:i], h[i]) for i in range(1, len(h)))
    return 10 ** (10**history * D) - 1


def kneser_ney(counts, kept, pruned, D, V, context, word):
    """p(word | context) of an interpolated Kneser-Ney model. counts: of the n-grams (tuples) kept; pruned[h]: the sum
    of the counts of the n-grams h v that were pruned. D: the discounts of the counts 1, 2, and 3 or more.
    """
    lower = kneser_ney(counts, kept, pruned, D, V, context[1:], word) if context else 1 / V
    extensions = [n for n in kept if n[:-1] == context]
    total = sum(counts[n] for n in extensions) + pruned[context]
    if not total:
        return lower
    discounts = {n: D[min(counts[n], 3) - 1] for n in extensions}
    share = counts[(*context, word)] - discounts[(*context, word)] if (*context, word) in extensions else 0
    return share / total + (sum(discounts.values()) + pruned[context]) / total * lower


def prune_kneser(sentences, order, D, words, threshold, minorder):
    """Kneser-Ney pruning: (the n-grams that stay, p(context, word)). sentences: lists of words, with their marks.
    words: all words, in the order in which n-grams are judged; <s> is not predicted.
    """
    times = ngrams(sentences, order)
    counts, pruned = Counter(), Counter()
    for n, many in times.items():
        counts[n] = len({m[0] for m in times if m[1:] == n}) if len(n) < order and n[0] != b"<s>" else many
    del counts[(b"<s>",)]
    kept, V, tokens = set(counts), len(words) - 1, sum(len(sentence) - 1 for sentence in sentences)
    p = lambda n: kneser_ney(counts, kept, pruned, D, V, n[:-1], n[-1])
    for n in sorted(counts, key=lambda n: (-len(n), [words.index(w) for w in n])):
        if len(n) < max(minorder, 2) or any(m[:-1] == n for m in kept):
            continue
        before, count = p(n), counts[n]
        kept.discard(n)
        counts[n[1:]] += count - 1
        pruned[n[:-1]] += count
        if times[n[:-1]] * before * math.log(before / p(n)) >= tokens * math.log1p(threshold):
            kept.add(n)
            counts[n[1:]] -= count - 1
            pruned[n[:-1]] -= count
    return kept, lambda context, word: kneser_ney(counts, kept, pruned, D, V, context, word)


def grow(sentences, order, D, V, threshold):
    """The n-grams that growing lets in, a set. sentences, D, V: as for `prune_kneser` and `kneser_ney`."""
    times = ngrams(sentences, order)
    inside, tokens = {n for n in times if len(n) == 1}, sum(len(sentence) - 1 for sentence in sentences)
    discount = lambda n: D[min(times[n], 3) - 1]

    def p(n):
        """p of the last word of an n-gram after the others, by the counts of the text."""
        if not n:
            return 1 / V
        siblings = [m for m in inside if m[:-1] == n[:-1] and m != (b"<s>",)]
        if not siblings:
            return p(n[1:])
        S, G = sum(map(times.get, siblings)), sum(map(discount, siblings))
        return (max(times[n] - discount(n), 0) + G * p(n[1:])) / S

    for k in range(2, order + 1):
        allowed = {n for n in times if len(n) == k and n[:-1] in inside and n[1:] in inside}
        for h in {n[:-1] for n in allowed}:
            siblings, gains = [n for n in allowed if n[:-1] == h], []
            S, G = sum(map(times.get, siblings)), sum(map(discount, siblings))
            for n in siblings:
                c, d, q = times[n], discount(n), p(n[1:])
                new = (c - d + G * q) / S
                gains.append(S * new * math.log(new / ((G + c - d) / S * q)))
            if max(gains) >= tokens * math.log1p(threshold):
                inside |= {*siblings}
    return inside


def forward(C, H, d, U, W, b, context):
    """Equation (1): p over the vocabulary, C[j] .. lists; context is w_(t-1), w_(t-2) .."""
    x = [v for j in context for v in C[j]]
    a = [math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(len(x)))) for k in range(len(d))]
    y = []
    for j in range(len(b)):
        y.append(b[j] + sum(a[k] * U[j][k] for k in range(len(a))))
        if W is not None:
            y[j] += sum(x[i] * W[j][i] for i in range(len(x)))
    q = max(y)
    e = [math.exp(v - q) for v in y]
    return [v / sum(e) for v in e], x, a


def update(C, H, d, U, W, b, context, w, epsilon):
    """The forward and backward phases of section 3.2 for one example, on lists of floats, in place. Returns ln p."""
    p, x, a = forward(C, H, d, U, W, b, context)
    gx, ga = [0.0] * len(x), [0.0] * len(a)
    for j in range(len(b)):
        gy = (j == w) - p[j]
        b[j] += epsilon * gy
        if W is not None:
            for i in range(len(x)):
                gx[i] += gy * W[j][i]
                W[j][i] += epsilon * gy * x[i]
        for k in range(len(a)):
            ga[k] += gy * U[j][k]
            U[j][k] += epsilon * gy * a[k]
    go = [(1 - a[k] ** 2) * ga[k] for k in range(len(a))]
    for k in range(len(a)):
        for i in range(len(x)):
            gx[i] += H[k][i] * go[k]
    for k in range(len(a)):
        d[k] += epsilon * go[k]
        for i in range(len(x)):
            H[k][i] += epsilon * go[k] * x[i]
    m = len(C[0])
    for place, j in enumerate(context):
        for i in range(m):
            C[j][i] += epsilon * gx[place * m + i]
    return math.log(p[w])


def dynamic_evaluation(theta, contexts, words, segment, rate, decay):
    """p of each word by dynamic evaluation (Krause et al. 2018). After each whole segment, theta += rate dL/dtheta, and
    theta += decay (trained - theta). theta: the arrays C .. b of `forward`, W None or an array.
    """
    trained, p = theta, []
    for first in range(0, len(words), segment):
        part = range(first, min(first + segment, len(words)))
        p += [forward(*theta, contexts[t])[0][words[t]] for t in part]
        moves = [np.zeros_like(a) if a is not None else None for a in theta]
        for t in part:
            stepped = [a if a is None else a.copy() for a in theta]
            update(*stepped, contexts[t], words[t], rate)
            moves = [m if m is None else m + b - a for m, a, b in zip(moves, theta, stepped, strict=True)]
        theta = [a if a is None else a + m for a, m in zip(theta, moves, strict=True)]
        theta = [a if a is None else a + decay * (b - a) for a, b in zip(theta, trained, strict=True)]
    return p


def neural_cache(p, h, words, size, theta, weight):
    """p of each word with a neural cache (Grave et al. 2017, equations 2 and 3), from p and the activations h."""
    mixed = []
    for t in range(len(words)):
        before = range(max(t - size, 0), t)
        similar = {i: math.exp(theta * sum(a * b for a, b in zip(h[t], h[i], strict=True))) for i in before}
        if not similar:
            mixed.append(p[t])
            continue
        cached = sum(similar[i] for i in before if words[i] == words[t]) / sum(similar.values())
        mixed.append((1 - weight) * p[t] + weight * cached)
    return mixed


def stiffest(rows, number):
    """The largest eigenvalue of X'X / number, by two rounds of the power method from the rows with changing signs."""
    v = [sum(row[i] * (-1) ** k for k, row in enumerate(rows)) for i in range(len(rows[0]))]
    for _ in range(2):
        y = [sum(a * b for a, b in zip(row, v, strict=True)) for row in rows]
        v = [sum(y[k] * rows[k][i] for k in range(len(rows))) for i in range(len(v))]
        size = math.sqrt(sum(a * a for a in v))
        v = [a / size for a in v]
    return sum(sum(a * b for a, b in zip(row, v, strict=True)) ** 2 for row in rows) / number


def recurrent(C, H, R, d, context):
    """The states of a recurrent layer, from 0 on, as it takes the words of a context, w_(t-1) .., last first."""
    states = [[0.0] * len(d)]
    for j in context[::-1]:
        old = states[-1]
        o = [sum(H[k][i] * C[j][i] for i in range(len(C[j]))) for k in range(len(d))]
        states.append([math.tanh(d[k] + o[k] + sum(R[k][i] * old[i] for i in range(len(d)))) for k in range(len(d))])
    return states


def time_delay(C, H, d, G, e, context):
    """The activations of a time-delay layer: a hidden layer for each group of words, all with the same H and d, and a
    layer above all of them. The number of words in a group follows from the sizes of H and C.
    """
    m = len(C[0])
    r = len(H[0]) // m
    b = []
    for s in range(len(context) - r + 1):
        x = [v for j in context[s : s + r] for v in C[j]]
        b += [math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(r * m))) for k in range(len(d))]
    return [math.tanh(e[k] + sum(G[k][i] * b[i] for i in range(len(b)))) for k in range(len(e))]


def associations(sentences, words, window, neighbours):
    """Rows of words: max(0, ln n N / (n_word n_neighbour)) for each neighbour on the left, then on the right, up to
    `window` words apart. neighbours: the words that count as such. sentences: lists of words.
    """
    counts = {word: [0] * (2 * len(neighbours)) for word in words}
    for sentence in sentences:
        for i, word in enumerate(sentence):
            for k in range(1, window + 1):
                if i - k >= 0 and sentence[i - k] in neighbours:
                    counts[word][neighbours.index(sentence[i - k])] += 1
                if i + k < len(sentence) and sentence[i + k] in neighbours:
                    counts[word][len(neighbours) + neighbours.index(sentence[i + k])] += 1
    columns = [sum(column) for column in zip(*counts.values(), strict=True)]
    total = sum(columns)
    rows = []
    for word in words:
        row_sum = sum(counts[word])
        rows.append([max(0, math.log(n * total / (row_sum * c))) if n else 0 for n, c in zip(counts[word], columns)])
    return rows


def of_senses(C, s, context):
    """The features of the words of a context whose rows of C have s senses: e^(C_k c) tells how much of each, c being
    the sum over the other words of the means of their senses.
    """
    rows = [[C[j][k * len(C[j]) // s : (k + 1) * len(C[j]) // s] for k in range(s)] for j in context]
    vectors = []
    for i, senses in enumerate(rows):
        c = plus([0.0] * len(senses[0]), *([v / s for v in plus(*row)] for j, row in enumerate(rows) if j != i))
        e = [math.exp(sum(a * b for a, b in zip(sense, c, strict=True))) for sense in senses]
        vectors.append(plus(*([v * a / sum(e) for v in sense] for sense, a in zip(senses, e, strict=True))))
    return vectors


def energy(C, H, d, v, b, context, w):
    """Section 5.1: E of a word after its context; v[j] has one weight or one for each word."""
    x = [value for j in (w, *context) for value in C[j]]
    total = b[w]
    for k in range(len(d)):
        total += v[k][w if len(v[k]) > 1 else 0] * math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(len(x))))
    return total


def energy_forward(C, H, d, v, b, context):
    """Section 5.1: p over the vocabulary."""
    e = [math.exp(-energy(C, H, d, v, b, context, w)) for w in range(len(b))]
    return [value / sum(e) for value in e]


def open_vocabulary(C, H, d, U, W, b, contexts, words):
    """The end of section 5.1: p of each word, and the sum of all, new words joining; ids from len(C) on are new."""
    C, V, results = list(C), len(b), []
    joined = {}  # id -> the sums over i of P(i) times C(i), U(i), W(i), b(i), one for each context so far
    rest = [None] * V if W is None else W

    def output(unit, x, a):
        _, u, v, bias = unit
        return bias[0] + sum(map(float.__mul__, u, a)) + (sum(map(float.__mul__, v, x)) if v is not None else 0)

    def expected(rows, p):
        return None if rows[0] is None else [sum(p[i] * rows[i][k] for i in range(V)) for k in range(len(rows[0]))]

    def mean(sums):
        return [None if part[0] is None else [sum(v) / len(v) for v in zip(*part)] for part in zip(*sums)]

    for context, w in zip(contexts, words, strict=True):
        while len(C) <= max(context):
            C.append(None)
        for j in joined:
            C[j] = mean(joined[j])[0]
        p, x, a = forward(C, H, d, U, W, b, context)

        new = [expected(rows, p) for rows in (C, U, rest, [[v] for v in b])]
        y = {i: output((None, U[i], rest[i], [b[i]]), x, a) for i in range(V)}
        y |= {j: output(mean(joined[j]), x, a) for j in joined}
        y["new"] = output(new, x, a)
        total = sum(map(math.exp, y.values()))
        results.append((math.exp(y.get(w, y["new"])) / total, sum(math.exp(v) / total for v in y.values())))
        if w >= V:
            joined.setdefault(w, []).append(new)
    return results


def open_energy(C, H, d, v, b, contexts, words):
    """The end of section 5.1 for the energy network: p of each word, and the sum of all, new words joining; ids from
    len(C) on are new. C(j) <- sum_i P(i | context) C(i), and so b(j) and, where each word has its own, v(j).
    """
    C, V, results = list(C), len(b), []
    joined = {}  # id -> (features, bias, output weights), one for each context so far

    def minus_energy(word, context):
        features, bias, weights = word
        return -energy([*C, features], H, d, [[x] for x in weights], {len(C): bias}, context, len(C))

    def parameters(i):
        return C[i], b[i], [row[i if len(row) > 1 else 0] for row in v]

    def weighted(rows, shares):
        return [sum(p * row[k] for p, row in zip(shares, rows, strict=True)) for k in range(len(rows[0]))]

    def combined(parts, shares):
        features, biases, weights = zip(*parts)
        return weighted(features, shares), sum(map(float.__mul__, shares, biases)), weighted(weights, shares)

    def mean(parts):
        return combined(parts, [1 / len(parts)] * len(parts))

    for context, w in zip(contexts, words, strict=True):
        while len(C) <= max(context):
            C.append(None)
        for j in joined:
            C[j] = mean(joined[j])[0]
        p = energy_forward(C, H, d, v, b, context)
        new = combined([parameters(i) for i in range(V)], p)
        y = {i: minus_energy(parameters(i), context) for i in range(V)}
        y |= {j: minus_energy(mean(joined[j]), context) for j in joined}
        y["new"] = minus_energy(new, context)
        total = sum(map(math.exp, y.values()))
        results.append((math.exp(y.get(w, y["new"])) / total, sum(math.exp(x) / total for x in y.values())))
        if w >= V:
            joined.setdefault(w, []).append(new)
    return results


def em_step(p, bins, weights):
    """One step of EM: the mean share of each model in each bin."""
    new = []
    for b, row in enumerate(weights):
        shares = []
        for i in range(len(p)):
            if bins[i] == b:
                total = sum(w * v for w, v in zip(row, p[i], strict=True))
                shares.append([w * v / total for w, v in zip(row, p[i], strict=True)])
        new.append([sum(s[j] for s in shares) / len(shares) for j in range(len(row))] if shares else list(row))
    return new


def product(x, W):
    """x W for lists: x (a,), W (a, b)."""
    return [sum(x[i] * W[i][j] for i in range(len(x))) for j in range(len(W[0]))]


def plus(*vectors):
    return [sum(values) for values in zip(*vectors, strict=True)]


def gated_unit(G, s, S, U):
    """The hidden unit of Bahdanau et al. 2015, A.1.1: G, what input and context give to z, r and the proposed state."""
    n = len(s)
    zr = [1 / (1 + math.exp(-v)) for v in plus(G[: 2 * n], product(s, S))]
    z, r = zr[:n], zr[n:]
    proposed = [math.tanh(v) for v in plus(G[2 * n :], product([a * b for a, b in zip(r, s, strict=True)], U))]
    return [(1 - z[i]) * s[i] + z[i] * proposed[i] for i in range(n)]


def lstm(G, state, S, U):
    """An LSTM (Graves 2013, equations 7 to 11, without peepholes), its state the unit's own and then the memory."""
    n = len(U)
    s, memory = state[:n], state[n:]
    gates = [1 / (1 + math.exp(-v)) for v in plus(G[: 3 * n], product(s, S))]
    i, f, o = gates[:n], gates[n : 2 * n], gates[2 * n :]
    g = [math.tanh(v) for v in plus(G[3 * n :], product(s, U))]
    memory = [f[j] * memory[j] + i[j] * g[j] for j in range(n)]
    return [o[j] * math.tanh(memory[j]) for j in range(n)] + memory


def tanh_unit(G, s, S, U):
    """The simple hidden unit, which has no gates."""
    return [math.tanh(v) for v in plus(G, product(s, U))]


def translation_logp(p, x, y, sos, weights=None):
    """ln p(y | x) as appendix A.2 has it, word by word; p: letter -> lists as lmtk.nmt.kernels describes them. weights
    gets the alphas of each word.
    """
    n, attention, d = len(p["U"]), "Ua" in p, len(p["C"][0])
    unit, memory = {n: (tanh_unit, []), 3 * n: (gated_unit, []), 4 * n: (lstm, [0.0] * n)}[d]

    def states(words, half, S, U):
        s, found = [0.0] * n + memory, []
        for word in words:
            G = plus(product(p["Ex"][word], p["Wx"]), p["bx"])[d * half : d * (half + 1)]
            s = unit(G, s, p[S], p[U])
            found.append(s[:n])
        return found

    h = states(x, 0, "fS", "fU")
    first = h[-1]
    if attention:
        backward = states(x[::-1], 1, "bS", "bU")[::-1]
        first = backward[0]
        h = [f + b for f, b in zip(h, backward, strict=True)]
    s = [math.tanh(v) for v in plus(product(first, p["Ws"]), p["bs"])] + memory
    # tied, a word's embedding is its column too; <s>, the last one, is never predicted
    Wo = p.get("Wo") or [list(column) for column in zip(*p["Ey"][: len(p["bo"])], strict=True)]
    before, logp = sos, 0.0
    for word in y:
        c, Q = h[-1], product(s[:n], p["S"])
        if attention:
            e = []
            for annotation in h:
                hidden = plus(Q[: len(p["va"])], product(annotation, p["Ua"]), p["ba"])
                e.append(sum(v * math.tanh(a) for v, a in zip(p["va"], hidden, strict=True)))
            alpha = [math.exp(v) / sum(map(math.exp, e)) for v in e]
            c = plus(*([a * v for v in annotation] for a, annotation in zip(alpha, h, strict=True)))
            if weights is not None:
                weights.append(alpha)
        G = plus(product(p["Ey"][before], p["Wy"]), p["by"])
        o = plus(G[d:], product(s[:n], p["Uo"]), product(c, p["Co"]))
        out = plus(product([max(o[i], o[i + 1]) for i in range(0, len(o), 2)], Wo), p["bo"])
        logp += out[word] - math.log(sum(map(math.exp, out)))
        units = len(p["va"]) if attention else 0
        gates = [list(row[units:]) for row in p["S"]]
        s = unit(plus(G[:d], product(c, p["C"])), s, gates, p["U"])
        before = word
    return logp


class Adam:
    """Kingma & Ba 2015, algorithm 1, of one parameter, rate 0.01."""

    def __init__(self, theta):
        self.theta, self.m, self.v, self.t = theta, 0.0, 0.0, 0

    def update(self, g):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g * g
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        self.theta -= 0.01 * m / (math.sqrt(v) + 1e-8)
        return self.theta


class Adadelta:
    """Zeiler 2012, algorithm 1, of one parameter."""

    def __init__(self, theta):
        self.theta, self.g, self.x = theta, 0.0, 0.0

    def update(self, g):
        self.g = 0.95 * self.g + 0.05 * g * g
        d = -math.sqrt(self.x + 1e-6) / math.sqrt(self.g + 1e-6) * g
        self.x = 0.95 * self.x + 0.05 * d * d
        self.theta += d
        return self.theta


def best_words(y, base, B):
    """The B best continuations of a sentence's hypotheses as (score, hypothesis, word), best first, then in order."""
    all_ = [(-(add + v), b, w) for b, (row, add) in enumerate(zip(y, base, strict=True)) for w, v in enumerate(row)]
    return [(-score, b, w) for score, b, w in sorted(all_)[:B]]


def beam_search(logp, eos, B, limit, wanted):
    """The `wanted` best translations of a sentence, or as many as there are, as (ln p / length, words); logp(words) ->
    ln p of each next word.
    """
    live, ended = [(0.0, [])], []
    for length in range(1, limit + 1):
        extended = [(-(score + v), i, w) for i, (score, words) in enumerate(live) for w, v in enumerate(logp(words))]
        new = []
        for negative, i, w in sorted(extended)[:B]:
            words = live[i][1] + [w]
            if w == eos or length == limit:
                ended.append((-negative / length, words[:-1] if w == eos else words))
            else:
                new.append((-negative, words))
        live, best = new, sorted([score for score, _ in ended], reverse=True)[wanted - 1 :]
        best = best[0] if best else -math.inf
        top = max((score for score, _ in live), default=-math.inf)
        if best >= top / limit or (len(ended) >= B and best >= top / length):
            break
    return sorted(ended, key=lambda e: -e[0])[:wanted]


def bleu(hypotheses, references):
    """BLEU of Papineni et al. (2002) of lists of words, references[i]: those of hypothesis i; where the k-th order has
    no match, its precision is 1 / (2^k its n-grams).
    """
    precisions, smooth = [], 1
    for n in range(1, 5):
        match = total = 0
        for words, others in zip(hypotheses, references, strict=True):
            grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
            reference_ngrams = [[tuple(r[i : i + n]) for i in range(len(r) - n + 1)] for r in others]
            match += sum(min(grams.count(g), max(t.count(g) for t in reference_ngrams)) for g in set(grams))
            total += len(grams)
        if not total or (n == 1 and not match):
            return 0.0
        if not match:
            smooth *= 2
        precisions.append((match or 1 / smooth) / total)
    c = sum(map(len, hypotheses))
    r = sum(min((abs(len(o) - len(h)), len(o)) for o in others)[1] for h, others in zip(hypotheses, references))
    return min(1, math.exp(1 - r / c)) * math.exp(sum(map(math.log, precisions)) / 4)


def smoothed_bleu(words, reference):
    """BLEU of one sentence, lists of words; the n-grams of orders 2 to 4 and their matches are one more each."""
    logs = 0.0
    for n in range(1, 5):
        grams, reference_ngrams = ([tuple(w[i : i + n]) for i in range(len(w) - n + 1)] for w in (words, reference))
        match = sum(min(grams.count(g), reference_ngrams.count(g)) for g in set(grams)) + (n > 1)
        if not match:
            return 0.0
        logs += math.log(match / (len(grams) + (n > 1)))
    return min(1, math.exp(1 - len(reference) / len(words))) * math.exp(logs / 4)


def least_risk(translations, logp, scale):
    """The number of the translation with the greatest expected `smoothed_bleu`, the first of equal ones."""
    weights = [math.exp(scale * (v - max(logp))) for v in logp]
    expected = [sum(p * smoothed_bleu(t, r) for p, r in zip(weights, translations)) for t in translations]
    return expected.index(max(expected))


def best_at(a, b, gamma):
    """The highest of the lines a gamma + b, the first of equal ones."""
    heights = [x * gamma + y for x, y in zip(a, b, strict=True)]
    return heights.index(max(heights))


def crossings(a, b):
    """Every gamma where two of the lines a gamma + b cross."""
    return sorted({(b[i] - b[j]) / (a[j] - a[i]) for i in range(len(a)) for j in range(i) if a[i] != a[j]})


def cosine(a, b):
    """The cosine of two vectors, 0 where one is all zeros."""
    length = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b)) / length if length else 0.0


def sampled_likelihood(C, H, d, U, W, b, contexts, words, candidates, inclusion):
    """The sum of ln p over the examples, each p from a softmax over candidates whose e^y are divided by their chance to
    be candidates, the example's own word excepted. Parameters as lists.
    """
    total = 0.0
    for context, w in zip(contexts, words, strict=True):
        x = [feature for j in context for feature in C[j]]
        a = [math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(len(x)))) for k in range(len(d))]
        y = {j: b[j] + sum(U[j][k] * a[k] for k in range(len(a))) for j in candidates}
        if W is not None:
            for j in candidates:
                y[j] += sum(W[j][i] * x[i] for i in range(len(x)))
        rest = sum(math.exp(y[j]) / inclusion[j] for j in candidates if j != w)
        total += y[w] - math.log(math.exp(y[w]) + rest)
    return total


def output(C, H, d, U, W, b, context, j):
    """y_j of equation (1). Parameters as lists."""
    x = [feature for i in context for feature in C[i]]
    a = [math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(len(x)))) for k in range(len(d))]
    y = b[j] + sum(U[j][k] * a[k] for k in range(len(a)))
    return y if W is None else y + sum(W[j][i] * x[i] for i in range(len(x)))


def contrast(C, H, d, U, W, b, contexts, words, drawn, q):
    """The objective of noise-contrastive estimation: every word against each of the drawn ones."""
    total = 0.0
    for context, w in zip(contexts, words, strict=True):
        theta = C, H, d, U, W, b, context
        for j, noise in [(w, False), *((j, True) for j in drawn)]:
            e = math.exp(output(*theta, j))
            text = e / (e + len(drawn) * q[j])
            total += math.log(1 - text if noise else text)
    return total


def contrast_logp(C, H, d, U, W, b, contexts, words, drawn, q):
    """The sum of ln p, the outputs of other words than the example's estimated by those of the drawn ones."""
    total = 0.0
    for context, w in zip(contexts, words, strict=True):
        e = {j: math.exp(output(C, H, d, U, W, b, context, j)) for j in [w, *drawn]}
        total += math.log(e[w] / (e[w] + sum(e[j] / (len(drawn) * q[j]) for j in drawn if j != w)))
    return total


def contrast_biases(C, H, d, U, W, b, contexts, words, drawn, q, most):
    """The gradient of the biases in `contrast`, the noise of each example taking `most` at most."""
    g = [0.0] * len(b)
    for context, w in zip(contexts, words, strict=True):
        e = [math.exp(output(C, H, d, U, W, b, context, j)) for j in range(len(b))]
        text = [e[j] / (e[j] + len(drawn) * q[j]) for j in range(len(b))]
        share = min(1.0, most / sum(text[j] for j in drawn))
        g[w] += 1 - text[w]
        for j in drawn:
            g[j] -= share * text[j]
    return g


def effective_samples(C, H, d, U, W, b, contexts, drawn, q):
    """(sum r)^2 / sum r^2 for r = e^y / q of each word drawn, the mean of the contexts."""
    total = 0.0
    for context in contexts:
        r = [math.exp(output(C, H, d, U, W, b, context, j)) / q[j] for j in drawn]
        total += sum(r) ** 2 / sum(v * v for v in r)
    return total / len(contexts)


def class_likelihood(C, H, d, U, W, b, Uc, Wc, bc, classes, contexts, words):
    """The sum of ln P(class | context) + ln P(word | class, context) over the examples. Parameters as lists."""
    total = 0.0
    for context, w in zip(contexts, words, strict=True):
        p, _, _ = forward(C, H, d, Uc, Wc, bc, context)
        members = [j for j in range(len(b)) if classes[j] == classes[w]]
        rows = [[part[j] for j in members] if part is not None else None for part in (U, W, b)]
        inside, _, _ = forward(C, H, d, *rows, context)
        total += math.log(p[classes[w]]) + math.log(inside[members.index(w)])
    return total


def tree_likelihood(C, H, d, U, W, b, tree, contexts, words):
    """The sum of ln P(word | context) over the examples, from the top of the tree downwards. Parameters as lists.

    tree[i]: the two sides of node i, words as they are, node i as V + i.
    """
    V = len(tree) + 1

    def below(item):
        return [item] if item < V else below(tree[item - V][0]) + below(tree[item - V][1])

    total = 0.0
    for context, w in zip(contexts, words, strict=True):
        x = [feature for j in context for feature in C[j]]
        a = [math.tanh(d[k] + sum(H[k][i] * x[i] for i in range(len(x)))) for k in range(len(d))]
        item = V
        while item >= V:
            i = item - V
            y = b[i] + sum(U[i][k] * a[k] for k in range(len(a)))
            if W is not None:
                y += sum(W[i][j] * x[j] for j in range(len(x)))
            side = int(w in below(tree[i][1]))
            p = 1 / (1 + math.exp(-y))
            total += math.log(p if side else 1 - p)
            item = tree[i][side]
    return total


def huffman_cost(counts):
    """The decisions for all words of a text together in the best tree: the sum of the weights of its inner nodes."""
    weights, cost = sorted(counts), 0
    while len(weights) > 1:
        a, b, *weights = weights
        cost += a + b
        weights = sorted([*weights, a + b])
    return cost


def class_bigram_likelihood(bigrams, g):
    """ln p of bigrams under p(w | v) = p(g_w | g_v) p(w | g_w), relative frequencies: Counter of pairs, g a dict."""
    pairs, history, predicted, words = Counter(), Counter(), Counter(), Counter()
    for (v, w), n in bigrams.items():
        pairs[g[v], g[w]] += n
        history[g[v]] += n
        predicted[g[w]] += n
        words[w] += n
    return sum(
        n * math.log(pairs[g[v], g[w]] / history[g[v]] * words[w] / predicted[g[w]]) for (v, w), n in bigrams.items()
    )


def exchange_pass(bigrams, order, g, classes):
    """Each word of `order` to the class of `classes` that is best, the likelihood counted anew; g in place."""
    moved = 0
    for w in order:
        before, best = g[w], class_bigram_likelihood(bigrams, g)
        kept = before
        for c in classes:
            g[w] = c
            likelihood = class_bigram_likelihood(bigrams, g)
            if likelihood > best + 1e-5:
                best, kept = likelihood, c
        g[w] = kept
        moved += kept != before
    return moved


def slopes(f, arrays, i, every=1):
    """(index, slope) of f(*arrays) for each, or every so-manieth, element of arrays[i], by central differences."""
    double = [a if a is None else a.astype(float) for a in arrays]
    for at in list(np.ndindex(double[i].shape))[::every]:
        value, around = double[i][at], []
        for step in (1e-5, -1e-5):
            double[i][at] = value + step
            around.append(f(*double))
        double[i][at] = value
        yield at, (around[0] - around[1]) / 2e-5


def maxent(weights, words, context, word):
    """ln p(word | context) of an n-gram maximum-entropy model: weights maps tuples to lambda, context oldest first."""
    ends = [tuple(context[i:]) for i in range(len(context) + 1)]
    S = {w: sum(weights.get((*end, w), 0.0) for end in ends) for w in words}
    return S[word] - math.log(sum(map(math.exp, S.values())))


def bucket(x, n, marks, first, last):
    """What `buckets` has of the words first .. last - 1 of a text x in a circle: of events and of contexts, (where they
    end, begins, words); and the place of each event's context. A border, 0, is the last of words before another.
    """
    N, W = len(x), max(x) + 1

    def ngram(q, k):
        """The words that end at q, the last first."""
        return [x[q % N], *(x[(q - d) % N] or W for d in range(1, k))]

    def there(q, k):
        words = ngram(q, k)
        inside = (words[0] or marks.eos) and (k == 1 or words[-1] != W or marks.sos)
        return bool(inside and W not in words[1:-1])

    def columns(ends):
        begins, words, before = [], [[] for _ in range(n - 1)], []
        for q in ends:
            current = ngram(q, n)
            f = 1 + next((d for d in range(n) if current[d : d + 1] != before[d : d + 1]), n)
            m = max((k for k in range(1, n + 1) if there(q, k)), default=0)
            begins.append((f, m))
            for k in range(max(f, 2), m + 1):
                words[k - 2].append(current[k - 1])
            before = current
        return [q % N for q in ends], begins, [w for order in words for w in order]

    contexts = sorted((q for q in range(N) if first <= x[q] < last), key=lambda q: ngram(q, n))
    come = sorted(range(len(contexts)), key=lambda i: x[(contexts[i] + 1) % N])
    return columns([contexts[i] + 1 for i in come]), columns(contexts), come
