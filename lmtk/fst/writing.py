"""Writes an Fst in OpenFst's binary form, a vector FST of standard arcs (version 2), or in its text form.

The binary form (OpenFst 1.8: fst.cc, vector-fst.h) has a header: a magic number, the strings "vector" and "standard",
the version, flags, properties, the start state, the numbers of states and of arcs (0); and symbol tables if the flags
say so. Then come, for each state, the final weight as float32, the number of arcs as int64, and for each arc the input
and the output label, the weight and the next state, in 4 bytes each.

A line of the text form has the state, the next state, both labels and the weight, or a final state and its weight,
between tabs. A weight of 0 is left out. The start state comes first. Weights have six digits.
"""

import struct
from itertools import pairwise

import numpy as np

from lmtk.files.decoding import OPENFST
from lmtk.fst.symbols import HAS_SYMBOLS, as_binary
from lmtk.machine.jit import inlined, jit
from lmtk.machine.threads import Scratch, map_in_order
from lmtk.text.cells import POWERS, put_digits
from lmtk.text.kernels import put_number

VERSION = 2
PIECE = 1 << 15  # arcs written together, or those of a single state
# OpenFst's properties.h: whether a property holds or not
MUTABLE = 0x3
ACCEPTOR, NOT_ACCEPTOR = 0x10000, 0x20000
EPSILONS, NO_EPSILONS = 0x400000, 0x800000
I_EPSILONS, NO_I_EPSILONS = 0x1000000, 0x2000000
O_EPSILONS, NO_O_EPSILONS = 0x4000000, 0x8000000
I_SORTED, NOT_I_SORTED, O_SORTED, NOT_O_SORTED = 0x10000000, 0x20000000, 0x40000000, 0x80000000
WEIGHTED, NOT_TOP_SORTED = 0x100000000, 0x8000000000


def properties(fst):
    """OpenFst's properties of an Fst, as far as arpa2fst sets them; what is not set is unknown to OpenFst."""
    inside = np.ones(max(len(fst.label) - 1, 0), bool)  # whether an arc and the next one leave the same state
    ends = fst.begins[1:-1]
    inside[ends[(ends > 0) & (ends < len(fst.label))] - 1] = False
    rises = lambda labels: bool((np.diff(labels)[inside] >= 0).all())
    has_backoff, has_epsilon = bool((fst.label == fst.backoff).any()), bool((fst.label == 0).any())
    source = np.repeat(np.arange(len(fst.final)), np.diff(fst.begins))
    is_acceptor, is_sorted = not (fst.backoff and has_backoff), rises(fst.label)
    bits = MUTABLE | (ACCEPTOR if is_acceptor else NOT_ACCEPTOR)
    bits |= EPSILONS | I_EPSILONS if has_epsilon else NO_EPSILONS | NO_I_EPSILONS
    bits |= O_EPSILONS if has_backoff or has_epsilon else NO_O_EPSILONS
    bits |= I_SORTED if is_sorted else NOT_I_SORTED
    if is_acceptor or not is_sorted:
        bits |= O_SORTED if rises(np.where(fst.label == fst.backoff, 0, fst.label)) else NOT_O_SORTED
    is_weighted = fst.weight.any() or (np.isfinite(fst.final) & (fst.final != 0)).any()
    return bits | (WEIGHTED if is_weighted else 0) | (NOT_TOP_SORTED if (fst.target <= source).any() else 0)


def write_binary(out, fst, symbols=None):
    """Writes an Fst to a stream. symbols: Symbols to keep in the file, for input and output."""
    string = lambda text: struct.pack("<i", len(text)) + text
    out.write(OPENFST + string(b"vector") + string(b"standard"))
    flags = sum(HAS_SYMBOLS) if symbols else 0
    out.write(struct.pack("<iiQqqq", VERSION, flags, properties(fst), fst.start, len(fst.final), 0))
    out.write(2 * as_binary(symbols) if symbols else b"")
    scratch, arcs = Scratch(), (fst.label, fst.target, fst.weight)

    def bytes_of(piece):
        first, last = piece
        with scratch.lent() as room:
            records = room("records", 3 * (last - first) + 4 * int(fst.begins[last] - fst.begins[first]), np.int32)
            fill_records(first, last, fst.begins, fst.final, arcs, fst.backoff, records)
            return records.tobytes()

    out.writelines(map_in_order(bytes_of, pieces(fst, 0, len(fst.final))))


