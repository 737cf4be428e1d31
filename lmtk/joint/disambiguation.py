"""The hidden words behind the words of a text: a hidden Markov model with a back-off model of the hidden words.

A word v of a text stands for one of the hidden words h that a map gives it, with p(v | h). The words v_1 .. v_T of a
sentence and hidden words h_1 .. h_T have together

    p(v, h) = p(v_1 | h_1) * product over t > 1 of p(h_t | h_1 .. h_t-1)^lmw p(v_t | h_t)^mapw.

A state is what the next p(h | ..) depends on: the last hidden words, as far back as the model has a context of them,
and one at least. Each place of the sentence has its states, linked to those of the place before. Viterbi's algorithm
keeps the best N paths to each; the forward-backward algorithm sums over all paths (Rabiner 1989, section III).

Logarithms are to the base 10 and in single precision, and states come in the order of SRILM's hash tables, whose keys
are the numbers of hidden words: which of equals is first, and the last digits of sums, depend on both. Small jobs run
`fill_plain`, large ones `fill`.

symbol  shape    meaning
start   (R + 1,) the row of a word of the text, what it may stand for, is from start[row] up to start[row + 1] of:
hidden  (C,)     hidden words, by their numbers, int32
word    (C,)     the same by their ids in the model, -1 for none, int32
node    (C,)     their 1-grams, -1 for none, int32
alone   (C,)     their log10 p after nothing, float32
first   (C,)     log10 p(v | h) at the first place, float32
later   (C,)     mapw log10 p(v | h) at others, float64
at      (T + 1,) the states of place t are those from at[t] up to at[t + 1], in the order in which they were found
turn    (S,)     the same in the order of the hash table
words   (S, n)   the words of a state, the last one first; length (S,), how many they are
nodes   (S, n)   the n-grams of the last 1, 2 .. words before the next, -1 for none
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.machine.jit import inlined, record, sealed
from lmtk.machine.large import pays
from lmtk.ngram.nodes import AT, BOW, WIDE, WIDTH, P, children_of, mark_ends, unigrams
from lmtk.ngram.searching import children, search

LN10 = 2.30258509299404568402
IMPOSSIBLE = np.float32(-100)  # log10 p of a word that the model does not know, so that other words still count
LINEAR = 8  # slots of a hash table below which keys stand as they came
FULL = np.float32(0.8)  # of the slots above that are taken at most
MULTIPLIER, ADDEND, SHIFT, BITS = 1103515245, 12345, 30, 0xFFFFFFFF  # of SRILM's hash function
f32, u64 = np.float32, np.uint64
SOME = 1 << 10  # states that there is room for at first
WORD = 16  # steps that take as long as what `fill_plain` does once for a word


def number_of(words):
    """The number that stands for a state in a hash table."""
    n = 0
    for word in words:
        n = (n + (n << 12) + word) & BITS
    return n


class Hashed(dict):
    """A dict with `ordered`, its keys in the order in which SRILM goes over a hash table of them; number: a key's."""

    def __init__(self, number=int):
        self.number, self.slots = number, []

    def __setitem__(self, key, value):
        if key not in self:
            size, old = len(self), self.slots
            least = size + 1 if size + 1 < LINEAR else int(f32(size + 2) / FULL)
            if least > len(old):
                self.slots = [None] * (1 << (least - 1).bit_length())
                for k in old:
                    if k is not None:
                        self.slots[self.place(k)] = k
            self.slots[self.place(key)] = key
        super().__setitem__(key, value)

    def __delitem__(self, key):
        super().__delitem__(key)
        i, slots = self.slots.index(key), self.slots
        if len(slots) < LINEAR:
            del slots[i]
            slots.append(None)
            return
        slots[i] = None
        while slots[i := (i + 1) % len(slots)] is not None:
            k = slots[i]
            if slots[j := self.place(k)] is None:
                slots[i], slots[j] = None, k

    def place(self, key):
        """The slot that a key has, or would have."""
        size, i = len(self.slots), 0
        if size >= LINEAR:
            i = (self.number(key) * MULTIPLIER + ADDEND) >> (SHIFT - size.bit_length() + 1)
        while self.slots[i % size] not in (None, key):
            i += 1
        return i % size

    def ordered(self):
        return [k for k in self.slots if k is not None]


