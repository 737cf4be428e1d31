"""ARPA lines of n-grams in suffix order.

A cell is text of up to 15 bytes in 16, with its length in the last: two stores of a word each, whatever the length,
since a loop over a few bytes costs more than they do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lmtk.machine.jit import inlined, jit, of_numba
from lmtk.machine.threads import Scratch, in_turn
from lmtk.ngram import engine, suffix
from lmtk.ngram.counts import sorted_by

PIECE = 1 << 15  # n-grams, or places, printed together
SOME = 512  # numbers whose digits are made together
u64 = np.uint64
leading_zeros = of_numba("numba.cpython.unsafe.numbers", "leading_zeros")
store8 = of_numba("lmtk.machine.unaligned", "store8")


@dataclass(frozen=True)
class Layout:
    """How the lines of an ARPA file look: its first bytes; lines (rows (k, N), log10p, weights, flags as print_rows has
    them, k, room) -> bytes; whether it is given the n-grams that differ in their oldest word together.
    """

    begin: bytes
    lines: Callable
    siblings: bool = False


def plain(words):
    """SRILM's."""
    cells = word_cells(words)
    return Layout(
        b"\n", lambda rows, log10p, weights, flags, k, room: printed(rows, log10p, weights, flags, *cells, room)
    )


def write_estimate(out, model, layout=None):
    """An engine.Estimate as ARPA: lines by the numbers of their words from the last word back."""
    layout, scratch = layout or plain(model.vocab.words), Scratch()
    write_header(out, [int(np.count_nonzero(marks & engine.THERE)) for marks in model.marks], layout)
    for k in range(1, model.suffixes.order + 1):
        out.write(b"\n\\%d-grams:\n" % k)
        write_order(out, model, k, layout, scratch)
    out.write(b"\n\\end\\\n")


def write_header(out, sizes, layout):
    sizes = b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1))
    out.write(layout.begin + b"\\data\\\n" + sizes)