@jit
def fill_records(first, last, begins, final, arcs, backoff, records):
    """records <- the states from `first` to `last` and their arcs, in 3 and 4 int32. arcs: label, target, weight."""
    label, target, weight = arcs
    numbers, at = records.view(np.float32), 0
    for state in range(first, last):
        numbers[at] = final[state]
        records[at + 1], records[at + 2] = begins[state + 1] - begins[state], 0
        at += 3
        for a in range(begins[state], begins[state + 1]):
            records[at], records[at + 1] = label[a], np.int32(0) if label[a] == backoff else label[a]
            numbers[at + 2], records[at + 3] = weight[a], target[a]
            at += 4


def pieces(fst, first, last):
    """(first, last) of states that are written together, from the states between `first` and `last`."""
    cuts = np.searchsorted(fst.begins, np.arange(fst.begins[first], fst.begins[last], PIECE), "right") - 1
    return pairwise(np.unique(np.concatenate(([first], cuts[(cuts > first) & (cuts < last)], [last]))).tolist())


def write_text(out, fst):
    """Writes the lines of an Fst to a stream."""
    scratch, arcs, start = Scratch(), (fst.label, fst.target, fst.weight), fst.start

    def bytes_of(piece):
        first, last = piece
        with scratch.lent() as room:
            text = room("text", 64 * int(fst.begins[last] - fst.begins[first] + last - first) + 64, np.uint8)
            size = print_states(first, last, fst.begins, fst.final, arcs, fst.backoff, text)
            return text[:size].tobytes()

    out.write(bytes_of((start, start + 1)))
    for first, last in ((0, start), (start + 1, len(fst.final))):
        if first < last:
            out.writelines(map_in_order(bytes_of, pieces(fst, first, last)))


@jit
def print_states(first, last, begins, final, arcs, backoff, text):
    """text <- the lines of the states from `first` to `last`. arcs: label, target, weight. Returns the lines' size."""
    label, target, weight = arcs
    at = 0
    for state in range(first, last):
        for a in range(begins[state], begins[state + 1]):
            at = put_number(text, at, state, 9)
            at = put_number(text, at, target[a], 9)
            at = put_number(text, at, label[a], 9)
            at = put_number(text, at, 0 if label[a] == backoff else label[a], 9)
            at = put_weight(text, at, weight[a])
        if final[state] != np.inf:
            at = put_number(text, at, state, 9)
            at = put_weight(text, at, final[state])
    return at


@inlined
def put_weight(text, at, weight):
    """Puts a weight as "%g" and a line end into text, where a tab stands last; a weight of 0 and the tab are left out.
    Returns the place after them.

    With a power of ten up to 10^12, the product with a float32 is a double without rounding, so the digits are exact
    from 1e-7 to 1e6.
    """
    a, e = abs(np.float64(weight)), 0
    if a == 0:
        text[at - 1] = 10
        return at
    if weight < 0:
        text[at] = 45
        at += 1
    while a >= POWERS[e + 1]:
        e += 1
    while e <= 0 and a * POWERS[-e] < 1:
        e -= 1
    r = np.int64(np.rint(a * POWERS[5 - e] if e <= 5 else a / POWERS[e - 5]))
    if r == 1000000:
        r, e = 100000, e + 1
    digits = 6
    while r % 10 == 0:
        r //= 10
        digits -= 1
    if -4 <= e < 6:
        at = put_digits(text, at, r, digits, e)
    else:
        at = put_digits(text, at, r, digits, 0)
        text[at], text[at + 1] = 101, 45 if e < 0 else 43
        text[at + 2], text[at + 3] = 48 + abs(e) // 10, 48 + abs(e) % 10
        at += 4
    text[at] = 10
    return at + 1
