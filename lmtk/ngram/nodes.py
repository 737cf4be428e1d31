"""The n-grams of a back-off model as they are stored and scored: a trie of records in one memory.

A node of order k is an n-gram w_1 .. w_k. Nodes of an order stand by their prefixes, those of one prefix together and
by their last words. A record more than there are nodes ends each order.

symbol  shape   meaning
memory  (M,)    all records, int32; logs: the same memory as float32
where   (n, 4)  of each order: AT, where its first record begins in the memory; N, the number of nodes; WIDTH, how many
                numbers a record has; P, at which of them log10 p stands; int64
NODE    -       the record of an order below the highest: word, the last one; child, the first of its children, which
                end where those of the next record begin; log10p and log10bow
LAST    -       that of the highest order

A log10 of -inf is that of 0; a log10p of nan is that of a bare prefix, which has no probability of its own. The words
and children of a file need not be true: what looks a child up keeps it within its order.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.lm import LN10
from lmtk.machine.jit import carray, jit, of_numba, pointer_to
from lmtk.machine.large import pays
from lmtk.machine.threads import in_threads

NODE = np.dtype([("word", "<i4"), ("child", "<i4"), ("log10p", "<f4"), ("log10bow", "<f4")])
LAST = np.dtype([("word", "<i4"), ("log10p", "<f4")])
WIDE, NARROW = NODE.itemsize // 4, LAST.itemsize // 4
AT, N, WIDTH, P = range(4)  # columns of `where`
CHILD, BOW = 1, 3  # places in a NODE; the word is at 0 in both kinds
PLACE = {WIDE: 2, NARROW: 1}  # of log10 p
ZERO = -99.0  # what stands for the logarithm of 0 in an ARPA file
FEW = 8  # children among which a search is as fast as a table
GROUP = 256  # tokens looked up together
NEVER = -(1 << 62)  # what a sum of numbers read never is
BLOCK = 1 << 12  # tokens of which what is kept stays in a cache
tuple_setitem = of_numba("numba.cpython.unsafe.tuple", "tuple_setitem")


@dataclass(frozen=True)
class Nodes:
    """memory and where as above. They cannot be written, as those of a file are: kernels are compiled for one kind."""

    memory: np.ndarray
    where: np.ndarray
    path: str = ""

    @cached_property
    def logs(self):
        return self.memory.view(np.float32)

    @property
    def order(self):
        return len(self.where)

    def size(self, k):
        """How many n-grams of order k there are, bare prefixes included."""
        return int(self.where[k - 1, N])

    @cached_property
    def levels(self):
        """The records of each order, the one that ends it included, from the root's on (which is order 0)."""
        root = np.array([(0, 0, 0, 0), (0, self.size(1), 0, 0)], NODE)
        found = [root]
        for at, size, width, _ in self.where.tolist():
            found.append(self.memory[at : at + (size + 1) * width].view(NODE if width == WIDE else LAST))
        return found

    def lower(self, order):
        """The first orders of it."""
        return Nodes(self.memory, frozen(self.where[:order]), self.path)

    def checked(self, W):
        """The levels, once every pointer is known to be true and every word to be below W. Raises FormatError."""
        for k, (above, level) in enumerate(pairwise(self.levels), 1):
            child, word = above["child"], level["word"][:-1]
            if child[0] != 0 or child[-1] != len(level) - 1 or (child[1:] < child[:-1]).any():
                raise FormatError(self.path, f"damaged: its {k - 1}-grams do not fit together with its {k}-grams")
            if word.min(initial=0) < 0 or word.max(initial=0) >= W:
                raise FormatError(self.path, f"damaged: {k}-grams of words that it does not have")
        return self.levels

    def keys(self, k, W):
        """(N_k,) int64, as in `counts`: the parent's place times W, and the word. Raises FormatError."""
        above, level = self.checked(W)[k - 1 : k + 1]
        parent = np.repeat(np.arange(len(above) - 1), np.diff(above["child"]))
        return parent * W + level["word"][:-1]


