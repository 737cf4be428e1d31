"""N-grams as they stand in a file -> sorted tries, for files that are worth compiling for.

symbol   shape       meaning
rows     (N, k + 2)  n-grams as k ids, log10 p and log10 back-off weight, int32
numbers  (N, k + 2)  the same memory as float32
"""

import numpy as np

from lmtk.machine.jit import jit


@jit
def sort_rows(rows, k, W, place, other, last):
    """The places of rows, whose first k numbers are ids below W, in their order, equal ones as they were: a counting
    sort an id, from the last one on, but for those that are in order already. `place` and `other` are (N,) int32;
    returns the one that holds the result. Bound by a cache line a row and pass.

    With `last` false the last ids are left as they are: they are in order in files that are sorted by contexts.
    """
    N = len(rows)
    for i in range(N):
        place[i] = i
    start = np.empty(W + 1, np.int64)
    for j in range(k - 1 if last else k - 2, -1, -1):
        start[:] = 0
        before, rising = 0, True
        for i in range(N):
            w = rows[place[i], j]
            start[w + 1] += 1
            rising = rising and w >= before
            before = w
        if rising:
            continue
        for w in range(W):
            start[w + 1] += start[w]
        for i in range(N):
            row = place[i]
            w = rows[row, j]
            other[start[w]] = row
            start[w] += 1
        place, other = other, place
    return place


@jit
def take_rows(rows, numbers, place, ids, p, bow):
    """rows (N, k + 2) and `numbers`, the same memory as float32, in the order `place`: their first k numbers to ids,
    the others to p and bow; the first of equal ids only. Returns how many, -1 where the order is none.
    """
    k = ids.shape[1]
    found = 0
    for i in range(len(place)):
        row = place[i]
        j = 0
        while found and j < k and rows[row, j] == ids[found - 1, j]:
            j += 1
        if j == k:
            continue
        if found and rows[row, j] < ids[found - 1, j]:
            return -1
        for j in range(k):
            ids[found, j] = rows[row, j]
        p[found], bow[found] = numbers[row, k], numbers[row, k + 1]
        found += 1
    return found


@jit
def link_rows(rows, above, W, keys, lacks):
    """The keys of sorted rows (N, k), k > 1: the place of their first k - 1 ids among `above` (M, k - 1), sorted too,
    times W, and the last id. lacks (N,): whether a row is the first of those with one prefix that is missing, the keys
    of which mean nothing; returns how many are. Bound by the bytes of the rows: both are passed over once.
    """
    N, k = rows.shape
    q, found, here = 0, 0, False
    for i in range(N):
        j = 0
        while i and j < k - 1 and rows[i, j] == rows[i - 1, j]:
            j += 1
        lacks[i] = 0
        if j < k - 1 or i == 0:
            here = False
            while q < len(above):
                j = 0
                while j < k - 1 and above[q, j] == rows[i, j]:
                    j += 1
                here = j == k - 1
                if here or above[q, j] > rows[i, j]:
                    break
                q += 1
            if not here:
                lacks[i] = 1
                found += 1
        keys[i] = q * W + rows[i, k - 1]
    return found


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
