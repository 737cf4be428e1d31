"""ARPA lines of n-grams in suffix order.

A cell is text of up to 15 bytes in 16, with its length in the last: two stores of a word each, whatever the length,
since a loop over a few bytes costs more than they do. What a kernel calls with arrays goes without numba's reference
counts (_nrt=False), two atomic operations an array and call otherwise.
"""

from functools import cache
from itertools import pairwise

import numpy as np

from lmtk.machine.jit import jit, of_numba
from lmtk.machine.threads import in_threads
from lmtk.ngram import engine, suffix
from lmtk.ngram.counts import sorted_by

PIECE = 1 << 16  # places printed together
SOME = 512  # numbers whose digits are made together
u64 = np.uint64
store8 = of_numba("lmtk.machine.unaligned", "store8")


def write_estimate(out, model):
    """An engine.Estimate as ARPA: SRILM's form, lines by the numbers of their words from the last word back."""
    write_header(out, [int(np.count_nonzero(marks & engine.THERE)) for marks in model.marks])
    cells = word_cells(model.vocab.words)
    for k in range(1, model.suffixes.order + 1):
        out.write(b"\n\\%d-grams:\n" % k)
        out.writelines(lines_of_order(model, k, cells) if k > 1 else lines_of_words(model, cells))
    out.write(b"\n\\end\\\n")