def frozen(array):
    """The array as one that cannot be written."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


def room(sizes):
    """Nodes of so many n-grams of each order, all 0, and the records of orders 1 and on, which can be written."""
    widths = [WIDE] * (len(sizes) - 1) + [NARROW]
    ends = np.cumsum([0, *((size + 1) * width for size, width in zip(sizes, widths))]).tolist()
    memory = np.zeros(ends[-1], np.int32)
    where = [[at, size, width, PLACE[width]] for at, size, width in zip(ends, sizes, widths)]
    open_ = Nodes(memory, np.array(where, np.int64))
    return Nodes(frozen(memory), frozen(open_.where)), open_.levels[1:]


def of_arrays(arrays, path):
    """Nodes of the arrays of a file, (N + 1, 4) and in the highest order (N + 1, 2), all in one piece of memory."""
    memory = whole = together(arrays)
    if whole is None:
        memory = np.concatenate([a.reshape(-1) for a in arrays])
    begin, where, at = address(memory), [], 0
    for a in arrays:
        at = (address(a) - begin) // 4 if whole is not None else at
        where.append([at, len(a) - 1, a.shape[1], PLACE[a.shape[1]]])
        at += a.size
    return Nodes(frozen(memory), frozen(np.array(where, np.int64)), path)


def columns(level):
    """The records of an order as a file holds them: (N + 1, WIDE or NARROW) int32."""
    return level.view(np.int32).reshape(len(level), -1)


def together(arrays):
    """The int32 that arrays of one mapped file lie among, or None where they lie apart."""
    base = arrays[0]
    while isinstance(base.base, np.ndarray):
        base = base.base
    first, last = address(base), address(base) + base.nbytes
    if any(not first <= address(a) <= last - a.nbytes for a in arrays):
        return None
    begin = min(map(address, arrays))
    end = max(address(a) + a.nbytes for a in arrays)
    if begin % 4:
        return None
    return base.reshape(-1).view(np.uint8)[begin - first : end - first].view(np.int32)


def address(a):
    return a.__array_interface__["data"][0]


def pack(levels, W, large):
    """The Nodes of n-grams in sorted order: levels of keys, log10p, log10bow, as `backoff.Stored` has them."""
    nodes, records = room([len(level.keys) for level in levels])
    above = np.array([(0, 0, 0, 0), (0, 0, 0, 0)], NODE)
    for level, found in zip(levels, records):
        link(level.keys, W, above["child"], found["word"]) if large else link_plain(level.keys, W, above, found)
        for name in set(found.dtype.names) & {"log10p", "log10bow"}:
            log10 = getattr(level, name)
            found[name][:-1] = np.where(log10 == ZERO, np.float32(-np.inf), log10)
        above = found
    return nodes


def link_plain(keys, W, above, found):
    """`link` in numpy."""
    above["child"][:] = np.searchsorted(keys, np.arange(len(above)) * W)
    found["word"][:-1] = keys % W


@jit
def link(keys, W, child, word):
    """Each n-gram's word (N + 1,) and the first child of each above (P + 1,) from sorted keys (N,); in place."""
    parent = 0
    child[0] = 0
    for i in range(len(keys)):
        while keys[i] >= (parent + 1) * W:
            parent += 1
            child[parent] = i
        word[i] = keys[i] - parent * W
    while parent < len(child) - 1:
        parent += 1
        child[parent] = len(keys)


def children(above, level, node, word):
    """The children of nodes (N,) of `above` with these words (N,), in the order below; -1 where there is none (or node
    or word is -1).
    """
    end = len(level) - 1
    low = np.clip(above["child"][node], 0, end)
    last = np.clip(above["child"][np.where(node < 0, node, node + 1)], low, end)
    high = last
    words = level["word"]
    while (low < high).any():
        middle = (low + high) >> 1
        less = (low < high) & (words[middle] < word)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return np.where((low < last) & (words[low] == word) & (word >= 0) & (node >= 0), low, -1)


def extend_plain(nodes, ids, fresh, V, single, node, logp, used):
    """`extend` in numpy, without tables."""
    for k, (above, level) in enumerate(pairwise(nodes.levels[1:]), 2):
        context = np.append(np.int32(-1), node[:-1])
        context[fresh] = -1
        node[:] = children(above, level, context, ids)
        known = context >= 0
        weight = np.where(known, above["log10bow"][context], np.float32(0))
        if single:
            goes_on = known & (above["child"][context + 1] > above["child"][context])
            weight[weight == -np.inf] = ZERO
            weight[(weight == 0) & ~goes_on] = -0.0
            weight[~known] = 0.0 if k == 2 else -0.0
            weight[fresh] = -0.0
            logp[:] = logp.astype(np.float32) + weight
        else:
            logp += weight.astype(np.float64) * LN10
        value = np.where(node >= 0, level["log10p"][node], np.float32(np.nan))
        value[ids >= V] = np.nan
        used[~np.isnan(value)] = k
        given = value < np.inf
        own = as_single(value[given]) if single else value[given].astype(np.float64) * LN10
        logp[given] = own


