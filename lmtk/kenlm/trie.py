"""Writes KenLM's trie files from the `levels` of a model.

A record of order k > 1 is packed bits: the label; log10 p without its sign and the back-off weight (31 and 32 bits), or
their places in tables of numbers (the weight's first); below the highest order, a pointer to the first child. With
array-compressed pointers the upper bits of the pointers are kept in a table of the first record of each value.
"""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.files.bounded import naming_folder, temporary_file, trim
from lmtk.files.outputs import Output
from lmtk.kenlm.layout import ZERO, entries_start, fields_of, join_words, make_header
from lmtk.kenlm.levels import AHEAD, LOWER
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import map_at_once, map_in_order, thread_count
from lmtk.ngram.model.searching import count_below

f32, u64 = np.float32, np.uint64
UNIGRAM = np.dtype([("log10p", "<f4"), ("log10bow", "<f4"), ("child", "<u8")])
QUANTIZED_VERSION, POINTERS_VERSION = 2, 0
SIGN = np.uint32(1 << 31)  # the sign bit
NONE = (np.empty(0, f32), np.empty(0, f32))  # tables of an order that is not quantized
load8, store8, prefetch = (intrinsic(name) for name in ("load8", "store8", "prefetch"))


class Section:
    """The n-grams of one order k > 1 in a file: their records and, with array-compressed pointers, a table before them.

    records, end: where the records begin, and where the section ends. last: the last byte that was written, which may
    have bits of the first record of the next slice.
    """

    def __init__(self, k, sizes, form, begin):
        self.fields, self.begin, self.last = fields_of(k, sizes, form), begin, 0
        self.records = begin + self.fields.table_size
        self.end = self.records + self.fields.size
        # the table of pointers, and how many entries it has so far
        self.pointers, self.filled, self.pointer_bits = np.zeros(self.fields.entries, u64), 0, form.pointer_bits

    def put(self, file, parts):
        """Writes the next records."""
        for part in parts:
            if part.bit:
                part.memory[0] |= self.last
            if part.size:
                self.last = part.memory[part.size - 1]
                file.seek(self.records + part.at)
                file.write(part.memory[: part.size])

    def add_pointers(self, record, first, child):
        """Adds the pointers of a slice's records to the table. record, child: the number of the slice's first record,
        and of its first child. first: as in `levels`.
        """
        if len(self.pointers):
            width, begin = self.fields.pointer, self.filled
            self.filled = (int(first[-1]) + child >> width) + 1
            values = (np.arange(begin, self.filled) << width) - child
            self.pointers[begin : self.filled] = record + np.searchsorted(first, values)

    def put_table(self, file):
        """Writes the table of pointers, if the section has one."""
        if len(self.pointers):
            block = bytearray(self.records - self.begin)
            block[:2] = POINTERS_VERSION, self.pointer_bits
            start = entries_start(self.begin) - self.begin
            block[start : start + self.pointers.nbytes] = self.pointers.tobytes()
            file.seek(self.begin)
            file.write(block)


def write(out, levels, form):
    """Writes the Levels of a model of order 2 or more as a KenLM trie, from the first byte of `out` on. form: a
    `layout.Form`.
    """
    sizes, order = levels.sizes, len(levels.sizes)
    tables = [make_tables(levels.numbers_of(k), form) if form.bits else NONE for k in range(2, order + 1)]
    head = make_header(form, sizes) + u64(len(levels.hashes)).tobytes() + levels.hashes.tobytes() + bytes(8)  # <unk>
    if form.bits:
        head += bytes([QUANTIZED_VERSION, form.bits, form.weight_bits]).ljust(8, b"\0")
        head += b"".join(table.tobytes() for pair in tables for table in pair)
    unigrams, sections, end = make_unigrams(levels.unigrams, levels.place, sizes[0], form), [], len(head)
    end += unigrams.nbytes
    for k in range(2, order + 1):
        sections.append(Section(k, sizes, form, end))
        end = sections[-1].end
    begins = np.cumsum(np.vstack((np.zeros_like(levels.parts[:1]), levels.parts)), axis=0).tolist()
    encode = partial(encode_slice, levels, [section.fields for section in sections], tables, begins)
    S = len(levels.slices)
    trim()  # threads do not use memory that this thread has freed
    with by_place(out) as file:
        for s, orders in enumerate(map_in_order(lambda s: [*encode(s)], range(S)) if S > 1 else [encode(0)]):
            for k, first, parts in orders:
                if k == 1:
                    unigrams["child"][begins[s][0] : begins[s + 1][0] + 1] = first + begins[s][1]
                    continue
                sections[k - 2].put(file, parts)
                if k < order:
                    sections[k - 2].add_pointers(begins[s][k - 1], first, begins[s][k])
                first = parts = None  # their memory is used for what follows
        for section in sections:
            section.put_table(file)
        file.seek(0)
        file.write(head)
        file.write(unigrams)
        file.seek(end)
        if form.has_words:
            file.write(join_words(levels.words))
        file.truncate()


@contextmanager
def by_place(out):
    """Yields a file to write in any order: `out` if it is a regular file, else a temporary file, copied to it later."""
    if isinstance(getattr(out, "raw", None), Output):
        yield out
        return
    with temporary_file() as file:
        with naming_folder():
            yield file
        file.seek(0)
        shutil.copyfileobj(file, out)


