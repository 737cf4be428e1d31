"""Sums of a large text's probabilities. The kernels take addresses and make no arrays, since `reports.early` calls them
before numpy is imported.

address  what is there
handle   a model, made by `walking.handle`
table    its words, made by `walking.table_handle`
given    int64: V; the ids of <unk>, <s> and </s>; whether lines that lack <s>, or </s>, get it
room     `early.ROOM` bytes for each byte of a text and two more; results are put at its beginning
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
    """room <- the ids, int32, of the words of a text, -1 for each line's end. With `first` = 0 the table is empty, and
    words are added to it with the numbers from 0 on; with -1 it is complete, and words that it lacks have the id -1.
    Returns how many words the table has afterwards.
    """
    slots, letters, ends, value = table_at(table)
    ids = array_at(room, size, np.int32)
    return look_up(array_at(text, size, np.uint8), 0, slots, letters, ends, value, 0, first, -1, ids)[2]


@sealed
def begin(handle, V):
    """Fills unigram and first of a handle from its nodes. Returns whether the words of all 1-grams are in range."""
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
    """room <- sums (S,) float64: for each line of a text that is not blank, the sum of its words' log10 p, added in
    double precision one after the other, without words of probability 0. Marks that a line already has are not doubled.

    Returns the numbers of a reports.tally.Tally: those of sums; of sentences; of words; of `unk` with p = 0; of other
    words with p = 0; of `unk` with p > 0; of blank lines.
    """
    told, most = array_at(given, 6, np.int64), size + 2
    V, unk, sos, eos, add_sos, add_eos = told[0], told[1], told[2], told[3], told[4] > 0, told[5] > 0
    # the parts of `room`, with the widest numbers first, so that all are aligned
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
    """The float64 at `total` += so many numbers, one after the other."""
    x, found = array_at(numbers, many, np.float64), array_at(total, 1, np.float64)
    for i in range(many):
        found[0] += x[i]