def as_single(log10p):
    """log10 p as KenLM keeps it: -99 for that of 0, and -0 for 0."""
    return np.where(log10p == -np.inf, np.float32(ZERO), np.where(log10p == 0, np.float32(-0.0), log10p))


def tables(nodes):
    """(slots, spans) for `extend`: where the children of contexts with more than FEW stand, in an open-addressing table
    an order; spans (n + 1, 2) int64: where that of an order begins in slots, and its size, a power of two or 0.
    """
    spans, parts, at = np.zeros((nodes.order + 1, 2), np.int64), [np.empty(0, np.int32)], 0
    for k in range(2, nodes.order + 1):
        many = count_many(nodes.memory, nodes.where, k)
        size = 1 << (2 * many - 1).bit_length() if many else 0
        spans[k] = at, size
        parts.append(np.full(size, -1, np.int32))
        at += size
    for _ in in_threads(lambda k: fill(nodes.memory, nodes.where, k, parts[k - 1]), range(2, nodes.order + 1)):
        pass
    return frozen(np.concatenate(parts)), frozen(spans)


@jit
def count_many(memory, where, k):
    """How many n-grams of order k extend contexts that have more than FEW of them."""
    begin, total, width = where[k - 2, AT], where[k - 1, N], where[k - 2, WIDTH]
    found, last = 0, 0
    for i in range(where[k - 2, N]):
        at = begin + width * i
        low, high = max(memory[at + CHILD], last), min(memory[at + width + CHILD], total)
        if high - low > FEW:
            found += high - low
            last = high
    return found


@jit(_nrt=False)
def slot_of(low, word, size):
    """Where the search for a word begins among the children from `low` on, in a table of `size` places."""
    h = (np.uint64(low) << np.uint64(32) | np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(32)) & (size - 1)


@jit
def fill(memory, where, k, table):
    """An open-addressing table, int32, full of -1, of those n-grams of order k; in place."""
    begin, total, width = where[k - 2, AT], where[k - 1, N], where[k - 2, WIDTH]
    below, narrow, last = where[k - 1, AT], where[k - 1, WIDTH], 0
    for i in range(where[k - 2, N]):
        at = begin + width * i
        low, high = max(memory[at + CHILD], last), min(memory[at + width + CHILD], total)
        if high - low > FEW:
            last = high
            for child in range(low, high):
                slot = slot_of(low, memory[below + narrow * child], len(table))
                while table[slot] >= 0:
                    slot = (slot + 1) & (len(table) - 1)
                table[slot] = child


@jit(_nrt=False)
def search(memory, begin, width, first, some, w):
    """Which of `some` nodes from `first` on, of the order at `begin`, has the word w; -1 where none has."""
    while some > 1:
        half = some >> 1
        first += half if memory[begin + width * (first + half)] <= w else 0
        some -= half
    return first if some == 1 and memory[begin + width * first] == w else -1


@jit(_nrt=False)
def probe(memory, slots, table, places, slot, begin, width, low, high, w):
    """`search` from low up to high by a table of `places` at `table`, from the place `slot` on."""
    found = np.int64(slots[slot])
    while found >= 0 and (found < low or found >= high or memory[begin + width * found] != w):
        slot = table + ((slot - table + 1) & (places - 1))
        found = np.int64(slots[slot])
    return found


@jit(_nrt=False)
def weight_after(bow, goes_on, single):
    """A context's weight, log10, as it is added: in KenLM one of 0 has a sign."""
    if single and bow == 0:
        return np.float32(0.0) if goes_on else np.float32(-0.0)
    return np.float32(ZERO) if single and bow == -np.inf else bow


@jit(_nrt=False)
def backed_off(logp, bow, single):
    """logp plus a weight: the place where KenLM rounds to single precision."""
    return np.float64(np.float32(np.float32(logp) + bow)) if single else logp + np.float64(bow) * LN10


@jit(_nrt=False)
def given(value, logp, single):
    """logp where the n-gram has log10 p `value` of its own, unless that is nan or +inf."""
    if not value < np.inf:
        return logp
    if not single:
        return np.float64(value) * LN10
    return ZERO if value == -np.inf else np.float64(-0.0) if value == 0 else np.float64(value)