def write_header(out, sizes):
    out.write(b"\n\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1)))


def lines_of_words(model, cells):
    """The lines of order 1, in pieces; cells: `word_cells`."""
    (letters, ends, _), W = cells, len(model.vocab.words)
    columns = model.log10p[0], model.log10bow[0], model.marks[0]

    def words_of(span):
        first, last = span
        numbers = [print_some(column[first:last], end) for column, end in zip(columns, b"\t\n")]
        text = np.empty((last - first) * 48 + int(ends[last] - ends[first]), np.uint8)
        return text[: print_words(first, last, *numbers, columns[2][first:last], letters, ends, text)].data

    return in_threads(words_of, [(a, min(a + PIECE, W)) for a in range(0, W, PIECE)])


def lines_of_order(model, k, cells):
    """The lines of order k > 1, in pieces."""
    x, (letters, ends, cells) = model.suffixes, cells
    cuts = np.empty(len(x.begins) // PIECE + 3, np.int64)
    cuts = cuts[: suffix.cut_places(x.begins, PIECE, cuts)]
    columns = model.log10p[k - 1], model.log10bow[k - 1], model.marks[k - 1]

    def lines_of(span):
        node = np.array([0, *(x.nodes(d, [span[0]])[0] for d in range(1, k + 1))])
        mine = [column[node[k] : x.nodes(k, [span[1]])[0]] for column in columns]
        numbers = [print_some(column, end) for column, end in zip(mine, b"\t\n")]
        word = int(np.searchsorted(x.start, span[0], "right")) - 1
        given = node, word, x.start, x.words, x.base, *numbers, mine[2], cells, letters, ends
        text = np.empty(len(mine[0]) * (40 + 8 * k) + (1 << 16), np.uint8)
        while (filled := print_lines(x.begins, k, *span, *given, text)) < 0:
            text = np.empty(2 * len(text), np.uint8)
        return text[:filled].data

    return in_threads(lines_of, pairwise(cuts.tolist()))


def write_rows(out, orders, words):
    """The n-grams of each order as `write_estimate` has them: orders gives rows (N, k) of ids, log10 p, log10 of the
    back-off weight and whether that is written, (N,) each.
    """
    letters, ends, cells = word_cells(words)
    for k, (rows, log10p, log10bow, weighted) in enumerate(orders, 1):
        out.write(b"\n\\%d-grams:\n" % k)
        place = np.arange(len(rows), dtype=np.int32)
        for column in np.ascontiguousarray(rows.T, np.int32):
            place = sorted_by(place, column, len(words))

        def lines_of(begin, place=place, rows=rows, columns=(log10p, log10bow, weighted)):
            some = place[begin : begin + PIECE]
            mine, p, bow, there = (np.ascontiguousarray(x[some]) for x in (rows.astype(np.int32, copy=False), *columns))
            size = int(np.diff(ends)[mine].sum()) + len(some) * (48 + mine.shape[1]) + 64
            text = np.empty(size, np.uint8)
            numbers = print_some(p, ord("\t")), print_some(bow, ord("\n"))
            return text[: print_rows(mine, *numbers, there, cells, letters, ends, text)].data

        out.writelines(in_threads(lines_of, range(0, len(rows), PIECE)))


@jit
def print_rows(rows, p, bow, there, cells, letters, ends, text):
    """The lines of n-grams (N, k); how far text is filled."""
    at = 0
    for i in range(len(rows)):
        at = put(text, at, p, i)
        for j in range(rows.shape[1]):
            at = put_word(text, at, rows[i, j], cells, letters, ends)
        text[at - 1] = 10
        if there[i]:
            text[at - 1] = 9
            at = put(text, at, bow, i)
    return at


def word_cells(words):
    """The letters (L,) of words end to end, 16 bytes more; ends (W + 1,); and their cells with a blank behind, (W, 2)
    uint64, whose length is 0 where a word does not fit.
    """
    ends = np.concatenate(([0], np.cumsum([len(word) for word in words])))
    letters = np.frombuffer(b"".join((*words, bytes(16))), np.uint8)
    cells = np.zeros((len(words), 16), np.uint8)
    short = np.flatnonzero(np.diff(ends) <= 14)
    length = np.diff(ends)[short]
    mine = letters[np.minimum(ends[short, None] + np.arange(16), len(letters) - 1)]
    mine[np.arange(16) >= length[:, None]] = 0
    mine[np.arange(len(short)), length] = ord(" ")
    mine[:, 15] = length + 1
    cells[short] = mine
    return letters, ends, cells.view(u64)


@cache
def quads():
    """Numbers of four digits as print_numbers wants them, (10000, 2) uint64."""
    texts = [b"%04d" % i for i in range(10000)]
    return np.array([[int.from_bytes(text, "little"), len(text.rstrip(b"0"))] for text in texts], np.uint64)


def print_some(x, end):
    """b"%.7g" of float32 numbers and the byte `end`, as cells (N, 2)."""
    cells = np.empty((len(x), 2), u64)
    print_numbers(x, end, quads(), cells)
    for i in np.flatnonzero(cells[:, 1] == 0):
        value = x[i].item()
        found = b"%.7g" % (-99.0 if value == -np.inf else value + 0.0) + bytes([end])
        cells[i] = np.frombuffer(found.ljust(15, b"\0") + bytes([len(found)]), u64)
    return cells


@jit
def print_numbers(x, end, quads, cells):
    """x (N,) float32 as "%.7g" and the byte `end` behind, into cells (N, 2). Length 0 leaves to Python what is below
    1e-4 but 0, or from 9.9999995 on. quads (10000, 2) uint64: the letters of a number of four digits, the first the
    lowest, and how many of them are left without the zeros at the end.

    Exact: x has 24 bits and the 5^10 in 10^10 another 24, so that the product is a double without rounding, and
    rounding it half to even is what "%" does. Then seven digits are two look-ups, and a point and a sign among them are
    shifts of a word.
    """
    zeros, r = np.empty(SOME, np.int64), np.empty(SOME, np.int64)
    one = u64(1)
    for start in range(0, len(x), SOME):
        size = min(SOME, len(x) - start)
        for i in range(size):
            a = abs(np.float64(x[start + i]))
            b, c, d, e = a < 1, a < 0.1, a < 0.01, a < 0.001
            scale = (10.0 if b else 1.0) * (10.0 if c else 1.0) * (10.0 if d else 1.0) * (10.0 if e else 1.0)
            zeros[i] = np.int64(b) + np.int64(c) + np.int64(d) + np.int64(e)
            good = (a >= 1e-4) & (a < 9.9999995)
            r[i] = np.int64(np.rint(a * (scale * 1e6))) if good else 0
        for i in range(size):
            digits, z = r[i], zeros[i]
            if digits == 0 or digits == 10000000:
                zero = x[start + i] == 0
                cells[start + i, 0] = u64(48) | u64(end) << u64(8)
                cells[start + i, 1] = u64(2) << u64(56) if zero else u64(0)
                continue
            first, last = digits // 1000, digits % 1000 * 10
            letters = quads[first, 0] | quads[last, 0] << u64(32)
            used = np.int64(4 + quads[last, 1] if last else quads[first, 1])
            if z == 0:
                low = letters & u64(0xFF) | u64(46 << 8) | letters >> u64(8) << u64(16)
                high, n = u64(0), used + (used > 1)
            else:
                shift = u64(8 * (1 + z))
                low = u64(0x3030302E30) & ((one << shift) - one) | letters << shift
                high, n = letters >> (u64(64) - shift), used + 1 + z
            if x[start + i] < 0:
                high = high << u64(8) | low >> u64(56)
                low = low << u64(8) | u64(45)
                n += 1
            if n < 8:
                low = low & ((one << u64(8 * n)) - one) | u64(end) << u64(8 * n)
                high = u64(0)
            else:
                high = high & ((one << u64(8 * n - 64)) - one) | u64(end) << u64(8 * n - 64)
            cells[start + i, 0], cells[start + i, 1] = low, high | u64(n + 1) << u64(56)


@jit(_nrt=False)
def put(text, at, cells, i):
    """A cell into text; where it ends."""
    store8(text, at, cells[i, 0])
    store8(text, at + 8, cells[i, 1])
    return at + np.int64(cells[i, 1] >> u64(56))


@jit(_nrt=False)
def put_word(text, at, w, cells, letters, ends):
    """A word and a blank into text; where they end."""
    n = np.int64(cells[w, 1] >> u64(56))
    if n:
        store8(text, at, cells[w, 0])
        store8(text, at + 8, cells[w, 1])
        return at + n
    for i in range(ends[w], ends[w + 1]):
        text[at] = letters[i]
        at += 1
    text[at] = 32
    return at + 1


@jit
def print_words(first, last, p, bow, marks, letters, ends, text):
    """The lines of the words first .. last - 1; how far text is filled."""
    at = 0
    for w in range(first, last):
        i = w - first
        if marks[i] & 1:
            at = put(text, at, p, i)
            for c in range(ends[w], ends[w + 1]):
                text[at] = letters[c]
                at += 1
            text[at] = 10
            if len(bow) and (marks[i] & 2 or bow[i, 0] & u64(0xFFFF) != u64(0x0A30)):
                text[at] = 9
                at = put(text, at + 1, bow, i) - 1
            at += 1
    return at


@jit
def print_lines(begins, k, begin, end, node, word, start, words, base, p, bow, marks, cells, letters, ends, text):
    """The lines of order k > 1 of the places begin .. end; how far text is filled, -1 where it has no room.

    node (k + 1,): the first node of each order there; word: that of the first place. An n-gram's words are the oldest
    ones of those that it ends in, which began at its place or before. p, bow, marks: of the n-grams, from the first on.
    Bound by the copying: 16 bytes at once.
    """
    now, own = np.zeros(k + 1, np.int64), node.copy()
    room, at, g = len(text) - 64, 0, 0
    for j in range(begin, end):
        f, m = np.int64(begins[j] & 15), np.int64(begins[j] >> 4)
        if f > k or f > m:
            continue
        while start[word + 1] <= j:
            word += 1
        for d in range(max(f, 2), min(m, k - 1) + 1):
            now[d] = words[base[d] + own[d]]
            own[d] += 1
        if m < k:
            continue
        if marks[g] & 1:
            size = 32
            first = words[base[k] + own[k] + g]
            size += ends[first + 1] - ends[first] + ends[word + 1] - ends[word]
            for d in range(2, k):
                size += 17 + ends[now[d] + 1] - ends[now[d]]
            if at + size > room:
                return -1
            at = put(text, at, p, g)
            at = put_word(text, at, first, cells, letters, ends)
            for d in range(k - 1, 1, -1):
                at = put_word(text, at, now[d], cells, letters, ends)
            at = put_word(text, at, word, cells, letters, ends)
            text[at - 1] = 10
            if len(bow) and (marks[g] & 2 or bow[g, 0] & u64(0xFFFF) != u64(0x0A30)):
                text[at - 1] = 9
                at = put(text, at, bow, g)
        g += 1
    return at