def in_order(keys):
    """Different whole numbers, a list, in the order of a hash table that they were put into one after the other."""
    if len(keys) < LINEAR // 2 + 1:
        return keys
    table = Hashed()
    for key in keys:
        table[key] = True
    return table.ordered()


def add(x, y):
    """log10 of the sum of two numbers given as log10."""
    x, y = (y, x) if x < y else (x, y)
    return x if y == -math.inf else x + math.log10(1.0 + math.exp((y - x) * LN10))


@dataclass(frozen=True)
class Scorer:
    """What is needed of a back-off model: nodes, None for no model; unigram (W,), each word's 1-gram, -1 for none;
    log10p (W,), float32; marked, whether an n-gram may be a state, (N,) bool of the orders below the highest, behind
    each other from `begins` on.
    """

    nodes: object = None
    unigram: np.ndarray | None = None
    log10p: np.ndarray | None = None
    marked: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    begins: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def order(self):
        return self.nodes.order if self.nodes else 1

    def arrays(self):
        """For `fill`."""
        if self.nodes is None:
            return np.zeros(1, np.int32), np.zeros(1, f32), np.zeros((1, 4), np.int64), self.marked, self.begins
        return self.nodes.memory, self.nodes.logs, self.nodes.where, self.marked, self.begins


def scorer_of(model, order):
    """The Scorer of a Backoff, of its n-grams up to an order."""
    nodes = model.nodes
    # as in SRILM: a context, what has a weight, and the end of either
    marked = []
    for level in nodes.levels[1:-1]:
        bow, child = level["log10bow"][:-1], level["child"]
        marked.append((bow != 0) | np.signbit(bow) | (child[1:] > child[:-1]))
    for k in range(len(marked), 1, -1):
        mark_ends(nodes, k, marked)
    nodes = nodes.lower(min(order, nodes.order))
    unigram, first = unigrams(nodes, len(model.vocab.words)), nodes.levels[1]["log10p"]
    log10p = np.where((unigram < 0) | np.isnan(first[unigram]), f32(-np.inf), first[unigram])
    marked = marked[: nodes.order - 1]
    begins = np.cumsum([0, *map(len, marked)])
    return Scorer(nodes, unigram, log10p, np.concatenate([np.zeros(0, bool), *marked]), begins)


@dataclass(frozen=True)
class Choices:
    """What words may stand for, as above."""

    start: np.ndarray
    hidden: np.ndarray
    word: np.ndarray
    node: np.ndarray
    alone: np.ndarray
    first: np.ndarray
    later: np.ndarray

    @cached_property
    def size(self):
        """How many hidden words there are in each row."""
        return np.diff(self.start)

    def arrays(self):
        return self.start, self.hidden, self.word, self.node, self.alone, self.first, self.later


def choices_of(scorer, rows, logarithm, ids, mapw=1.0, scale=False):
    """Choices of rows, {hidden word: p(v | h)}. logarithm: log10 of each p. ids: the model's id of each hidden word,
    -1 for none. scale: the p are those of p(h | v), and are divided by p(h).
    """
    short = LINEAR // 2 + 1
    flat = [(h, row[h]) for row in rows for h in (row if len(row) < short else in_order([*row]))]
    hidden = np.array([h for h, _ in flat], np.int32)
    log10p = np.array([logarithm[p] for _, p in flat], f32)
    start = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    if scorer.nodes is None:
        word = node = np.full(len(hidden), -1, np.int32)
        alone = np.zeros(len(hidden), f32)
    else:
        word = np.array([ids[h] for h, _ in flat], np.int32)
        node = np.where(word < 0, np.int32(-1), scorer.unigram[word])
        alone = np.where(word < 0, f32(-np.inf), scorer.log10p[word])
    with np.errstate(invalid="ignore"):
        scaled = np.where(alone > -np.inf, log10p - alone, log10p) if scale else log10p
        later = mapw * scaled.astype(np.float64) if mapw else np.zeros(len(hidden))
    return Choices(start, hidden, word, node, alone, log10p, later)