@jit
def extend(memory, logs, where, slots, spans, ids, fresh, V, single, node, logp, used):
    """The back-off recursion (Katz 1987) for tokens `ids` (N,), from their 1-grams up:

        p(w | c) = p of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word).

    node (N,) int32: the 1-gram of each token, -1 for none; then of each order k in turn the k-gram that ends there.
    logp (N,) float64 and used (N,) int8: p by the orders so far, and the one that gave it; in place. fresh (N,):
    nothing before a token counts. A word from V on has no probability. slots, spans: of `tables`, or none.

    What differs is the rounding: ln p in double precision, or, if `single`, KenLM's log10 p. There every sum is rounded
    to single precision, that of 0 is -99, and zeros have signs: a weight of 0 has the sign - where no n-gram goes on
    from its context. A log10p of +inf counts for `used` only: it marks n-grams that KenLM puts in.

    Bound by a random read a token and order, of its n-gram, and one of the table; those of GROUP tokens overlap.
    Returns a number that keeps reads ahead from being left out. No pointer leads out of its order.
    """
    tokens, ahead = len(ids), 0
    low, high, slot = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    weight = np.empty(GROUP, np.float32)
    for k in range(2, len(where) + 1):
        above, up, size = where[k - 2, AT], where[k - 2, N], where[k - 2, WIDTH]
        begin, total, width, p = where[k - 1, AT], where[k - 1, N], where[k - 1, WIDTH], where[k - 1, P]
        table, places = spans[k, 0], spans[k, 1]
        last = -1
        for start in range(0, tokens, GROUP):
            end = min(start + GROUP, tokens)
            for j in range(end - start):
                t = start + j
                context = last if j == 0 else node[t - 1]
                low[j] = high[j] = 0
                slot[j] = -1
                if fresh[t] or context < 0 or context >= up:
                    # KenLM's missing <unk> has the weight +0
                    weight[j] = np.float32(0.0) if k == 2 and not fresh[t] else np.float32(-0.0)
                    continue
                at = above + size * context
                low[j] = min(max(memory[at + CHILD], 0), total)
                high[j] = max(min(memory[at + size + CHILD], total), low[j])
                weight[j] = weight_after(logs[at + BOW], high[j] > low[j], single)
                if places and high[j] - low[j] > FEW:
                    slot[j] = table + slot_of(low[j], ids[t], places)
            last = node[end - 1]
            for j in range(end - start):
                ahead += slots[slot[j]] if slot[j] >= 0 else memory[begin + width * ((low[j] + high[j]) >> 1)]
            for j in range(end - start):
                if slot[j] >= 0:
                    ahead += memory[begin + width * max(slots[slot[j]], 0)]
            for t in range(start, end):
                j, w = t - start, ids[t]
                if slot[j] >= 0:
                    found = probe(memory, slots, table, places, slot[j], begin, width, low[j], high[j], w)
                else:
                    found = search(memory, begin, width, low[j], high[j] - low[j], w)
                node[t] = found
                logp[t] = backed_off(logp[t], weight[j], single)
                if found >= 0 and w < V:
                    value = logs[begin + width * found + p]
                    if value == value:
                        used[t] = k
                    logp[t] = given(value, logp[t], single)
    return ahead


def handle(nodes, unigram, unigram_logp, slots, spans):
    """(10,) int64, where the arrays of a Walk are and how long they are: what `step` and `score_lines` take in place of
    them, since a call costs 0.1 us an array. They must outlive it.
    """
    arrays = nodes.memory, nodes.where, unigram, unigram_logp, slots, spans
    return np.array([*map(address, arrays), nodes.memory.size, nodes.order, len(unigram), slots.size], np.int64)


@jit
def arrays_at(handle):
    """memory, logs, where, unigram, unigram_logp, slots, spans of a `handle`, given as its address."""
    h = carray(pointer_to(handle, np.int64), 10)
    size, n, W = h[6], h[7], h[8]
    memory, logs = carray(pointer_to(h[0], np.int32), size), carray(pointer_to(h[0], np.float32), size)
    where, unigram = carray(pointer_to(h[1], np.int64), (n, 4)), carray(pointer_to(h[2], np.int32), W)
    logp, slots = carray(pointer_to(h[3], np.float64), W), carray(pointer_to(h[4], np.int32), h[9])
    return memory, logs, where, unigram, logp, slots, carray(pointer_to(h[5], np.int64), (n + 1, 2))


