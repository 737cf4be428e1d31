"""The n-grams of a text by one sort of its positions: in suffix order, all orders at once.

symbol  shape        meaning
N n W   -            positions, the highest order, words
x       (N,)         the text, int32: ids of words, and 0, the border, behind each sentence: as an n-gram's last word it
                     is </s>, before that <s>. The last is a border, and the text counts as a circle
order   (N,)         positions p by x[p], then x[p - 1] .. ; equal n-grams that end at p stand together, whatever their
                     length, and those of order k + 1 under the one of order k that they end in. int32
i, j    -            places in this order by n - 1 words and by n; n-grams of orders below n begin at the same i and j
come    (N,)         the i of the position before that of j: its context's place. Rises within one last word
begins  (N,)         f + 16 m: of the n-grams that end at j those of orders f .. m are the first of their kind, uint8
rank    (n, B, 2)    uint64: which of 64 places begin an n-gram of an order, and how many began before them
node    -            an n-gram's number among those of its order, by where they begin; at order 1 the word
words   (M,)         int32: the oldest word of each n-gram, those of order k from base[k] on; <s> is the word W
segment -            a range of words; the border has one of its own, the last. The n-grams whose context ends in a
                     segment depend on no other's
heads   (S + 1, W)   the places j whose last word is w and whose word before is of segment s: from heads[s, w] up to
                     heads[s + 1, w]; int32

Among n-grams that differ in what stands before one word, the border comes last, as <s> is the last id of a model's
words; as last word, as </s>, it is the first.
"""

import mmap
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.machine.jit import jit, of_numba
from lmtk.machine.threads import Scratch, all_at_once, count, in_turn

SOME = 512  # positions whose random reads are made together, so that they overlap
RANGE = 1 << 16  # positions compared together, a multiple of 64
PIECE = 1 << 17  # positions of a segment, about, so that what is kept of its contexts stays in a cache
u64 = np.uint64
load8 = of_numba("lmtk.machine.unaligned", "load8")


@dataclass(frozen=True)
class Suffixes:
    """The table above, and: start (W + 1,), the places i and j where a word's begin; bounds (S,), the first word of
    each segment but the border's, and behind the last; sizes (n,), the number of n-grams of each order.
    """

    come: np.ndarray
    begins: np.ndarray
    rank: np.ndarray
    words: np.ndarray
    base: np.ndarray
    heads: np.ndarray
    start: np.ndarray
    bounds: np.ndarray
    sizes: list

    @property
    def order(self):
        return len(self.sizes)

    @property
    def segments(self):
        return len(self.heads) - 1

    @cached_property
    def span_sizes(self):
        """(S,): how many places each segment's n-grams take."""
        edges = self.start[self.bounds]
        return [*np.diff(edges).tolist(), int(self.start[1] - self.start[0])]

    def oldest(self, k):
        """(N_k,): the oldest word of each n-gram of order k."""
        size = self.sizes[k - 1] if k > 1 else self.base[2] - self.base[1]
        return self.words[self.base[k] : self.base[k] + size]

    def nodes(self, k, places):
        """(N,): how many n-grams of order k begin before each of the places."""
        found = np.empty(len(places), np.int64)
        numbers(self.rank, k, np.asarray(places, np.int64), found)
        return found

    @property
    def filled(self):
        """The segments that have places."""
        return [s for s, size in enumerate(self.span_sizes) if size]

    def span(self, s):
        """(first, last + 1) of a segment's words, and of its places i."""
        words = (0, 1) if s == self.segments - 1 else (int(self.bounds[s]), int(self.bounds[s + 1]))
        return *words, int(self.start[words[0]]), int(self.start[words[1]])


