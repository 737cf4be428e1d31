"""Makes the states and arcs of an FST from n-grams (Allauzen, Mohri and Roark 2003), as Kaldi's arpa2fst does.

A state is a history: the root is the empty one, and each n-gram below the highest order is one. The n-gram w_1 .. w_k
is an arc with the label w_k and the weight -ln p, from w_1 .. w_(k-1) to w_1 .. w_k, or to w_2 .. w_k at the highest
order. A back-off arc with the weight -ln bow goes from each history to its longest proper suffix that is a state.
States are numbered in the order of the n-grams.

With a back-off label, <s> and </s> are not labels: the history <s> is the start, and </s> gives final weights. Without
one, back-off arcs have the label 0, an arc with <s> leaves a start state, and arcs with </s> go to a final state, 1.

Inside this module labels are dense, 0 .. L-1 in the order of the words' numbers, for counting sorts.

symbol   shape    meaning
keys     (S, n)   the labels of a state's history
length   (S,)     how many there are; -1 for the states before <s> and after </s>, which no look-up finds
final    (S,)     the final weight, -ln p, or inf
slots    (H,)     an open-addressing hash table of the states by their histories, -1: empty; H is a power of two
words    (n,)     the labels of the n-gram at hand
sizes    (7,)     counters, at the places STATES ... REPEATED
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.lm import LN10
from lmtk.machine.jit import inlined, jit
from lmtk.ngram.model.nodes import ZERO

STATES, ARCS, START, UNLABELLED, MISPLACED, ORPHANS, REPEATED = range(7)  # places in `sizes`
LEAST = -1e38  # log10 of the least number, so that -ln is a float32
u64 = np.uint64


@dataclass(frozen=True)
class Fst:
    """A weighted FST over the tropical semiring. start: the first state. final (S,) float32: final weights, inf: not
    final. begins (S + 1,) int64: where the arcs of each state begin. label, target (A,) int32 and weight (A,) float32:
    the arcs' input labels, next states and weights. The output label is the input label, but 0 for `backoff`, the input
    label of back-off arcs.
    """

    start: int
    final: np.ndarray
    begins: np.ndarray
    label: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    backoff: int


@dataclass(frozen=True)
class Form:
    """How an FST is made. sos, eos: the numbers of <s> and </s>. backoff: the label of back-off arcs; None: they
    have the label 0, and <s> and </s> are labels. order: the order of n-grams that go to their back-off state at once.
    is_sorted: whether the arcs of a state are sorted by their labels.
    """

    sos: int
    eos: int
    backoff: int | None
    order: int
    is_sorted: bool = True


@inlined
def find(words, first, end, keys, length, slots):
    """The place in `slots` of the state with the history words[first:end], or the empty place for it."""
    h = u64(end - first)
    for j in range(first, end):
        h = (h ^ u64(words[j])) * u64(0x9E3779B97F4A7C15)
        h ^= h >> u64(29)
    mask = u64(len(slots) - 1)
    at = h & mask
    while True:
        state = slots[at]
        if state < 0:
            return at
        if length[state] == end - first:
            j = first
            while j < end and keys[state, j - first] == words[j]:
                j += 1
            if j == end:
                return at
        at = (at + u64(1)) & mask


@jit
def fill_slots(states, keys, length, slots):
    """Adds the first `states` states to `slots`, whose places are all empty."""
    for state in range(states):
        if length[state] >= 0:
            slots[find(keys[state], 0, length[state], keys, length, slots)] = state


@inlined
def natural(log10):
    """-ln of a number from its log10, with Kaldi's rounding; a log10 of -inf stands for ZERO. The result is finite."""
    x = np.float64(log10)
    return -np.float32((ZERO if x == -np.inf else max(x, LEAST)) * LN10)


