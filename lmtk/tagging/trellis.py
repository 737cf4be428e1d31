"""The trellis of a sentence whose tags are scored by an n-gram model, and what is read from it.

In: for each position of a sentence, its candidates (`candidates`), each with a tag and a score. Out: the best N paths,
or the probability of each candidate. Each sentence goes through these steps:

    forward        makes the states of each position, the best paths to them and the sums over all paths to them
    backward       sums over the paths from each state to the end (only for probabilities)
    read_paths or read_posteriors    write the result

A state is all that the model's next probability depends on: the last tags, as many of them as the model has a context
of, and one at least. With b(s, d) = p(tag of d | s)^lmw p(word | tag)^mapw for a step from state s to state d,

    best path    delta_t(d) = max over s of delta_t-1(s) b(s, d)        (Viterbi's algorithm)
    all paths    alpha_t(d) = sum over s of alpha_t-1(s) b(s, d),   beta_t-1(s) = sum over d of b(s, d) beta_t(d)

and a state has the share alpha_t(s) beta_t(s) of the probability (Rabiner 1989, section III). Logarithms are to the
base 10 and in single precision. States are listed in the order of `hashing`, as in SRILM. With C candidates for each
position and an n-gram model, each position has C^(n - 1) states and C^n steps. The time is bound by random reads: each
step searches n - 1 orders of the model.

symbol  shape    meaning
model            the arrays of TagModel; candidates: those of Candidates
trellis          (states, sums, paths, table)
states           at, turn, tag, words, length, nodes
at      (T + 2,) the states of position t are those from at[t + 1] up to at[t + 2]; state 0 is before the first position
turn    (S,)     the states of each position in the order of the table
tag     (S,)     the last tag of a state
words   (S, n)   its tags, the last one first; length (S,), their number
nodes   (S, n)   the n-grams of its last 1, 2 .. tags in the model, -1 for none
sums             to, back, total, target, step
to      (S,)     log10 of the sum over the paths to a state; back (S,), over the paths from it, or of the best of these
total   (S,)     log10 of the sum for all states of one tag
target  (M,)     the state to which a step leads; step (M,), log10 of its b: in the order of the steps
paths            score, before
score   (S + 1, N)  log10 of the best N paths to a state, the best first; the last row is for the end of the sentence
before  (S + 1, N)  the path that each of them extends, s N + i for the i-th path to state s; -1 for none
table            as in `hashing`, its items being states
"""

import math
from typing import NamedTuple

import numpy as np

from lmtk.lm import LN10
from lmtk.machine.jit import inlined, sealed
from lmtk.ngram.model.nodes import AT, BOW, WIDE, WIDTH, P, children_of
from lmtk.ngram.model.searching import search
from lmtk.tagging.hashing import clear, make_table, put, slots_of

# what is read: the best paths, or the probability of each candidate given the whole sentence (POSTERIOR), given the
# sentence up to the position (FILTERED), or by the best path through it alone (MAX_MARGINAL)
PATHS, POSTERIOR, FILTERED, MAX_MARGINAL = range(4)
IMPOSSIBLE = np.float32(-100)  # log10 p of a tag that the model lacks: other scores still decide
HASH_BITS = 0xFFFFFFFF
f32, f64, i64 = np.float32, np.float64, np.int64


class Decoded(NamedTuple):
    """The result for S sentences with R positions and M candidates in all.

    PATHS: path (N, R), the tags of the best N paths, int32; score (S, N), log10 of each path; paths (S,), how many
    paths a sentence has, N at most. Else: path (1, R), the most likely tags; score (S, 1), log10 of the sum over all
    paths; tag (M,), int32, and share (M,), log10, the probability of each candidate, position by position.
    """

    path: np.ndarray
    score: np.ndarray
    paths: np.ndarray
    tag: np.ndarray
    share: np.ndarray