@dataclass
class Lattice:
    """The states of a sentence, in lists: forward and back, log10 of the sums over the paths to a state and from it;
    top, the best path from it; hyps, the best paths to it: (log10 p, the state before, the place among its paths), -1
    for none.
    """

    at: list = field(default_factory=lambda: [0])
    turn: list = field(default_factory=list)
    words: list = field(default_factory=list)
    forward: list = field(default_factory=list)
    back: list = field(default_factory=list)
    top: list = field(default_factory=list)
    hyps: list = field(default_factory=list)

    def states(self, t):
        return self.turn[self.at[t] : self.at[t + 1]]

    @property
    def places(self):
        return len(self.at) - 1


def put_in(hyps, words, score, state, which):
    """A path among the best, in place, which stand by their score, then by the words of their state."""
    key, rank = words[state], 0
    while rank < len(hyps):
        p, other, _ = hyps[rank]
        if not (p > score or (p == score and other >= 0 and words[other] > key)):
            hyps.insert(rank, (score, state, which))
            hyps.pop()
            return
        rank += 1


def best_paths(lattice, N):
    """The N best paths, or as many as there are, the best first: (log10 p, hidden words)."""
    hyps = [(-math.inf, -1, 0)] * N
    for state in lattice.states(lattice.places - 1):
        for which, (score, _, _) in enumerate(lattice.hyps[state]):
            put_in(hyps, lattice.words, score, state, which)
    found = []
    for score, state, which in hyps:
        path = []
        while state >= 0:
            path.append(lattice.words[state][0])
            _, state, which = lattice.hyps[state][which]
        if len(path) < lattice.places:
            break
        found.append((score, path[::-1]))
    return found


def shares(lattice, kind):
    """For each place the hidden words and log10 of their shares of the probability, a dict, in SRILM's order. kind:
    "fb", over all paths; "forward", over those up to the place; "best", by the best path through each state.
    """
    if kind == "best":
        through = np.array([hyps[0][0] for hyps in lattice.hyps], np.float64) + np.array(lattice.top, np.float64)
    else:
        through = np.array(lattice.forward, f32) + (np.array(lattice.back, f32) if kind == "fb" else f32(0))
    through = through.tolist()
    for t in range(lattice.places):
        sums = {}
        for s in lattice.states(t):
            p = through[s]
            h = lattice.words[s][0]
            sums[h] = add(sums[h], p) if h in sums else p
        total, hidden = -math.inf, in_order([*sums])
        for h in hidden:
            total = add(total, sums[h])
        yield {h: (sums[h], sums[h] - total) for h in hidden}


def most_likely(share):
    """The first hidden word whose share of a place, as `shares` has it, is the largest."""
    return max(share, key=lambda h: share[h][0])


def total(lattice):
    """log10 of the sum over all paths."""
    found = -math.inf
    for s in lattice.states(lattice.places - 1):
        found = add(found, float(lattice.forward[s]))
    return found


