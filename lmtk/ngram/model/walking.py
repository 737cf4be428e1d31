"""Scores texts with a back-off model: the back-off recursion in kernels and in numpy.

`walk` scores the tokens of a large text in one kernel, and `walk_plain` those of a small text in numpy. `sum_text`
scores a large text straight from its bytes, and adds up the log probabilities of each line. `step` scores one word, and
`score_text` and `score_lines` score sentences in KenLM's arithmetic. `advance` and `fill_scores` work on many states at
once: contexts, as `step` numbers them.

The kernels take a tuple of arrays: trie, logs and far of the table in `nodes`; unigram (W,) int32: the 1-gram of each
word, -1 for none; log10p_1 (W,) float32: its log10 p. Contexts do not reach back over a word without a 1-gram, such as
<unk> in a model without it: the next word gets its 1-gram probability, without back-off weights.
"""

from itertools import pairwise

import numpy as np

from lmtk.files.declared import MAX_ORDER
from lmtk.machine.jit import inlined, intrinsic, jit, sealed
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDE, WIDTH, ZERO, P, children_of, number, suffix_of
from lmtk.ngram.model.nodes import N as NODES
from lmtk.ngram.model.searching import FEW, find_batch, find_children, probe, search, slot_of
from lmtk.text.kernels import look_up

LANES = 48  # parts of a text that are scored side by side
LISTED, WEIGHTS = LANES + 1, 100 * LANES  # the sizes of a list of parts, and of the array of their weights
PART = 64  # tokens of a part, at least
AFTER_NOTHING, AFTER_UNKNOWN = 0, 1  # states: after nothing, and after a word without a 1-gram
# the arrays in which `sum_text` works: name -> (type, entries for each byte of the text; two more bytes are assumed)
ROOM = {
    "sums": (np.float64, 1),
    "ends": (np.int64, 1),
    "ids": (np.int32, 1),
    "tokens": (np.int32, 2),
    "log10p": (np.float32, 2),
    "fresh": (np.bool_, 2),
    "used": (np.int8, 2),
}
u64 = np.uint64
prefetch, local = intrinsic("prefetch"), intrinsic("local")


def walk_plain(nodes, unigram, log10p_1, V, kenlm, ids, fresh):
    """Score the tokens ids (N,) in numpy: (log10p, used). The arguments and results are those of `walk`."""
    node, used, p = unigram[ids], np.ones(len(ids), np.int8), log10p_1[ids]
    begin = as_kenlm_log if kenlm else np.zeros_like  # of the sum, to which weights are added
    total = begin(p)
    for k, (above, level) in enumerate(pairwise(nodes.levels[1:]), 2):
        context = np.append(np.int32(-1), node[:-1])
        context[fresh] = -1
        node = find_children(above, level, context, ids)
        has_context = context >= 0
        weight = np.where(has_context, above["log10bow"][context], np.float32(0))
        if kenlm:
            goes_on = has_context & (above["child"][context + 1] > above["child"][context])
            weight[weight == -np.inf] = ZERO
            weight[(weight == 0) & ~goes_on] = -0.0
            weight[~has_context] = 0.0 if k == 2 else -0.0
            weight[fresh] = -0.0
        total += weight
        value = np.where(node >= 0, level["log10p"][node], np.float32(np.nan))
        value[ids >= V] = np.nan
        used[~np.isnan(value)] = k
        has_value = value < np.inf
        p[has_value], total[has_value] = value[has_value], begin(value[has_value])
    return total if kenlm else p + total, used


def find_context_nodes(nodes, unigram, context):
    """Find the nodes of the last 1, 2 .. order - 1 words of a context (ids, the most recent word last); -1 for none."""
    node, nodes_found = unigram[context], []
    for above, level in pairwise(nodes.levels[1:]):
        nodes_found.append(int(node[-1]) if len(node) else -1)
        node = find_children(above, level, np.append(np.int32(-1), node[:-1]), np.asarray(context))
    return nodes_found


