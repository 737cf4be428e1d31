"""The trellis of a hidden Markov model whose hidden words an n-gram model scores: kernels, for large jobs.

`decode` does sentence after sentence: the states of each place and the paths to them (`forward`), for sums the way back
(`backward`), and what is wanted of the paths (`read_paths`) or of the sums (`read_shares`). `disambiguation` has the
equations, and the same in Python. With C hidden words a place and C^(n - 1) states, a sentence of T words takes T C^n
steps, each with a search in n - 1 orders, whose random reads are the bound.

symbol  shape    meaning
model            memory, logs, where: as in `nodes`; marked, begins: as in Scorer
choices          start, hidden, word, node, alone, first, later: as in Choices
room             where the trellis of a sentence is made, (states, sums, paths, table):
states           at, turn, words, length, last, nodes, and number and key as in `hashing`
at      (T + 1,) the states of place t are those from at[t] up to at[t + 1], in the order in which they were found
turn    (S,)     the same in the order of the hash table
words   (S, n)   the words of a state, the last one first; length (S,), how many they are; last (S,), the last one
nodes   (S, n)   the n-grams of the last 1, 2 .. words, -1 for none
sums             to, back, total, target, step
to      (S,)     log10 of the sum over the paths to a state; back (S,), over those from it, or of the best of these
total   (S,)     what the states of a hidden word have together
target  (M,)     the state that a step leads to; step (M,), log10 of its p: in the order of the steps
paths            score, before
score   (S + 1, N)  log10 of the best N paths to a state, the best first; behind the states, to the end of the sentence
before  (S + 1, N)  what each was before its last step, s N + i for the i-th path to state s; -1 for none
table            slots, spare, size: as in `hashing`
"""

import math

import numpy as np

from lmtk.joint.hashing import BITS, clear, find_or_put, slots_of
from lmtk.lm import LN10
from lmtk.machine.jit import inlined, sealed
from lmtk.ngram.nodes import AT, BOW, WIDE, WIDTH, P, children_of
from lmtk.ngram.searching import search

PATHS, ALL, FORWARD, BEST = range(4)  # what is wanted: best paths; else shares, as `disambiguation.shares` says
IMPOSSIBLE = np.float32(-100)  # log10 p of a word that the model does not know, so that other words still count
f32, f64 = np.float32, np.float64


@sealed
def decode(model, choices, rows, ends, begin, lmw, kind, room, out):
    """Decodes sentences from `begin` on: out, as Decoded has it, is written; rows (R,), those of the words of sentences
    that end before `ends` (S,). Returns how many are done; fewer than S where the room is too small for the next.
    """
    low, m = np.int64(0), np.int64(0)
    for i in range(begin):
        low = ends[i]
    for row in rows[:low]:
        m += choices[0][row + 1] - choices[0][row]
    for sentence in range(begin, len(ends)):
        high = ends[sentence]
        if not forward(model, choices, rows[low:high], lmw, kind != PATHS, room):
            return sentence
        if kind == PATHS:
            read_paths(low, high, sentence, room, out)
        else:
            if kind != FORWARD:
                backward(choices, rows[low:high], kind, room)
            m = read_shares(low, high, sentence, m, kind, room, out)
        low = high
    return len(ends)