@jit
def add_ngrams(rows, begin, labels, form, states, arcs):
    """Adds the n-grams rows[begin:] (N, k + 2) of an order to the states and arcs.

    labels (W,): the label of each word, -1 for none. form: the labels of <s>, </s> and back-off arcs, whether <s> and
    </s> are left out, and whether this is the highest order. states: keys, length, final, slots, words and sizes; arcs:
    source, target, label and weight; all are written in place. N-grams with a word without a label, with <s> or </s>
    in a wrong place, without a prefix, and repeated ones are left out and counted. Returns N or, if `slots` is full,
    the first row that was not added. Bound by two or three look-ups, a cache miss or two each, for an n-gram.
    """
    k = rows.shape[1] - 2
    logs = rows.view(np.float32)
    sos, eos, backoff, folded, highest = form
    keys, length, final, slots, words, sizes = states
    for i in range(begin, len(rows)):
        if 2 * sizes[STATES] + 4 > len(slots):
            return i
        kept, placed = True, True
        for j in range(k):
            word = labels[rows[i, j]]
            words[j] = word
            kept &= word >= 0
            placed &= not (j > 0 and word == sos) and not (j + 1 < k and word == eos)
        if not kept or not placed:
            sizes[MISPLACED if kept else UNLABELLED] += 1
            continue
        origin = np.int64(slots[find(words, 0, k - 1, keys, length, slots)])
        if origin < 0:
            sizes[ORPHANS] += 1
            continue
        word, cost = words[k - 1], natural(logs[i, k])
        if word == eos and folded:
            if final[origin] != np.inf:
                sizes[REPEATED] += 1
            else:
                final[origin] = cost
            continue
        first = 1 if highest else 0
        state = np.int64(1)
        if word != eos:
            at = find(words, first, k, keys, length, slots)
            state = np.int64(slots[at])
            if state >= 0 and not highest:
                sizes[REPEATED] += 1
                continue
            if state < 0:
                state, bow = sizes[STATES], natural(np.float32(0) if highest else logs[i, k + 1])
                lower = open_state(words, first, k, at, states)
                put_arc(arcs, sizes, state, lower, backoff, bow)
        if word == sos:
            sizes[START] = state
            if folded:
                continue
            origin, cost = sizes[STATES], np.float32(0)
            sizes[STATES] += 1
            sizes[START] = origin
            length[origin], final[origin] = -1, np.inf
        put_arc(arcs, sizes, origin, state, word, cost)
    return len(rows)


@inlined
def open_state(words, first, end, at, states):
    """Adds the state with the history words[first:end] to `slots`, at the empty place `at`. Returns the state of its
    longest proper suffix.
    """
    keys, length, final, slots, _, sizes = states
    state = sizes[STATES]
    sizes[STATES] += 1
    slots[at], length[state], final[state] = state, end - first, np.inf
    for j in range(first, end):
        keys[state, j - first] = words[j]
    lower = np.int64(-1)
    while lower < 0:
        first += 1
        lower = np.int64(slots[find(words, first, end, keys, length, slots)])
    return lower


@inlined
def put_arc(arcs, sizes, origin, state, word, cost):
    """Appends an arc to source, target, label and weight."""
    source, target, label, weight = arcs
    a = sizes[ARCS]
    sizes[ARCS] += 1
    source[a], target[a], label[a], weight[a] = origin, state, word, cost


@jit
def sort_places(values, places, starts, out):
    """out (A,) <- the places (A,), sorted by values[place]; equal ones keep their order. starts (V + 1,) int64, zeros:
    becomes where each value ends.
    """
    for i in range(len(values)):
        starts[values[i] + 1] += 1
    for v in range(1, len(starts)):
        starts[v] += starts[v - 1]
    for i in range(len(places)):
        place = places[i]
        out[starts[values[place]]] = place
        starts[values[place]] += 1


def compile_ngrams(ngrams, numbers, form):
    """The Fst of Ngrams. numbers (W,): the label of each word, -1 for words whose n-grams are left out. Warns of
    n-grams that are left out. Raises FormatError if there is no start, no end, or no arc with a word.
    """
    labels = np.unique(np.concatenate([numbers[numbers >= 0], [0, form.sos, form.eos, form.backoff or 0]]))
    dense = np.where(numbers < 0, -1, np.searchsorted(labels, numbers)).astype(np.int32)
    sos, eos, backoff = np.searchsorted(labels, [form.sos, form.eos, form.backoff or 0]).tolist()
    folded, n = form.backoff is not None, len(ngrams.rows)
    most, below = sum(map(len, ngrams.rows)) + 3, sum(map(len, ngrams.rows[: form.order - 1]))
    keys, length, final = np.empty((most, n), np.int32), np.empty(most, np.int8), np.empty(most, np.float32)
    arcs = tuple(np.empty(2 * most, kind) for kind in (np.int32, np.int32, np.int32, np.float32))
    sizes, words = np.zeros(7, np.int64), np.empty(n, np.int32)
    sizes[STATES], sizes[START] = 1 if folded else 2, -1
    length[:2], final[:2] = [0, -1], [np.inf, 0]  # the root, and the final state if </s> is a label
    slots = new_slots(below, sizes, keys, length)
    for k, rows in enumerate(ngrams.rows, 1):
        row, marks = 0, (sos, eos, backoff, folded, k == form.order)
        while row < len(rows):
            if 2 * sizes[STATES] + 4 > len(slots):
                slots = new_slots(len(slots), sizes, keys, length)
            row = add_ngrams(rows, row, dense, marks, (keys, length, final, slots, words, sizes), arcs)
    source, target, label, weight = (x[: sizes[ARCS]] for x in arcs)
    order = arrange(source, label, int(sizes[STATES]), len(labels))
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (np.diff(source[order]) == 0) & (np.diff(label[order]) == 0)
    if repeated.any():
        sizes[REPEATED] += repeated.sum()
        order = order[~repeated]
    if not form.is_sorted:
        order = np.sort(order)
        order = order[np.argsort(source[order], kind="stable")]
    tell(sizes, ngrams.path)
    if sizes[START] < 0:
        raise FormatError(ngrams.path, "the model has no <s>, with which an FST must start")
    if not (np.isfinite(final[0]) if folded else (label[order] == eos).any()):
        raise FormatError(ngrams.path, "the model has no 1-gram </s>, with which an FST must end")
    if (label[order] == backoff).all():
        raise FormatError(ngrams.path, "no n-gram is left; do the model and the symbol table belong together?")
    begins = np.concatenate(([0], np.cumsum(np.bincount(source[order], minlength=sizes[STATES]))))
    columns = labels[label[order]].astype(np.int32), target[order], weight[order]
    return Fst(int(sizes[START]), final[: sizes[STATES]], begins, *columns, int(labels[backoff]))


