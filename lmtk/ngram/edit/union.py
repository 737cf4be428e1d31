"""Puts the n-grams of several models into one trie, under the ids of a common vocabulary.

`unite` goes through the orders and writes the records. `merge_children` merges the children of each context, and
`mix_numbers` or `put_records` sets their probabilities and weights.

symbol  shape      meaning
tries   (T, 2)     the address and the size of each trie's memory, int64; the memory is as in `nodes`
where   (T, n, 4)  as in `nodes`; all 0 for orders that a trie lacks
ids     (T, W)     the new id of each word, -1 for words that are left out, int32
place   (N, T)     the place of an order's n-grams in each trie, -1 for none, int32
first, last        contexts, nodes of the order below, from `first` up to `last`

The children of a context in all tries are sorted lists, which are merged; a list is sorted first if new ids change its
order. Bound by the random reads of tries whose words change their order and, for mixtures, by the exponentials.
"""

import math
from functools import partial

import numpy as np

from lmtk.exponential import powers
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_at_once, part_size
from lmtk.ngram.model.building import add_suffixes
from lmtk.ngram.model.nodes import AT, BOW, CHILD, ROOT, WIDE, WIDTH, N, P, plan, release_order, suffix_of, view_records
from lmtk.ngram.model.searching import NO_TABLE, build_table, shell_sort

AHEAD = 8  # contexts: how far ahead memory is fetched
BATCH = 256  # n-grams whose random reads are made together
END = np.uint64(0xFFFFFFFFFFFFFFFF)  # ends each list that is merged
f32 = np.float32
u64 = np.uint64
array_at, prefetch = (intrinsic(name) for name in ("array_at", "prefetch"))


@jit
def merge_children(united, k, bounds, most, child, word, place):
    """child (C + 1,) <- where the children of each context begin; word (N,) <- their words, sorted in each context;
    place (N, T) <- their places. united: from `arrays_of`; k: the order of the children; bounds (C, T, 2): the first
    child of each context in each trie, and the end of its children; most: the most children that a context has in all
    tries. Returns the number of all children.
    """
    tries, where, ids = united
    T, n = len(tries), 0
    items, head = np.empty(most + T, u64), np.empty(T, np.int64)
    for q in range(len(bounds)):
        child[q], filled = n, 0
        for m in range(T):
            memory = array_at(tries[m, 0], tries[m, 1], np.int32)
            if q + AHEAD < len(bounds):
                prefetch(memory, where[m, k - 1, AT] + where[m, k - 1, WIDTH] * bounds[q + AHEAD, m, 0])
            head[m], straight = filled, True
            for c in range(bounds[q, m, 0], bounds[q, m, 1]):
                w = ids[m, memory[where[m, k - 1, AT] + where[m, k - 1, WIDTH] * c]]
                if w >= 0:
                    items[filled] = u64(w) << u64(32) | u64(c)
                    straight &= filled == head[m] or items[filled - 1] < items[filled]
                    filled += 1
            if not straight:
                shell_sort(items, head[m], filled)
            items[filled] = END
            filled += 1
        while True:
            least = END >> u64(32)
            for m in range(T):
                least = min(least, items[u64(head[m])] >> u64(32))
            if least == END >> u64(32):
                break
            word[u64(n)] = np.int32(least)
            for m in range(T):
                item = items[u64(head[m])]
                has_word = item >> u64(32) == least
                place[u64(n), m] = np.int32(item & u64(0xFFFFFFFF)) if has_word else np.int32(-1)
                head[m] += has_word
            n += 1
    child[len(bounds)] = n
    return n


def put_records(memory, where, k, model, part):
    """memory <- the words of the n-grams of order k after some contexts, and the contexts' children. part: (the first
    node of these n-grams, a piece of `merge_order`). model: the first model, if its log10 p and weights are written
    too, and n-grams that it lacks become bare; None: `mix_numbers` sets them.
    """
    begin, (first, last, child, word, place) = part
    levels = view_records(memory, where)
    records = levels[k][begin : begin + len(word)]
    records["word"], levels[k - 1]["child"][first : last + 1] = word, begin + child
    if k == 1:
        records["suffix"] = 0
    if not model:
        return
    records["log10p"] = np.nan
    if k < len(where):
        records["log10bow"] = 0
    if k <= model.nodes.order:
        level, has_ngram = model.nodes.levels[k], np.flatnonzero(place[:, 0] >= 0)
        records["log10p"][has_ngram] = level["log10p"][place[has_ngram, 0]]
        if k < model.nodes.order:
            records["log10bow"][has_ngram] = level["log10bow"][place[has_ngram, 0]]


