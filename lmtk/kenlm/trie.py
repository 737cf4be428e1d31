"""Writes KenLM's trie files from the `levels` of a model.

A record of order k > 1 is packed bits: the label; log10 p without its sign and the back-off weight (31 and 32 bits), or
their places in tables of numbers (the weight's first); below the highest order, a pointer to the first child. With
array-compressed pointers the upper bits of the pointers are kept in a table of the first record of each value.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lmtk.kenlm.layout import ZERO, chop_bits, join_words, make_header
from lmtk.kenlm.levels import AHEAD, LOWER, number_words
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import map_at_once, parts_of, thread_count
from lmtk.ngram.model.nodes import freeze, view_records
from lmtk.ngram.model.searching import count_below

f32, u64 = np.float32, np.uint64
UNIGRAM = np.dtype([("log10p", "<f4"), ("log10bow", "<f4"), ("child", "<u8")])
P_BITS, BOW_BITS = 31, 32  # of numbers that are not quantized
QUANTIZED_VERSION, POINTERS_VERSION = 2, 0
MINUS_ZERO = f32(-0.0)
SIGN = np.uint32(1 << 31)  # the sign bit
NONE = (np.empty(0, f32), np.empty(0, f32))  # tables of an order that is not quantized
load8, store8, prefetch = (intrinsic(name) for name in ("load8", "store8", "prefetch"))


@dataclass(frozen=True)
class Fields:
    """The widths in bits of the fields of a record of one order: label, log10 p, weight, and the pointer's part that is
    in the record. largest: the largest pointer; N: the number of records; chopped: the upper bits of a pointer that are
    in a table.
    """

    N: int
    label: int
    p: int
    bow: int = 0
    largest: int = 0
    chopped: int = 0

    @property
    def pointer(self):
        return self.largest.bit_length() - self.chopped

    @property
    def total(self):
        return self.label + self.p + self.bow + self.pointer

    @property
    def size(self):
        """The bytes of the records. KenLM has one record more, and 8 bytes so that it can read 8 bytes anywhere."""
        return ((1 + self.N) * self.total + 7) // 8 + 8


def write(out, levels, form):
    """Writes the Levels of a model of order 2 or more as a KenLM trie. form: a `layout.Form`."""
    places, hashes, words = number_words(levels.words, levels.ids)
    order, sizes = len(levels.log10p) - 1, [len(words), *map(len, levels.log10p[2:])]
    tables = [make_tables(numbers_of(levels, k), form) for k in range(2, order + 1)] if form.bits else []
    head = make_header(form, sizes) + u64(len(hashes)).tobytes() + hashes.tobytes() + bytes(8)  # 8 bytes for <unk>
    if tables:
        head += bytes([QUANTIZED_VERSION, form.bits, form.weight_bits]).ljust(8, b"\0")
        head += b"".join(table.tobytes() for pair in tables for table in pair)
    out.write(head)
    at = len(head)  # of the next byte
    unigrams = make_unigrams(numbers_of(levels, 1), places[levels.ids], len(words), form)
    fields = parts = None  # of the order above
    families = levels.families(places)
    for k in range(2, order + 1):
        first = next(families)
        if k == 2:
            unigrams["child"][:-1] = first
            out.write(unigrams)
            at += unigrams.nbytes
        else:
            at += write_records(out, at, parts, fields, first, form)
        first = parts = None  # their memory is used for what follows
        keys, fields = next(families), fields_of(k, sizes, form)
        parts = make_records(keys, fields, numbers_of(levels, k), tables[k - 2] if tables else NONE)
        keys = None
        levels.forget(k)
    out.writelines(part.memory[: part.size] for part in parts)
    if form.has_words:
        out.write(join_words(words))


def clip(model):
    """A Backoff with 0 in place of positive log probabilities."""
    memory = model.nodes.memory.copy()
    for level in view_records(memory, model.nodes.where)[1:]:
        np.minimum(level["log10p"], 0, out=level["log10p"])
    return replace(model, nodes=replace(model.nodes, memory=freeze(memory), path=""))


def numbers_of(levels, k):
    """log10 p and weights of the n-grams of order k, (N_k, 2) float32; (N_k, 1) for the highest order, which has no
    weights. The logarithm of 0 is -99. A weight of 0 is -0.0 if no n-gram extends the n-gram.
    """
    log10p, is_last = levels.log10p[k], k == len(levels.log10p) - 1
    log10bow, is_context = (log10p, np.zeros(0, bool)) if is_last else (levels.log10bow[k], levels.is_context[k]())
    numbers = np.empty((len(log10p), 1 if is_last else 2), f32)
    map_at_once(partial(put_numbers, log10p, log10bow, is_context, numbers), parts_of(len(log10p)))
    return numbers


@jit
def put_numbers(log10p, log10bow, is_context, numbers, part):
    """numbers <- a part of the columns, as `numbers_of` returns them."""
    for i in range(*part):
        numbers[i, 0] = ZERO if log10p[i] == -np.inf else log10p[i]
        if numbers.shape[1] > 1:
            weight = f32(0) if log10bow[i] != log10bow[i] else log10bow[i]
            weight = ZERO if weight == -np.inf else weight
            numbers[i, 1] = (f32(0) if is_context[i] else MINUS_ZERO) if weight == 0 else weight


def make_unigrams(numbers, place, size, form):
    """Returns the records of 1-grams, (size + 2,), with empty pointers to children. numbers: as from `numbers_of`.
    place: KenLM's number of each 1-gram.
    """
    (log10p, log10bow), unigrams, unknown = numbers.T, np.zeros(size + 2, UNIGRAM), f32(form.unknown)
    unigrams["log10p"][0] = unknown
    unigrams["log10p"][place] = np.where(np.isnan(log10p), np.where(place, ZERO, unknown), log10p)
    unigrams["log10bow"][place] = log10bow
    return unigrams


def fields_of(k, sizes, form):
    """The Fields of the records of order k > 1. sizes: the n-grams of each order, <unk> among the 1-grams."""
    label, size = sizes[0].bit_length(), sizes[k - 1]
    if k == len(sizes):
        return Fields(size, label, form.bits or P_BITS)
    largest = sizes[k]
    chopped = 0 if form.pointer_bits is None else chop_bits(largest, size + 1, form.pointer_bits)
    return Fields(size, label, form.bits or P_BITS, form.weight_bits or BOW_BITS, largest, chopped)


@dataclass(frozen=True)
class Part:
    """The records from number `first`, a multiple of 8, to before `end` of an order. memory: their `size` bytes, and 8
    more, since bits are written 8 bytes at a time.
    """

    first: int
    end: int
    size: int
    memory: np.ndarray


def make_records(keys, fields, numbers, tables):
    """The Parts of the records of the n-grams `keys`, (N_k,) as in `levels`, one for each thread. numbers: as from
    `numbers_of`.
    """
    bounds = np.linspace(0, len(keys), thread_count() + 1).astype(np.int64)
    bounds[:-1] -= bounds[:-1] % 8
    sizes = np.diff(np.append(bounds[:-1] * fields.total // 8, fields.size))

    def part_of(first, end, size):
        records = np.zeros(size + 8, np.uint8)
        layout = records, fields.total, fields.label, fields.p, fields.bow
        put_records(keys, first, end, numbers, layout, tables)
        return Part(first, end, size, records)

    return map_at_once(lambda part: part_of(*part), zip(bounds.tolist(), bounds[1:].tolist(), sizes.tolist()))


@jit
def put_records(keys, begin, end, numbers, layout, tables):
    """Hard to read: bits are packed by hand.

    Puts the n-grams keys[begin:end] into their records. numbers: as from `numbers_of`. layout: (the bytes of the
    records, the bits of a record, of its label, of log10 p, of its weight). tables: of log10 p and of weights, empty if
    they are not quantized.

    Bound: a random read an n-gram.
    """
    width, flat = numbers.shape[1], numbers.reshape(-1)
    words = flat.view(np.uint32)
    records, total, label_bits, p_bits, bow_bits = layout
    tables_p, tables_bow = tables
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch(flat, width * np.int64(keys[i + AHEAD] & LOWER))
        at, bit = u64(width) * (keys[i] & LOWER), np.int64(i - begin) * total
        write_bits(records, bit, keys[i] >> u64(32))
        bit += label_bits
        if len(tables_p):
            if width > 1:
                bow, word = flat[at + u64(1)], words[at + u64(1)]
                write_bits(records, bit, u64(word == 0) if bow == 0 else u64(nearest(tables_bow, 2, bow)))
                bit += bow_bits
            write_bits(records, bit, u64(nearest(tables_p, 0, flat[at])))
        else:
            write_bits(records, bit, u64(words[at] & ~SIGN))
            if width > 1:
                write_bits(records, bit + p_bits, u64(words[at + u64(1)]))


@inlined
def write_bits(records, bit, value):
    """Writes a value at a bit of an array of bytes that is 0 there. The value has at most 57 bits."""
    store8(records, bit >> 3, load8(records, bit >> 3) | value << u64(bit & 7))


@inlined
def nearest(table, reserved, value):
    """The place of the value next to `value` in a sorted table, from the place `reserved` on."""
    low = reserved + count_below(table, reserved, 1, len(table) - reserved, value)
    if low == reserved:
        return reserved
    if low == len(table):
        return len(table) - 1
    return low - (value - table[low - 1] < table[low] - value)


def write_records(out, at, parts, fields, first, form):
    """Writes the records of an order below the highest, with pointers to the first child of each, first (N + 1,). at:
    where they begin in the file. Returns the number of bytes.
    """
    inline, size = fields.pointer, fields.size
    if form.pointer_bits is not None:
        entries = (fields.largest >> inline) + 1
        begins = np.searchsorted(first >> inline, np.arange(entries)).astype(np.uint64)
        begins[0] = 0
        block = bytearray(8 * (1 + entries) + 7)
        block[:2] = POINTERS_VERSION, form.pointer_bits
        start = -at % 8 + 8
        block[start : start + 8 * entries] = begins.tobytes()
        out.write(block)
        size += len(block)

    def point(part):
        end = part.end + (part is parts[-1])  # KenLM has one record more
        put_pointers(part.memory, part.first, end, fields.total, inline, first)

    map_at_once(point, parts)
    out.writelines(part.memory[: part.size] for part in parts)
    return size


@jit
def put_pointers(records, begin, end, total, width, first):
    """Writes the lowest `width` bits of the pointers first[begin:end] at the end of their records."""
    mask = (u64(1) << u64(width)) - u64(1)
    for i in range(begin, end):
        write_bits(records, (i + 1 - begin) * total - width, u64(first[i]) & mask)


def make_tables(numbers, form):
    """The tables of the numbers of an order: (of log10 p; of weights, empty for the highest order). numbers: as from
    `numbers_of`.
    """
    p = make_bins(numbers[:, 0], 1 << form.bits)
    if numbers.shape[1] == 1:
        return p, np.empty(0, f32)
    bow = numbers[:, 1]
    return p, np.concatenate((f32([-0.0, 0]), make_bins(bow[bow != 0], (1 << form.weight_bits) - 2)))


def make_bins(values, bins):
    """The means of `bins` equal parts of the sorted values (Federico and Bertoldi 2006): (bins,) float32. An empty part
    has the mean of the part before it.
    """
    means = np.empty(bins, f32)
    take_means(np.sort(values), means)
    return means


@jit
def take_means(values, means):
    """means <- those of equal parts of the values. Each sum goes from the least value to the largest, as in KenLM."""
    start, mean = 0, -np.inf
    for i in range(len(means)):
        end = len(values) * (i + 1) // len(means)
        if end > start:
            total = 0.0
            for j in range(start, end):
                total += values[j]
            mean = total / (end - start)
        means[i] = mean
        start = end