def write_order(out, model, k, layout, scratch):
    """The lines of order k."""
    x = model.suffixes
    columns = model.log10p[k - 1], model.log10bow[k - 1], model.marks[k - 1]
    if k == 1:
        cuts = np.append(np.arange(0, len(columns[0]), len(columns[0]) if layout.siblings else PIECE), len(columns[0]))
        nodes = cuts[None]
    else:
        cuts = np.empty(len(x.begins) // PIECE + 3, np.int64)
        most = 1 if layout.siblings and k == 2 else 2
        cuts = cuts[: suffix.cut_places(x.begins, PIECE, most, cuts)]
        nodes = np.array([x.nodes(d, cuts) for d in range(1, k + 1)])

    def lines_of(q, turn):
        with scratch.lent() as room:
            first, last = nodes[-1, q : q + 2]
            mine = [column[first:last] for column in columns]
            rows = room("rows", (k, last - first + 1), np.int32)
            if k == 1:
                rows[0, :-1] = np.arange(first, last)
            else:
                word = int(np.searchsorted(x.start, cuts[q], "right")) - 1
                suffix.words_of(x.begins, k, cuts[q], cuts[q + 1], nodes[:, q], word, x.start, x.words, x.base, rows)
            flags, weights = room("flags", last - first, np.uint8), room("weights", len(mine[1]), np.float32)
            mark_lines(mine[2], mine[1], flags, weights)
            text = layout.lines(rows, mine[0], weights, flags, k, room)
            with turn:
                out.write(text)

    in_turn(lines_of, range(len(cuts) - 1))


@jit
def mark_lines(marks, bow, flags, weights):
    """flags and weights (N,) <- the marks and log10bow of n-grams as print_rows wants them."""
    for i in range(len(marks)):
        flags[i] = marks[i] & 1
    for i in range(len(bow)):
        extended = bow[i] == bow[i]
        weights[i] = bow[i] if extended else np.float32(0)
        flags[i] |= 2 if extended else marks[i] & 2


def write_rows(out, orders, words):
    """The n-grams of each order as `write_estimate` has them: orders gives rows (N, k) of ids, log10 p, log10 of the
    back-off weight and whether that is written, (N,) each.
    """
    cells, scratch = word_cells(words), Scratch()
    for k, (rows, log10p, log10bow, weighted) in enumerate(orders, 1):
        out.write(b"\n\\%d-grams:\n" % k)
        place = np.arange(len(rows), dtype=np.int32)
        for column in np.ascontiguousarray(rows.T, np.int32):
            place = sorted_by(place, column, len(words))

        def lines_of(begin, turn, place=place, rows=rows, columns=(log10p, log10bow, weighted)):
            some = place[begin : begin + PIECE]
            p, bow, there = (x[some] for x in columns)
            with scratch.lent() as room:
                mine = np.ascontiguousarray(rows[some].T, np.int32)
                text = printed(mine, p, bow, 1 | there.astype(np.uint8) << 1, *cells, room)
                with turn:
                    out.write(text)

        in_turn(lines_of, range(0, len(rows), PIECE))


def printed(rows, p, bow, flags, letters, ends, cells, room):
    """The lines of some n-grams, as print_rows has them."""
    numbers = [print_some(x, end, room(name, (len(x), 2), u64)) for x, end, name in ((p, 9, "p"), (bow, 10, "bow"))]
    text = room("text", len(p) * (32 + 8 * len(rows)) + (1 << 16), np.uint8)
    most = len(rows) * int(np.diff(ends).max(initial=0) + 1) + 64
    while (filled := print_rows(rows, *numbers, flags, cells, letters, ends, text, len(text) - most)) < 0:
        text = room("text", 2 * len(text) + most, np.uint8)
    return text[:filled].data


@jit
def print_rows(rows, p, bow, flags, cells, letters, ends, text, end):
    """The lines of n-grams (k, N), those with the flag 1; the weights of those with 2. How far text is filled, -1 where
    a line would begin behind `end`. Bound by the copying, of 16 bytes at once; a call in its place costs more.
    """
    at = 0
    for i in range(len(flags)):
        if not flags[i] & 1:
            continue
        if at > end:
            return -1
        at = put(text, at, p, i)
        for j in range(len(rows)):
            w = rows[j, i]
            store8(text, at, cells[w, 0])
            store8(text, at + 8, cells[w, 1])
            n = np.int64(cells[w, 1] >> u64(56))
            at = at + n if n else put_letters(text, at, w, letters, ends)
        text[at - 1] = 10
        if flags[i] & 2:
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


def print_some(x, end, cells=None):
    """b"%.7g" of float32 numbers and the byte `end`, as cells (N, 2)."""
    cells = np.empty((len(x), 2), u64) if cells is None else cells
    print_numbers(x, end, cells)
    for i in np.flatnonzero(cells[:, 1] == 0):
        value = x[i].item()
        found = b"%.7g" % (-99.0 if value == -np.inf else value + 0.0) + bytes([end])
        cells[i] = np.frombuffer(found.ljust(15, b"\0") + bytes([len(found)]), u64)
    return cells


@jit
def print_numbers(x, end, cells):
    """x (N,) float32 as "%.7g" and the byte `end` behind, into cells (N, 2). Length 0 leaves to Python what is below
    1e-4 but 0, or from 9.9999995 on.

    Exact: x has 24 bits and the 5^10 in 10^10 another 24, so that the product is a double without rounding, and
    rounding it half to even is what "%" does. The digits are parted in halves, quarters and eighths of a word; a point
    and a sign among them are shifts. Loops without branches over some numbers become vector instructions.
    """
    zeros, used, letters = np.empty(SOME, np.int64), np.empty(SOME, np.int64), np.empty(SOME, u64)
    one, plain, last = u64(1), u64(0x3030303030303030), u64(end)
    for start in range(0, len(x), SOME):
        size = min(SOME, len(x) - start)
        for i in range(size):
            a = abs(np.float64(x[start + i]))
            b, c, d, e = a < 1, a < 0.1, a < 0.01, a < 0.001
            scale = (10.0 if b else 1.0) * (10.0 if c else 1.0) * (10.0 if d else 1.0) * (10.0 if e else 1.0)
            zeros[i] = np.int64(b) + np.int64(c) + np.int64(d) + np.int64(e)
            good = (a >= 1e-4) & (a < 9.9999995)
            r = np.int64(np.rint((a if good else 0.0) * (scale * 1e6)))
            used[i] = r if r < 10000000 else 0
        for i in range(size):
            r = u64(used[i]) * u64(10)
            q = (r * u64(109951163)) >> u64(40)  # r / 10000
            y = q | (r - q * u64(10000)) << u64(32)
            z = (y * u64(10486)) >> u64(20) & u64(0x7F0000007F)  # / 100
            y = z | (y - z * u64(100)) << u64(16)
            z = (y * u64(103)) >> u64(10) & u64(0x000F000F000F000F)  # / 10
            y = z | (y - z * u64(10)) << u64(8)  # eight digits, the first lowest, the last 0
            used[i] = 8 - (leading_zeros(y) >> u64(3))
            letters[i] = y | plain
        for i in range(size):
            y, z, negative = letters[i], zeros[i], x[start + i] < 0
            whole = u64(0) - u64(z == 0)
            shift = u64(8 * (z + 2))
            low0, high0 = u64(0x2E002D) | (y & u64(255)) << u64(8) | (y >> u64(8)) << u64(24), y >> u64(48)  # -d.ddd
            low1, high1 = u64(0x3030302E302D) & ((one << shift) - one) | y << shift, y >> (u64(64) - shift)  # -0.0ddd
            low, high = low0 & whole | low1 & ~whole, high0 & whole | high1 & ~whole
            sign = u64(0) - u64(negative)
            low = low & sign | (low >> u64(8) | high << u64(56)) & ~sign
            high = high & sign | (high >> u64(8)) & ~sign
            n = used[i] + 1 + z + np.int64(negative) - np.int64((z == 0) & (used[i] == 1))
            long = u64(0) - u64(n >= 8)
            t = u64(8 * (n & 7))
            tail, kept = last << t, (one << t) - one
            low = low & (kept | long) | tail & ~long
            high = (high & kept | tail) & long | u64(n + 1) << u64(56)
            there = u64(0) - u64(used[i] > 0)
            cells[start + i, 0], cells[start + i, 1] = low & there, high & there
        for i in range(size):
            if x[start + i] == 0:
                cells[start + i, 0], cells[start + i, 1] = u64(48) | last << u64(8), u64(2) << u64(56)


@inlined
def put(text, at, cells, i):
    """A cell into text; where it ends."""
    store8(text, at, cells[i, 0])
    store8(text, at + 8, cells[i, 1])
    return at + np.int64(cells[i, 1] >> u64(56))


@inlined
def put_letters(text, at, w, letters, ends):
    """A word and a blank into text; where they end."""
    for i in range(ends[w], ends[w + 1]):
        text[at] = letters[i]
        at += 1
    text[at] = 32
    return at + 1