def as_kenlm_log(log10p):
    """log10 p in KenLM's form: -99 for the logarithm of 0, and -0 for 0."""
    return np.where(log10p == -np.inf, np.float32(ZERO), np.where(log10p == 0, np.float32(-0.0), log10p))


@inlined
def convert_log(value, goes_on, kenlm):
    """log10 p, or the log10 weight of a context, in the form in which it is added; with `kenlm` in KenLM's form: -99
    for the logarithm of 0, and -0 for 0, but +0 if `goes_on`: for a context that an n-gram extends.
    """
    if kenlm and value == 0:
        return np.float32(0.0) if goes_on else np.float32(-0.0)
    return np.float32(ZERO) if kenlm and value == -np.inf else value


@inlined
def backed_off(p, weights, begin, many, kenlm):
    """log10 p plus weights[begin : begin + many], the longest context's first. All is in single precision, and the
    weights of short contexts are added first. SRILM adds the sum of the weights to p; KenLM (`kenlm`) begins with p in
    the form of `convert_log`.
    """
    total = convert_log(p, False, kenlm) if kenlm else np.float32(0)
    for j in range(begin + many - 1, begin - 1, -1):
        total += weights[u64(j)]
    return total if kenlm else p + total


@inlined
def fetch(memory, where, k, node):
    """Prefetches the record of a node, and the end of its children."""
    if k:
        at = where[u64(k - 1), AT] + WIDE * node
        prefetch(memory, at)
        prefetch(memory, at + WIDE + CHILD)


@inlined
def search_round(trie, lanes, lists, lives):
    """The search of `walk` in the first `lives` parts of the list `live`: child <- the node that extends the part's
    context by its word, or -1. Parts with a node go to the list `hit`, the others stay in `live`. Returns the lengths
    of both lists. trie, lanes, lists: arrays of `walk`; the lists `few` and `table` are scratch memory.
    """
    memory, where, slots, spans = trie
    word, order, node, low, high, slot, child = lanes
    live, few, table, hit = lists
    fews = tables = hits = misses = 0
    for j in range(lives):
        a = live[j]
        low[a], high[a] = children_of(memory, where, order[a], node[a])
        child[a] = -1
        tabled = (high[a] - low[a] > FEW) & (spans[u64(order[a] + 1), 1] > 0)
        table[tables] = few[fews] = a
        tables += tabled
        fews += (high[a] > low[a]) & (not tabled)
    for j in range(tables):
        a = table[j]
        k = u64(order[a] + 1)
        slot[a] = spans[k, 0] + slot_of(low[a], word[a], spans[k, 1])
        prefetch(slots, slot[a])
    for j in range(fews):
        a = few[j]
        k = u64(order[a])
        prefetch(memory, where[k, AT] + where[k, WIDTH] * low[a])
        prefetch(memory, where[k, AT] + where[k, WIDTH] * ((low[a] + high[a]) >> 1))
        prefetch(memory, where[k, AT] + where[k, WIDTH] * (high[a] - 1))
    for j in range(tables):
        a = table[j]
        prefetch(memory, where[u64(order[a]), AT] + where[u64(order[a]), WIDTH] * number(slots, slot[a]))
    for j in range(fews):
        a = few[j]
        child[a] = search(memory, where, order[a] + 1, low[a], high[a], word[a])
    for j in range(tables):
        a = table[j]
        child[a] = probe(trie, order[a] + 1, slot[a], low[a], high[a], word[a])
    for j in range(lives):
        a = live[j]
        hit[hits] = live[misses] = a
        hits += child[a] >= 0
        misses += child[a] < 0
    return hits, misses


