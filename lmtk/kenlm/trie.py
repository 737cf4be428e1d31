"""Writes KenLM's trie files from a model in memory.

The trie goes from the last word of an n-gram to its first: the parent of w_1 .. w_k is its suffix w_2 .. w_k, and w_1
is its label. Siblings are sorted by the numbers of their labels. The nodes of a model are sorted by first words, so two
passes sort an order: `count_children` counts the children of each suffix; `put_records` takes the n-grams, first words
in the order of their numbers, and puts each at the next free place of its parent's children. Each thread does both for
the children of its own range of parents, whose records are next to each other.

A record of order k > 1 is packed bits: the label; log10 p without its sign and the back-off weight (31 and 32 bits), or
their places in tables of numbers (the weight's first); below the highest order, a pointer to the first child. With
array-compressed pointers the upper bits of the pointers are kept in a table of the first record of each value.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from lmtk.kenlm.layout import ZERO, chop_bits, hash_words, is_unknown, join_words, make_header
from lmtk.machine.jit import inlined, jit, of_numba
from lmtk.machine.threads import count, map_at_once, parts_of
from lmtk.ngram.edit.closing import close
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDE, WIDTH, P, freeze, view_records
from lmtk.text.vocab import UNK

f32, u64 = np.float32, np.uint64
UNIGRAM = np.dtype([("log10p", "<f4"), ("log10bow", "<f4"), ("child", "<u8")])
P_BITS, BOW_BITS = 31, 32  # of numbers that are not quantized
QUANTIZED_VERSION, POINTERS_VERSION = 2, 0
MINUS, ZERO_BITS = np.int32(-(1 << 31)), ZERO.view(np.int32)  # the sign bit; the bits of -99
NONE = (np.empty(0, f32), np.empty(0, f32))  # tables of an order that is not quantized
AHEAD = 16
load8, store8, prefetch = (of_numba("lmtk.machine.intrinsics", name) for name in ("load8", "store8", "prefetch"))


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


def write(out, model, form):
    """Writes a Backoff of order 2 or more as a KenLM trie. form: a `layout.Form`."""
    nodes = close(clip(model) if form.allows_positive else model).nodes
    numbers, hashes, words = number_words(nodes, model.vocab.words)
    sizes = [len(words), *(nodes.size(k) for k in range(2, nodes.order + 1))]
    tables = [make_tables(nodes, k, form) for k in range(2, nodes.order + 1)] if form.bits else []
    head = make_header(form, sizes) + u64(len(hashes)).tobytes() + hashes.tobytes() + bytes(8)  # 8 bytes for <unk>
    if tables:
        head += bytes([QUANTIZED_VERSION, form.bits, form.weight_bits]).ljust(8, b"\0")
        head += b"".join(table.tobytes() for pair in tables for table in pair)
    out.write(head)
    at = len(head)  # of the next byte
    place, unigrams = numbers[nodes.levels[1]["word"][:-1]], make_unigrams(nodes, numbers, len(words), form.unknown)
    fields = parts = None  # of the order above
    for k in range(2, nodes.order + 1):
        parents, first = find_parents(nodes, k, place, sizes[k - 2])
        if k == 2:
            unigrams["child"][:-1] = first
            out.write(unigrams)
            at += unigrams.nbytes
        else:
            at += write_records(out, at, parts, fields, first, form)
        fields = fields_of(k, sizes, form)
        place, parts = make_records(nodes, k, numbers, (parents, first), fields, tables[k - 2] if tables else NONE)
    write_parts(out, parts, fields)
    if form.has_words:
        out.write(join_words(words))


def clip(model):
    """The model with 0 in place of positive log probabilities."""
    memory = model.nodes.memory.copy()
    for level in view_records(memory, model.nodes.where)[1:]:
        np.minimum(level["log10p"], 0, out=level["log10p"])
    return replace(model, nodes=replace(model.nodes, memory=freeze(memory), path=""))


def number_words(nodes, words):
    """(KenLM's number of each of the W words, (W,) int32, 0 for a word without a 1-gram; the hashes in the order of the
    numbers, from number 1 on; the words in that order, <unk> first).
    """
    ids = nodes.levels[1]["word"][:-1]
    ids = ids[[not is_unknown(words[w]) for w in ids.tolist()]]
    hashes, numbers = hash_words([words[w] for w in ids.tolist()]), np.zeros(len(words), np.int32)
    by_hash = np.argsort(hashes)
    numbers[ids[by_hash]] = np.arange(1, len(ids) + 1)
    return numbers, hashes[by_hash], [UNK, *(words[w] for w in ids[by_hash].tolist())]


def make_unigrams(nodes, numbers, size, unknown):
    """The records of 1-grams by number, without their children: (size + 2,), as KenLM has them. unknown: log10 p of
    <unk> if it has no 1-gram.
    """
    level, unigrams = nodes.levels[1], np.zeros(size + 2, UNIGRAM)
    is_context, level = level["child"][1:] > level["child"][:-1], level[:-1]
    place, bow = numbers[level["word"]], level["log10bow"]
    log10p = np.where(np.isnan(level["log10p"]), np.where(place, ZERO, f32(unknown)), with_zero(level["log10p"]))
    unigrams["log10p"][0] = unknown
    unigrams["log10p"][place] = log10p
    unigrams["log10bow"][place] = np.where(bow == 0, np.where(is_context, f32(0), f32(-0.0)), with_zero(bow))
    return unigrams


def with_zero(logs):
    """Logarithms with -99 in place of -inf."""
    return np.where(np.isneginf(logs), ZERO, logs)


def fields_of(k, sizes, form):
    """The Fields of the records of order k > 1. sizes: the n-grams of each order, <unk> among the 1-grams."""
    label, size = sizes[0].bit_length(), sizes[k - 1]
    if k == len(sizes):
        return Fields(size, label, form.bits or P_BITS)
    largest = sizes[k]
    chopped = 0 if form.pointer_bits is None else chop_bits(largest, size + 1, form.pointer_bits)
    return Fields(size, label, form.bits or P_BITS, form.weight_bits or BOW_BITS, largest, chopped)


def find_parents(nodes, k, place, size):
    """(the parent of each n-gram of order k > 1, (N_k,) int32; the first child of each parent, (size + 1,) int32).

    place (N_(k-1),): the place in the trie of each node of the order above. size: the number of parents.
    """
    parents, first = np.empty(nodes.size(k), np.int32), np.zeros(size + 1, np.int32)
    map_at_once(lambda part: look_up(nodes.memory, nodes.where, k, place, parents, *part), parts_of(len(parents)))
    bounds = np.linspace(0, size, count() + 1).astype(np.int64)
    map_at_once(lambda part: count_children(parents, *part, first), pairwise(bounds))
    return parents, np.cumsum(first, out=first)


@jit
def look_up(memory, where, k, place, parents, begin, end):
    """parents[begin:end] <- the places of the suffixes of n-grams of order k. place (N_(k-1),): of the nodes above."""
    at, width = where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch(place, np.int64(memory[at + width * (i + AHEAD + 1) - 1]))
        parents[i] = place[u64(memory[at + width * (i + 1) - 1])]


@jit
def count_children(parents, low, high, first):
    """first[i + 1] += how often the parent i is among `parents`, for low <= i < high."""
    for i in range(len(parents)):
        if i + AHEAD < len(parents) and low <= parents[i + AHEAD] < high:
            prefetch(first, np.int64(parents[i + AHEAD]) + 1)
        if low <= parents[i] < high:
            first[u64(parents[i]) + u64(1)] += 1


def first_word_ranges(nodes, k, numbers):
    """The range of the n-grams of order k that begin with each word, in the order of KenLM's numbers: rows (number,
    first, end), (N_1, 3).
    """
    ends = np.arange(nodes.size(1) + 1)
    for level in nodes.levels[1:k]:
        ends = level["child"][ends].astype(np.int64)
    labels = numbers[nodes.levels[1]["word"][:-1]]
    return np.column_stack((labels, ends[:-1], ends[1:]))[np.argsort(labels)]


@dataclass(frozen=True)
class Part:
    """The records from number `first` to before `end` of an order. memory: bytes, from the one on that has their first
    bit; the bits of other records are 0. base: the number of that bit's byte.
    """

    first: int
    end: int
    base: int
    memory: np.ndarray


def make_records(nodes, k, numbers, family, fields, tables):
    """(the place of each n-gram of order k, (N_k,) int32; a list of the Parts of its records, one for each thread).

    numbers: KenLM's number of each word. family: (the parent of each n-gram, the first child of each parent).
    """
    parents, first = family
    ranges, place, head = first_word_ranges(nodes, k, numbers), np.empty_like(parents), first[:-1].copy()
    bounds = np.searchsorted(first, np.linspace(0, first[-1], count() + 1).astype(np.int32)[1:-1])
    bounds = np.concatenate(([0], bounds, [len(head)]))

    def part_of(low, high):
        start, end, base = int(first[low]), int(first[high]), int(first[low]) * fields.total >> 3
        size = (end * fields.total >> 3) - base + 16 if high < len(head) else fields.size - base
        part = Part(start, end, base, np.zeros(size, np.uint8))
        model, widths = (nodes.memory, nodes.logs, nodes.where), (fields.total, fields.label, fields.p, fields.bow)
        put_records(model, k, ranges, (parents, low, high), (place, head), (part.memory, base, *widths), tables)
        return part

    return place, map_at_once(lambda bound: part_of(*bound), pairwise(bounds.tolist()))


@jit
def put_records(nodes, k, ranges, family, places, layout, tables):
    """Hard to read: bits are packed by hand, and memory is prefetched in two steps.

    Puts n-grams of order k into their records. nodes: (memory, logs, where). ranges (N_1, 3): for each first word
    in the order of the numbers, its number and the range of its n-grams. family: (the parent of each n-gram, (N_k,);
    the bounds of the parents whose children are put). places: (the place of each n-gram, which is filled in; the next
    free place among the children of each parent). layout: (the bytes of the records, the number of the first of them,
    the bits of a record, of its label, of log10 p, of its weight). tables: of log10 p and of weights, empty if they are
    not quantized.

    Bound: two random accesses an n-gram, to head and to the record.
    """
    memory, logs, where = nodes
    parents, low, high = family
    place, head = places
    records, base, total, label_bits, p_bits, bow_bits = layout
    tables_p, tables_bow = tables
    begin, width, p_at, is_last = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P], k == len(where)
    for r in range(len(ranges)):
        label, end = ranges[r, 0], ranges[r, 2]
        for i in range(ranges[r, 1], end):
            if i + AHEAD < end and low <= parents[i + AHEAD] < high:
                prefetch(head, np.int64(parents[i + AHEAD]))
            if i + AHEAD // 2 < end and low <= parents[i + AHEAD // 2] < high:
                prefetch(records, (np.int64(head[u64(parents[i + AHEAD // 2])]) * total >> 3) - base)
            if not low <= parents[i] < high:
                continue
            parent, at = u64(parents[i]), begin + width * i
            place[i] = head[parent]
            head[parent] += 1
            bit = np.int64(place[i]) * total - 8 * base
            write_bits(records, bit, u64(label))
            bit += label_bits
            p, p_word = logs[at + p_at], memory[at + p_at]
            p, p_word = (ZERO, ZERO_BITS) if p == -np.inf else (p, p_word)
            bow, bow_word = f32(0), np.int32(0)
            if not is_last:
                bow, bow_word = logs[at + BOW], memory[at + BOW]
                bow, bow_word = (ZERO, ZERO_BITS) if bow == -np.inf else (bow, bow_word)
                if bow == 0:
                    bow_word = np.int32(0) if memory[at + WIDE + CHILD] > memory[at + CHILD] else MINUS
            if len(tables_p):
                if not is_last:
                    write_bits(records, bit, u64(bow_word >= 0) if bow == 0 else u64(nearest(tables_bow, 2, bow)))
                    bit += bow_bits
                write_bits(records, bit, u64(nearest(tables_p, 0, p)))
            else:
                write_bits(records, bit, u64(p_word & ~MINUS))
                if not is_last:
                    write_bits(records, bit + p_bits, u64(np.uint32(bow_word)))


@inlined
def write_bits(records, bit, value):
    """Writes a value at a bit of an array of bytes that is 0 there. The value has at most 57 bits."""
    store8(records, bit >> 3, load8(records, bit >> 3) | value << u64(bit & 7))


@inlined
def nearest(table, reserved, value):
    """The place of the value next to `value` in a sorted table, from the place `reserved` on."""
    low, high = reserved, len(table)
    while low < high:
        middle = (low + high) >> 1
        if table[middle] < value:
            low = middle + 1
        else:
            high = middle
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
        put_pointers(part.memory, part.first, end, part.base, fields.total, inline, first)

    map_at_once(point, parts)
    write_parts(out, parts, fields)
    return size


@jit
def put_pointers(records, begin, end, base, total, width, first):
    """Writes the lowest `width` bits of the pointers first[begin:end] at the end of their records."""
    mask = (u64(1) << u64(width)) - u64(1)
    for i in range(begin, end):
        write_bits(records, (i + 1) * total - width - 8 * base, u64(first[i]) & mask)


def write_parts(out, parts, fields):
    """Writes the records of an order. The byte in which one Part ends and the next begins has bits of both."""
    shared = 0
    for part in parts:
        part.memory[0] |= shared
        whole = fields.size - part.base if part is parts[-1] else (part.end * fields.total >> 3) - part.base
        out.write(part.memory[:whole])
        shared = 0 if part is parts[-1] else part.memory[whole]


def make_tables(nodes, k, form):
    """The tables (of log10 p; of weights, empty for the highest order) of the numbers of order k."""
    level = nodes.levels[k][:-1]
    p = make_bins(with_zero(level["log10p"]), 1 << form.bits)
    if k == nodes.order:
        return p, np.empty(0, f32)
    bow = with_zero(level["log10bow"])
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
