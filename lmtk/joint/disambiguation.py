"""The hidden words behind the words of a text: a hidden Markov model with a back-off model of the hidden words.

A word v of a text stands for one of the hidden words h that a map gives it, with p(v | h). The words v_1 .. v_T of a
sentence and hidden words h_1 .. h_T have together

    p(v, h) = p(v_1 | h_1) * product over t > 1 of p(h_t | h_1 .. h_t-1)^lmw p(v_t | h_t)^mapw.

A state is what the next p(h | ..) depends on: the last hidden words, as far back as the model has a context of them,
and one at least. Each place of the sentence has its states, linked to those of the place before by steps: this is the
trellis. With b(s, d) = p(h_t | s)^lmw p(v_t | h_t)^mapw of a step from s to d, Viterbi's algorithm keeps the best N of

    delta_t(d) = max over s of delta_t-1(s) b(s, d)

and the forward-backward algorithm sums over all paths (Rabiner 1989, section III)

    alpha_t(d) = sum over s of alpha_t-1(s) b(s, d),   beta_t-1(s) = sum over d of b(s, d) beta_t(d),

so that a state has the share alpha_t(s) beta_t(s) of the probability. Logarithms are to the base 10 and in single
precision, and states come in the order of SRILM's hash tables, as `hashing` has it. Small jobs run `filled`, large
ones the kernel `trellis.decode`.

symbol  shape    meaning
start   (R + 1,) the row of a word of the text, what it may stand for, is from start[row] up to start[row + 1] of:
hidden  (C,)     hidden words, by their numbers, int32
word    (C,)     the same by their ids in the model, -1 for none, int32
node    (C,)     their 1-grams, -1 for none, int32
alone   (C,)     their log10 p after nothing, float32
first   (C,)     log10 p(v | h) at the first place, float32
later   (C,)     mapw log10 p(v | h) at others, float64
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.joint.hashing import Hashed, in_order, number_of
from lmtk.joint.trellis import ALL, BEST, IMPOSSIBLE, PATHS, decode
from lmtk.lm import LN10
from lmtk.machine.large import pays
from lmtk.ngram.nodes import mark_ends, unigrams
from lmtk.ngram.searching import children

f32 = np.float32
SOME = 1 << 10  # states that there is room for at first
MANY = 1 << 20  # results, in numbers, to be printed at once
WORD = 16  # steps that take as long as what `filled` does once for a word


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
        """For `decode`."""
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
    flat = [(h, row[h]) for row in rows for h in in_order([*row])]
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
    """The states of a sentence, in lists: turn, those of each place in SRILM's order; words, the hidden ones of a
    state, the last one first; to, log10 of the sum over the paths to it; back, over those from it, or of the best of
    them; hyps, the best paths to it: (log10 p, the state before, the place among its paths), -1 for none.
    """

    turn: list = field(default_factory=list)
    words: list = field(default_factory=list)
    nodes: list = field(default_factory=list)
    to: list = field(default_factory=list)
    back: list = field(default_factory=list)
    hyps: list = field(default_factory=list)

    def new(self, words, nodes, N):
        """A state more, its number."""
        nothing = f32(-np.inf)
        self.words.append(words)
        self.nodes.append(nodes)
        self.to.append(nothing)
        self.back.append(nothing)
        self.hyps.append([(nothing, -1, 0)] * N)
        return len(self.words) - 1


def filled(scorer, choices, rows, lmw, N, kind):
    """The Lattice of a sentence, the rows of its words in `choices`."""
    found, steps, n = Lattice(), [], max(scorer.order - 1, 1)
    for t, row in enumerate(rows):
        table = Hashed(number_of)
        for c in range(choices.start[row], choices.start[row + 1]):
            h = int(choices.hidden[c])
            if t == 0:
                table[h,] = s = found.new((h,), [int(choices.node[c])] + [-1] * (n - 1), N)
                found.to[s], found.hyps[s][0] = choices.first[c], (choices.first[c], -1, 0)
                continue
            above = np.array([found.nodes[s] for s in found.turn[-1]], np.int64).reshape(-1, n)
            for s, log10p, nodes, length in zip(found.turn[-1], *after(scorer, choices, c, above)):
                p = IMPOSSIBLE if log10p == -np.inf == choices.alone[c] else log10p
                step = f32((lmw * float(p) if lmw else 0.0) + choices.later[c])
                words = (h, *found.words[s])[:length]
                if words not in table:
                    table[words] = found.new(words, nodes, N)
                d = table[words]
                found.to[d] = f32(add(float(found.to[d]), float(found.to[s] + step)))
                for i, (score, _, _) in enumerate(found.hyps[s]):
                    keep(found.hyps[d], found.words, score + step, s, i)
                steps.append((t, s, d, step))
        found.turn.append([table[words] for words in table.ordered()])
    for s in found.turn[-1]:
        found.back[s] = f32(0)
    # from the last place back, those of a place in the order in which they were found
    for _, s, d, step in sorted(steps, key=lambda x: -x[0]) if kind in (ALL, BEST) else ():
        p = found.back[d] + step
        found.back[s] = max(found.back[s], p) if kind == BEST else f32(add(float(found.back[s]), float(p)))
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


def keep(hyps, words, score, state, which):
    """Puts a path among the best, which stand by their score, then by the words of the states before; in place."""
    for rank, (p, other, _) in enumerate(hyps):
        if not (p > score or (p == score and other >= 0 and words[other] > words[state])):
            hyps.insert(rank, (score, state, which))
            hyps.pop()
            return


def best_paths(lattice, N):
    """The N best paths, or as many as there are, the best first: (log10 p, hidden words)."""
    hyps = [(-math.inf, -1, 0)] * N
    for state in lattice.turn[-1]:
        for which, (score, _, _) in enumerate(lattice.hyps[state]):
            keep(hyps, lattice.words, score, state, which)
    found = []
    for score, state, which in hyps:
        path = []
        while state >= 0:
            path.append(lattice.words[state][0])
            _, state, which = lattice.hyps[state][which]
        if len(path) < len(lattice.turn):
            break
        found.append((score, path[::-1]))
    return found


def shares(lattice, kind):
    """For each place the hidden words and log10 of what they have of the probability, {hidden word: log10 p}, in
    SRILM's order, and log10 of all together. kind: ALL paths; FORWARD, those up to the place; BEST, the best path
    through each state.
    """
    for states in lattice.turn:
        sums = {}
        for s in states:
            p = float(lattice.to[s])
            if kind == ALL:
                p = float(lattice.to[s] + lattice.back[s])
            elif kind == BEST:
                p = float(lattice.hyps[s][0][0]) + float(lattice.back[s])
            h = lattice.words[s][0]
            sums[h] = add(sums[h], p) if h in sums else p
        total, hidden = -math.inf, in_order([*sums])
        for h in hidden:
            total = add(total, sums[h])
        yield {h: sums[h] for h in hidden}, total


def total(lattice):
    """log10 of the sum over all paths."""
    found = -math.inf
    for s in lattice.turn[-1]:
        found = add(found, float(lattice.to[s]))
    return found


@dataclass(frozen=True)
class Decoded:
    """What was found of S sentences, of R words together, which may stand for M hidden words together.

    path (N, R): the hidden words of the best N paths, int32; score (S, N), their log10 p; found (S,), how many there
    are. If shares are wanted: path (1, R), the hidden words with the largest; score (S, 1), log10 p of the sentence;
    hidden (M,), int32, and share (M,), log10, those of each word behind each other, in SRILM's order.
    """

    path: np.ndarray
    score: np.ndarray
    found: np.ndarray
    hidden: np.ndarray
    share: np.ndarray

    def arrays(self):
        return self.path, self.score, self.found, self.hidden, self.share


@dataclass(frozen=True)
class Sentences:
    """Sentences behind each other: rows (R,), those of their words in the choices, int32; ends (S,), before which word
    each ends; source (R,), which word of the text each is, -1 for none; line (S,), which of the text's lines each is.
    """

    rows: np.ndarray
    ends: np.ndarray
    source: np.ndarray
    line: np.ndarray

    @cached_property
    def begins(self):
        return np.append(0, self.ends)[:-1]

    def only(self, wanted):
        """Those sentences that are wanted, (S,) bool."""
        length = self.ends - self.begins
        words = np.repeat(wanted, length)
        return Sentences(self.rows[words], np.cumsum(length[wanted]), self.source[words], self.line[wanted])

    def parts(self, weight):
        """The same in parts of about MANY results; weight (R,): how many each word has."""
        part = np.append(0, np.cumsum(weight))[self.begins] // MANY
        yield from (self.only(part == k) for k in np.unique(part)) if part.any() else [self] * bool(len(part))


def sentences(ids, sos, eos, bare_end=False):
    """The Sentences of a text, ids (N,), -1 at the end of each line, with the marks that they lack. Empty lines are
    none. bare_end: no eos.
    """
    stops = np.flatnonzero(ids < 0)
    starts = np.append(0, stops + 1)[:-1]
    line = np.flatnonzero(starts < stops)
    starts, stops = starts[line], stops[line]
    before = ids[starts] != sos
    behind = (ids[stops - 1] != eos) & (not bare_end)
    ends = np.cumsum(stops - starts + before + behind)
    begins = np.append(0, ends)[:-1]
    rows, source = np.full(ends[-1] if len(ends) else 0, eos, np.int32), np.full(ends[-1] if len(ends) else 0, -1)
    rows[begins[before]] = sos
    places = np.flatnonzero(ids >= 0)
    target = places + np.repeat(begins + before - starts, stops - starts)
    rows[target], source[target] = ids[places], places
    return Sentences(rows, ends, source, line + 1)


class Decoder:
    """Decodes sentences. lmw: the weight of the model; N: how many best paths are wanted; kind: whether these, PATHS,
    or shares, as `shares` has them.
    """

    def __init__(self, scorer, lmw=1.0, N=1, kind=PATHS):
        self.scorer, self.lmw, self.N, self.kind = scorer, float(lmw), 1 if kind else N, kind
        self.work, self.known, self.room = 0, False, ()

    def __call__(self, choices, rows, ends):
        """Decoded of sentences: rows (R,), those of their words, behind each other, int32; where each ends (S,)."""
        R, S, M = len(rows), len(ends), int(choices.size[rows].sum()) if self.kind else 0
        shapes = ((self.N, R), np.int32), ((S, self.N), np.float64), (S, np.int64), (M, np.int32), (M, np.float64)
        found = Decoded(*(np.zeros(shape, dtype) for shape, dtype in shapes))
        (self.large if self.pays(choices, rows) else self.small)(choices, rows, ends, found)
        return found

    def pays(self, choices, rows):
        """Whether the kernel pays, by the steps so far and those for these rows."""
        size = choices.size[rows]
        self.work += len(rows) * WORD + int((size[1:] * size[:-1]).sum())
        return self.known or pays("ngrams", self.work, "disambiguate")

    def small(self, choices, rows, ends, found):
        m = 0
        for i, (low, high) in enumerate(pairwise([0, *ends.tolist()])):
            lattice = filled(self.scorer, choices, rows[low:high], self.lmw, self.N, self.kind)
            if not self.kind:
                paths = best_paths(lattice, self.N)
                found.found[i] = len(paths)
                for k, (score, path) in enumerate(paths):
                    found.score[i, k], found.path[k, low:high] = score, path
                continue
            found.found[i], found.score[i] = 1, total(lattice)
            for t, (sums, whole) in enumerate(shares(lattice, self.kind), low):
                found.path[0, t] = max(sums, key=sums.get)
                for h, p in sums.items():
                    found.hidden[m], found.share[m] = h, p - whole
                    m += 1

    def large(self, choices, rows, ends, found):
        model, longest = self.scorer.arrays(), int(np.diff(ends, prepend=0).max())
        done, states = 0, max(4 * longest, SOME)
        while done < len(ends):
            if not self.room or len(self.room[0][0]) < longest + 1 or len(self.room[0][1]) < states:
                self.make_room(longest, states)
            done = decode(model, choices.arrays(), rows, ends, done, self.lmw, self.kind, self.room, found.arrays())
            states = 2 * len(self.room[0][1])
        self.known = True

    def make_room(self, T, S):
        """Arrays for `decode`, sentences of T words and S states."""
        n, N, M, i32, i64 = max(self.scorer.order - 1, 1), self.N, 8 * S if self.kind else 1, np.int32, np.int64
        states = (T + 1, i64), (S, i64), ((S, n), i32), (S, i32), (S, i64), ((S, n), i32), (S, i64), (S, i64)
        sums = (S, f32), (S, f32), (S, np.float64), (M, i32), (M, f32)
        paths = ((S + 1, N), f32), ((S + 1, N), i64)
        table = (4 * S, i64), (4 * S, i64), (2, i64)
        shapes = states, sums, paths, table
        self.room = tuple(tuple(np.empty(shape, dtype) for shape, dtype in some) for some in shapes)