def new_slots(size, sizes, keys, length):
    """A hash table with room for `size` states and a few more, filled with the states so far."""
    slots = np.full(1 << int(2 * size + 16).bit_length(), -1, np.int32)
    fill_slots(int(sizes[STATES]), keys, length, slots)
    return slots


def arrange(source, label, states, labels):
    """(A,): the places of the arcs, sorted by source and label."""
    places = np.arange(len(source), dtype=np.int64)
    by_label, order = np.empty_like(places), np.empty_like(places)
    sort_places(label, places, np.zeros(labels + 1, np.int64), by_label)
    sort_places(source, by_label, np.zeros(states + 1, np.int64), order)
    return order


def tell(sizes, path):
    """Warns of the n-grams that `add_ngrams` has left out, except those with words without a label."""
    for place, why in (
        (MISPLACED, "left out, because <s> is not the first word or </s> is not the last word"),
        (ORPHANS, "left out, because all words but the last are not an n-gram of the model"),
        (REPEATED, "repeated; only the first occurrence is kept"),
    ):
        if sizes[place]:
            count = counted(sizes[place], "n-gram is", "n-grams are")
            warnings.warn(f"{name_of(path)}: {count} {why}", LmtkWarning, stacklevel=2)


@jit
def skip_states(redundant, begins, label, target, weight):
    """Lets arcs to redundant states (S,) go on to where these states' only arcs lead, in place, in the order of states,
    in which Kaldi adds weights up. The label of a redundant state's arc becomes 0.
    """
    for state in range(len(redundant)):
        if redundant[state]:
            label[begins[state]] = 0
    for state in range(len(redundant)):
        for a in range(begins[state], begins[state + 1]):
            while redundant[target[a]] and target[a] != state:
                b = begins[target[a]]
                weight[a] = min(weight[a] + weight[b], np.float32(3e38))  # stays finite
                target[a] = target[b]


@jit
def reach(start, begins, target, reached, stack):
    """reached (S,) bool <- the states that paths from `start` reach. stack (S,): working space."""
    stack[0], size = start, 1
    reached[start] = True
    while size:
        size -= 1
        state = stack[size]
        for a in range(begins[state], begins[state + 1]):
            if not reached[target[a]]:
                reached[target[a]] = True
                stack[size] = target[a]
                size += 1


def remove_redundant(fst):
    """The Fst without states that are not final and have only a back-off arc, and without states that cannot be reached
    from the start, as Kaldi's arpa2fst makes it. A start state that is redundant stays; its arc gets the label 0.
    """
    sizes, last = np.diff(fst.begins), len(fst.label) - 1
    redundant = (sizes == 1) & np.isinf(fst.final) & (fst.label[np.minimum(fst.begins[:-1], last)] == fst.backoff)
    label, target, weight = fst.label.copy(), fst.target.copy(), fst.weight.copy()
    skip_states(redundant, fst.begins, label, target, weight)
    reached = np.zeros(len(sizes), bool)
    reach(fst.start, fst.begins, target, reached, np.empty(len(sizes), np.int32))
    number = (np.cumsum(reached) - 1).astype(np.int32)
    kept = np.repeat(reached, sizes)
    begins = np.concatenate(([0], np.cumsum(sizes[reached])))
    columns = {"label": label[kept], "target": number[target[kept]], "weight": weight[kept]}
    return replace(fst, start=int(number[fst.start]), final=fst.final[reached], begins=begins, **columns)
