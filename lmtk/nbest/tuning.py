"""Minimum error rate training: find the weights of the features of n-best lists that give the highest BLEU, or the
lowest word error rate.

Och, "Minimum error rate training in statistical machine translation" (2003), section 4. Along a direction d from the
weights w, the score of hypothesis i, (w + gamma d) . h_i, is a line in gamma. The best hypothesis of a list changes
only where the upper envelope of its lines has a corner. Between the corners of all lists the quality is constant.
`tune` climbs from several starts: `climb` searches along each feature and along random directions by `best_on_line`.

Symbols: N hypotheses in L lists, K features; a slope, b intercept of a line. Statistics can be summed over sentences.
For BLEU (., 9): the matched n-grams of orders 1 to 4, the n-grams of orders 1 to 4 (the first is the length), and the
length of the reference. For the word error rate (., 2): the errors, and the length of the reference.
"""

from collections import Counter
from itertools import chain

import numpy as np

from lmtk.machine.jit import jit
from lmtk.text.corpus import TOKEN

ORDERS = 4
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp"  # what sacrebleu calls this BLEU, its version aside
NARROWEST = 1e-9  # corners that are closer than this count as one


def ngrams(words):
    """Counter of the n-grams of orders 1 to 4."""
    return Counter(tuple(words[i : i + n]) for n in range(1, ORDERS + 1) for i in range(len(words) - n + 1))


def statistics(hypotheses, references):
    """(N, 9) int64 of hypotheses of one sentence, bytes, against its references.

    An n-gram matches as often as it occurs in the hypothesis, but not more often than in the reference that has most of
    it. The reference length is the one nearest to the length of the hypothesis; if two are equally near, the shorter.
    """
    tokens = [TOKEN.findall(r) for r in references]
    most = Counter()
    for words in tokens:
        most |= ngrams(words)
    lengths = sorted(map(len, tokens))
    out = np.zeros((len(hypotheses), 2 * ORDERS + 1), np.int64)
    for row, hypothesis in zip(out, hypotheses):
        words = TOKEN.findall(hypothesis)
        for ngram, n in ngrams(words).items():
            if ngram in most:
                row[len(ngram) - 1] += min(n, most[ngram])
        for n in range(ORDERS):
            row[ORDERS + n] = max(len(words) - n, 0)
        row[-1] = min(lengths, key=lambda r: abs(r - len(words)))
    return out


def error_statistics(hypotheses, references):
    """(N, 2) int64 of hypotheses of one sentence, bytes: the substitutions, deletions and insertions that make it the
    nearest reference, and the words of that reference.
    """
    tokens = [TOKEN.findall(r) for r in references]
    out = np.empty((len(hypotheses), 2), np.int64)
    for row, hypothesis in zip(out, hypotheses):
        words = TOKEN.findall(hypothesis)
        row[:] = min((edit_distance(words, reference), len(reference)) for reference in tokens)
    return out


def edit_distance(a, b):
    """The fewest substitutions, deletions and insertions that make the list of words b of the list a."""
    numbers = {word: i for i, word in enumerate({*a, *b})}
    b, steps = np.array([numbers[word] for word in b]), np.arange(len(b) + 1)
    row = steps
    for i, word in enumerate(a, 1):
        # without insertions; these are the running minimum along the row
        least = np.minimum(row + 1, np.append(len(a) + len(b), row[:-1] + (b != numbers[word])))
        least[0] = i
        row = np.minimum.accumulate(least - steps) + steps
    return int(row[-1])


def quality(sums):
    """BLEU, or 1 minus the word error rate, of sums of statistics (., 9) or (., 2): higher is better."""
    return bleu(sums) if sums.shape[-1] > 2 else 1 - sums[..., 0] / np.maximum(sums[..., 1], 1)


METRICS = {"bleu": statistics, "wer": error_statistics}


def bleu(sums):
    """BLEU, between 0 and 1, of sums of statistics (., 9).

    exp(min(0, 1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4), Papineni et al. (2002), section 2.3. As in sacrebleu by default, the
    precision of the k-th order without a match is 1 / (2^k its n-grams); without any match BLEU is 0.
    """
    match, total, r = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS], sums[..., -1]
    c = total[..., 0]
    none = match == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(none, 0.5 ** np.cumsum(none, axis=-1), match) / total
        score = np.exp(np.minimum(0, 1 - r / c) + np.log(p).mean(axis=-1))
    return np.where((match[..., 0] > 0) & (total[..., -1] > 0), score, 0.0)


