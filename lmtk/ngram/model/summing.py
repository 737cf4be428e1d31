"""Sums of a large text's probabilities."""

import numpy as np

from lmtk.machine.jit import sealed
from lmtk.ngram.model.walking import arrays_at, table_at, walk
from lmtk.text.kernels import look_up

# name -> (type, numbers for each byte of a text and two more) of the arrays in which `sum_text` works
ROOM = {
    "sums": (np.float64, 1),
    "ends": (np.int64, 1),
    "ids": (np.int32, 1),
    "tokens": (np.int32, 2),
    "log10p": (np.float32, 2),
    "fresh": (np.bool_, 2),
    "used": (np.int8, 2),
}


@sealed
def sum_text(handle, table, marks, text, room):
    """sums (S,) <- for each line of a text that is not blank, the sum of its words' log10 p, added in double precision
    one after the other, without words of probability 0. Marks that a line already has are not doubled.

    handle: the address of a model's `walking.handle`; table: that of a `walking.table_handle`; marks: V, the ids of
    <unk>, <s> and </s>, and whether lines that lack <s>, or </s>, get it; room: the arrays of ROOM.

    Returns the numbers of a reports.tally.Tally: those of sums; of sentences; of words; of `unk` with p = 0; of other
    words with p = 0; of `unk` with p > 0; of blank lines.
    """
    V, unk, sos, eos, add_sos, add_eos = marks
    sums, ends, ids, tokens, log10p, fresh, used = room
    slots, letters, ends_of, value = table_at(table)
    n = look_up(text, 0, slots, letters, ends_of, value, 0, -1, unk, ids)[1]
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