class Decoder:
    """Decodes sentences. lmw: the weight of the model's log probabilities; N: how many best paths to find; kind: what
    to read, PATHS or one of the others; states: how many to make room for at first.
    """

    def __init__(self, model, lmw=1.0, N=1, kind=PATHS, states=1 << 10):
        self.model, self.settings, self.N, self.kind = model, (float(lmw), kind), N if kind == PATHS else 1, kind
        self.states, self.positions, self.trellis = states, 0, ()

    def __call__(self, candidates, rows, ends):
        """The Decoded of sentences. rows (R,) int32: the candidates of each position; ends (S,): the position before
        which each sentence ends.
        """
        R, S, N = len(rows), len(ends), self.N
        M = 0 if self.kind == PATHS else int(candidates.size[rows].sum())
        shapes = ((N, R), np.int32), ((S, N), f64), (S, i64), (M, np.int32), (M, f64)
        decoded, progress = Decoded(*(np.zeros(shape, dtype) for shape, dtype in shapes)), np.zeros(2, i64)
        arguments = self.model.arrays(), tuple(candidates), (rows, ends, progress), self.settings
        longest = int(np.diff(ends, prepend=0).max(initial=0))
        if not self.trellis or longest > self.positions:
            self.make_room(max(longest, self.positions), max(self.states, 4 * longest))
        while not decode(*arguments, self.trellis, tuple(decoded)):
            self.make_room(self.positions, 2 * self.states)
        return decoded

    def make_room(self, T, S):
        """Makes arrays for sentences of T positions and S states."""
        self.positions, self.states = T, S
        n, N, M, i32 = max(self.model.order - 1, 1), self.N, 1 if self.kind == PATHS else 8 * S, np.int32
        states = (T + 2, i64), (S, i64), (S, i64), ((S, n), i32), (S, i32), ((S, n), i32)
        sums = (S, f32), (S, f32), (S, f64), (M, i32), (M, f32)
        paths = ((S + 1, N), f32), ((S + 1, N), i64)
        arrays = (tuple(np.empty(shape, dtype) for shape, dtype in shapes) for shapes in (states, sums, paths))
        self.trellis = (*arrays, make_table(S, 8 * S))


@sealed
def decode(model, candidates, text, settings, trellis, decoded):
    """Decodes the sentences of a text, (rows, ends, progress), from the sentence progress[0] on, and writes `decoded`.
    progress[1] is the number of shares written. Returns False if the trellis is too small for the next sentence.
    """
    rows, ends, progress = text
    _, kind = settings
    for sentence in range(progress[0], len(ends)):
        low, high = ends[sentence - 1] if sentence else i64(0), ends[sentence]
        steps = forward(model, candidates, rows[low:high], settings, trellis)
        if steps < 0:
            return False
        if kind == PATHS:
            read_paths(low, high, sentence, trellis, decoded)
        else:
            if kind != FILTERED:
                backward(candidates, rows[low:high], kind, steps, trellis)
            progress[1] = read_posteriors(low, high, sentence, progress[1], kind, trellis, decoded)
        progress[0] = sentence + 1
    return True


