"""The n-grams of a back-off model as they are stored and scored: a trie of records in one memory.

A node of order k is an n-gram w_1 .. w_k. Nodes of an order stand by their prefixes, those of one prefix together and
by their last words. A record more than there are nodes ends each order.

symbol  shape   meaning
memory  (M,)    all records, int32; logs: the same memory as float32
where   (n, 4)  of each order: AT, where its first record begins in the memory; N, the number of nodes; WIDTH, how many
                numbers a record has, the suffix being the last; P, at which of them log10 p stands; int64
NODE    -       the record of an order below the highest: word, the last one; child, the first of its children, which
                end where those of the next record begin; log10p and log10bow; suffix, the longest node that ends it:
                one of the order below, or, where that lacks it, -1 - j for far[j]
LAST    -       that of the highest order
far     (F, 2)  order and place of suffixes that are more than a word shorter; far[0] is the root, (0, 0); int32
slots   (S,)    where the children of contexts with more than FEW stand: an open-addressing table an order, int32
spans   (n + 1, 2)  where the table of an order begins in slots, and its size, a power of two or 0; int64

A log10 of -inf is that of 0; a log10p of nan is that of a bare prefix, which has no probability of its own. The words,
children, suffixes and slots of a file need not be true: what looks one up keeps it within its order.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.machine.jit import carray, inlined, jit, of_numba, pointer_to
from lmtk.machine.large import pays
from lmtk.machine.memory import zeros
from lmtk.machine.threads import all_at_once, count
from lmtk.text.kernels import look_up

NODE = np.dtype([("word", "<i4"), ("child", "<i4"), ("log10p", "<f4"), ("log10bow", "<f4"), ("suffix", "<i4")])
LAST = np.dtype([("word", "<i4"), ("log10p", "<f4"), ("suffix", "<i4")])
WIDE, NARROW = NODE.itemsize // 4, LAST.itemsize // 4
AT, N, WIDTH, P = range(4)  # columns of `where`
CHILD, BOW = 1, 3  # places in a NODE; the word is at 0 in both kinds
PLACE = {WIDE: 2, NARROW: 1}  # of log10 p
ROOT = np.zeros((1, 2), np.int32)  # the far suffixes of a model that has none
ZERO = -99.0  # what stands for the logarithm of 0 in an ARPA file
FEW = 8  # children among which a search is as fast as a table
MANY = 1 << 18  # n-grams of a model for which tables pay
SOME = 256  # n-grams looked up together
LANES = 128  # parts of a text that are scored side by side
PART = 64  # tokens of such a part, at least
NULL, UNKNOWN = 0, 1  # states after nothing, and after a word without a 1-gram
u64 = np.uint64
prefetch = of_numba("lmtk.machine.unaligned", "prefetch")


def frozen(array):
    """The array as one that cannot be written."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


NO_TABLES = frozen(np.empty(0, np.int32)), frozen(np.zeros((100, 2), np.int64))


@dataclass(frozen=True)
class Nodes:
    """The arrays above. They cannot be written, as those of a file are: kernels are compiled for one kind."""

    memory: np.ndarray
    where: np.ndarray
    far: np.ndarray
    slots: np.ndarray
    spans: np.ndarray
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
        root = np.zeros(2, NODE)
        root["child"][1] = self.size(1)
        found = [root]
        for at, size, width, _ in self.where.tolist():
            found.append(self.memory[at : at + (size + 1) * width].view(NODE if width == WIDE else LAST))
        return found

    def lower(self, order):
        """The first orders of it."""
        return replace(self, where=frozen(self.where[:order]))

    def checked(self, W):
        """The levels, once every pointer is known to be true and every word to be below W, which is looked at in what
        comes from a file. Raises FormatError.
        """
        for k, (above, level) in enumerate(pairwise(self.levels if self.path else ()), 1):
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


def room(sizes):
    """Memory and `where` for so many n-grams of each order, all 0, and the records of orders 1 and on: what `finished`
    makes Nodes of.
    """
    widths = [WIDE] * (len(sizes) - 1) + [NARROW]
    ends = np.cumsum([0, *((size + 1) * width for size, width in zip(sizes, widths))]).tolist()
    memory = zeros(ends[-1], np.int32)
    where = np.array([[at, size, width, PLACE[width]] for at, size, width in zip(ends, sizes, widths)], np.int64)
    return memory, where, Nodes(memory, where, ROOT, memory, where).levels[1:]