def sentences(ids, sos, eos, bare_end=False):
    """Words (N,), -1 at the end of each line, as sentences: (their words with the marks that they lack, behind each
    other; where each ends; the place in ids of each word, -1 for a mark). Empty lines are none. bare_end: no eos.
    """
    stops = np.flatnonzero(ids < 0)
    starts = np.append(0, stops[:-1] + 1)
    starts, stops = starts[starts < stops], stops[starts < stops]
    before = ids[starts] != sos
    behind = (ids[stops - 1] != eos) & (not bare_end)
    ends = np.cumsum(stops - starts + before + behind)
    begins = np.append(0, ends[:-1])
    rows, source = np.full(ends[-1] if len(ends) else 0, eos, np.int32), np.full(ends[-1] if len(ends) else 0, -1)
    rows[begins[before]] = sos
    places = np.flatnonzero(ids >= 0)
    target = places + np.repeat(begins + before - starts, stops - starts)
    rows[target], source[target] = ids[places], places
    return rows, ends, source


class Decoder:
    """Makes a Lattice of each sentence. lmw: the weight of the model; N: how many best paths are kept; sums: whether
    there are sums over all paths.
    """

    def __init__(self, scorer, lmw=1.0, N=1, sums=False):
        self.scorer, self.lmw, self.N, self.sums = scorer, float(lmw), N, sums
        self.work, self.room, self.known = 0, None, []

    def pays(self, choices, rows, kernel):
        """Whether a kernel pays for these rows, by the steps so far and theirs; not where one of the rows is empty."""
        size = choices.size[rows]
        steps = len(rows) * WORD + int((size[1:] * size[:-1]).sum())
        if not size.all() or not (kernel in self.known or pays("ngrams", self.work + steps, (kernel,))):
            self.work += steps * (kernel is fill)
            return False
        return True

    def lattice(self, choices, rows):
        """The Lattice of a sentence, the rows of its words in `choices`."""
        if not self.pays(choices, rows, fill):
            return fill_plain(self.scorer, choices, rows, self.lmw, self.N, self.sums)
        rows, size = np.asarray(rows, np.int32), -1
        self.make_room(len(rows))
        while size < 0:
            size = fill(self.scorer.arrays(), choices.arrays(), rows, self.lmw, self.sums, self.room)
            if size < 0:
                self.make_room(len(rows), 2)
        self.keep(fill)
        return self.taken(len(rows), size)

    def best(self, choices, rows, ends):
        """The hidden words of the best paths of many sentences, whose rows, behind each other, end before `ends`."""
        path, done, longest = np.empty(len(rows), np.int32), 0, int(np.diff(ends, prepend=0).max(initial=1))
        self.make_room(longest)
        while done < len(ends):
            done = decode(self.scorer.arrays(), choices.arrays(), rows, ends, done, self.lmw, path, self.room)
            if done < len(ends):
                self.make_room(longest, 2)
        self.keep(decode)
        return path

    def keep(self, kernel):
        """Says in the cache that the kernel is there, once."""
        if kernel not in self.known:
            self.known.append(kernel)
            record((kernel,))

    def make_room(self, T, times=1):
        """Arrays for `fill` and a sentence of T words: the module's, the states' sums and best paths, hash tables, and
        steps for the way back of the sums. `times` as many states as there was room for, or at least four a word.
        """
        have = len(self.room[1]) if self.room else 0
        if times == 1 and have >= 4 * T:
            return
        S = max(times * have, 4 * T, SOME)
        n, N, M, i32 = max(self.scorer.order - 1, 1), self.N, 8 * S if self.sums else 1, np.int32
        shapes = [(S, i32), (S, i32), ((S, n), i32), (S, i32), ((S, n), i32), (S, np.int64)]
        shapes += [(S, f32), (S, f32), (S, f32), ((S, N), f32), ((S, N), i32), ((S, N), i32)]
        shapes += [(4 * S, i32), (4 * S, i32), (M, i32), (M, f32)]
        self.room = tuple(np.empty(shape, dtype) for shape, dtype in shapes)

    def taken(self, T, size):
        """The Lattice that `fill` left."""
        at, turn, words, length, _, _, forward, back, top, score, prev, which, *_ = self.room
        if self.N == 1:
            columns = zip(score[:size, 0].tolist(), prev[:size, 0].tolist(), which[:size, 0].tolist())
            hyps = [(hyp,) for hyp in columns]
        else:
            columns = zip(score[:size].tolist(), prev[:size].tolist(), which[:size].tolist())
            hyps = [[*zip(*hyp)] for hyp in columns]
        rows = [row[:k] for row, k in zip(words[:size].tolist(), length[:size].tolist())]
        sums = [x[:size].tolist() if self.sums else [] for x in (forward, back, top)]
        return Lattice(at[: T + 1].tolist(), turn[:size].tolist(), rows, *sums, hyps)