@jit
def envelope(a, b, starts, kept, corner):
    """The upper envelope of each list's lines a gamma + b; a (N,) must ascend in each list, and b where a is equal.

    Writes to kept (N,) the lines on the envelopes, list by list and from gamma = -inf on, and to corner (N,) the place
    where each begins, -inf for the first line of a list. Returns the number of lines kept. Each line is visited once
    and removed at most once: O(N).
    """
    n = 0
    for s in range(len(starts) - 1):
        first = n
        for i in range(starts[s], starts[s + 1]):
            # the higher of two parallel lines hides what the lower one hid
            if n > first and a[kept[n - 1]] == a[i]:
                n -= 1
            x = -np.inf
            while n > first:
                j = kept[n - 1]
                x = (b[j] - b[i]) / (a[i] - a[j])
                if x > corner[n - 1]:
                    break
                n -= 1
                x = -np.inf
            kept[n] = i
            corner[n] = x
            n += 1
    return n


def best_on_line(a, b, starts, stats):
    """(gamma, quality) in the middle of the interval where the quality is highest; a, b (N,): the lines; stats (N, .).

    In the two outermost intervals gamma is one unit from the corner. Of equally good intervals the widest is taken,
    then the first.
    """
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    # of equal lines the first one comes last, and stays
    order = np.lexsort((-np.arange(len(a)), b, a, lists))
    kept, corner = np.empty(len(a), np.int64), np.empty(len(a))
    n = envelope(a[order], b[order], starts, kept, corner)
    kept, corner = order[kept[:n]], corner[:n]
    opens = corner == -np.inf
    changes = np.flatnonzero(~opens)
    sums = stats[kept[opens]].sum(axis=0)
    if not len(changes):
        return 0.0, float(quality(sums))
    changes = changes[np.argsort(corner[changes], kind="stable")]
    steps = stats[kept[changes]] - stats[kept[changes - 1]]
    sums = np.concatenate((sums[None], sums + np.cumsum(steps, axis=0)))
    edges = corner[changes]
    edges = np.concatenate(([edges[0] - 2], edges, [edges[-1] + 2]))
    width = np.diff(edges)
    scores = np.where(width > NARROWEST, quality(sums), -np.inf)
    at = np.lexsort((-width, -scores))[0]
    return float(edges[at] + edges[at + 1]) / 2, float(scores[at])


def quality_of_best(totals, starts, stats):
    """The quality of the first of the best hypotheses of each list."""
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    best = np.flatnonzero(totals == np.maximum.reduceat(totals, starts[:-1])[lists])
    first = best[np.unique(lists[best], return_index=True)[1]]
    return float(quality(stats[first].sum(axis=0)))


def tune(lists, stats, beginnings, fixed, seed, restarts, tell=None):
    """The weights (K,) with the highest quality of the best hypotheses that the search finds.

    lists: the features (N, K), and where each list starts; stats (N, .). The search starts from each of the
    `beginnings`, weights (K,), and from `restarts` random points. It goes along each feature and along as many random
    directions, until none of them helps. fixed: the feature whose weight ends as 1, or None: then the absolute weights
    sum to one. tell(start, quality) is called after each start.
    """
    random, (features, starts) = np.random.default_rng(seed), lists
    K = features.shape[1]
    list_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    # only differences within a list matter; in units of their spread one step suits all features
    h = features - (np.add.reduceat(features, starts[:-1]) / np.diff(starts)[:, None])[list_of]
    spread = np.sqrt((h**2).mean(axis=0))
    used = spread > 1e-9 * np.abs(features).max(axis=0, initial=0)
    spread = np.where(used, spread, 1)
    h = np.where(used, h, 0) / spread
    moves = used & (np.arange(K) != fixed)
    best, best_score = None, -np.inf
    first, *others = beginnings
    points = chain([first * spread], (random.uniform(-1, 1, K) for _ in range(restarts)), (w * spread for w in others))
    for start, w in enumerate(points):
        if fixed is not None:
            w[fixed] = abs(w[fixed])
        w, score = climb(h, starts, stats, w, moves, random)
        if tell:
            tell(start, score)
        if score > best_score:
            best, best_score = w, score
    weights = np.where(used, best / spread, first)
    scale = weights[fixed] if fixed is not None else np.abs(weights).sum()
    return weights / scale if scale else weights


def climb(h, starts, stats, w, moves, random):
    """(weights, quality) at which no line search helps any more; moves (K,): which weights may change."""
    score = quality_of_best((h * w).sum(axis=1), starts, stats)
    axes = np.eye(len(w))[moves]
    while len(axes):
        before = score
        for d in np.concatenate((axes, random.normal(size=axes.shape) * moves)):
            b = (h * w).sum(axis=1)
            gamma, promised = best_on_line((h * d).sum(axis=1), b, starts, stats)
            if promised > score:
                moved = w + gamma * d
                # rounding may spoil what a narrow interval promised
                reached = quality_of_best((h * moved).sum(axis=1), starts, stats)
                if reached > score:
                    w, score = moved, reached
        if score == before:
            break
    return w, score
