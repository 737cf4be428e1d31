"""Prints numbers with the fewest digits that read back as the same number.

A cell is an array of 16 bytes or more: text, and its length in the last byte. The kernels leave a cell empty, with the
length 0, where the digits are hard to get right; Python fills these cells.
"""

import math

import numpy as np

from lmtk.machine.jit import inlined, jit

POWERS = 10.0 ** np.arange(60)
NEAR = 1e-6  # in units of the last digit: if another rounding is so near, Python decides between the two


def shortest(x):
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