@jit(_nrt=False)
def part_of(pair, i):
    """The i-th of the two numbers in an int64."""
    return np.int64(np.int32((pair >> 32 if i else pair) & 0xFFFFFFFF))


@jit(_nrt=False)
def pair_of(first, second):
    return (second << 32) | (first & 0xFFFFFFFF)


@jit
def step(handle, w, state):
    """`extend` of one word w as KenLM does, single precision: (log10 p, length used, state after w).

    state: the nodes of the last 1, 2 .. words, -1 for none and -2 for a word without a 1-gram: a tuple of pairs, as
    `pair_of` makes them, as few as hold n - 1 of them, but one at least. Those are left out of which nothing can be
    made: no n-gram goes on from them, nor from longer ones, and their weights are 0.
    """
    memory, logs, where, unigram, unigram_logp, slots, spans = arrays_at(handle)
    logp, used, most = unigram_logp[w], 1, 0
    node, after = np.int64(unigram[w]), state
    # what the orders will read is read first, so that they wait for memory together
    ahead = 0
    for k in range(2, len(where) + 1):
        context = part_of(state[(k - 2) >> 1], k & 1)
        if 0 <= context < where[k - 2, N]:
            ahead += memory[where[k - 2, AT] + where[k - 2, WIDTH] * context + CHILD]
    for turn in range(2):
        for k in range(2, len(where) + 1):
            context = part_of(state[(k - 2) >> 1], k & 1)
            if 0 <= context < where[k - 2, N]:
                at = where[k - 2, AT] + where[k - 2, WIDTH] * context + CHILD
                low = min(max(np.int64(memory[at]), 0), where[k - 1, N])
                high = max(min(np.int64(memory[at + where[k - 2, WIDTH]]), where[k - 1, N]), low)
                child = (low + high) >> 1
                if spans[k, 1] and high - low > FEW:
                    child = np.int64(slots[spans[k, 0] + slot_of(low, w, spans[k, 1])])
                if turn:
                    ahead += memory[where[k - 1, AT] + where[k - 1, WIDTH] * max(child, 0)]
                else:
                    ahead += child
    if ahead == NEVER:
        return logp, used, after
    for k in range(2, len(where) + 1):
        above, up, size = where[k - 2, AT], where[k - 2, N], where[k - 2, WIDTH]
        begin, total, width = where[k - 1, AT], where[k - 1, N], where[k - 1, WIDTH]
        # the (k - 1)-gram that ends in w is a part of what comes after
        j, left = (k - 2) >> 1, pair_of(node, np.int64(-1))
        after = tuple_setitem(after, j, pair_of(part_of(after[j], 0), node) if k & 1 else left)
        at = above + size * max(node, 0)
        if node >= 0 and (memory[at + size + CHILD] > memory[at + CHILD] or logs[at + BOW] != 0):
            most = k - 1
        context, node = part_of(state[(k - 2) >> 1], k & 1), np.int64(-1)
        if context < 0 or context >= up:
            bow = np.float32(0.0) if k == 2 and context == -2 else np.float32(-0.0)
        else:
            at = above + size * context
            low = min(max(np.int64(memory[at + CHILD]), 0), total)
            high = max(min(np.int64(memory[at + size + CHILD]), total), low)
            bow = weight_after(logs[at + BOW], high > low, True)
            if spans[k, 1] and high - low > FEW:
                slot = spans[k, 0] + slot_of(low, w, spans[k, 1])
                node = probe(memory, slots, spans[k, 0], spans[k, 1], slot, begin, width, low, high, w)
            else:
                node = search(memory, begin, width, low, high - low, w)
        logp = backed_off(logp, bow, True)
        if node >= 0:
            value = logs[begin + width * node + where[k - 1, P]]
            if value == value:
                used = k
            logp = given(value, logp, True)
    for j in range(len(state)):
        first = part_of(after[j], 0) if 2 * j < most else np.int64(-1)
        second = part_of(after[j], 1) if 2 * j + 1 < most else np.int64(-1)
        after = tuple_setitem(after, j, pair_of(first, second))
    if unigram[w] < 0:
        after = tuple_setitem(after, 0, pair_of(np.int64(-2), np.int64(-1)))
    return logp, used, after


