"""Slow, obvious twins of what lmtk computes fast, straight from the definitions."""

import math
from collections import Counter


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


def class_likelihood(bigrams, g):
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
        here, best = g[w], class_likelihood(bigrams, g)
        kept = here
        for c in classes:
            g[w] = c
            found = class_likelihood(bigrams, g)
            if found > best + 1e-5:
                best, kept = found, c
        g[w] = kept
        moved += kept != here
    return moved