@inlined
def sum_of(x, y):
    """log10 of the sum of two numbers given as log10."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log10(1.0 + math.exp((y - x) * LN10))


@inlined
def extended(model, choices, c, s, e, nodes):
    """(log10 p of a hidden word after state s, how many words the next state has); nodes[e] <- its n-grams. s is -1 at
    the first place.

    p(h | c) is that of the n-gram c h where there is one, else bow(c) p(h | c without its oldest word). The next state
    is the longest n-gram that may be a context.
    """
    memory, logs, where, marked, begins = model
    _, _, word, node, alone, _, _ = choices
    n, p, weight, length = nodes.shape[1], alone[c], f32(0), 1
    nodes[e, 0] = node[c]
    for k in range(1, n):
        nodes[e, k] = -1
    for k in range(1, len(begins)):
        context = np.int64(nodes[s, k - 1]) if s >= 0 else np.int64(-1)
        if context < 0:
            continue
        weight += logs[where[k - 1, AT] + WIDE * context + BOW]
        low, high = children_of(memory, where, k, context)
        child = np.int64(-1)
        if word[c] >= 0:
            child = search(memory, where[k, AT], where[k, WIDTH], low, high, word[c])
        if child < 0:
            continue
        value = logs[where[k, AT] + where[k, WIDTH] * child + where[k, P]]
        if value < np.inf:
            p, weight = value, f32(0)
        if k < n:
            nodes[e, k] = child
            if marked[begins[k] + child]:
                length = k + 1
    p = p + weight
    return IMPOSSIBLE if p == -np.inf and alone[c] == -np.inf else p, length


@inlined
def forward(model, choices, rows, lmw, sums, room):
    """The states of a sentence, the best paths to each and, where there are to be sums, these and the steps. Returns
    False where the room is too small.
    """
    states, (to, _, _, target, step), (score, before), table = room
    at, turn, words, length, last, nodes, number, key = states
    slots, _, size = table
    start, hidden, _, _, _, first, later = choices
    T, N, e, used = len(rows), score.shape[1], np.int64(0), 0
    at[0] = 0
    for t in range(T):
        clear(table)
        # the first place has no state before it, which is -1
        low = at[t - 1] if t else 0
        high = at[t] if t else 1
        for c in range(start[rows[t]], start[rows[t] + 1]):
            for j in range(low, high):
                if e == len(turn) or (sums and used == len(target)):
                    return False
                # where the step leads to is made as if it were new
                s = turn[j] if t else np.int64(-1)
                log10p, long = extended(model, choices, c, s, e, nodes)
                p = f32((lmw * f64(log10p) if lmw != 0.0 else 0.0) + later[c]) if t else first[c]
                length[e], last[e], number[e] = long, hidden[c], 0
                for k in range(long):
                    words[e, k] = words[s, k - 1] if k else hidden[c]
                    number[e] = (number[e] + (number[e] << 12) + words[e, k]) & BITS
                key[e] = np.int64(long) << 32 | (np.int64(nodes[e, long - 1]) if long > 1 else np.int64(hidden[c]))
                d = find_or_put(table, number, key, e)
                if d == e:
                    to[d] = -np.inf
                    for i in range(N):
                        score[d, i], before[d, i] = -np.inf, -1
                    e += 1
                if sums:
                    to[d] = f32(sum_of(f64(to[d]), f64(to[s] + p if t else p)))
                    target[used], step[used] = d, p
                    used += 1
                rank = np.int64(0)
                for i in range(N if t else 1):
                    rank = keep(words, length, score, before, d, s, i, score[s, i] + p if t else p, rank)
                    if rank == N:
                        break
        at[t + 1] = at[t] if t else 0
        for i in range(slots_of(size)):
            if slots[i] >= 0:
                turn[at[t + 1]] = slots[i]
                at[t + 1] += 1
    return True


@inlined
def keep(words, length, score, before, d, s, i, p, rank):
    """Puts a path, the i-th to state s and then on to d, among the best to d: these stand by their p, then by the words
    of the states before. rank: that of the path before the i-th. Returns this one's, N if it is not among them: then
    none behind it is.
    """
    N = score.shape[1]
    while rank < N and (score[d, rank] > p or (score[d, rank] == p and above(words, length, before[d, rank] // N, s))):
        rank += 1
    for r in range(N - 1, rank, -1):
        score[d, r], before[d, r] = score[d, r - 1], before[d, r - 1]
    if rank < N:
        score[d, rank], before[d, rank] = p, s * N + i if s >= 0 else -1
    return rank


@inlined
def above(words, length, a, b):
    """Whether the words of state a are above those of state b; -1, no state, is below all."""
    if a < 0:
        return False
    for i in range(min(length[a], length[b])):
        if words[a, i] != words[b, i]:
            return words[a, i] > words[b, i]
    return length[a] > length[b]


@inlined
def backward(choices, rows, kind, room):
    """back (S,) <- log10 of the sums over the paths from each state, or, for BEST, of the best of them."""
    (at, turn, _, _, _, _, _, _), (_, back, _, target, step), _, _ = room
    start, T = choices[0], len(rows)
    used = np.int64(0)
    for t in range(T):
        used += (start[rows[t] + 1] - start[rows[t]]) * (at[t] - at[t - 1] if t else 1)
    for s in range(at[T]):
        back[s] = -np.inf if s < at[T - 1] else 0
    for t in range(T - 1, 0, -1):
        C = start[rows[t] + 1] - start[rows[t]]
        used -= C * (at[t] - at[t - 1])
        m = used
        for _ in range(C):
            for j in range(at[t - 1], at[t]):
                s, p = turn[j], back[target[m]] + step[m]
                back[s] = max(back[s], p) if kind == BEST else f32(sum_of(f64(back[s]), f64(p)))
                m += 1


@inlined
def read_paths(low, high, sentence, room, out):
    """path (N, R), scores (S, N), found (S,) <- those of a sentence, whose words are those from low up to high."""
    (at, turn, words, length, last, _, _, _), _, (score, before), _ = room
    path, scores, found, _, _ = out
    T, N = high - low, score.shape[1]
    end = at[T]
    for i in range(N):
        score[end, i], before[end, i] = -np.inf, -1
    for j in range(at[T - 1], at[T]):
        rank = np.int64(0)
        for i in range(N):
            rank = keep(words, length, score, before, end, turn[j], i, score[turn[j], i], rank)
            if rank == N:
                break
    found[sentence] = 0
    for rank in range(N):
        link, t = before[end, rank], high
        while link >= 0:
            t -= 1
            path[rank, t] = last[link // N]
            link = before[link // N, link % N]
        if t > low:
            break
        scores[sentence, rank] = score[end, rank]
        found[sentence] += 1


@inlined
def read_shares(low, high, sentence, m, kind, room, out):
    """path (1, R), scores (S, 1), hidden (M,), share (M,) <- those of a sentence; its shares stand from m on. Returns
    where they end.
    """
    (at, turn, _, _, last, _, _, _), (to, back, total, _, _), (score, _), table = room
    slots, _, size = table
    path, scores, found, hidden, share = out
    for t in range(low, high):
        clear(table)
        for j in range(at[t - low], at[t - low + 1]):
            s = turn[j]
            p = f64(to[s])
            if kind == ALL:
                p = f64(to[s] + back[s])
            elif kind == BEST:
                p = f64(score[s, 0]) + f64(back[s])
            d = find_or_put(table, last, last, s)
            total[d] = p if d == s else sum_of(total[d], p)
        whole, best, begin = -np.inf, np.int64(-1), m
        for i in range(slots_of(size)):
            d = slots[i]
            if d >= 0:
                whole = sum_of(whole, total[d])
                hidden[m], share[m] = last[d], total[d]
                best = m if best < 0 or share[m] > share[best] else best
                m += 1
        path[0, t] = hidden[best]
        for i in range(begin, m):
            share[i] -= whole
    whole = -np.inf
    for j in range(at[high - low - 1], at[high - low]):
        whole = sum_of(whole, f64(to[turn[j]]))
    scores[sentence, 0], found[sentence] = whole, 1
    return m
