"""ARPA and count files -> arrays, for files that are worth compiling for.

symbol   shape    meaning
text     (n,)     bytes, uint8; numbers and line ends become blanks once they are read, so that words remain
rows     (N, k)   n-grams as ids, int32
p, bow   (N,)     log10 p and log10 back-off weight, float32
"""

import numpy as np

from lmtk.jit import jit

TEN = np.array([float(f"1e{e}") for e in range(23)])  # the powers of ten that doubles hold exactly


@jit
def read_lines(text, at, k, p, bow):
    """The numbers of the lines of text[at:], each of k words after a number, with another number behind them or none.

    A number of up to 15 digits and a power of ten up to 22 is one division or product of exact doubles, so it is
    rounded as Python rounds it; then to float32. Minus zero becomes zero. Stops at a line that is anything else, that
    has a number above 1e30, or for which p has no room. Returns where it stopped, the number of n-grams read, of lines
    passed (blank ones too), of positive log p, and the largest of these. Bound by instructions: some two a byte.
    """
    size = len(text)
    found, lines, positive, worst = 0, 0, 0, 0.0
    begin, end, value = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2)
    while at < size and found < len(p):
        i, fields = at, 0
        while text[i] != 10:
            c = text[i]
            if c == 32 or c == 9 or c == 13:
                i += 1
                continue
            here = 1 if fields else 0
            begin[here] = i
            while c > 32 or (c != 10 and c != 32 and c != 9 and c != 13):
                i += 1
                c = text[i]
            end[here] = i
            fields += 1
        if fields == 0:
            text[i] = 32
            at, lines = i + 1, lines + 1
            continue
        if fields != k + 1 and fields != k + 2:
            break
        value[1] = 0.0
        good = True
        for j in range(fields - k):
            a, b = begin[j], end[j]
            minus = text[a] == 45
            if minus or text[a] == 43:
                a += 1
            mantissa, digits, some, point, e = 0, 0, False, -1, 0
            while a < b:
                c = text[a]
                if 48 <= c <= 57:
                    some = True
                    mantissa = mantissa * 10 + (c - 48)
                    digits += mantissa != 0
                    if digits > 15:
                        good = False
                        break
                elif c == 46 and point < 0:
                    point = a
                else:
                    break
                a += 1
            if point >= 0:
                e = point + 1 - a
            if a < b and (text[a] == 101 or text[a] == 69):
                a += 1
                down = a < b and text[a] == 45
                if a < b and (down or text[a] == 43):
                    a += 1
                power, begun = 0, a
                while a < b and 48 <= text[a] <= 57 and power < 1000:
                    power = power * 10 + (text[a] - 48)
                    a += 1
                good = good and a > begun
                e += -power if down else power
            if a < b or not some or not good or e > 22 or e < -22:
                good = False
                break
            x = mantissa * TEN[e] if e > 0 else mantissa / TEN[-e]
            if x > 1e30:
                good = False
                break
            value[j] = -x if minus and mantissa else x
        if not good:
            break
        p[found], bow[found] = value[0], value[1]
        if value[0] > 0:
            positive += 1
            worst = max(worst, value[0])
        for j in range(fields - k):
            for a in range(begin[j], end[j]):
                text[a] = 32
        text[i] = 32
        found += 1
        lines += 1
        at = i + 1
    return at, found, lines, positive, worst


@jit
def sort_rows(rows, W, place, other):
    """The places of rows (N, k), whose ids are below W, in their order, equal ones as they were: a counting sort an id,
    from the last one on. `place` and `other` are (N,) int32; returns the one that holds the result. Bound by a cache
    line a row and pass.
    """
    N, k = rows.shape
    rising = True
    for i in range(N):
        place[i] = i
        if i and rising:
            j = 0
            while j < k - 1 and rows[i, j] == rows[i - 1, j]:
                j += 1
            rising = rows[i, j] >= rows[i - 1, j]
    if rising:
        return place
    start = np.empty(W + 1, np.int64)
    for j in range(k - 1, -1, -1):
        start[:] = 0
        for i in range(N):
            start[rows[i, j] + 1] += 1
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
def take_rows(rows, p, bow, place, rows_out, p_out, bow_out):
    """Rows and their numbers as `place` says, the first of equal rows only; returns how many."""
    N, k = rows.shape
    found = 0
    for i in range(N):
        row = place[i]
        same = found > 0
        j = 0
        while same and j < k:
            same = rows[row, j] == rows_out[found - 1, j]
            j += 1
        if same:
            continue
        for j in range(k):
            rows_out[found, j] = rows[row, j]
        p_out[found], bow_out[found] = p[row], bow[row]
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
    `found`-th line on; blank lines have size 0 and count 0.

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