@inlined
def add(x, y):
    """log10 of the sum of two numbers given as log10."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log10(1.0 + math.exp((y - x) * LN10))


@inlined
def forward(model, candidates, rows, settings, trellis):
    """Makes the states of a sentence, with their paths and sums. Returns the number of steps that `backward` needs, -1
    if the trellis is too small.
    """
    states, (to, _, _, target, step), (score, before), table = trellis
    at, turn = states[0], states[1]
    start, T, N = candidates[0], len(rows), score.shape[1]
    lmw, kind = settings
    steps, new = i64(0), i64(1)
    begin(trellis)
    for t in range(T):
        clear(table)
        for c in range(start[rows[t]], start[rows[t] + 1]):
            for j in range(at[t], at[t + 1]):
                if new == len(turn) or steps == len(target):
                    return i64(-1)
                s = turn[j]
                p = extend(model, candidates, c, s, new, states)
                make_key(new, s, states, table)
                b = step_score(candidates, c, p, lmw, t)
                d = put(table, new)
                if d == new:
                    to[d] = -np.inf
                    for i in range(N):
                        score[d, i], before[d, i] = -np.inf, -1
                    new += 1
                if kind != PATHS:
                    to[d] = f32(add(f64(to[d]), f64(to[s] + b)))
                    target[steps], step[steps] = d, b
                    steps += 1
                rank = i64(0)
                for i in range(N):
                    rank = keep(trellis, d, s * N + i, score[s, i] + b, rank)
                    if rank == N:
                        break
        list_states(trellis, t)
    return steps


@inlined
def begin(trellis):
    """Makes state 0, before the first position. It has no tags and one path, of score -0.0, which added to any number
    leaves that number."""
    (at, turn, tag, _, length, nodes), (to, _, _, _, _), (score, before), _ = trellis
    at[0], at[1], turn[0], tag[0], length[0] = 0, 1, 0, -1, 0
    to[0] = f32(-0.0)
    for k in range(nodes.shape[1]):
        nodes[0, k] = -1
    for i in range(score.shape[1]):
        score[0, i], before[0, i] = -np.inf if i else f32(-0.0), -1


@inlined
def list_states(trellis, t):
    """Lists the states of position t, which are those in the table, in the order of the table."""
    (at, turn, _, _, _, _), _, _, table = trellis
    slots = table[0]
    at[t + 2] = at[t + 1]
    for i in range(slots_of(table)):
        if slots[i] >= 0:
            turn[at[t + 2]] = slots[i]
            at[t + 2] += 1


@inlined
def extend(model, candidates, c, s, new, states):
    """Writes the nodes, tag and length of the state `new`, which state s and candidate c lead to. The length is the
    number of tags of the longest n-gram that is a context. Returns log10 p(tag | s). If the model has the n-gram of
    context and tag, this is its probability. Otherwise it is the back-off weight of the context times the probability
    of the tag after a shorter context, without the oldest tag.
    """
    memory, logs, where, is_context, begins = model
    _, hidden, word, node, alone, _, _ = candidates
    _, _, tag, _, length, nodes = states
    n, p, weight = nodes.shape[1], alone[c], f32(0)
    nodes[new, 0], tag[new], length[new] = node[c], hidden[c], 1
    for k in range(1, n):
        nodes[new, k] = -1
    for k in range(1, len(begins)):
        context = i64(nodes[s, k - 1])
        if context < 0:
            continue
        weight += logs[where[k - 1, AT] + WIDE * context + BOW]
        low, high = children_of(memory, where, k, context)
        child = i64(-1)
        if word[c] >= 0:
            child = search(memory, where, k + 1, low, high, word[c])
        if child < 0:
            continue
        value = logs[where[k, AT] + where[k, WIDTH] * child + where[k, P]]
        if value < np.inf:
            p, weight = value, f32(0)
        if k < n:
            nodes[new, k] = child
            if is_context[begins[k] + child]:
                length[new] = k + 1
    p = p + weight
    return IMPOSSIBLE if p == -np.inf and alone[c] == -np.inf else p


@inlined
def step_score(candidates, c, p, lmw, t):
    """log10 of a step to candidate c, with log10 p of its tag. At position 0 the model has no say."""
    _, _, _, _, _, first, later = candidates
    return f32((lmw * f64(p) if lmw != 0.0 else 0.0) + later[c]) if t else first[c]


@inlined
def make_key(new, s, states, table):
    """Writes the words of the state `new`, which follows state s, and its hash and key for the table."""
    _, _, tag, words, length, nodes = states
    _, _, _, hashes, keys = table
    size, number = i64(length[new]), i64(0)
    for k in range(size):
        words[new, k] = words[s, k - 1] if k else tag[new]
        number = (number + (number << 12) + words[new, k]) & HASH_BITS
    hashes[new] = number
    keys[new] = size << 32 | (i64(nodes[new, size - 1]) if size > 1 else tag[new])


@inlined
def keep(trellis, d, path, p, rank):
    """Puts the extension of a path, s N + i for the i-th path to state s, among the best N paths to d, in the order of
    p, then of the words of s. rank: the rank of the previous path to s. Returns the rank of the path; N if it is not
    among the best, and then no later path to s is either.
    """
    states, _, (score, before), _ = trellis
    N = score.shape[1]
    while rank < N and (score[d, rank] > p or (score[d, rank] == p and above(states, before[d, rank] // N, path // N))):
        rank += 1
    for r in range(N - 1, rank, -1):
        score[d, r], before[d, r] = score[d, r - 1], before[d, r - 1]
    if rank < N:
        score[d, rank], before[d, rank] = p, path
    return rank


@inlined
def above(states, a, b):
    """Whether the words of state a come after those of state b; -1, no state, comes before all."""
    _, _, _, words, length, _ = states
    if a < 0:
        return False
    for i in range(min(length[a], length[b])):
        if words[a, i] != words[b, i]:
            return words[a, i] > words[b, i]
    return length[a] > length[b]


@inlined
def backward(candidates, rows, kind, steps, trellis):
    """back (S,) <- log10 of the sum over the paths from each state, or of the best of them for MAX_MARGINAL."""
    (at, turn, _, _, _, _), (_, back, _, target, step), _, _ = trellis
    start, T = candidates[0], len(rows)
    for s in range(at[T + 1]):
        back[s] = -np.inf if s < at[T] else 0
    for t in range(T - 1, 0, -1):
        C = start[rows[t] + 1] - start[rows[t]]
        steps -= C * (at[t + 1] - at[t])
        m = steps
        for _ in range(C):
            for j in range(at[t], at[t + 1]):
                s, p = turn[j], back[target[m]] + step[m]
                back[s] = max(back[s], p) if kind == MAX_MARGINAL else f32(add(f64(back[s]), f64(p)))
                m += 1


@inlined
def read_paths(low, high, sentence, trellis, decoded):
    """Writes the best paths of a sentence, whose positions are those from low up to high."""
    (at, turn, tag, _, _, _), _, (score, before), _ = trellis
    path, scores, count, _, _ = decoded
    T, N = high - low, score.shape[1]
    end = len(score) - 1
    for i in range(N):
        score[end, i], before[end, i] = -np.inf, -1
    for j in range(at[T], at[T + 1]):
        rank = i64(0)
        for i in range(N):
            rank = keep(trellis, end, turn[j] * N + i, score[turn[j], i], rank)
            if rank == N:
                break
    count[sentence] = 0
    for rank in range(N):
        link, t = before[end, rank], high
        while link >= N:
            t -= 1
            path[rank, t] = tag[link // N]
            link = before[link // N, link % N]
        if t > low:
            break
        scores[sentence, rank] = score[end, rank]
        count[sentence] += 1


@inlined
def read_posteriors(low, high, sentence, m, kind, trellis, decoded):
    """Writes the shares of a sentence's candidates from place m on, its most likely tags and the sum over all paths.
    Returns the place where its shares end.
    """
    (at, turn, tag, _, _, _), (to, back, total, _, _), (score, _), table = trellis
    slots, _, _, hashes, keys = table
    path, scores, count, tags, share = decoded
    for t in range(high - low):
        clear(table)
        for j in range(at[t + 1], at[t + 2]):
            s = turn[j]
            p = f64(to[s])
            if kind == POSTERIOR:
                p = f64(to[s] + back[s])
            elif kind == MAX_MARGINAL:
                p = f64(score[s, 0]) + f64(back[s])
            hashes[s] = keys[s] = tag[s]
            d = put(table, s)
            total[d] = p if d == s else add(total[d], p)
        whole, best, first = -np.inf, i64(-1), m
        for i in range(slots_of(table)):
            d = slots[i]
            if d >= 0:
                whole = add(whole, total[d])
                tags[m], share[m] = tag[d], total[d]
                best = m if best < 0 or share[m] > share[best] else best
                m += 1
        path[0, low + t] = tags[best]
        for i in range(first, m):
            share[i] -= whole
    whole = -np.inf
    for j in range(at[high - low], at[high - low + 1]):
        whole = add(whole, f64(to[turn[j]]))
    scores[sentence, 0], count[sentence] = whole, 1
    return m