def finished(memory, where, W, path="", linked=False):
    """The Nodes of records in which only the suffixes are missing, unless they are `linked`. Raises FormatError where a
    1-gram has no word.
    """
    order, sizes = len(where), where[:, N].tolist()
    nodes = without_tables(memory, where, ROOT, path)
    one = unigrams(nodes, W)
    if not pays("ngrams", sum(sizes)):
        return replace(nodes, far=frozen(link_suffixes_plain(Nodes(memory, where, ROOT, *NO_TABLES).levels, one)))
    far, (slots, spans) = ROOT, tables(nodes) if sum(sizes) >= MANY else (nodes.slots, nodes.spans)
    for k in range(2, order + 1) if not linked else ():
        some = max(sizes[k - 2] // (8 * count()), 1 << 12)
        parts = [(begin, min(begin + some, sizes[k - 2])) for begin in range(0, sizes[k - 2], some)]
        link = lambda part, k=k: link_suffixes(memory, where, slots, spans, k, *part, one)
        missing = sum(all_at_once(link, parts))
        if missing:
            more = np.empty((missing, 2), np.int32)
            link_far(memory, where, k, one, far, more)
            far = np.concatenate((far, more))
    return replace(nodes, far=frozen(far), slots=slots, spans=spans)


def without_tables(memory, where, far, path=""):
    """The Nodes of whole records."""
    nothing = frozen(np.empty(0, np.int32)), frozen(np.zeros((len(where) + 1, 2), np.int64))
    return Nodes(frozen(memory), frozen(where), frozen(far), *nothing, path)


def with_tables(nodes):
    """The same Nodes with tables, if they are so many that these pay."""
    if len(nodes.slots) or sum(nodes.where[:, N]) < MANY:
        return nodes
    slots, spans = tables(nodes)
    return replace(nodes, slots=slots, spans=spans)


def unigrams(nodes, W):
    """(W,) int32: the 1-gram of each word, -1 for none. Raises FormatError where a 1-gram has no word."""
    words = nodes.levels[1]["word"][:-1]
    if words.min(initial=0) < 0 or words.max(initial=0) >= W:
        raise FormatError(nodes.path, "damaged: 1-grams of words that it does not have")
    found = np.full(W, -1, np.int32)
    found[words] = np.arange(len(words))
    return found


@jit
def link_suffixes(memory, where, slots, spans, k, first, last, one):
    """The suffixes of the k-grams, k > 1, that extend the contexts from `first` up to `last`, in place, once those of
    shorter n-grams are known; -1 where the order below has none: returns how many. one (W,): the 1-gram of each word.
    Bound by two or three random reads an n-gram, those of SOME made together.
    """
    begin, width, missing = where[k - 1, AT], where[k - 1, WIDTH], 0
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    up, wide = where[max(k - 3, 0), AT], where[max(k - 3, 0), WIDTH]
    ats, lows, highs, many = np.empty(SOME, np.int64), np.empty(SOME, np.int64), np.empty(SOME, np.int64), 0
    words, found = np.empty(SOME, np.int64), np.empty(SOME, np.int64)
    room = ats, words, lows, highs, found
    for i in range(first, last):
        low = high = np.int64(0)
        if k > 2:
            if i + 12 < last:
                prefetch(memory, up + wide * max(number(memory, above + size * (i + 13) - 1), 0))
            context = number(memory, above + size * (i + 1) - 1)
            if context >= 0:
                low = number(memory, up + wide * context + CHILD)
                high = number(memory, up + wide * (context + 1) + CHILD)
        for child in range(number(memory, above + size * i + CHILD), number(memory, above + size * (i + 1) + CHILD)):
            at = begin + width * child
            if k == 2:
                suffix = one[u64(memory[u64(at)])]
                memory[u64(at + width - 1)] = suffix
                missing += suffix < 0
                continue
            ats[many], lows[many], highs[many] = at, low, high
            many += 1
            if many == SOME:
                missing += link_some(memory, slots, spans[k - 1], above, size, width, *room, many)
                many = 0
    return missing + link_some(memory, slots, spans[k - 1], above, size, width, *room, many)


@inlined
def link_some(memory, slots, span, above, size, width, ats, words, lows, highs, found, many):
    """The suffixes of the first `many` records at `ats`, in place, as `find_some` has them; -1 for none: returns how
    many.
    """
    missing = 0
    for j in range(many):
        words[j] = number(memory, ats[j])
    find_some(memory, slots, span, above, size, words, lows, highs, found, many)
    for j in range(many):
        memory[u64(ats[j] + width - 1)] = found[j]
        missing += found[j] < 0
    return missing


@inlined
def find_some(memory, slots, span, begin, width, words, lows, highs, found, many):
    """found (many,) <- which of the nodes from lows up to highs, of the order at `begin`, have these words; -1 where
    none has. span: that of their order. Their random reads overlap.
    """
    table, places = span[0], span[1]
    for j in range(many):
        found[j] = -1
        if places and highs[j] - lows[j] > FEW:
            found[j] = table + slot_of(lows[j], words[j], places)
            prefetch(slots, found[j])
        else:
            prefetch(memory, begin + width * lows[j])
            prefetch(memory, begin + width * highs[j])
    for j in range(many):
        if found[j] >= 0:
            prefetch(memory, begin + width * number(slots, found[j]))
    for j in range(many):
        if found[j] >= 0:
            found[j] = probe(memory, slots, table, places, found[j], begin, width, lows[j], highs[j], words[j])
        else:
            found[j] = search(memory, begin, width, lows[j], highs[j], words[j])


@jit
def link_far(memory, where, k, one, far, more):
    """The suffixes that `link_suffixes` has not found, in place, and into more (., 2): what comes behind `far`."""
    begin, width, j = where[k - 1, AT], where[k - 1, WIDTH], 0
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    for i in range(where[k - 2, N]):
        for child in range(memory[above + size * i + CHILD], memory[above + size * (i + 1) + CHILD]):
            at = begin + width * child
            if memory[at + width - 1] >= 0:
                continue
            order, context = suffix_of(memory, where, far, k - 1, i)
            found = np.int64(-1)
            while order and found < 0:
                low, high = children_of(memory, where, order, context)
                found = search(memory, where[order, AT], where[order, WIDTH], low, high, memory[at])
                if found < 0:
                    order, context = suffix_of(memory, where, far, order, context)
            if found < 0:
                found = np.int64(one[memory[at]])
            memory[at + width - 1] = -1 - len(far) - j
            more[j, 0], more[j, 1] = (order + 1, found) if found >= 0 else (0, 0)
            j += 1


@inlined
def number(memory, at):
    """memory[at]; numba looks for places below 0 where they have a sign."""
    return np.int64(memory[u64(at)])


@inlined
def children_of(memory, where, k, node):
    """From where up to where the children of a node of order k stand."""
    at, total = where[u64(k - 1), AT] + WIDE * node, where[u64(k), N]
    low = min(max(number(memory, at + CHILD), 0), total)
    return low, max(min(number(memory, at + WIDE + CHILD), total), low)


@inlined
def suffix_of(memory, where, far, k, node):
    """(order, place) of the longest node that ends a node of order k; order 0 is the root."""
    if k < 2:
        return np.int64(0), np.int64(0)
    found = number(memory, where[u64(k - 1), AT] + where[u64(k - 1), WIDTH] * (node + 1) - 1)
    order = k - 1
    if found < 0:
        j = -1 - found
        if j >= len(far):
            return np.int64(0), np.int64(0)
        order, found = min(order, max(np.int64(far[u64(j), 0]), 0)), max(np.int64(far[u64(j), 1]), 0)
    return (order, found) if order and found < where[u64(order - 1), N] else (np.int64(0), np.int64(0))


def mark_ends(weighted, nodes):
    """As in SRILM, the weight of what ends a context stands in the file too: weighted, (N,) for each order below the
    highest, in place.
    """
    for k in range(len(weighted), 1, -1):
        suffix = nodes.levels[k]["suffix"][:-1][weighted[k - 1] > 0]
        weighted[k - 2][suffix[suffix >= 0]] = True
        for order, place in nodes.far[-1 - np.unique(suffix[suffix < 0])]:
            weighted[order - 1][place : place + (order > 0)] = True


def link_suffixes_plain(levels, one):
    """The suffixes of the records of all orders in numpy, in place; returns `far`."""
    far, ends = ROOT, [np.arange(len(levels[1]) - 1)]
    for k, (above, level) in enumerate(pairwise(levels[1:]), 2):
        parent, word = np.repeat(np.arange(len(above) - 1), np.diff(above["child"])), level["word"][:-1]
        # of the last 1, 2 .. words of each n-gram, the node
        below = [children(levels[j], levels[j + 1], ends[j - 1][parent], word) for j in range(1, k - 1)]
        ends = [one[word], *below, np.arange(len(word))]
        suffix = ends[k - 2].copy()
        lacks = np.flatnonzero(suffix < 0)
        more = np.zeros((len(lacks), 2), np.int32)
        for j in range(1, k - 1):
            found = ends[j - 1][lacks]
            more[found >= 0, 0], more[found >= 0, 1] = j, found[found >= 0]
        suffix[lacks] = -1 - len(far) - np.arange(len(lacks))
        level["suffix"][:-1], far = suffix, np.concatenate((far, more))
    return far


def of_arrays(arrays, order, W, path):
    """Nodes of the arrays of a file: nodes1 and so on, far, slots and spans, in one piece of memory if mapped.

    A file of before the suffixes has nodes1 and so on only, with a column less. Raises FormatError.
    """
    levels = [arrays[f"nodes{k}"] for k in range(1, order + 1)]
    sizes = [len(a) - 1 for a in levels]
    if "far" not in arrays:
        memory, where, records = room(sizes)
        for a, level in zip(levels, records):
            columns(level)[:, :-1] = a
        Nodes(memory, where, ROOT, *NO_TABLES, path).checked(W)
        return finished(memory, where, W)
    memory = whole = together(levels)
    if whole is None:
        memory = np.concatenate([a.reshape(-1) for a in levels])
    begin, where, at = address(memory), [], 0
    for a in levels:
        at = (address(a) - begin) // 4 if whole is not None else at
        where.append([at, len(a) - 1, a.shape[1], PLACE[a.shape[1]]])
        at += a.size
    more = (frozen(arrays[name]) for name in ("far", "slots", "spans"))
    for begin, size in arrays["spans"].tolist():
        if size & (size - 1) or not 0 <= size <= len(arrays["slots"]) - begin <= len(arrays["slots"]):
            raise FormatError(path, "damaged: its tables do not fit its slots")
    return Nodes(frozen(memory), frozen(np.array(where, np.int64)), *more, path)


def arrays_of(nodes):
    """The arrays of a file."""
    nodes = with_tables(nodes)
    levels = {f"nodes{k}": columns(level) for k, level in enumerate(nodes.levels[1:], 1)}
    return levels | {"far": nodes.far, "slots": nodes.slots, "spans": nodes.spans}


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
    memory, where, records = room([len(level.keys) for level in levels])
    above = np.zeros(2, NODE)
    for level, found in zip(levels, records):
        link(level.keys, W, above["child"], found["word"]) if large else link_plain(level.keys, W, above, found)
        for name in set(found.dtype.names) & {"log10p", "log10bow"}:
            log10 = getattr(level, name)
            found[name][:-1] = np.where(log10 == ZERO, np.float32(-np.inf), log10)
        above = found
    return finished(memory, where, W)


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


def walk_plain(nodes, unigram, first, V, single, ids, fresh):
    """`walk` in numpy, without tables: (log10p, used)."""
    node, logp, used = unigram[ids], first[ids], np.ones(len(ids), np.int8)
    weights = np.zeros(len(ids), np.float32)
    for k, (above, level) in enumerate(pairwise(nodes.levels[1:]), 2):
        context = np.append(np.int32(-1), node[:-1])
        context[fresh] = -1
        node = children(above, level, context, ids)
        known = context >= 0
        weight = np.where(known, above["log10bow"][context], np.float32(0))
        if single:
            goes_on = known & (above["child"][context + 1] > above["child"][context])
            weight[weight == -np.inf] = ZERO
            weight[(weight == 0) & ~goes_on] = -0.0
            weight[~known] = 0.0 if k == 2 else -0.0
            weight[fresh] = -0.0
            logp = logp + weight
        else:
            weights += weight
        value = np.where(node >= 0, level["log10p"][node], np.float32(np.nan))
        value[ids >= V] = np.nan
        used[~np.isnan(value)] = k
        given = value < np.inf
        logp[given] = as_single(value[given]) if single else value[given]
        weights[given] = 0
    return logp if single else logp + weights, used


def as_single(log10p):
    """log10 p as KenLM keeps it: -99 for that of 0, and -0 for 0."""
    return np.where(log10p == -np.inf, np.float32(ZERO), np.where(log10p == 0, np.float32(-0.0), log10p))


def tables(nodes):
    """(slots, spans) of nodes that have none."""
    orders = range(2, nodes.order + 1)
    many = all_at_once(lambda k: count_many(nodes.memory, nodes.where, k), orders)
    sizes = [0, 0, *(1 << (2 * some - 1).bit_length() if some else 0 for some in many)]
    spans = np.array([[end - size, size] for end, size in zip(np.cumsum(sizes), sizes)], np.int64)
    slots = zeros(sum(sizes), np.int32)
    slots.fill(-1)
    all_at_once(lambda k: fill(nodes.memory, nodes.where, k, slots[spans[k, 0] :][: spans[k, 1]]), orders)
    return frozen(slots), frozen(spans)


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


@inlined
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


@inlined
def search(memory, begin, width, low, high, w):
    """Which of the nodes from low up to high, of the order at `begin`, has the word w; -1 where none has. Among FEW
    there are three steps, whatever is found: a processor cannot foretell how many it would take.
    """
    if low >= high:
        return np.int64(-1)
    while high - low > FEW:
        middle = (low + high) >> 1
        if number(memory, begin + width * middle) <= w:
            low = middle
        else:
            high = middle
    for step in (4, 2, 1):
        i = min(low + step, high - 1)
        low = i if number(memory, begin + width * i) <= w else low
    return low if number(memory, begin + width * low) == w else np.int64(-1)


@inlined
def probe(memory, slots, table, places, slot, begin, width, low, high, w):
    """`search` by a table of `places` at `table`, from the place `slot` on."""
    for _ in range(places):
        found = number(slots, slot)
        if found < 0 or (low <= found < high and number(memory, begin + width * found) == w):
            return found
        slot = table + ((slot - table + 1) & (places - 1))
    return np.int64(-1)


@inlined
def weight_after(bow, goes_on, single):
    """A context's weight, log10, as it is added: in KenLM one of 0 has a sign."""
    if single and bow == 0:
        return np.float32(0.0) if goes_on else np.float32(-0.0)
    return np.float32(ZERO) if single and bow == -np.inf else bow


@inlined
def given(value, single):
    """The log10 p of an n-gram as sums begin with it."""
    if single:
        return np.float32(ZERO) if value == -np.inf else np.float32(-0.0) if value == 0 else value
    return value


@inlined
def backed_off(p, weights, begin, many, single):
    """log10 p with the weights[begin : begin + many] of contexts, of which those of the longest stand first. All is in
    single precision, and those of short contexts are added first. SRILM adds up the weights, then p; KenLM begins with
    p.
    """
    total = p if single else np.float32(0)
    for j in range(begin + many - 1, begin - 1, -1):
        total += weights[u64(j)]
    return total if single else p + total


@inlined
def fetch(memory, where, k, node):
    """The record of a node, and where its children end, come into the cache."""
    if k:
        at = where[u64(k - 1), AT] + WIDE * node
        prefetch(memory, at)
        prefetch(memory, at + WIDE + CHILD)


@jit
def walk(memory, logs, where, far, slots, spans, unigram, first, V, single, ids, fresh, log10p, used):
    """The back-off recursion (Katz 1987) for the tokens ids (N,):

        p(w | c) = p of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word).

    log10p (N,) float32 and used (N,) int8, the length of the n-gram that gave it, are written in place. unigram (W,)
    int32: the 1-gram of each word, -1 for none; first (W,) float32, its log10 p. fresh (N,): nothing before a token
    counts. A word from V on has no probability.

    The search goes from the longest context to the shorter ones, by the suffixes. The first node found is that of the
    next context, or its suffix, so that a token whose n-gram is there takes one search. A log10p of +inf counts for
    `used` only: it marks n-grams that KenLM puts in. `single`: KenLM's rounding and zeros, as `weight_after` and
    `backed_off` have them.

    Each round makes a search in each of LANES parts of the text, which begin with so many tokens before them as a
    context has, so that their random reads, two or three a search, overlap. It goes in passes, from lists of parts to
    lists of parts: a processor cannot foretell a branch that depends on what is found. Bound by these reads and by
    instructions, in like measure. No pointer leads out of its order.
    """
    n, size = len(where), len(ids)
    lanes = max(min(LANES, size // (PART + n)), 1) if size else 0
    t, begin, stop, word = (
        np.empty(lanes, np.int64),
        np.empty(lanes, np.int64),
        np.empty(lanes, np.int64),
        ids[:lanes].astype(np.int64),
    )
    # the context to look in, of order 0 where only the 1-gram is left; that of the next token, -1: not known yet
    order, node = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    next_order, next_node = np.full(lanes, -1), np.zeros(lanes, np.int64)
    low, high = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    slot, found = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    p, length = np.empty(lanes, np.float32), np.ones(lanes, np.int64)
    weights, many = np.empty(lanes * (n + 1), np.float32), np.zeros(lanes, np.int64)
    live, few, table = np.empty(lanes + 1, u64), np.empty(lanes + 1, u64), np.empty(lanes + 1, u64)
    hit, root, done = np.empty(lanes + 1, u64), np.empty(lanes + 1, u64), np.empty(lanes + 1, u64)
    for a in range(lanes):
        begin[a], stop[a] = size * a // lanes, size * (a + 1) // lanes
        t[a] = max(begin[a] - n + 1, 0)
        word[a], root[a] = ids[t[a]], a
    lives, roots = 0, lanes
    while lives or roots:
        fews = tables = hits = misses = dones = 0
        for j in range(lives):
            a = live[j]
            low[a], high[a] = children_of(memory, where, order[a], node[a])
            found[a] = -1
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
            prefetch(memory, where[k, AT] + where[k, WIDTH] * (high[a] - 1))
        for j in range(tables):
            a = table[j]
            k = u64(order[a])
            prefetch(memory, where[k, AT] + where[k, WIDTH] * number(slots, slot[a]))
        for j in range(fews):
            a = few[j]
            k = u64(order[a])
            found[a] = search(memory, where[k, AT], where[k, WIDTH], low[a], high[a], word[a])
        for j in range(tables):
            a = table[j]
            k = u64(order[a])
            at, places = spans[k + u64(1), 0], spans[k + u64(1), 1]
            given_by = where[k, AT], where[k, WIDTH], low[a], high[a], word[a]
            found[a] = probe(memory, slots, at, places, slot[a], *given_by)
        for j in range(lives):
            a = live[j]
            hit[hits] = live[misses] = a
            hits += found[a] >= 0
            misses += found[a] < 0
        for j in range(hits):
            a = hit[j]
            k = order[a]
            if next_order[a] < 0:
                next_order[a], next_node[a] = k + 1, found[a]
                if k + 1 == n:
                    next_order[a], next_node[a] = suffix_of(memory, where, far, n, found[a])
                    fetch(memory, where, next_order[a], next_node[a])
            value = logs[u64(where[u64(k), AT] + where[u64(k), WIDTH] * found[a] + where[u64(k), P])]
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
            weights[u64(np.int64(a) * (n + 1) + many[a])] = weight_after(bow, high[a] > low[a], single)
            many[a] += 1
            order[a], node[a] = suffix_of(memory, where, far, order[a], node[a])
            fetch(memory, where, order[a], node[a])
            live[lives] = root[roots] = a
            lives += order[a] > 0
            roots += order[a] == 0
        for j in range(roots):
            a = root[j]
            w = u64(word[a])
            p[a], done[dones] = first[w], a
            dones += 1
            if next_order[a] < 0:
                next_order[a], next_node[a] = (1, np.int64(unigram[w])) if unigram[w] >= 0 else (0, UNKNOWN)
                fetch(memory, where, next_order[a], next_node[a])
        roots = 0
        for j in range(dones):
            a = done[j]
            i = t[a]
            if i >= begin[a]:
                log10p[u64(i)] = backed_off(given(p[a], single), weights, np.int64(a) * (n + 1), many[a], single)
                used[u64(i)] = length[a]
            t[a] = i = i + 1
            if i == stop[a]:
                continue
            word[a], order[a], node[a] = ids[u64(i)], next_order[a], next_node[a]
            if fresh[u64(i)] or n == 1:
                order[a] = node[a] = 0
            next_order[a], length[a], many[a] = -1, 1, 0
            if order[a] == 0 and node[a] == UNKNOWN:
                # KenLM's missing <unk> has the weight +0
                weights[u64(np.int64(a) * (n + 1))], many[a] = 0, 1
            live[lives] = root[roots] = a
            lives += order[a] > 0
            roots += order[a] == 0


def handle(nodes, unigram, first):
    """int64, where the arrays of a Walk are and how long they are: what `step` and `score_lines` take in place of them,
    since a call costs 0.1 us an array. They must outlive it. Behind them is room for the weights of `step`.
    """
    arrays = nodes.memory, nodes.where, unigram, first, nodes.far, nodes.slots, nodes.spans
    sizes = nodes.memory.size, nodes.order, len(unigram), len(nodes.far), nodes.slots.size, len(nodes.spans)
    return np.array([*map(address, arrays), *sizes, *[0] * nodes.order], np.int64)


@jit
def arrays_at(handle):
    """memory, logs, where, far, slots, spans, unigram, first of a `handle`, given as its address."""
    h = carray(pointer_to(handle, np.int64), 13)
    memory, logs = carray(pointer_to(h[0], np.int32), h[7]), carray(pointer_to(h[0], np.float32), h[7])
    where, far = carray(pointer_to(h[1], np.int64), (h[8], 4)), carray(pointer_to(h[4], np.int32), (h[10], 2))
    slots, spans = carray(pointer_to(h[5], np.int32), h[11]), carray(pointer_to(h[6], np.int64), (h[12], 2))
    unigram, first = carray(pointer_to(h[2], np.int32), h[9]), carray(pointer_to(h[3], np.float32), h[9])
    return memory, logs, where, far, slots, spans, unigram, first


@jit(nogil=False)
def step(handle, w, state):
    """`walk` of one word w as KenLM does: (log10 p, length used, state after w). Python's lock keeps its room for it.

    state: the order and the place of the longest context, order << 32 | place; NULL or UNKNOWN where there is none.
    Contexts are left out of which nothing can be made: no n-gram goes on from them, and their weights are 0.
    """
    memory, logs, where, far, slots, spans, unigram, first = arrays_at(handle)
    n, k, node = len(where), state >> 32, state & 0xFFFFFFFF
    weights, many, p, used = carray(pointer_to(handle + 8 * 13, np.float32), 2 * n), 0, first[w], 1
    after_order, after = np.int64(-1), np.int64(0)
    if k == 0 and node == UNKNOWN:
        weights[0], many = 0, 1
    low, high, slot = seek(memory, where, slots, spans, k, node, w)
    while k:
        # the next search begins before this one is done, so that their random reads overlap
        next_k, next_node = suffix_of(memory, where, far, k, node)
        next_low, next_high, next_slot = seek(memory, where, slots, spans, next_k, next_node, w)
        begin, width, found = where[k, AT], where[k, WIDTH], np.int64(-1)
        if slot >= 0:
            found = probe(memory, slots, spans[k + 1, 0], spans[k + 1, 1], slot, begin, width, low, high, w)
        else:
            found = search(memory, begin, width, low, high, w)
        if found >= 0:
            if after_order < 0:
                after_order, after = k + 1, found
            value = logs[begin + width * found + where[k, P]]
            if value == value and used == 1:
                used = k + 1
            if value < np.inf:
                p = value
                break
        weights[many] = weight_after(logs[where[k - 1, AT] + WIDE * node + BOW], high > low, True)
        many += 1
        k, node, low, high, slot = next_k, next_node, next_low, next_high, next_slot
    if after_order < 0:
        after_order, after = (
            (np.int64(1), np.int64(unigram[w])) if unigram[w] >= 0 else (np.int64(0), np.int64(UNKNOWN))
        )
    while after_order:
        at, size = where[after_order - 1, AT], where[after_order - 1, WIDTH]
        at += size * after
        if after_order < n and (memory[at + size + CHILD] > memory[at + CHILD] or logs[at + BOW] != 0):
            break
        after_order, after = suffix_of(memory, where, far, after_order, after)
    return np.float64(backed_off(given(p, True), weights, 0, many, True)), used, after_order << 32 | after


@inlined
def seek(memory, where, slots, spans, k, node, w):
    """Where the search for w among the children of a node of order k begins: (low, high, place in slots or -1)."""
    if k == 0:
        return np.int64(0), np.int64(0), np.int64(-1)
    low, high = children_of(memory, where, k, node)
    if spans[k + 1, 1] and high - low > FEW:
        slot = spans[k + 1, 0] + slot_of(low, w, spans[k + 1, 1])
        prefetch(slots, slot)
        return low, high, slot
    prefetch(memory, where[k, AT] + where[k, WIDTH] * low)
    return low, high, np.int64(-1)


def table_handle(slots, letters, ends, value):
    """A `handle` of the arrays of a `Table`."""
    arrays = slots, letters, ends, value
    return np.array([*map(address, arrays), *map(len, arrays)], np.int64)


@jit(nogil=False)
def score_text(handle, table, unk, text, sos, eos):
    """KenLM's log10 p of a sentence, in single precision, and the number of its words, </s> included: of a text that
    ends with a blank, by a `table_handle`. sos, eos: the ids of the marks around it, or -1 for none.

    All n-grams of the sentence are found first, an order at a time, so that their random reads overlap: the k-gram that
    ends at token i is that of k - 1 words at i - 1 and a word more. A text has tokens enough for `walk`, which makes
    fewer searches.
    """
    memory, logs, where, _, slots, spans, unigram, first = arrays_at(handle)
    t = carray(pointer_to(table, np.int64), 8)
    known, letters = carray(pointer_to(t[0], np.uint64), (t[4], 2)), carray(pointer_to(t[1], np.uint8), t[5])
    ends, value = carray(pointer_to(t[2], np.int64), t[6]), carray(pointer_to(t[3], np.int32), t[7])
    ids, n, begin = np.empty(len(text) + 2, np.int32), len(where), np.int64(sos >= 0)
    ids[0] = sos
    N = begin + look_up(text, 0, known, letters, ends, value, 0, -1, unk, ids[begin:])[1]
    if eos >= 0:
        ids[N] = eos
        N += 1
    node = np.full((n, N), -1)  # node[k - 1, i]: the k-gram that ends at token i, -1 for none
    for i in range(N):
        node[0, i] = unigram[u64(ids[i])]
        fetch(memory, where, 1, max(node[0, i], 0))
    words, lows, highs = np.empty(N, np.int64), np.empty(N, np.int64), np.empty(N, np.int64)
    at, found = np.empty(N, np.int64), np.empty(N, np.int64)
    for k in range(1, n):
        many = 0
        for i in range(1, N):
            if node[k - 1, i - 1] >= 0:
                at[many], words[many] = i, ids[i]
                lows[many], highs[many] = children_of(memory, where, k, node[k - 1, i - 1])
                many += highs[many] > lows[many]
        find_some(memory, slots, spans[k + 1], where[k, AT], where[k, WIDTH], words, lows, highs, found, many)
        for j in range(many):
            node[k, at[j]] = found[j]
            if found[j] >= 0 and k + 1 < n:
                fetch(memory, where, k + 1, found[j])
    total, weights = np.float32(0), np.empty(n + 1, np.float32)
    for i in range(begin, N):
        p, many = first[u64(ids[i])], 0
        if i and (node[:, i - 1] < 0).all():
            weights[0], many = 0, 1  # KenLM's missing <unk> has the weight +0
        for k in range(min(n - 1, i), 0, -1):
            context = node[k - 1, i - 1]
            if context < 0:
                continue
            if node[k, i] >= 0:
                value = logs[u64(where[k, AT] + where[k, WIDTH] * node[k, i] + where[k, P])]
                if value < np.inf:
                    p = value
                    break
            low, high = children_of(memory, where, k, context)
            weights[many] = weight_after(logs[u64(where[k - 1, AT] + WIDE * context + BOW)], high > low, True)
            many += 1
        total += np.float32(backed_off(given(p, True), weights, 0, many, True))
    return np.float64(total), N - begin


@jit
def score_lines(handle, ids, sos, eos, sums):
    """KenLM's log10 p of each line of `ids`, in which -1 stands between lines: sums (S,) float64 <- the sum of its
    words' in single precision, one after the other; returns how many words the sums are of. sos, eos: the marks' ids,
    to stand before and after each line, or -1 for none.
    """
    lines = 1
    for w in ids:
        lines += w < 0
    N = len(ids) - (lines - 1) + lines * ((sos >= 0) + (eos >= 0))
    tokens, fresh, ends = np.empty(N, np.int32), np.zeros(N + 1, np.bool_), np.empty(lines, np.int64)
    at, line = 0, 0
    for i in range(len(ids) + 1):
        if i == 0 or ids[i - 1] < 0:
            fresh[at] = True
            if sos >= 0:
                tokens[at] = sos
                at += 1
        if i < len(ids) and ids[i] >= 0:
            tokens[at] = ids[i]
            at += 1
            continue
        if eos >= 0:
            tokens[at] = eos
            at += 1
        ends[line] = at
        line += 1
    log10p, used = np.empty(N, np.float32), np.empty(N, np.int8)
    memory, logs, where, far, slots, spans, unigram, first = arrays_at(handle)
    walk(memory, logs, where, far, slots, spans, unigram, first, len(unigram), True, tokens, fresh, log10p, used)
    at = 0
    for line in range(lines):
        total = np.float32(0)
        for t in range(at + (sos >= 0), ends[line]):
            total += log10p[t]
        at = ends[line]
        sums[line] = total
    return N - lines * (sos >= 0)


@jit
def sum_lines(handle, V, unk, sos, eos, add_sos, add_eos, ids, sums):
    """log10 p of each line of `ids`, behind each of which stands -1: sums (S,) <- the sum of its words' in double
    precision, one after the other, without those of p 0; blank lines have none. Marks that a line has are not doubled.

    Returns how many sums there are; sentences, words, words of p 0 that are `unk`, others of p 0; `unk` with a p; blank
    lines. Those of -ppl: what a Tally holds.
    """
    N = len(ids)
    tokens, fresh, ends = np.empty(2 * N + 2, np.int32), np.zeros(2 * N + 2, np.bool_), np.empty(N + 1, np.int64)
    at, lines, blank, start = 0, 0, 0, 0
    for i in range(N):
        if ids[i] >= 0:
            continue
        if i == start:
            blank += 1
        else:
            fresh[at] = True
            if add_sos and ids[start] != sos:
                tokens[at] = sos
                at += 1
            for j in range(start, i):
                tokens[at] = ids[j]
                at += 1
            if add_eos and ids[i - 1] != eos:
                tokens[at] = eos
                at += 1
            ends[lines] = at
            lines += 1
        start = i + 1
    log10p, used = np.empty(at, np.float32), np.empty(at, np.int8)
    memory, logs, where, far, slots, spans, unigram, first = arrays_at(handle)
    walk(memory, logs, where, far, slots, spans, unigram, first, V, False, tokens[:at], fresh[:at], log10p, used)
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


def ends_in_itself(nodes):
    """Whether the end of every n-gram, bare prefixes aside, is one too, as KenLM wants it."""
    for k in range(3, nodes.order + 1):
        shorter, level = nodes.levels[k - 1][:-1], nodes.levels[k][:-1]
        suffix = level["suffix"][~np.isnan(level["log10p"])]
        if (suffix < 0).any() or (suffix >= len(shorter)).any() or np.isnan(shorter["log10p"][suffix]).any():
            return False
    return True
