"""Scores a large text straight from its bytes, and adds up the log probabilities of each line.

`sum_text` looks up words, adds sentence marks as `text.corpus.with_marks` does, scores the tokens by `walking.walk`,
and returns a sum for each line and the counts of a report, as `reports.srilm.outcome` decides them for small texts.
"""

import numpy as np

from lmtk.machine.jit import sealed
from lmtk.ngram.model.walking import put_line, walk
from lmtk.text.kernels import look_up

# the arrays in which `sum_text` works: name -> (type, entries for each byte of the text; two more bytes are assumed)
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
def sum_text(arrays, table, marks, text, room):
    """sums (S,) <- the sum of log10 p over the words of each line that is not blank, added one after the other in
    double precision. Words of probability 0 are left out.

    arrays: those of `walking`; table: the arrays of a `text.corpus.Table`. marks: V; the ids of <unk>, <s> and </s>;
    whether <s>, and whether </s>, is added to lines without it. room: the arrays of ROOM. Returns the numbers of sums,
    sentences, words, `unk` with p = 0, other words with p = 0, `unk` with p > 0, blank lines.
    """
    V, unk, sos, eos, add_sos, add_eos = marks
    sums, ends, ids, tokens, log10p, fresh, used = room
    n = look_up(text, 0, table, (0, 0), -1, unk, ids)[1]
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
            before = sos if add_sos and ids[start] != sos else -1
            after = eos if add_eos and ids[i - 1] != eos else -1
            ends[lines] = at = put_line(ids, start, i, (before, after), tokens, fresh, at)
            lines += 1
        start = i + 1
    walk(arrays, V, False, tokens[:at], fresh[:at], log10p, used)
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