def suffix_order(x, n, W, marks):
    """The Suffixes of a text (N,), of orders up to n, from 2 to methods.LONGEST; marks say what a border is."""
    N, threads = len(x), count()
    around = x[np.arange(1 - n, N + 1) % N] if n > N else np.concatenate((x[N - n + 1 :], x, x[:1]))
    x = around[n - 1 : n - 1 + N]  # the memory of the other is free, unless the caller holds it
    parts = np.linspace(0, N, threads + 1).astype(np.int64)
    counts = np.zeros((threads, W), np.int32)
    all_at_once(lambda t: count_ids(x, parts[t], parts[t + 1], counts[t]), range(threads))
    start = np.concatenate(([0], np.cumsum(counts.sum(0), dtype=np.int64)))
    bounds = cut_words(start, max(2 * threads, min(N // PIECE, N // (W * max(threads, 2))), 1))
    segments = range(len(bounds))
    edges = [*((start[a], start[b]) for a, b in pairwise(bounds)), (0, start[1])]
    order, other = np.empty(N, np.int32), np.empty(N, np.int32)
    head = (start[:-1] + np.cumsum(counts, 0) - counts).astype(np.int32)
    all_at_once(lambda t: sort_first(x, parts[t], parts[t + 1], head[t], order), range(threads))
    heads = heads_of(x, parts, bounds, start, W)
    for _ in range(n - 2):
        all_at_once(lambda s, a=order, b=other: sort_next(x, a, *edges[s], heads[s].copy(), b), segments)
        order, other = other, order
    come = other
    all_at_once(lambda s: sort_last(x, order, *edges[s], heads[s].copy(), come), segments)
    begins, rank = np.empty(N, np.uint8), np.zeros((n, N // 64 + 2, 2), u64)
    ranges = [(a, min(a + RANGE, N)) for a in range(0, N, RANGE)]
    sizes = np.zeros((len(ranges) + 1, n), np.int64)
    # each order has the most room that it can need; what is not touched takes no memory
    base = np.array([0, 0, *range(W + 1, W + 1 + N * (n - 1), N)])
    words, ends, scratch = untouched(W + 1 + N * (n - 1), np.int32), base.copy(), Scratch()
    words[: W + 1] = np.arange(W + 1)

    def compared(r, turn):
        with scratch.lent() as room:
            found = room("words", (n, RANGE + 1), np.int32)
            compare(around, n, order, come, *ranges[r], W, marks.sos, marks.eos, begins, rank, sizes[r], found)
            with turn:
                for k in range(2, n + 1):
                    new = found[k - 1, : sizes[r, k - 1]]
                    words[ends[k] : ends[k] + len(new)] = new
                    ends[k] += len(new)

    in_turn(compared, range(len(ranges)))
    shift_ranks(rank, sizes, N)
    return Suffixes(come, begins, rank, words, base, heads, start, bounds, sizes[-1].tolist())


def untouched(size, kind):
    """(size,) from the system, not memory that was in use before: what is not written takes none."""
    return np.frombuffer(mmap.mmap(-1, size * np.dtype(kind).itemsize), kind)


def cut_words(start, some):
    """The bounds of `some` segments, about, of words that begin at `start`: of as many places each."""
    N, borders, W = start[-1], start[1], len(start) - 1
    bounds = np.searchsorted(start, borders + (N - borders) * np.arange(1, some) // some)
    return np.unique(np.concatenate(([1], np.clip(bounds, 1, W), [W])))


def heads_of(x, parts, bounds, start, W):
    """heads, from how often each word follows one of each segment in the parts of the text."""
    S = len(bounds)
    segment = np.full(W, S - 1, np.int32)
    segment[1:] = np.repeat(np.arange(S - 1), np.diff(bounds))
    pairs = np.zeros((len(parts) - 1, S, W), np.int32)
    all_at_once(lambda t: count_pairs(x, parts[t], parts[t + 1], segment, pairs[t]), range(len(parts) - 1))
    heads = np.empty((S + 1, W), np.int32)
    heads[0] = start[:-1]
    for s in range(S):
        np.add(heads[s], pairs[0, s], out=heads[s + 1])
        for other in pairs[1:]:
            heads[s + 1] += other[s]
    return heads


@jit
def count_ids(x, begin, end, counts):
    """counts (W,) += how often each id stands in x[begin:end]."""
    for p in range(begin, end):
        counts[x[p]] += 1


@jit
def sort_first(x, begin, end, head, order):
    """Positions begin .. end behind the earlier ones of the same word; head (W,): where each word's next one goes."""
    for p in range(begin, end):
        w = x[p]
        order[head[w]] = p
        head[w] += 1


@jit
def count_pairs(x, begin, end, segment, counts):
    """counts (S, W) += how often each word of x[begin:end] follows one of each segment (W,)."""
    for p in range(begin, end):
        counts[segment[x[p - 1]], x[p]] += 1


@jit
def sort_next(x, order, begin, end, head, out):
    """The positions that follow order[begin:end], behind the earlier ones of the same word. Bound by a random read and
    a random write a position.
    """
    N = len(order)
    words, places = np.empty(SOME, np.int32), np.empty(SOME, np.int32)
    for start in range(begin, end, SOME):
        size = min(SOME, end - start)
        for i in range(size):
            p = order[start + i] + 1
            places[i] = p if p < N else 0
        for i in range(size):
            words[i] = x[places[i]]
        for i in range(size):
            w = words[i]
            out[head[w]] = places[i]
            head[w] += 1


@jit
def sort_last(x, order, begin, end, head, come):
    """The same, of which only the places that they come from are kept."""
    N = len(order)
    words = np.empty(SOME, np.int32)
    for start in range(begin, end, SOME):
        size = min(SOME, end - start)
        for i in range(size):
            p = order[start + i] + 1
            words[i] = x[p if p < N else 0]
        for i in range(size):
            w = words[i]
            come[head[w]] = start + i
            head[w] += 1


@jit
def compare(x, n, order, come, begin, end, W, sos, eos, begins, rank, sizes, oldest):
    """begins and rank of the places begin .. end, begin a multiple of 64: each is compared with the one before. sizes
    (n,): how many n-grams of each order begin there; oldest (n, RANGE + 1): their oldest words, W for the border. x:
    n - 1 positions of the circle, the text, and one more.

    Bound by two random reads a place.
    """
    words = np.empty((n, SOME + 1), np.int32)
    same, common, inside, longest = np.empty((4, SOME), np.int32)
    place, flags = np.empty(SOME, np.int64), np.zeros(SOME, np.uint8)
    words[:, SOME] = -1
    if begin > 0:
        p = np.int64(order[come[begin - 1]]) + n
        for d in range(n):
            words[d, SOME] = x[p - d]
    sizes[:] = 0
    for start in range(begin, end, SOME):
        size = min(SOME, end - start)
        for i in range(size):
            place[i] = come[start + i]
        for i in range(size):
            place[i] = np.int64(order[place[i]]) + n
        for d in range(n):
            row = words[d]
            row[0] = row[SOME]
            for i in range(size):
                row[i + 1] = x[place[i] - d]
            row[SOME] = row[size]
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
            begins[start + i] = (common[i] + 1) | longest[i] << 4
        for k in range(1, n + 1):
            found, row, mine = sizes[k - 1], words[k - 1], oldest[k - 1]
            for i in range(size):
                flags[i] = (common[i] < k) & (longest[i] >= k)
            flags[size:] = 0
            for block in range(0, size, 64):
                bits = u64(0)
                for i in range(0, 64, 8):
                    bits |= ((load8(flags, block + i) * u64(0x0102040810204080)) >> u64(56)) << u64(i)
                b = (start + block) >> 6
                rank[k - 1, b, 0], rank[k - 1, b, 1] = bits, u64(found)
                for i in range(block, min(block + 64, size)):
                    mine[found] = row[i + 1] if row[i + 1] else W
                    found += flags[i]
            sizes[k - 1] = found


@jit
def shift_ranks(rank, sizes, N):
    """rank's counts from the beginning of each range become those from the first on; sizes (R + 1, n), in place: what
    was before each range.
    """
    for k in range(rank.shape[0]):
        total = 0
        for r in range(len(sizes)):
            here = sizes[r, k]
            sizes[r, k] = total
            if r < len(sizes) - 1:
                for b in range(r * (RANGE >> 6), min((r + 1) * (RANGE >> 6), (N + 63) >> 6)):
                    rank[k, b, 1] += u64(total)
            total += here
        for b in range((N + 63) >> 6, rank.shape[1]):
            rank[k, b, 1] = u64(total)


@jit(_nrt=False)
def number(rank, k, j):
    """How many n-grams of order k begin before the place j."""
    b = j >> 6
    x = rank[k - 1, b, 0] & ((u64(1) << u64(j & 63)) - u64(1))
    x -= (x >> u64(1)) & u64(0x5555555555555555)
    x = (x & u64(0x3333333333333333)) + ((x >> u64(2)) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return np.int64(rank[k - 1, b, 1] + ((x * u64(0x0101010101010101)) >> u64(56)))


@jit
def numbers(rank, k, places, found):
    """found (N,) <- how many n-grams of order k begin before each of the places."""
    for i in range(len(places)):
        found[i] = number(rank, k, places[i])


@jit
def words_at(start, first, last, local):
    """local <- of the places of the words first .. last - 1, which word there is, from 0 on."""
    for w in range(first, last):
        for i in range(start[w], start[w + 1]):
            local[i - start[first]] = w - first


@jit
def nodes_at(begins, k, local):
    """local <- of some places, which n-gram of order k there is, from 0 on."""
    node = -1
    for i in range(len(begins)):
        node += (begins[i] & 15) <= k and k <= begins[i] >> 4
        local[i] = node


@jit(_nrt=False)
def first_reads(begins, come, rank, k, heads, words, many, nodes, above):
    """nodes and above (SOME,) <- of the places where the first `many` of some words begin: the n-gram of order k that
    begins next, and that of the order below, or the word itself, before it. A number that keeps reads ahead from being
    left out.
    """
    ahead = 0
    for r in range(many):
        begin = heads[words[r]]
        nodes[r] = number(rank, k, begin)
        above[r] = words[r] if k == 2 else number(rank, k - 1, begin) - 1
        ahead += begins[begin] + come[begin]
    return ahead


@jit
def gather(begins, come, rank, k, heads, ends, V, first, local, node, context, parent, word, children, raw):
    """The n-grams of order k > 1 whose context is in a segment, (N + 1,) int32, in place: node; context, as `local` has
    it of the places from `first` on; parent, the node of the n-gram without its oldest word, or the word that is left;
    word, the last one; children, how many n-grams of order k + 1 end in it; raw, how often it was seen. heads, ends
    (W,): two rows of Suffixes.heads. Returns how many there are whose last word is below V, and how many in all: the
    others come last; and a number that keeps reads ahead from being left out.

    Without branches: what a place writes that begins none is written over. A word's places in a segment are few, and
    bound by the first reads of them; those of some words are made together.
    """
    found, events, seen, fresh, many, ahead = 0, -1, 0, 0, 0, 0
    words, nodes, above = np.empty((3, SOME), np.int32)
    for w in range(len(heads)):
        if heads[w] < ends[w]:
            words[many] = w
            many += 1
        if many < SOME and w < len(heads) - 1:
            continue
        ahead += first_reads(begins, come, rank, k, heads, words, many, nodes, above)
        for r in range(many):
            last, g, parent_node = words[r], nodes[r], above[r]
            if last >= V and events < 0:
                events = found
            for j in range(heads[last], ends[last]):
                f, m = np.int32(begins[j] & 15), np.int32(begins[j] >> 4)
                parent_node += (k > 2) & (f < k) & (k <= m + 1)
                node[found], context[found], parent[found], word[found] = g, local[come[j] - first], parent_node, last
                children[found], raw[found] = fresh, seen
                begun = (f <= k) & (k <= m)
                found += begun
                g += begun
                seen += k <= m
                fresh += (f <= k + 1) & (k < m)
        many = 0
    children[found], raw[found] = fresh, seen
    for i in range(found):
        children[i] = children[i + 1] - children[i]
        raw[i] = raw[i + 1] - raw[i]
    return found if events < 0 else events, found, ahead


@jit
def place(begins, come, rank, k, heads, ends, first, local, head, below, marks, log10p, log10bow, rows, logs, new):
    """The n-grams of order k that the model has, in a segment as `gather` walks it, into rows, those of a context
    from head (H,), in place, on; new <- where. below: where the n-grams of the order below are, -1 for nowhere. logs:
    rows as float32. Where there are no rows, head is raised only. Returns how many lack their suffix, and a number as
    gather's. Bound by the writing of a row, at random.
    """
    wide, lacking, many, ahead, put = len(log10bow) > 0, 0, 0, 0, len(rows) > 0
    p, last = 2 if wide else 1, rows.shape[1] - 1
    words, nodes, above = np.empty((3, SOME), np.int32)
    for w in range(len(heads)):
        if heads[w] < ends[w]:
            words[many] = w
            many += 1
        if many < SOME and w < len(heads) - 1:
            continue
        ahead += first_reads(begins, come, rank, k, heads, words, many, nodes, above)
        for r in range(many):
            g, parent = nodes[r], above[r]
            for j in range(heads[words[r]], ends[words[r]]):
                f, m = np.int32(begins[j] & 15), np.int32(begins[j] >> 4)
                parent += (k > 2) & (f < k) & (k <= m + 1)
                if f > k or k > m:
                    continue
                if marks[g] & 1:
                    context = local[come[j] - first]
                    at = head[context]
                    head[context] = at + 1
                    if put:
                        new[g] = at
                        rows[at, 0], logs[at, p], rows[at, last] = words[r], log10p[g], below[parent]
                        if wide:
                            logs[at, p + 1] = log10bow[g]
                        lacking += rows[at, last] < 0
                g += 1
        many = 0
    return lacking, ahead


@jit
def own_counts(node, oldest, raw, V, count):
    """count (N,) <- raw, of n-grams whose oldest word is none that is predicted: nothing stands before them."""
    for i in range(len(node)):
        if oldest[node[i]] >= V:
            count[i] = raw[i]


@jit
def cut_places(begins, every, cuts):
    """cuts <- places about `every` apart at which an n-gram of order 1 or 2 begins, from 0 to the end; how many."""
    found, j = 1, 0
    cuts[0] = 0
    while j < len(begins):
        j = min(j + every, len(begins))
        while j < len(begins) and begins[j] & 15 > 2:
            j += 1
        cuts[found] = j
        found += 1
    return found


@jit
def tally(begins, k, begin, end, oldest, node, V, continuation, counts, n):
    """n (R,) += how many n-grams of order k that begin in begin .. end have the count 1 .. R - 1, and R or more at 0.
    They are counted by the n-grams of order k + 1 that end in them, where that is `continuation` and their oldest word
    is below V; else as seen. node: the first one's; counts (2, N + 1) int32 is written over.
    """
    found, seen, fresh = 0, 0, 0
    children, raw = counts
    for j in range(begin, end):
        f, m = begins[j] & 15, begins[j] >> 4
        children[found], raw[found] = fresh, seen
        found += (f <= k) & (k <= m)
        seen += k <= m
        fresh += (f <= k + 1) & (k < m)
    children[found], raw[found] = fresh, seen
    for i in range(found):
        plain = not continuation or oldest[node + i] >= V
        c = raw[i + 1] - raw[i] if plain else children[i + 1] - children[i]
        n[c if c < len(n) else 0] += 1


@jit
def words_of(begins, k, begin, end, node, word, start, words, base, rows):
    """rows (k, N + 1) <- the words, the oldest first, of the n-grams of order k > 1 that begin in begin .. end; node
    (k,): the first node of each order there; word: that of the first place. An n-gram's words are the oldest ones of
    those that it ends in, which began at its place or before.
    """
    for d in range(1, k + 1):
        row, found, own = rows[k - d], 0, base[d] + node[d - 1] - 1
        for j in range(begin, end):
            f, m = begins[j] & 15, begins[j] >> 4
            if d == 1:
                while start[word + 1] <= j:
                    word += 1
                row[found] = word
            else:
                own += (f <= d) & (d <= m)
                row[found] = words[own]
            found += (f <= k) & (k <= m)