@jit
def link_suffixes(memory, logs, where, k, before, found):
    """found (N_k,) int32, in place: the node of each k-gram's end, k > 2, from those of the (k - 1)-grams, `before`
    (N_(k-1),). Returns False at the first n-gram, bare prefixes aside, whose end is no node or a bare prefix.
    """
    begin, width, p = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P]
    above, size, total = where[k - 2, AT], where[k - 2, WIDTH], where[k - 2, N]
    up, wide, value_of = where[k - 3, AT], where[k - 3, WIDTH], where[k - 2, P]
    for i in range(total):
        first, last = memory[above + size * i + CHILD], memory[above + size * (i + 1) + CHILD]
        context = before[i]
        low = memory[up + wide * context + CHILD] if context >= 0 else 0
        high = memory[up + wide * (context + 1) + CHILD] if context >= 0 else 0
        for child in range(first, last):
            at = begin + width * child
            node = search(memory, above, size, np.int64(low), np.int64(high - low), memory[at])
            found[child] = node
            value = logs[at + p]
            if value == value:
                if node < 0:
                    return False
                value = logs[above + size * node + value_of]
                if value != value:
                    return False
    return True


def ends_in_itself(nodes, W):
    """Whether the end of every n-gram, bare prefixes aside, is one too, as KenLM wants it. Raises FormatError."""
    nodes.checked(W)
    if nodes.order < 3:
        return True
    one = np.full(W, -1, np.int32)
    one[nodes.levels[1]["word"][:-1]] = np.arange(nodes.size(1))
    before = one[nodes.levels[2]["word"][:-1]]
    large = pays("ngrams", sum(map(nodes.size, range(1, nodes.order + 1))))
    for k in range(3, nodes.order + 1):
        found = np.empty(nodes.size(k), np.int32)
        whole = link_suffixes if large else link_suffixes_plain
        if not whole(nodes.memory, nodes.logs, nodes.where, k, before, found):
            return False
        before = found
    return True


def link_suffixes_plain(memory, logs, where, k, before, found):
    """`link_suffixes` in numpy."""
    shorter, above, level = Nodes(memory, where).levels[k - 2 : k + 1]
    context = np.repeat(before, np.diff(above["child"]))
    found[:] = children(shorter, above, context, level["word"][:-1])
    value = np.where(found < 0, np.float32(np.nan), above["log10p"][found])
    return not (np.isnan(value) & ~np.isnan(level["log10p"][:-1])).any()


@jit
def score_lines(handle, ids, sos, eos):
    """KenLM's log10 p of each line of `ids`, in which -1 stands between lines: (S,) float64, each the sum of its words'
    in single precision, one after the other; and how many words the sums are of. sos, eos: the marks' ids, to stand
    before and after each line, or -1 for none.
    """
    memory, logs, where, unigram, unigram_logp, slots, spans = arrays_at(handle)
    lines = 1
    for w in ids:
        lines += w < 0
    N = len(ids) - (lines - 1) + lines * ((sos >= 0) + (eos >= 0))
    tokens, fresh = np.empty(N, np.int32), np.zeros(N + 1, np.bool_)
    node, logp, used = np.empty(N, np.int32), np.empty(N), np.empty(N, np.int8)
    ends, out = np.empty(lines, np.int64), np.empty(lines)
    at, line = 0, 0
    for i in range(len(ids) + 1):
        if i == 0:
            fresh[0] = True
            if sos >= 0:
                tokens[at] = sos
                at += 1
        if i == len(ids) or ids[i] < 0:
            if eos >= 0:
                tokens[at] = eos
                at += 1
            ends[line] = at
            line += 1
            fresh[at] = True
            if i < len(ids) and sos >= 0:
                tokens[at] = sos
                at += 1
        else:
            tokens[at] = ids[i]
            at += 1
    for t in range(N):
        node[t], logp[t] = unigram[tokens[t]], unigram_logp[tokens[t]]
    before = len(where) - 1
    for start in range(0, N, BLOCK):
        # a block's first words are those that ended the one before, as contexts
        first, end = max(start - before, 0), min(start + BLOCK, N)
        own, p = node[first:end].copy(), logp[first:end].copy()
        begun = fresh[first:end].copy()
        begun[0] = True
        some = tokens[first:end]
        extend(memory, logs, where, slots, spans, some, begun, len(unigram), True, own, p, used[first:end])
        logp[start:end] = p[start - first :]
    at = 0
    for line in range(lines):
        total = np.float32(0)
        for t in range(at + (sos >= 0), ends[line]):
            total += np.float32(logp[t])
        at = ends[line]
        out[line] = total
    return out, N - lines * (sos >= 0)
