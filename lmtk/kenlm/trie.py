"""Writes KenLM's trie files from a model in memory.

The trie goes from the last word of an n-gram to its first: the parent of w_1 .. w_k is its suffix w_2 .. w_k, and w_1
is its label. Siblings are sorted by the numbers of their labels. The nodes of a model are sorted by first words, so two
passes sort an order: `count_children` counts the children of each suffix; `put_records` takes the n-grams, first words
in the order of their numbers, and puts each at the next free place of its parent's children.

A record of order k > 1 is packed bits: the label; log10 p without its sign and the back-off weight (31 and 32 bits), or
their places in tables of numbers (the weight's first); below the highest order, a pointer to the first child. With
array-compressed pointers the upper bits of the pointers are kept in a table of the first record of each value.
"""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.kenlm.layout import ZERO, chop_bits, hash_words, is_unknown, join_words, make_header
from lmtk.machine.jit import inlined, jit, of_numba
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
    fields = records = None  # of the order above
    for k in range(2, nodes.order + 1):
        place, first = find_parents(nodes, k, place, sizes[k - 2])
        if k == 2:
            unigrams["child"][:-1] = first
            out.write(unigrams)
            at += unigrams.nbytes
        else:
            at += write_records(out, at, records, fields, first, form)
        fields = fields_of(k, sizes, form)
        records = np.zeros(fields.size, np.uint8)
        put_records(
            (nodes.memory, nodes.logs, nodes.where),
            k,
            first_word_ranges(nodes, k, numbers),
            place,
            first[:-1].copy(),
            (records, fields.total, fields.label, fields.p, fields.bow),
            tables[k - 2] if tables else NONE,
        )
    out.write(records)
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
    if k == 2:
        parents = place[nodes.levels[2]["suffix"][:-1]]
        first[1:] = np.bincount(parents, minlength=size)
    else:
        count_children(nodes.memory, nodes.where, k, place, parents, first)
    return parents, np.cumsum(first, out=first)


@jit
def count_children(memory, where, k, place, parents, first):
    """parents (N_k,) <- the place of the parent of each n-gram of order k; first[i + 1] += the number of children at
    place i.
    """
    begin, width = where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(len(parents)):
        if i + AHEAD < len(parents):
            prefetch(place, np.int64(memory[begin + width * (i + AHEAD + 1) - 1]))
        parents[i] = place[u64(memory[begin + width * (i + 1) - 1])]
    for i in range(len(parents)):
        if i + AHEAD < len(parents):
            prefetch(first, np.int64(parents[i + AHEAD]) + 1)
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


@jit
def put_records(nodes, k, ranges, place, head, target, tables):
    """Hard to read: bits are packed by hand, and memory is prefetched in two steps.

    Puts the n-grams of order k into their records. nodes: (memory, logs, where). ranges (N_1, 3): for each first word
    in the order of the numbers, its number and the range of its n-grams. place (N_k,): the place of each n-gram's
    parent; it becomes the place of the n-gram. head: the next free place among the children of each parent. target:
    (records, the bits of a record, of its label, of log10 p, of its weight). tables: of log10 p and of weights, empty
    if they are not quantized.

    Bound: two random accesses an n-gram, to head and to the record.
    """
    memory, logs, where = nodes
    records, total, label_bits, p_bits, bow_bits = target
    tables_p, tables_bow = tables
    begin, width, p_at, is_last = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P], k == len(where)
    for r in range(len(ranges)):
        label, end = ranges[r, 0], ranges[r, 2]
        for i in range(ranges[r, 1], end):
            if i + AHEAD < end:
                prefetch(head, np.int64(place[i + AHEAD]))
            if i + AHEAD // 2 < end:
                prefetch(records, np.int64(head[u64(place[i + AHEAD // 2])]) * total >> 3)
            parent, at = u64(place[i]), begin + width * i
            place[i] = head[parent]
            head[parent] += 1
            bit = np.int64(place[i]) * total
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


def write_records(out, at, records, fields, first, form):
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
    put_pointers(records, fields.total, inline, first)
    out.write(records)
    return size


@jit
def put_pointers(records, total, width, first):
    """Writes the lowest `width` bits of each pointer first (N + 1,) at the end of its record."""
    mask = (u64(1) << u64(width)) - u64(1)
    for i in range(len(first)):
        write_bits(records, i * total + total - width, u64(first[i]) & mask)


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
