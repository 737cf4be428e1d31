"""Numbers and words as cells, from which kernels print lines.

A cell is text of up to 15 bytes in 16, or of up to 23 in 24, with its length in the last byte. `put` copies it by two
or three stores of 8 bytes, whatever its length, since a loop over a few bytes would cost more. `srilm_cells` and
`kenlm_cells` print numbers with the digits of SRILM and KenLM. Their kernels leave a cell empty, with the length 0,
where the digits are hard to get right; Python fills these cells.
"""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lmtk.files.words import Words
from lmtk.machine.jit import inlined, intrinsic, jit

BATCH = 512  # numbers whose digits are made together
POWERS = 10.0 ** np.arange(60)
NEAR = 1e-6  # in units of the last digit: if another rounding is so near, Python decides between the two
u64 = np.uint64
leading_zeros = intrinsic("leading_zeros")
load8, store8 = intrinsic("load8"), intrinsic("store8")


def word_cells(words):
    """(letters, begins, cells): the words, each with a byte after it, and 16 bytes more, (L,); where each word begins,
    and the end of the last, (W + 1,); a cell with each word and a blank, (W, 2) uint64, empty if the word does not fit.
    """
    text = Words.join(words).text
    letters = np.frombuffer(text + bytes(16), np.uint8)
    begins = np.append(0, np.flatnonzero(letters[: len(text)] == ord("\n")) + 1)
    size = np.diff(begins)
    cells = np.zeros((len(size), 16), np.uint8)
    short = np.flatnonzero(size <= 15)
    size = size[short]
    texts = sliding_window_view(letters, 16)[begins[short]]
    texts *= np.arange(16) < size[:, None]
    texts[np.arange(len(short)), size - 1] = ord(" ")
    texts[:, 15] = size
    cells[short] = texts
    return letters, begins, cells.view(u64)


def cells_of(texts, words=2):
    """Texts as cells, (N, words) uint64."""
    size = 8 * words - 1
    return np.frombuffer(b"".join(t.ljust(size, b"\0") + bytes([len(t)]) for t in texts), u64).reshape(-1, words)


def fill_cells(x, kernel, form, end, cells):
    """Fills cells, uint8 or uint64, with the numbers x (N,), each followed by the byte `end`, and returns them as
    uint64. The kernel fills most cells; empty cells get form(x), a str.
    """
    kernel(x, end, cells)
    cells = cells.view(u64)
    empty = np.flatnonzero(cells[:, -1] < 1 << 56)  # their last byte is 0
    cells[empty] = cells_of([form(number).encode() + bytes([end]) for number in x[empty]], cells.shape[1])
    return cells


def srilm_cells(x, end, cells=None):
    """The cells (N, 2) of float32 numbers as "%.7g" and the byte `end`."""
    cells = np.empty((len(x), 2), u64) if cells is None else cells
    return fill_cells(x, print_numbers, lambda x: f"{x:.7g}", end, cells)


def kenlm_cells(x, end):
    """The cells (N, 3) of float32 numbers with KenLM's digits and the byte `end`."""
    return fill_cells(x, print_shortest, shortest_digits, end, np.zeros((len(x), 24), np.uint8))


@jit
def print_numbers(x, end, cells):
    """Hard to read: eight digits are handled together in one 64-bit word.
    cells (N, 2) <- x (N,) float32 as "%.7g" and the byte `end`; -inf is printed as -99, -0 as 0. Other numbers with
    |x| below 1e-4 or from 9.9999995 on get empty cells, which Python fills.

    The digits are exact: x has 24 bits, and so has the 5^10 in 10^10, so that their product is a double without
    rounding. Like "%", the kernel rounds it half to even. A word is split into halves, quarters and eighths, its
    digits; shifts insert a point and a sign. Loops without branches over BATCH numbers become vector instructions.
    """
    zeros, used, letters = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(BATCH, u64)
    one, plain, last = u64(1), u64(0x3030303030303030), u64(end)
    for start in range(0, len(x), BATCH):
        size = min(BATCH, len(x) - start)
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
            mask = u64(0) - u64(used[i] > 0)
            cells[start + i, 0], cells[start + i, 1] = low & mask, high & mask
        for i in range(size):
            v = x[start + i]
            if v == 0:
                cells[start + i, 0], cells[start + i, 1] = u64(48) | last << u64(8), u64(2) << u64(56)
            elif v == -99 or v == -np.inf:
                cells[start + i, 0], cells[start + i, 1] = u64(0x39392D) | last << u64(24), u64(4) << u64(56)


