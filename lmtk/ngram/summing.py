"""Sums of a large text's probabilities, by kernels that take addresses alone and make no arrays: `reports.early` calls
them before numpy is there.

address  what stands there
handle   a model, as `walking.handle` has it
table    its words, as `walking.table_handle` has them
given    int64: V; the ids of <unk>, <s> and </s>; whether lines get <s>, and </s>, where they lack it
room     ROOM bytes for each byte of a text and two more; what is found comes first in it
"""

import numpy as np

from lmtk.machine.jit import of_numba, sealed
from lmtk.ngram.nodes import AT, WIDTH, N, P, number
from lmtk.ngram.walking import arrays_at, table_at, walk
from lmtk.text.kernels import look_up

u64 = np.uint64
array_at = of_numba("lmtk.machine.unaligned", "array_at")


@sealed
def words(table, text, size, first, room):
    """The ids, int32, of the words of a text, -1 for each line's end, at the beginning of `room`. Into an empty table
    words come by the numbers from `first` = 0 on; of one that is full, with -1, those that it lacks have -1. Returns
    how many it has then.
    """
    slots, letters, ends, value = table_at(table)
    ids = array_at(room, size, np.int32)
    return look_up(array_at(text, size, np.uint8), 0, slots, letters, ends, value, 0, first, -1, ids)[2]


@sealed
def begin(handle, V):
    """unigram and first of a handle, in place, by its nodes. Returns whether all 1-grams have words."""
    memory, logs, where, _, _, _, unigram, first = arrays_at(handle)
    W = len(unigram)
    for w in range(W):
        unigram[w], first[w] = -1, -np.inf
    for i in range(where[0, N]):
        at = where[0, AT] + where[0, WIDTH] * i
        w, value = number(memory, at), logs[u64(at + where[0, P])]
        if w < 0 or w >= W:
            return False
        unigram[u64(w)] = i
        if w < V and value == value:
            first[u64(w)] = value
    return True


@sealed
def sum_text(handle, table, given, text, size, room):
    """log10 p of each line of a text: sums (S,) float64 <- the sum of its words' in double precision, one after the
    other, without those of p 0; blank lines have none. Marks that a line has are not doubled.

    Returns how many sums there are; sentences, words, words of p 0 that are `unk`, others of p 0; `unk` with a p; blank
    lines. Those of -ppl: what a Tally holds.
    """
    told, most = array_at(given, 6, np.int64), size + 2
    V, unk, sos, eos, add_sos, add_eos = told[0], told[1], told[2], told[3], told[4] > 0, told[5] > 0
    # all in turn, those of the widest numbers first
    sums, ends = array_at(room, most, np.float64), array_at(room + 8 * most, most, np.int64)
    ids = array_at(room + 16 * most, most, np.int32)
    tokens = array_at(room + 20 * most, 2 * most, np.int32)
    log10p = array_at(room + 28 * most, 2 * most, np.float32)
    fresh = array_at(room + 36 * most, 2 * most, np.bool_)
    used = array_at(room + 38 * most, 2 * most, np.int8)
    slots, letters, ends_of, value = table_at(table)
    n = look_up(array_at(text, size, np.uint8), 0, slots, letters, ends_of, value, 0, -1, unk, ids)[1]
    if n and ids[n - 1] >= 0:
        ids[n] = -1
        n += 1
    at, lines, blank, start = 0, 0, 0, 0
    for i in range(n):
        if ids[i] >= 0:
            continue
        if i == start:
            blank += 1
        else:
            begun = at
            if add_sos and ids[start] != sos:
                tokens[at], fresh[at] = sos, False
                at += 1
            for j in range(start, i):
                tokens[at], fresh[at] = ids[j], False
                at += 1
            if add_eos and ids[i - 1] != eos:
                tokens[at], fresh[at] = eos, False
                at += 1
            fresh[begun], ends[lines] = True, at
            lines += 1
        start = i + 1
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


@sealed
def add_up(numbers, many, total):
    """float64 at `total` <- itself and so many numbers, one after another."""
    x, found = array_at(numbers, many, np.float64), array_at(total, 1, np.float64)
    for i in range(many):
        found[0] += x[i]
