"""N-grams as they stand in a file -> sorted tries, for files that are worth compiling for.

symbol   shape       meaning
rows     (N, k + 2)  n-grams as k ids, log10 p and log10 back-off weight, int32; the same memory as float32
"""

import numpy as np

from lmtk.machine.jit import jit, of_numba
from lmtk.ngram.nodes import AT, BOW, CHILD, WIDE, WIDTH, ZERO, P

SOME = 512  # rows looked at together
AHEAD = 12
u64 = np.uint64
prefetch = of_numba("lmtk.machine.unaligned", "prefetch")


@jit
def sort_rows(rows, k, W, place, other, last):
    """The places of rows, whose first k numbers are ids below W, in their order, equal ones as they were: a counting
    sort an id, from the last one on, but for those that are in order already. `place` and `other` are (N,) int32;
    returns in which of the two the result is, 0 or 1. Bound by a cache line a row and pass; those of SOME rows are
    read together.

    With `last` false the last ids are left as they are: they are in order in files that are sorted by contexts.
    """
    N, straight, turns, ids = len(rows), True, 0, k if last else k - 1
    starts, falling = np.zeros((ids, W + 1), np.int32), np.zeros(k, np.bool_)
    for i in range(N):
        place[i] = i
        for j in range(ids):
            starts[j, rows[i, j] + 1] += 1
            falling[j] |= i > 0 and rows[i, j] < rows[i - 1, j]
    words = np.empty(SOME, np.int32)
    for j in range(ids - 1, -1, -1):
        if straight and not falling[j]:
            continue
        straight, start = False, starts[j]
        for w in range(W):
            start[w + 1] += start[w]
        for begin in range(0, N, SOME):
            size = min(SOME, N - begin)
            for i in range(size):
                words[i] = rows[u64(place[begin + i]), j]
            for i in range(size):
                w = u64(words[i])
                other[u64(start[w])] = place[begin + i]
                start[w] += 1
        place, other = other, place
        turns += 1
    return turns % 2


@jit
def place_rows(rows, place, first, last, k, above, before, memory, where):
    """The records of the n-grams of order k that stand first .. last in their order, `place` of rows (N, k + 2), and
    the children of the contexts that begin there; `before`: the order of above (M, k + 1), the rows of order k - 1.

    Memory and `where` as in `nodes`; suffixes are not set. Returns whether all is well: n-grams are in order, none is
    there twice, and each has its prefix. Bound by a random read a row.
    """
    numbers, logs = rows.view(np.float32), memory.view(np.float32)
    begin, width, p = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P]
    up, wide = where[max(k - 2, 0), AT], where[max(k - 2, 0), WIDTH]
    q, previous = np.int64(-1), np.int64(-1)
    if first:
        previous = np.int64(place[first - 1])
        low, high = 0, len(before)
        while low < high:  # the context of the row before
            middle, j = (low + high) >> 1, 0
            while j < k - 1 and above[before[middle], j] == rows[previous, j]:
                j += 1
            if j < k - 1 and above[before[middle], j] < rows[previous, j]:
                low = middle + 1
            else:
                high = middle
        q = low
    for i in range(first, last):
        if i + AHEAD < last:
            prefetch(rows, np.int64(place[i + AHEAD]) * (k + 2))
        row, before_it, j = u64(place[i]), u64(previous), 0
        while previous >= 0 and j < k and rows[row, j] == rows[before_it, j]:
            j += 1
        if previous >= 0 and (j == k or rows[row, j] < rows[before_it, j]):
            return False
        if k > 1 and (j < k - 1 or previous < 0):
            j = 0
            while j < k - 1:
                q += 1
                if q >= len(before):
                    return False
                if q + AHEAD < len(before):
                    prefetch(above, np.int64(before[u64(q + AHEAD)]) * (k + 1))
                memory[u64(up + wide * q + CHILD)] = i
                context, j = u64(before[u64(q)]), 0
                while j < k - 1 and above[context, j] == rows[row, j]:
                    j += 1
                if j < k - 1 and above[context, j] > rows[row, j]:
                    return False
        at, value = u64(begin + width * i), numbers[row, k]
        memory[at] = rows[row, k - 1]
        logs[at + u64(p)] = -np.inf if value == ZERO else value
        if width == WIDE:
            value = numbers[row, k + 1]
            logs[at + u64(BOW)] = -np.inf if value == ZERO else value
        previous = np.int64(place[i])
    if k > 1 and last == len(place):
        for context in range(q + 1, len(before) + 1):
            memory[up + wide * context + CHILD] = last
    return True


@jit
def read_count_lines(text, at, size, count, found):
    """The counts at the ends of the lines of text[at:], each behind size[i] words, into count (N,), from the
    `found`-th line on; blank lines have size 0 and count 0. The counts become blanks in the text, so that words remain.

    Stops at a line without words, whose count is no whole number below 10^18, or for which there is no room. Returns
    where it stopped and the number of lines.
    """
    while at < len(text) and found < len(size):
        i, fields, begin, end = at, 0, 0, 0
        while text[i] != 10:
            c = text[i]
            if c == 32 or c == 9 or c == 13:
                i += 1
                continue
            begin = i
            while c > 32 or (c != 10 and c != 32 and c != 9 and c != 13):
                i += 1
                c = text[i]
            end = i
            fields += 1
        number = 0
        if fields:
            good = fields > 1 and end - begin <= 18
            a = begin
            while good and a < end:
                good = 48 <= text[a] <= 57
                number = number * 10 + (text[a] - 48)
                a += 1
            if not good:
                break
            for a in range(begin, end):
                text[a] = 32
            fields -= 1
        size[found], count[found] = fields, number
        found += 1
        at = i + 1
    return at, found