def fill_plain(scorer, choices, rows, lmw, N, sums):
    """`fill` in Python."""
    found, nodes, steps = Lattice(), [], []
    nothing, n = f32(-np.inf), max(scorer.order - 1, 1)

    def new(table, words, own):
        table[words] = len(found.words)
        found.words.append(words)
        nodes.append(own)
        found.forward.append(nothing)
        found.back.append(nothing)
        found.top.append(nothing)
        found.hyps.append([(nothing, -1, 0)] * N)
        return table[words]

    for t, row in enumerate(rows):
        these = range(choices.start[row], choices.start[row + 1])
        table = Hashed(number_of)
        if t == 0:
            for c in these:
                s = new(table, (int(choices.hidden[c]),), [int(choices.node[c])] + [-1] * (n - 1))
                found.forward[s] = choices.first[c]
                found.hyps[s][0] = choices.first[c], -1, 0
        else:
            before = found.states(t - 1)
            above = np.array([nodes[s] for s in before], np.int64).reshape(-1, n)
            for c in these:
                log10p, own, length = after(scorer, choices, c, above)
                for j, s in enumerate(before):
                    p = IMPOSSIBLE if log10p[j] == -np.inf == choices.alone[c] else log10p[j]
                    step = f32((lmw * float(p) if lmw else 0.0) + choices.later[c])
                    words = (int(choices.hidden[c]), *found.words[s])[: length[j]]
                    d = table[words] if words in table else new(table, words, own[j])
                    found.forward[d] = f32(add(float(found.forward[d]), float(found.forward[s] + step)))
                    for i, (score, _, _) in enumerate(found.hyps[s]):
                        put_in(found.hyps[d], found.words, score + step, s, i)
                    steps.append((t, s, d, step))
        found.turn += [table[words] for words in table.ordered()]
        found.at.append(len(found.turn))
    for s in found.states(len(rows) - 1):
        found.back[s] = found.top[s] = f32(0)
    # from the last place back, those of a place in the order in which they were found
    for _, s, d, step in sorted(steps, key=lambda x: -x[0]) if sums else ():
        found.back[s] = f32(add(float(found.back[s]), float(found.back[d] + step)))
        found.top[s] = max(found.top[s], found.top[d] + step)
    return found


def after(scorer, choices, c, above):
    """log10 p (P,) float32 of a hidden word after states whose nodes are above (P, n), the nodes of the states that it
    leads to (P, n), and how many words these have (P,).
    """
    P, n = above.shape
    log10p, weight = np.full(P, choices.alone[c]), np.zeros(P, f32)
    nodes, length = np.full((P, n), -1), np.ones(P, int)
    nodes[:, 0] = choices.node[c]
    word = np.full(P, choices.word[c])
    for k, (level, below) in enumerate(pairwise(scorer.nodes.levels[1:] if scorer.nodes else ()), 1):
        context = above[:, k - 1]
        weight += np.where(context >= 0, level["log10bow"][context], f32(0))
        child = children(level, below, context, word)
        value = np.where(child >= 0, below["log10p"][child], f32(np.nan))
        given = value < np.inf
        log10p[given], weight[given] = value[given], 0
        if k < n:
            nodes[:, k] = child
            marks = np.append(scorer.marked[scorer.begins[k] : scorer.begins[k + 1]], False)
            length[marks[child]] = k + 1
    return log10p + weight, nodes.tolist(), length.tolist()