@sealed
def walk(arrays, V, kenlm, ids, fresh, log10p, used):
    """Hard to read: the parts of a text are scored side by side, in rounds of passes over lists of parts.

    The back-off recursion (Katz 1987) for the tokens ids (N,):

        p(w | c) = p of the n-gram c w if there is one, else bow(c) p(w | c without its oldest word).

    log10p (N,) float32 <- log10 p; used (N,) int8 <- the length of the n-gram that gave it. fresh (N,): whether a token
    has no context. Words from V on have no probability. kenlm: whether to use KenLM's rounding and signs of zero.

    The search goes from the longest context to shorter ones, by suffix links. The first node found is the next token's
    context; at the highest order, its suffix is. So a token whose n-gram is in the model takes one search. A log10p of
    +inf counts only for `used`: it marks n-grams that KenLM adds to a model.

    The text is scored in LANES parts, each of which begins with the tokens of its first context. A round makes one
    search in each part, so that their random reads, two or three a search, overlap. A round consists of passes; each
    pass sorts a list of parts into new lists, since a processor cannot predict a branch on the result of a search.
    Bound: these reads and the instructions, about equally. Children and suffixes of a damaged file stay in their order.
    """
    trie, logs, far, unigram, log10p_1 = arrays
    memory, where, _, _ = trie
    n, size = len(where), len(ids)
    parts = max(min(LANES, size // (PART + n), WEIGHTS // (n + 1)), 1) if size else 0
    t, begin, stop = local(LANES, np.int64), local(LANES, np.int64), local(LANES, np.int64)
    # the context to search, of order 0 if only the 1-gram is left; the next token's context, -1 if not known yet
    word, order, node = local(LANES, np.int64), local(LANES, np.int64), local(LANES, np.int64)
    next_order, next_node, length = local(LANES, np.int64), local(LANES, np.int64), local(LANES, np.int64)
    low, high, slot = local(LANES, np.int64), local(LANES, np.int64), local(LANES, np.int64)
    child, many, p = local(LANES, np.int64), local(LANES, np.int64), local(LANES, np.float32)
    live, few, table = local(LISTED, u64), local(LISTED, u64), local(LISTED, u64)
    hit, root, done = local(LISTED, u64), local(LISTED, u64), local(LISTED, u64)
    weights = local(WEIGHTS, np.float32)
    lanes, lists = (word, order, node, low, high, slot, child), (live, few, table, hit)
    for a in range(parts):
        begin[a], stop[a] = size * a // parts, size * (a + 1) // parts
        t[a] = max(begin[a] - n + 1, 0)
        word[a], root[a] = ids[t[a]], a
        order[a] = node[a] = next_node[a] = many[a] = 0
        next_order[a], length[a] = -1, 1
    lives, roots = 0, parts
    while lives or roots:
        hits, misses = search_round(trie, lanes, lists, lives)
        dones = 0
        for j in range(hits):
            a = hit[j]
            k = order[a]
            if next_order[a] < 0:
                next_order[a], next_node[a] = k + 1, child[a]
                if k + 1 == n:
                    next_order[a], next_node[a] = suffix_of(memory, where, far, n, child[a])
                    fetch(memory, where, next_order[a], next_node[a])
            value = logs[u64(where[u64(k), AT] + where[u64(k), WIDTH] * child[a] + where[u64(k), P])]
            if word[a] < V and value == value and length[a] == 1:
                length[a] = k + 1
            if word[a] < V and value < np.inf:
                p[a], done[dones] = value, a
                dones += 1
            else:
                live[misses] = a
                misses += 1
        lives = 0
        for j in range(misses):
            a = live[j]
            bow = logs[u64(where[u64(order[a] - 1), AT] + WIDE * node[a] + BOW)]
            weights[u64(np.int64(a) * (n + 1) + many[a])] = convert_log(bow, high[a] > low[a], kenlm)
            many[a] += 1
            order[a], node[a] = suffix_of(memory, where, far, order[a], node[a])
            fetch(memory, where, order[a], node[a])
            live[lives] = root[roots] = a
            lives += order[a] > 0
            roots += order[a] == 0
        for j in range(roots):
            a = root[j]
            w = u64(word[a])
            p[a], done[dones] = log10p_1[w], a
            dones += 1
            if next_order[a] < 0:
                next_order[a], next_node[a] = (1, np.int64(unigram[w])) if unigram[w] >= 0 else (0, AFTER_UNKNOWN)
                fetch(memory, where, next_order[a], next_node[a])
        roots = 0
        for j in range(dones):
            a = done[j]
            i = t[a]
            if i >= begin[a]:
                log10p[u64(i)] = backed_off(p[a], weights, np.int64(a) * (n + 1), many[a], kenlm)
                used[u64(i)] = length[a]
            t[a] = i = i + 1
            if i == stop[a]:
                continue
            word[a], order[a], node[a] = ids[u64(i)], next_order[a], next_node[a]
            if fresh[u64(i)] or n == 1:
                order[a] = node[a] = 0
            next_order[a], length[a], many[a] = -1, 1, 0
            if order[a] == 0 and node[a] == AFTER_UNKNOWN:
                # KenLM's missing <unk> has the weight +0, which changes nothing in SRILM's sum
                weights[u64(np.int64(a) * (n + 1))], many[a] = 0, 1
            live[lives] = root[roots] = a
            lives += order[a] > 0
            roots += order[a] == 0


@jit(nogil=False)
def step(arrays, w, state):
    """Score one word w in KenLM's arithmetic: (log10 p, the length of the n-gram used, the state after w). The kernel
    holds Python's lock, since it is short. state: the longest context, order << 32 | place; AFTER_NOTHING or
    AFTER_UNKNOWN if there is none. As in KenLM, a context that no n-gram extends, and whose weight is 0, is shortened.
    If this model does not have the context of the state, the length is 0.
    """
    trie, logs, far, unigram, log10p_1 = arrays
    memory, where, _, _ = trie
    n, k, node = len(where), state >> 32, state & 0xFFFFFFFF
    if k and (k < 0 or k >= n or node >= where[u64(k - 1), NODES]):
        return np.nan, np.int64(0), np.int64(AFTER_NOTHING)
    weights, many, p, used = local(MAX_ORDER, np.float32), 0, log10p_1[w], 1
    after_order, after = np.int64(-1), np.int64(0)
    if k == 0 and node == AFTER_UNKNOWN:
        weights[0], many = 0, 1
    low, high, slot = seek(trie, k, node, w)
    while k:
        # the next search begins before this one is done, so that their random reads overlap
        next_k, next_node = suffix_of(memory, where, far, k, node)
        next_low, next_high, next_slot = seek(trie, next_k, next_node, w)
        child = probe(trie, k + 1, slot, low, high, w) if slot >= 0 else search(memory, where, k + 1, low, high, w)
        if child >= 0:
            if after_order < 0:
                after_order, after = k + 1, child
            value = logs[where[k, AT] + where[k, WIDTH] * child + where[k, P]]
            if value == value and used == 1:
                used = k + 1
            if value < np.inf:
                p = value
                break
        weights[many] = convert_log(logs[where[k - 1, AT] + WIDE * node + BOW], high > low, True)
        many += 1
        k, node, low, high, slot = next_k, next_node, next_low, next_high, next_slot
    if after_order < 0:
        after_order, after = (1, np.int64(unigram[w])) if unigram[w] >= 0 else (0, AFTER_UNKNOWN)
    while after_order:
        at, size = where[after_order - 1, AT], where[after_order - 1, WIDTH]
        at += size * after
        if after_order < n and (memory[at + size + CHILD] > memory[at + CHILD] or logs[at + BOW] != 0):
            break
        after_order, after = suffix_of(memory, where, far, after_order, after)
    return np.float64(backed_off(p, weights, 0, many, True)), used, after_order << 32 | after


@inlined
def seek(trie, k, node, w):
    """Begin the search for w among the children of a node of order k: (first child, end, first slot or -1)."""
    memory, where, slots, spans = trie
    if k == 0:
        return np.int64(0), np.int64(0), np.int64(-1)
    low, high = children_of(memory, where, k, node)
    if spans[k + 1, 1] and high - low > FEW:
        slot = spans[k + 1, 0] + slot_of(low, w, spans[k + 1, 1])
        prefetch(slots, slot)
        return low, high, slot
    prefetch(memory, where[k, AT] + where[k, WIDTH] * low)
    return low, high, np.int64(-1)


@jit
def score_text(arrays, table, unk, sos, eos, text):
    """(KenLM's log10 p of a sentence, in single precision; its number of words, </s> included). text: the sentence's
    bytes and a blank; table: the arrays of a `text.corpus.Table`; sos, eos: the ids of the marks around it, or -1.

    The n-grams are found an order at a time, so that their random reads overlap: the (k + 1)-gram that ends at token i
    extends the k-gram that ends at i - 1. If a token's context has no such extension, the back-off weight of this
    context is added. `walk` makes fewer searches, but needs a long text to overlap reads.
    """
    trie, logs, _, unigram, log10p_1 = arrays
    memory, where, _, _ = trie
    ids, n, begin = np.empty(len(text) + 2, np.int32), len(where), np.int64(sos >= 0)
    ids[0] = sos
    N = begin + look_up(text, 0, table, (0, 0), -1, unk, ids[begin:])[1]
    if eos >= 0:
        ids[N] = eos
        N += 1
    log10p, many = np.empty(N, np.float32), 0
    at, context, words, lows, highs, child = np.empty((6, N), np.int64)  # of each token `at` that has a context
    for i in range(N):
        log10p[i], node = convert_log(log10p_1[u64(ids[i])], True, True), np.int64(unigram[u64(ids[i])])
        fetch(memory, where, 1, max(node, 0))
        at[many], context[many] = i + 1, node
        many += node >= 0 and i + 1 < N
    for k in range(1, n):
        for j in range(many):
            words[j] = ids[u64(at[j])]
            lows[j], highs[j] = children_of(memory, where, k, context[j])
        find_batch(trie, k + 1, words, lows, highs, child, many)
        lives = 0
        for j in range(many):
            i, node = u64(at[j]), max(child[j], 0)  # the signs of zeros do not matter for the sum
            bow = convert_log(logs[u64(where[k - 1, AT] + WIDE * context[j] + BOW)], True, True)
            value = logs[u64(where[k, AT] + where[k, WIDTH] * node + where[k, P])]
            has_value = child[j] >= 0 and value < np.inf
            log10p[i] = convert_log(value, True, True) if has_value else log10p[i] + bow
            if k + 1 < n:
                fetch(memory, where, k + 1, node)
            at[lives], context[lives] = at[j] + 1, node
            lives += child[j] >= 0 and at[lives] < N
        many = lives
    total = np.float32(0)
    for i in range(begin, N):
        total += log10p[i]
    return np.float64(total), N - begin


@inlined
def put_line(ids, begin, end, marks, tokens, fresh, at):
    """tokens, from `at` on, <- ids[begin:end] between two marks, ids or -1 for none; fresh <- whether a token is the
    first. Returns the place after the last token.
    """
    (sos, eos), first = marks, at
    for i in range(begin - 1, end + 1):
        w = sos if i < begin else eos if i == end else ids[i]
        if w >= 0:
            tokens[at], fresh[at] = w, at == first
            at += 1
    return at


@sealed
def sum_text(arrays, table, marks, text, room):
    """sums (S,) <- the sum of log10 p over the words of each line that is not blank, added one after the other in
    double precision. Words of probability 0 are left out. `text.corpus.with_marks` adds sentence marks in the same way
    to small texts, and `reports.srilm.outcome` decides in the same way what is counted.

    table: the arrays of a `text.corpus.Table`. marks: V; the ids of <unk>, <s> and </s>; whether <s>, and whether </s>,
    is added to lines without it. text: whole lines. room: the arrays of ROOM. Returns the numbers of sums, sentences,
    words, `unk` with p = 0, other words with p = 0, `unk` with p > 0, blank lines.
    """
    V, unk, sos, eos, add_sos, add_eos = marks
    sums, ends, ids, tokens, log10p, fresh, used = room
    n = look_up(text, 0, table, (0, 0), -1, unk, ids)[1]
    at, lines, blank, start = 0, 0, 0, 0
    for i in range(n):
        if ids[i] >= 0:
            continue
        if i == start:
            blank += 1
        else:
            before = sos if add_sos and ids[start] != sos else -1
            after = eos if add_eos and ids[i - 1] != eos else -1
            ends[lines] = at = put_line(ids, start, i, (before, after), tokens, fresh, at)
            lines += 1
        start = i + 1
    walk(arrays, V, False, tokens[:at], fresh[:at], log10p, used)
    at = sentences = words = oovs = zeros = unknown = 0
    for line in range(lines):
        total = 0.0
        for t in range(at + (tokens[at] == sos), ends[line]):
            w, last = tokens[t], t + 1 == ends[line]
            sentences += last and w == eos
            words += not (last and w == eos)
            if log10p[t] == -np.inf:
                oovs += w == unk
                zeros += w != unk
            else:
                unknown += w == unk
                total += np.float64(log10p[t])
        at = ends[line]
        sums[line] = total
    return lines, sentences, words, oovs, zeros, unknown, blank


@jit
def score_lines(arrays, ids, sos, eos, sums):
    """sums (S,) float64 <- KenLM's log10 p of each line of `ids`, in which -1 separates lines: the sum over its words
    in single precision, one after the other. sos, eos: the ids of marks to put around each line, -1 for none.
    """
    lines = len(sums)
    N = len(ids) - (lines - 1) + lines * ((sos >= 0) + (eos >= 0))
    tokens, fresh, ends = np.empty(N, np.int32), np.empty(N + 1, np.bool_), np.empty(lines, np.int64)
    at = start = line = 0
    for i in range(len(ids) + 1):
        if i == len(ids) or ids[i] < 0:
            ends[line] = at = put_line(ids, start, i, (sos, eos), tokens, fresh, at)
            start, line = i + 1, line + 1
    log10p, used = np.empty(N, np.float32), np.empty(N, np.int8)
    walk(arrays, len(arrays[-1]), True, tokens, fresh, log10p, used)
    at = 0
    for line in range(lines):
        total = np.float32(0)
        for t in range(at + (sos >= 0), ends[line]):
            total += log10p[t]
        at = ends[line]
        sums[line] = total


@jit(nogil=False)
def advance(arrays, states, ids, after):
    """after (B,) <- the state after each of the words ids (B,) in the states (B,), as `step` makes it."""
    for i in range(len(states)):
        after[i] = step(arrays, ids[i], states[i])[2]


@jit
def fill_scores(arrays, states, scores):
    """scores (B, V) float32 <- log10 p of each word in each of the states (B,), in KenLM's arithmetic. Contexts are
    taken from the shortest to the longest: the weight of a context is added to all words, and its children get their
    own probability. Bound: V numbers are written for each context, V being the size of the vocabulary.
    """
    (memory, where, _, _), logs, far, _, first = arrays
    n, V = len(where), scores.shape[1]
    orders, nodes = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    for i in range(len(states)):
        row, many = scores[i], 0
        for w in range(V):
            row[w] = convert_log(first[w], False, True)
        k, node = states[i] >> 32, states[i] & 0xFFFFFFFF
        while k:
            orders[many], nodes[many] = k, node
            many += 1
            k, node = suffix_of(memory, where, far, k, node)
        for j in range(many - 1, -1, -1):
            k, node = orders[j], nodes[j]
            low, high = children_of(memory, where, k, node)
            bow = convert_log(logs[u64(where[k - 1, AT] + WIDE * node + BOW)], high > low, True)
            if bow != 0:
                for w in range(V):
                    row[w] += bow
            for child in range(low, high):
                at = where[k, AT] + where[k, WIDTH] * child
                w, value = np.int64(memory[u64(at)]), logs[u64(at + where[k, P])]
                if 0 <= w < V and value < np.inf:
                    row[w] = convert_log(value, False, True)