@jit
def mix_numbers(united, weights, k, part, arrays, suffixes):
    """memory <- log10 p of some n-grams of order k, log10 sum_m weights[m] p_m, nan if no model has the n-gram; and the
    first model's back-off weights. united: from `arrays_of`; part: the first context, the first n-gram, and `place` of
    `merge_children`; arrays: memory, logs, where and far of the result.

    suffixes: base, and rows (., T, 3), which has from base[k] on, for the n-grams of each order k below the highest in
    each trie: log10 p of the longest suffix with a probability; the sum of the back-off weights that go with it; the
    n-gram's own back-off weight. The rows of order k are written.

        p(w | c) = p of the n-gram c w if there is one, else bow(c) p(w | c without its oldest word)

    Back-off weights are added in single precision, those of short contexts first, as in `walking.backed_off`.
    """
    (tries, old, _), (q, node0, place) = united, part
    (memory, logs, where, far), (base, rows), T = arrays, suffixes, len(tries)
    n = len(where)
    below, width, up = where[k - 1, AT], where[k - 1, WIDTH], where[max(k - 2, 0), AT]
    order, row, chain = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(n + 1, np.int64)
    model_p, has_p = np.empty(T * BATCH), np.empty(BATCH, np.bool_)
    for begin in range(0, len(place), BATCH):
        size = min(BATCH, len(place) - begin)
        for i in range(size):
            order[i], end = suffix_of(memory, where, far, k, node0 + begin + i)
            row[i] = base[order[i]] + end
            prefetch(rows, row[i] * 3 * T)
            for m in range(T):
                at = old[m, k - 1, AT] + old[m, k - 1, WIDTH] * np.int64(place[begin + i, m])
                prefetch(array_at(tries[m, 0], tries[m, 1], np.int32), at)
        for i in range(size):
            node, many = node0 + begin + i, 0
            while k > 1 and node >= memory[up + WIDE * (q + 1) + CHILD]:
                q += 1
            above, context = k - 1, q  # the contexts whose weights go with that suffix
            while above and above >= order[i]:
                chain[many] = base[above] + context
                many += 1
                above, context = suffix_of(memory, where, far, above, context)
            has_p[i] = False
            for m in range(T):
                p, more, bow, at = f32(np.nan), f32(0), f32(0), old[m, k - 1, AT]
                if place[begin + i, m] >= 0:
                    logs_m = array_at(tries[m, 0], tries[m, 1], np.float32)
                    at += old[m, k - 1, WIDTH] * np.int64(place[begin + i, m])
                    p = logs_m[at + old[m, k - 1, P]]
                    bow = logs_m[at + BOW] if k < n and old[m, k, WIDTH] else f32(0)  # not if cut to order k
                if p == p:
                    has_p[i] = True
                else:
                    p, more = rows[row[i], m, 0], rows[row[i], m, 1]
                    for j in range(many - 1, -1, -1):
                        more += rows[chain[j], m, 2]
                if k < n:
                    target = base[k] + node
                    rows[target, m, 0], rows[target, m, 1], rows[target, m, 2] = p, more, bow
                model_p[m * size + i] = p + more
        powers(model_p, T * size)
        for i in range(size):
            total = 0.0
            for m in range(T):
                total += weights[m] * model_p[m * size + i]
            at = below + width * (node0 + begin + i)
            logs[at + where[k - 1, P]] = math.log10(total) if has_p[i] else np.nan
            if k < n:
                logs[at + BOW] = rows[base[k] + node0 + begin + i, 0, 2]


