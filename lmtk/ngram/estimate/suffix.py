"""A text -> its n-grams of all orders in suffix order, by one sort of its positions.

`suffix_order` makes Suffixes, whose methods look up n-grams at places. The kernels below gather those of a segment.

symbol  shape        meaning
N n W   -            positions, the highest order, words
x       (N + n - 1,) the text, int32: ids of words, and 0, the border, after each sentence. As the last word of an
                     n-gram the border is </s>, elsewhere <s>. The text ends in a border, and counts as a circle: its
                     first n - 1 words follow the last
i, j    -            places of positions sorted by the last n - 1 words up to there, and by the last n words; the last
                     word is compared first. So equal n-grams, of any length, are next to each other, within the n-gram
                     that they end in. N-grams of orders below n begin at the same i and j
order   (N,)         for each place i, where the n - 1 words begin in x; int32
come    (N,)         for each place j, the place i of the position before: the place of the context. It rises among the
                     places of one last word. The n words begin in x at order[come[j]]
begins  (N,)         f and m: among the n-grams that end at j, those of the orders f .. m are new: no place before j has
                     them. Each takes half the bits of a uint8 or, if the orders need more, of a uint16
rank    (n, B, 2)    uint64, for each block of 64 places: a bit for each place that begins an n-gram of the order, and
                     how many began before the block
node    -            an n-gram's number among those of its order, by where they begin; at order 1 the word
oldest  -            the oldest word of each n-gram, int32, a list with order k > 1 at k; <s> is the word W
blocks  (3, M_2)     for each bigram v w: its first place j, the place after its last, and w; int32. They are sorted by
                     v, where the border is W, then by w
by      (W + 2,)     where the blocks of each v begin
arrays  -            begins, come, rank and blocks, as a tuple for kernels
segment -            a range of words v; the border is a segment by itself. The n-grams whose context ends in a word of
                     a segment depend on no other segment

As the last word, </s>, the border comes first. As an earlier word, <s>, it comes last: <s> is the last id of a model.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.files.bounded import give_back
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import Scratch, map_in_order, thread_count
from lmtk.text.corpus import Marks
from lmtk.text.sorting import counts_of, heads_of, ranges_of, sort_ranges

BATCH = 512  # positions whose random reads are made together, so that they overlap
RANGE = 1 << 16  # positions compared together
LOW = 14  # the highest order for which f and m fit 4 bits each
SHARES = 8  # of the words, for each thread that sorts
PIECE = 1 << 16  # positions of a segment, about, up to order LOW: so its arrays stay in a cache
u64 = np.uint64
array_at, ones, prefetch, trailing_zeros = map(intrinsic, ("array_at", "ones", "prefetch", "trailing_zeros"))


@dataclass(frozen=True)
class Suffixes:
    """The arrays of the table above, and: start and ended (W + 1,), the places i and j where those of each word begin;
    with a text, marks: whether <s> and </s> count.

    With counts (`leaves`), places do not tell how often an n-gram was seen. Then there are two lists with order k at k:
    raw (N_k,), how often each n-gram was seen; continuations (N_k,), of how many counted n-grams it is the suffix.
    """

    begins: np.ndarray
    oldest: list
    start: np.ndarray = None
    ended: np.ndarray = None
    come: np.ndarray = None
    blocks: np.ndarray = None
    by: np.ndarray = None
    raw: list | None = None
    continuations: list | None = None
    marks: Marks | None = None

    @property
    def order(self):
        return len(self.oldest) - 1

    @cached_property
    def rank(self):
        size = len(self.begins) // 64 + 2
        rank, padded = np.empty((self.order, size, 2), u64), np.zeros(64 * size, self.begins.dtype)
        padded[: len(self.begins)] = self.begins
        for k in range(1, self.order + 1):
            find_ranks(padded.view(u64).reshape(size, -1), k, rank[k - 1])
        return rank

    @cached_property
    def segments(self):
        """[(first word, end of the words, first place i, end of the places)] of the segments, the largest first."""
        W, start = len(self.start) - 1, self.start
        edges = np.unique(start[cut_words(start, LOW * PIECE // max(self.order, LOW))])
        # a segment begins and ends with a word that has places; words without places may be in between
        first, last = np.searchsorted(start, edges[:-1], "right") - 1, np.searchsorted(start, edges[1:])
        segments = list(zip(first.tolist(), last.tolist(), edges[:-1].tolist(), edges[1:].tolist()))
        if start[0] < start[1]:
            segments.append((W, W + 1, *start[:2].tolist()))
        return sorted(segments, key=lambda s: s[2] - s[3])

    def nodes(self, k, places):
        """(N,): how many n-grams of order k begin before each of the places, which is the node of the next."""
        nodes = np.empty(len(places), np.int64)
        numbers(self.rank, k, np.asarray(places, np.int64), nodes)
        return nodes

    def counts(self, k, span):
        """(2, N): how often each n-gram of order k > 1 that begins in a span of places, (first, end), was seen, and its
        continuations; with counts, the highest order has none. No n-gram may begin before the end and continue after.
        """
        if self.raw:
            nodes = slice(*self.nodes(k, span))
            return [column[nodes] for column in (self.raw[k], *self.continuations[k : k + 1])]
        counts = np.empty((2, 1 + span[1] - span[0]), np.int32)
        return counts[:, 1 : 1 + count_places(self.begins, k, span, *counts)]


def suffix_order(text, N, n, W, marks):
    """The Suffixes, up to order n, 2 or more, of a text: arrays of ids below W, with N ids in all. marks: whether <s>
    and </s> count.
    """
    x, filled = np.empty(N + n - 1, np.int32), 0
    for part in text:
        x[filled : filled + len(part)] = part
        filled += len(part)
    x[N:] = x[np.arange(n - 1) % N]
    order, come, start = sort_positions(x, n, W)
    suffixes = compared(x, order, come, n, start, marks)
    blocks, by = blocks_of(suffixes.begins, start, suffixes.oldest[2])
    return replace(suffixes, blocks=blocks, by=by, marks=marks)


def sort_positions(x, n, W):
    """(order, come, start) of a text x: as in the table above; start as in Suffixes. Stable sorts by one word each, the
    oldest first.
    """
    N, threads = len(x) - n + 1, thread_count()
    most = max(N // W, 1)  # so many arrays (W,) take as much memory as the text
    order, other, ranges = np.arange(N, dtype=np.int32), np.empty(N, np.int32), ranges_of(N, W)
    counts = counts_of(x[:N], W)  # of the words at each step, because the text is a circle
    start = np.append(0, np.cumsum(counts))
    sort_ranges(x, order, ranges, heads_of(x, order, ranges, counts), False, other)
    ranges = [*pairwise(start[cut_words(start, -(-N // min(SHARES * threads, most)))]), (0, start[1])]
    heads = heads_of(x[1:], other, ranges, counts)
    for d in range(1, n):
        order, other = other, order
        sort_ranges(x[d:], order, ranges, heads.copy(), d == n - 1, other)
    return order, other, start


def compared(x, order, come, n, start, marks, threads=None):
    """The Suffixes, without blocks, of sorted places: the n-gram at place j begins in x at order[come[j]]. start: as
    in Suffixes. threads: how many to use, by default all.
    """
    N, W, scratch = len(order), len(start) - 1, Scratch()
    # each order has room for N n-grams; pages that are not touched take no memory
    begins, rows, ends = np.empty(N, kind_of_begins(n)), np.empty((n - 1, N), np.int32), [0] * (n - 1)

    def oldest_words(place):
        with scratch.lent() as room:
            oldest, sizes = room("words", (n, RANGE + 1), np.int32), np.zeros(n, np.int64)
            span = place, min(place + RANGE, N)
            compare(x, n, (order, come), span, (W, marks.sos, marks.eos), begins, sizes, oldest)
            return [oldest[k, : sizes[k]].copy() for k in range(1, n)]

    for oldest in map_in_order(oldest_words, range(0, N, RANGE), threads):
        for row, column in enumerate(oldest):
            rows[row, ends[row] :][: len(column)] = column
            ends[row] += len(column)
    for row, end in zip(rows, ends, strict=True):
        give_back(row[end:])  # where this is memory that was freed, it has pages
    oldest = [None, None, *(row[:end] for row, end in zip(rows, ends, strict=True))]
    return Suffixes(begins, oldest, start, start, come)


def kind_of_begins(n):
    """The type of `begins` for orders up to n: it has to hold m up to n, and f up to n + 1."""
    return np.uint8 if n <= LOW else np.uint16


def orders_in(begins):
    """(f, m), (N,) each, of begins (N,)."""
    half = 4 * begins.itemsize
    return begins & ((1 << half) - 1), begins >> half


def is_begin(begins, k):
    """(N,) bool: whether an n-gram of order k begins at each place."""
    f, m = orders_in(begins)
    return (f <= k) & (k <= m)


def nodes_at(begins, k):
    """(N,) int32: the n-gram of order k at each place, numbered from 0."""
    return np.cumsum(is_begin(begins, k), dtype=np.int32) - np.int32(1)


@inlined
def orders_at(begins, j):
    """f and m of the place j."""
    half = 4 * begins.itemsize
    return np.int64(begins[j]) & ((1 << half) - 1), np.int64(begins[j]) >> half


def blocks_of(begins, ended, oldest):
    """(blocks, by), as in the table above. oldest (M_2,): the first words of the bigrams."""
    by = np.concatenate(([0], np.cumsum(np.bincount(oldest, minlength=len(ended)))))
    blocks = np.empty((3, len(oldest)), np.int32)
    find_blocks(begins, ended, oldest, by[:-1].copy(), blocks)
    return blocks, by


def cut_words(start, most, first=1):
    """A list of the bounds of ranges of words, from the word `first` on. A range has up to `most` places, or those of a
    single word. start (W + 1,) int64: each word's first place.
    """
    bounds = [first]
    while bounds[-1] < len(start) - 1:
        end = int(np.searchsorted(start, start[bounds[-1]] + most, "right")) - 1
        bounds.append(max(bounds[-1] + 1, end))
    return bounds


@jit
def compare(x, n, places, span, marks, begins, sizes, oldest):
    """Hard to read: BATCH places at a time are compared word by word, in loops without branches. begins <- at the
    places of the span, (first, end), by comparing each place with the one before. sizes (n,), 0 before, <- how many
    n-grams of each order from 2 on begin there; oldest (n, RANGE + 1) <- their oldest words, W for the border. x: the
    text. places: order and come; marks: W, whether <s> counts, and whether </s> does. Bound by two random reads a
    place.
    """
    (order, come), (begin, end), (W, sos, eos) = places, span, marks
    words = np.empty((n, BATCH + 1), np.int32)
    same, common, inside, longest = np.empty((4, BATCH), np.int32)
    place = np.empty(BATCH, np.int64)
    words[:, BATCH] = -1
    if begin > 0:
        p = np.int64(order[come[begin - 1]]) + n - 1
        for d in range(n):
            words[d, BATCH] = x[p - d]
    for start in range(begin, end, BATCH):
        size = min(BATCH, end - start)
        for i in range(size):
            place[i] = come[start + i]
        for i in range(size):
            place[i] = np.int64(order[place[i]]) + n - 1
        for d in range(n):
            row = words[d]
            row[0] = row[BATCH]
            for i in range(size):
                row[i + 1] = x[place[i] - d]
            row[BATCH] = row[size]
        row = words[0]
        for i in range(size):
            same[i] = row[i] == row[i + 1]
            common[i] = same[i]
            inside[i] = eos or row[i + 1] != 0
            longest[i] = inside[i]
        for d in range(1, n):
            row = words[d]
            for i in range(size):
                same[i] &= row[i] == row[i + 1]
                common[i] += same[i]
                word = row[i + 1] != 0
                longest[i] += inside[i] & (word | sos)
                inside[i] &= word
        for i in range(size):
            begins[start + i] = (common[i] + 1) | longest[i] << 4 * begins.itemsize
        for k in range(2, n + 1):
            filled, row, of_order = sizes[k - 1], words[k - 1], oldest[k - 1]
            for i in range(size):
                of_order[filled] = row[i + 1] if row[i + 1] else W
                filled += (common[i] < k) & (longest[i] >= k)
            sizes[k - 1] = filled


@jit
def find_ranks(begins, k, rank):
    """Hard to read: places that fit into 64 bits, in a lane of 8 or 16 bits each, are compared together.
    rank (B, 2) <- `rank` of order k. begins (B, 8 or 16): those of each block, as uint64. A lane's highest bit stays 1
    if no more than the rest of the lane is subtracted. A product moves the bits of all lanes to the top.
    """
    half, total = u64(begins.shape[1] // 2), u64(0)
    one, factor = u64(0x0101010101010101), u64(0x0102040810204080)
    if half == 8:
        one, factor = u64(0x0001000100010001), u64(0x1000200040008000)
    last, lanes = half + half - u64(1), u64(32) // half
    high, low, order = one << last, (one << half) - one, one * u64(k)
    for b in range(len(rank)):
        bits = u64(0)
        for i in range(begins.shape[1]):
            f, m = begins[b, i] & low, begins[b, i] >> half & low
            is_new = (order | high) - f & (m | high) - order & high
            bits |= (is_new >> last) * factor >> u64(64) - lanes << lanes * u64(i)
        rank[b, 0], rank[b, 1] = bits, total
        total += ones(bits)


@inlined
def number(rank, k, j):
    """How many n-grams of order k begin before the place j."""
    b = j >> 6
    return np.int64(rank[k - 1, b, 1] + ones(rank[k - 1, b, 0] & ((u64(1) << u64(j & 63)) - u64(1))))


@jit
def numbers(rank, k, places, nodes):
    """nodes (N,) <- how many n-grams of order k begin before each of the places."""
    for i in range(len(places)):
        nodes[i] = number(rank, k, places[i])


@jit
def count_places(begins, k, span, seen, continuations):
    """seen, continuations (1 + N,) <- `Suffixes.counts` of a text's n-grams of order k, from 1 on. Returns how many
    n-grams there are. A branch would be mispredicted at every second place.
    """
    many = times = continued = 0
    for j in range(span[0], span[1]):
        f, m = orders_at(begins, j)
        is_new, inside = (f <= k) & (k <= m), k <= m
        many += is_new
        times = inside + (0 if is_new else times)
        continued = ((f <= k + 1) & (k < m)) + (0 if is_new else continued)
        seen[many], continuations[many] = times, continued
    return many


@jit
def put_words(rank, last, span, oldest, rows):
    """rows (k, N) <- the words, oldest first, of the n-grams of order k > 1 that begin in a span of places. An n-gram's
    d-th word from the end is the oldest word of its suffix of order d. last: `start`, and the word at the first place;
    oldest (k - 1,): the addresses of `oldest` of orders 2 to k. Reads a row of `rank` for each order and 64 places.
    """
    k, i, (start, w) = len(rows), 0, last
    for b in range(span[0] >> 6, (span[1] + 63) >> 6):
        bits = rank[k - 1, b, 0]
        while bits:
            j, upto = 64 * b + np.int64(trailing_zeros(bits)), bits ^ (bits - u64(1))
            bits &= ~upto
            if span[0] <= j < span[1]:
                while start[w + 1] <= j:
                    w += 1
                rows[k - 1, i] = w
                for d in range(k - 1):
                    node = np.int64(rank[d + 1, b, 1] + ones(rank[d + 1, b, 0] & upto))
                    rows[k - 2 - d, i] = array_at(oldest[d], node, np.int32)[node - 1]
                i += 1


@jit
def contexts_at(begins, start, first, last, k, local):
    """local (N,) <- the n-gram of order k at each place of the words first .. last - 1, numbered from 0."""
    begin, node = start[first], -1
    for w in range(first, last):
        for i in range(start[w], start[w + 1]):
            f, m = orders_at(begins, i)
            node += (f <= k) & (k <= m)
            local[i - begin] = w - first if k == 1 else node


@jit
def find_blocks(begins, ended, oldest, head, blocks):
    """blocks <- as in the table; those of v begin at head[v], which advances. oldest (M_2,): the v of each bigram."""
    g, last = 0, -1
    for w in range(len(ended) - 1):
        for j in range(ended[w], ended[w + 1]):
            f, m = orders_at(begins, j)
            if f > 2:
                continue
            if last >= 0:
                blocks[1, last] = j
            last = -1
            if m >= 2:
                last = head[oldest[g]]
                head[oldest[g]] += 1
                blocks[0, last], blocks[2, last] = j, w
                g += 1
    if last >= 0:
        blocks[1, last] = ended[-1]


@inlined
def first_reads(arrays, k, start, size, nodes):
    """nodes (BATCH,) <- for each of `size` blocks from `start` on, the first n-gram of order k that begins at its first
    place or later. Prefetches what else is read at that place.
    """
    begins, come, rank, blocks = arrays
    for r in range(size):
        begin = np.int64(blocks[0, start + r])
        nodes[r] = number(rank, k, begin)
        prefetch(begins, begin)
        prefetch(come, begin)


@jit
def gather(arrays, k, part, places, counted, columns):
    """columns (7, N) <- the n-grams of order k > 1 in a part of the blocks, (first, end). places: the first place of
    the segment, and `local` (N,) of an engine.Gathered. Returns how many n-grams there are.

    The columns are: the node; the context, numbered as in `local`; the node of the suffix; the last word, which is also
    the suffix at order 2; and, if `counted`, the suffix, numbered among the n-grams of order k - 1 in this part; how
    many (k + 1)-grams end in the n-gram; how often it was seen. A block has few places and is bound by their first
    reads, which are made together for BATCH blocks.
    """
    (begins, come, _, blocks), (a, z), (first, local) = arrays, part, places
    node, context, suffix, word, parent, children, seen = columns
    nodes, suffixes = np.empty((2, BATCH), np.int32)
    many, number = 0, -1
    for start in range(a, z, BATCH):
        size = min(BATCH, z - start)
        first_reads(arrays, k, start, size, nodes)
        first_reads(arrays, k - 1, start, size, suffixes)
        for r in range(size):
            g, last = nodes[r], blocks[2, start + r]
            end = last if k == 2 else suffixes[r] - 1
            for j in range(blocks[0, start + r], blocks[1, start + r]):
                f, m = orders_at(begins, j)
                is_new = (k > 2) & (f < k) & (k <= m + 1)
                end += is_new
                number += is_new
                if k > m:
                    continue
                if f <= k:
                    node[many], context[many], suffix[many], word[many] = g, local[come[j] - first], end, last
                    if counted:
                        parent[many], children[many], seen[many] = last if k == 2 else number, 0, 0
                    g += 1
                    many += 1
                if counted:
                    children[many - 1] += (f <= k + 1) & (k < m)
                    seen[many - 1] += 1
    return many


@jit
def place(grams, head, columns, records):
    """Fills the records of those n-grams of an order that the model has. grams: node, context, suffix and word of
    `gather`. Each context's n-grams begin at the row head (H,), which advances in place.

    records: rows; logs, the same memory as float32; new, the row of each n-gram; all are filled. columns: the row of
    each n-gram of the order below, -1 for none; marks, log10p, log10bow and types of an engine.Estimator. The number of
    types takes the place of the first child until `sum_up`. Returns how many n-grams lack their suffix. Bound by a
    random write a row; BATCH are fetched together.
    """
    (nodes, contexts, suffixes, words), (rows, logs, new) = grams, records
    below, marks, log10p, log10bow, types = columns
    lacking, wide, last, at = 0, len(log10bow) > 0, rows.shape[1] - 1, np.empty(BATCH, np.int32)
    for start in range(0, len(nodes), BATCH):
        size = min(BATCH, len(nodes) - start)
        for i in range(start, start + size):
            g = np.int64(nodes[i])
            prefetch(marks, g)
            prefetch(log10p, g)
            prefetch(below, np.int64(suffixes[i]))
            if wide:
                prefetch(types, g)
                prefetch(log10bow, g)
        for r in range(size):
            context, at[r] = contexts[start + r], -1
            if marks[nodes[start + r]] & 1:
                at[r] = head[context]
                prefetch(rows, (last + 1) * np.int64(head[context]))
                head[context] += 1
        for r in range(size):
            i, row = start + r, at[r]
            if row < 0:
                continue
            g = nodes[i]
            rows[row, 0], logs[row, 1 + wide], rows[row, last] = words[i], log10p[g], below[suffixes[i]]
            lacking += rows[row, last] < 0
            if wide:
                new[g], rows[row, 1] = row, types[g]
                logs[row, 3] = log10bow[g] if log10bow[g] == log10bow[g] else np.float32(0)
    return lacking


@jit
def sum_up(types, total):
    """types (N,), how many children each node has, <- where they begin, from `total` on. Returns where they end."""
    for i in range(len(types)):
        size = types[i]
        types[i] = total
        total += size
    return total


def cut_places(begins, every, most):
    """A list of 0, places about `every` apart where n-grams of orders up to `most` begin, and the end."""
    cuts = [0]
    for place in range(every, len(begins), every):
        is_cut = orders_in(begins[place : place + every])[0] <= most
        if is_cut.any():
            cuts.append(place + int(is_cut.argmax()))
    return [*cuts, len(begins)]