def encode_slice(levels, fields, tables, begins, s):
    """Yields for each order of slice s (the order; the first child of each record, as in `levels`; the Parts of the
    records). The 1-grams have no Parts, the highest order no children. fields, tables: of the orders from 2 on; begins
    (S + 1, n): the number of the first n-gram of each order in each slice, and the end.
    """
    order, families, parts = len(levels.sizes), levels.slices[s](), None
    is_last, threads = s == len(levels.slices) - 1, thread_count() if len(levels.slices) == 1 else 1
    for k in range(2, order + 1):
        first = next(families)
        if parts:
            put = partial(write_pointers, fields[k - 3], first, begins[s][k - 2], begins[s][k - 1])
            map_at_once(put, parts, threads)
        yield k - 1, first, parts
        first = parts = None
        keys, numbers = next(families)
        parts = make_records(keys, fields[k - 2], numbers, tables[k - 2], begins[s][k - 1], is_last, threads)
        keys = numbers = None
    yield order, None, parts


def make_unigrams(numbers, place, size, form):
    """Returns the records of 1-grams, (size + 2,), with empty pointers to children. numbers: as in `levels`. place:
    KenLM's number of each 1-gram.
    """
    (log10p, log10bow), unigrams, unknown = numbers.T, np.zeros(size + 2, UNIGRAM), f32(form.unknown)
    unigrams["log10p"][0] = unknown
    unigrams["log10p"][place] = np.where(np.isnan(log10p), np.where(place, ZERO, unknown), log10p)
    unigrams["log10bow"][place] = log10bow
    return unigrams


@dataclass(frozen=True)
class Part:
    """The records from number `first` to before `end` of an order. at, bit: where they begin among the bytes of the
    order's records. size: how many bytes they touch. memory: these bytes, and 8 more, since bits are written 8 bytes at
    a time.
    """

    first: int
    end: int
    at: int
    bit: int
    size: int
    memory: np.ndarray


def make_records(keys, fields, numbers, tables, begin, is_last, threads):
    """The Parts of the records of the n-grams `keys`, (N_k,) as in `levels`, one for each thread. numbers: as in
    `levels`. begin: the number of the first record in its order. is_last: whether the order ends with them.
    """
    bounds = np.linspace(begin, begin + len(keys), threads + 1).astype(np.int64)
    bounds[1:-1] = np.maximum(bounds[1:-1] - bounds[1:-1] % 8, begin)  # between two Parts a byte ends
    total = fields.total

    def part_of(first, end):
        at, bit = divmod(first * total, 8)
        is_end = is_last and end == begin + len(keys)
        size = (fields.size if is_end else (end * total + 7) // 8) - at
        records = np.zeros(size + 8, np.uint8)
        layout = records, bit, total, fields.label, fields.p, fields.bow
        put_records(keys[first - begin : end - begin], numbers, layout, tables)
        return Part(first, end, at, bit, size, records)

    return map_at_once(lambda part: part_of(*part), pairwise(bounds.tolist()), threads)


@jit
def put_records(keys, numbers, layout, tables):
    """Hard to read: bits are packed by hand.

    Puts the n-grams `keys` into their records. numbers: as in `levels`. layout: (the bytes of the records, the bit
    where the first record begins, the bits of a record, of its label, of log10 p, of its weight). tables: of log10 p
    and of weights, empty if they are not quantized.

    Bound: a random read an n-gram.
    """
    width, flat = numbers.shape[1], numbers.reshape(-1)
    words = flat.view(np.uint32)
    records, start, total, label_bits, p_bits, bow_bits = layout
    tables_p, tables_bow = tables
    for i in range(len(keys)):
        if i + AHEAD < len(keys):
            prefetch(flat, width * np.int64(keys[i + AHEAD] & LOWER))
        at, bit = u64(width) * (keys[i] & LOWER), start + i * total
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


def write_pointers(fields, first, begin, child, part):
    """Writes the pointers of a Part. first: as in `levels`; begin, child: the number of the slice's first record, and
    of its first child.
    """
    end = part.end + (part.at + part.size == fields.size)  # KenLM has one record more
    put_pointers(part.memory, part.bit, fields.total, fields.pointer, first[part.first - begin : end - begin], child)


@jit
def put_pointers(records, start, total, width, first, child):
    """Writes the lowest `width` bits of first + child at the end of each record. start: the bit of the first record."""
    mask = (u64(1) << u64(width)) - u64(1)
    for i in range(len(first)):
        write_bits(records, start + (i + 1) * total - width, u64(first[i] + child) & mask)


def make_tables(numbers, form):
    """The tables of the numbers of an order: (of log10 p; of weights, empty for the highest order). numbers: as in
    `levels`; they are sorted, each column by itself.
    """
    numbers.sort(axis=0)
    p = make_bins(numbers[:, 0], 1 << form.bits)
    if numbers.shape[1] == 1:
        return p, np.empty(0, f32)
    bow = numbers[:, 1]
    return p, np.concatenate((f32([-0.0, 0]), make_bins(bow[bow != 0], (1 << form.weight_bits) - 2)))


def make_bins(values, bins):
    """The means of `bins` equal parts of sorted values (Federico and Bertoldi 2006): (bins,) float32. An empty part has
    the mean of the part before it.
    """
    means = np.empty(bins, f32)
    take_means(np.ascontiguousarray(values), means)
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