def unite(models, ids, W, weights=None, may_reuse=False):
    """Unite the n-grams of all models over W words: (memory, where, far), the arrays of `nodes`. ids[m]: the new ids of
    the words of model m, -1 for words that are left out.

    The n-grams of the first model keep their back-off weights. `weights` mixes the models: each n-gram gets its
    probability in the mixture. None: the n-grams of the first model keep their probabilities, and the others have none.
    may_reuse: the caller gives up the models, and their memory is freed, an order at a time. Memory is allocated for
    the n-grams of all models together; the part that is never written costs nothing.
    """
    n = max(model.nodes.order for model in models)
    united = arrays_of(models, ids, n)
    most = united[1][:, :, N].sum(axis=0)
    where, length = plan(most)
    memory = np.empty(length, np.int32)
    unigram, far, table = np.full(W, -1, np.int32), ROOT, NO_TABLE
    contexts = [(0, np.zeros((1, len(models)), np.int32))]
    base, rows = np.zeros(n, np.int64), np.empty((1 + most[:-1].sum(), len(models), 3), f32)
    rows[0] = -np.inf, 0, 0
    for k in range(1, n + 1):
        pieces = merge_order(models, united, k, contexts)
        for model in models if may_reuse and k > 1 else ():
            release_order(model.nodes, k - 1)
        begins = np.cumsum([0, *(len(word) for *_, word, _ in pieces)]).tolist()
        at, size, width = where[k - 1, AT], begins[-1], where[k - 1, WIDTH]
        where[k - 1, N], end = size, at + width * size
        memory[end : end + width] = 0
        if k == 1:
            ((_, _, _, words, _),) = pieces  # the root is one context
            unigram[words] = np.arange(size)
        if k < n:
            where[k, AT], base[k] = end + width, base[k - 1] + (where[k - 2, N] if k > 1 else 1)

        map_at_once(partial(put_records, memory, where, k, models[0] if weights is None else None), zip(begins, pieces))
        if k > 1:
            far = add_suffixes((memory, where, table, np.array([[0, len(table)]] * n)), k, unigram, far)
        # one thread makes the table, for the suffixes of the next order, while the others mix
        index = partial(build_table, memory, where, k) if 1 < k < n else lambda: NO_TABLE
        arrays = memory, memory.view(f32), where, far
        mixing = [
            partial(mix_numbers, united, np.array(weights, float), k, (first, begin, place), arrays, (base, rows))
            for begin, (first, *_, place) in zip(begins, pieces if weights is not None else ())
        ]
        table, *_ = map_at_once(lambda job: job(), [index, *mixing])
        contexts = [(begin, place) for begin, (*_, place) in zip(begins, pieces)]
        del pieces, mixing
    for model in models if may_reuse else ():
        release_order(model.nodes, n)
    return memory[: where[-1, AT] + where[-1, WIDTH] * (where[-1, N] + 1)], where, far


def arrays_of(models, ids, n):
    """(tries, old, new ids) of models of orders up to n, for kernels: the address and length of each model's memory;
    its `where`, zeros for orders that it lacks; `ids` of `unite` in one array, filled up with -1.
    """
    tries, old = np.empty((len(models), 2), np.int64), np.zeros((len(models), n, 4), np.int64)
    number_of = np.full((len(models), max(map(len, ids))), -1, np.int32)
    for m, (model, new_ids) in enumerate(zip(models, ids)):
        model.nodes.checked_levels(len(model.vocab.words))
        tries[m] = model.nodes.memory.ctypes.data, model.nodes.memory.size
        old[m, : model.nodes.order], number_of[m, : len(new_ids)] = model.nodes.where, new_ids
    return tries, old, number_of


def merge_order(models, united, k, contexts):
    """Merge the n-grams of order k into pieces, (first, last, child, word, place) each: the n-grams after the contexts
    from `first` up to `last`, as `merge_children` makes them. contexts: [(node, place)], the places (., T) of the
    contexts from `node` on in each trie.
    """
    batch = part_size(sum(len(place) for _, place in contexts))
    parts = ((node + at, place[at : at + batch]) for node, place in contexts for at in range(0, len(place), batch))

    def merge(part):
        first, above = part
        bounds = np.zeros((*above.shape, 2), np.int32)
        for m, (model, node) in enumerate(zip(models, above.T)):
            if k <= model.nodes.order:
                child = model.nodes.levels[k - 1]["child"]
                bounds[:, m, 0], bounds[:, m, 1] = child[node], child[node + (node >= 0)]  # no children of the node -1
        counts = (bounds[:, :, 1] - bounds[:, :, 0]).sum(axis=1)
        child, word = np.empty(len(above) + 1, np.int32), np.empty(counts.sum(), np.int32)
        place = np.empty((len(word), len(models)), np.int32)
        size_merged = merge_children(united, k, bounds, counts.max(initial=0), child, word, place)
        return first, first + len(above), child, word[:size_merged], place[:size_merged]

    return map_at_once(merge, parts)