def shortest_digits(x):
    """x with the fewest digits that read back as x in its precision, as KenLM prints numbers: without an exponent from
    1e-6 to below 1e21, else with one.
    """
    if not np.isfinite(x):
        return "NaN" if np.isnan(x) else "inf" if x > 0 else "-inf"
    digits, _, exponent = np.format_float_scientific(x, trim="-").partition("e")
    if x == 0 or -6 <= int(exponent) < 21:
        return np.format_float_positional(x, trim="-")
    return f"{digits}e{int(exponent)}"


@jit
def print_shortest(x, end, cells):
    """cells (N, 16 or more), zeros of uint8, <- x (N,) float32 with the fewest digits that read back as x, and the byte
    `end`. A cell stays empty if the text does not fit, or if |x| is neither 0 nor from 1e-6 to below 1e6.

    A number rounds to x if it lies within the bounds halfway to the neighbours of x. Times a power of ten up to 10^12,
    x and these bounds are doubles without rounding. With higher powers, a cell stays empty if another rounding is NEAR.
    """
    for i in range(len(x)):
        a, cell, sign = abs(np.float64(x[i])), cells[i], np.int64(np.copysign(np.float32(1), x[i]) < 0)
        cell[0] = 45
        if a == 0:
            cell[sign], cell[sign + 1], cell[-1] = 48, end, sign + 2
        if not 1e-6 <= a < 1e6:
            continue
        mantissa, exponent = math.frexp(a)
        half = math.ldexp(1.0, exponent - 25)
        low, high, e = a - (half / 2 if mantissa == 0.5 else half), a + half, -6
        while a * 1e6 >= POWERS[e + 7]:
            e += 1
        for digits in range(1, 10):
            # everything in units of the last digit
            up, down = (POWERS[digits - 1 - e], 1.0) if digits > e else (1.0, POWERS[e - digits + 1])
            v = a * up / down
            r = np.rint(v)
            inside = min(r - low * up / down, high * up / down - r)
            unsure = up > 1e12 and (abs(inside) < NEAR or abs(v - r) > 0.5 - NEAR)
            if inside > 0 or unsure:
                break
        if unsure:
            continue
        if r == POWERS[digits]:
            r, digits, e = 1.0, 1, e + 1
        if sign + max(e + 1, digits + 1 - min(e, 0)) + 2 <= len(cell):
            at = put_digits(cell, sign, np.int64(r), digits, e)
            cell[at], cell[-1] = end, at + 1


@inlined
def put_digits(text, at, r, digits, e):
    """Puts r, a number of `digits` digits, the first for 10^e, into text from `at` on. Returns the place after it."""
    zeros, before = max(-e, 0), max(e + 1, 1)
    n = max(zeros + digits, before)
    for j in range(n - 1, -1, -1):
        is_digit = zeros <= j < zeros + digits
        text[at + j + (j >= before)] = 48 + (r % 10 if is_digit else 0)
        r = r // 10 if is_digit else r
    if n > before:
        text[at + before] = 46
    return at + n + (n > before)


@inlined
def put(text, at, cells, i):
    """Puts a cell of two or three uint64 into text. Returns where it ends."""
    last = cells.shape[1] - 1
    store8(text, at, cells[i, 0])
    store8(text, at + 8, cells[i, 1])
    if last > 1:
        store8(text, at + 16, cells[i, 2])
    return at + np.int64(cells[i, last] >> u64(56))


@inlined
def put_word(text, at, w, names):
    """Puts the word w of `word_cells` and a blank into text. Returns where they end."""
    letters, begins, cells = names
    after = put(text, at, cells, w)
    if after > at:
        return after
    size = begins[w + 1] - begins[w]
    for i in range(0, size, 8):
        store8(text, at + i, load8(letters, begins[w] + i))
    text[at + size - 1] = 32
    return at + size