@inlined
def sum_of(x, y):
    """`add`."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log10(1.0 + math.exp((y - x) * LN10))


@inlined
def above_in_order(words, length, a, b):
    """Whether the words of state a are above those of state b; -1, no state, is below all."""
    if a < 0:
        return False
    for i in range(min(length[a], length[b])):
        if words[a, i] != words[b, i]:
            return words[a, i] > words[b, i]
    return length[a] > length[b]


@inlined
def alike(words, length, a, b):
    """Whether two states have the same words."""
    same = length[a] == length[b]
    for k in range(length[a]):
        same = same and words[a, k] == words[b, k]
    return same


@inlined
def slot_of(slots, size, number, words, length, s):
    """The slot of a hash table, of LINEAR slots or more, where a state with the words of state s is, or would be."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    i = np.int64((u64(number[s]) * u64(MULTIPLIER) + u64(ADDEND)) >> u64(SHIFT - bits)) & (size - 1)
    while slots[i] >= 0 and not alike(words, length, slots[i], s):
        i = (i + 1) & (size - 1)
    return i


@sealed
def fill(model, choices, rows, lmw, sums, room):
    """The lattice of a sentence, `rows` (T,), in `room`, as Decoder.make_room has it. Returns the number of states, or
    -1 where there is no room for them.

    With C hidden words a place and C^(n - 1) states, this takes T C^n steps, each with a search in n - 1 orders, whose
    random reads are the bound.
    """
    at, turn, words, length, nodes, number, forward, back, top, score, prev, which, slots, spare, target, steps = room
    memory, logs, where, marked, begins = model
    start, hidden, word, node, alone, first, later = choices
    T, n, orders, N, most = len(rows), words.shape[1], len(begins), score.shape[1], len(turn)
    end, used, at[0] = 0, 0, 0
    for t in range(T):
        # a hash table of fewer slots than LINEAR keeps the order all the same
        size, count, low = LINEAR // 2, 0, 0 if t == 0 else at[t - 1]
        for i in range(size):
            slots[i] = -1
        for c in range(start[rows[t]], start[rows[t] + 1]):
            for j in range(low, low + 1 if t == 0 else at[t]):
                if end == most or (sums and used == len(target)):
                    return -1
                # the state that this step leads to, as if it were a new one
                s, e, total, long = -1, end, first[c], 1
                nodes[e, 0] = node[c]
                for k in range(1, n):
                    nodes[e, k] = -1
                if t > 0:
                    s = turn[j]
                    p, weight = alone[c], np.float32(0)
                    for k in range(1, orders):
                        context = np.int64(nodes[s, k - 1])
                        if context < 0:
                            continue
                        weight += logs[where[k - 1, AT] + WIDE * context + BOW]
                        begin, stop = children_of(memory, where, k, context)
                        if begin >= stop or word[c] < 0:
                            continue
                        child = search(memory, where[k, AT], where[k, WIDTH], begin, stop, word[c])
                        if child < 0:
                            continue
                        value = logs[where[k, AT] + where[k, WIDTH] * child + where[k, P]]
                        if value < np.inf:
                            p, weight = value, np.float32(0)
                        if k < n:
                            nodes[e, k] = child
                            if marked[begins[k] + child]:
                                long = k + 1
                    p = p + weight
                    if p == -np.inf and alone[c] == -np.inf:
                        p = IMPOSSIBLE
                    total = np.float32((lmw * np.float64(p) if lmw != 0.0 else 0.0) + later[c])
                words[e, 0], length[e] = hidden[c], long
                for k in range(1, long):
                    words[e, k] = words[s, k - 1]
                h = np.int64(0)
                for k in range(long):
                    h = (h + (h << 12) + words[e, k]) & BITS
                number[e] = h
                # its place in the hash table, which grows where it is full
                d, free = np.int64(-1), np.int64(0)
                if size >= LINEAR:
                    free = slot_of(slots, size, number, words, length, e)
                    d = np.int64(slots[free])
                else:
                    while free < count and d < 0:
                        d = np.int64(slots[free]) if alike(words, length, slots[free], e) else d
                        free += 1
                    free = count
                if d < 0:
                    least = count + 1
                    if least >= LINEAR:
                        least = np.int64(np.float32(count + 2) / FULL)
                    if least > size:
                        old, size = size, 2 * size
                        while size < least:
                            size *= 2
                        for i in range(size):
                            if i < old:
                                spare[i] = slots[i]
                            slots[i] = -1
                        for i in range(old):
                            if spare[i] >= 0:
                                slots[slot_of(slots, size, number, words, length, spare[i])] = spare[i]
                        free = slot_of(slots, size, number, words, length, e)
                    slots[free] = e
                    d, count, end = e, count + 1, end + 1
                    forward[d] = back[d] = top[d] = -np.inf
                    for i in range(N):
                        score[d, i], prev[d, i], which[d, i] = -np.inf, -1, 0
                    if t == 0:
                        forward[d] = score[d, 0] = total
                if t == 0:
                    continue
                if sums:
                    forward[d] = np.float32(sum_of(np.float64(forward[d]), np.float64(forward[s] + total)))
                    target[used], steps[used] = d, total
                    used += 1
                for i in range(N):
                    p, rank = score[s, i] + total, 0
                    while rank < N and (
                        score[d, rank] > p or (score[d, rank] == p and above_in_order(words, length, prev[d, rank], s))
                    ):
                        rank += 1
                    if rank < N:
                        for r in range(N - 1, rank, -1):
                            score[d, r], prev[d, r], which[d, r] = score[d, r - 1], prev[d, r - 1], which[d, r - 1]
                        score[d, rank], prev[d, rank], which[d, rank] = p, s, i
        place = 0 if t == 0 else at[t]
        for i in range(size):
            if slots[i] >= 0:
                turn[place] = slots[i]
                place += 1
        at[t + 1] = place
    if not sums:
        return end
    for j in range(at[T - 1], at[T]):
        back[turn[j]] = top[turn[j]] = 0
    for t in range(T - 1, 0, -1):
        C, begin, stop = start[rows[t] + 1] - start[rows[t]], at[t - 1], at[t]
        used -= C * (stop - begin)
        m = used
        for _ in range(C):
            for j in range(begin, stop):
                s, d, total = turn[j], target[m], steps[m]
                back[s] = np.float32(sum_of(np.float64(back[s]), np.float64(back[d] + total)))
                top[s] = max(top[s], top[d] + total)
                m += 1
    return end


@sealed
def decode(model, choices, rows, ends, begin, lmw, path, room):
    """The best path of each sentence from `begin` on: path (N,) <- the hidden words; rows (N,), those of sentences that
    end before `ends` (S,). Returns how many are done; fewer than S where there is no room for the states of the next.
    """
    at, turn, words, length, score, prev = room[0], room[1], room[2], room[3], room[9], room[10]
    for sentence in range(begin, len(ends)):
        low = np.int64(0) if sentence == 0 else ends[sentence - 1]
        T = ends[sentence] - low
        if fill(model, choices, rows[low : low + T], lmw, False, room) < 0:
            return sentence
        best = np.int64(-1)
        for j in range(at[T - 1], at[T]):
            s = np.int64(turn[j])
            if (
                best < 0
                or score[s, 0] > score[best, 0]
                or (score[s, 0] == score[best, 0] and not above_in_order(words, length, best, s))
            ):
                best = s
        for t in range(low + T - 1, low - 1, -1):
            path[t] = words[best, 0]
            best = np.int64(prev[best, 0])
    return len(ends)
