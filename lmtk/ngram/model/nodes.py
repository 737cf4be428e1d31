"""The n-grams of a back-off model as they are stored and scored: a trie of records in one memory.

A node of order k is an n-gram w_1 .. w_k. The nodes of an order are sorted by prefix, then by last word. So the
children of a node, the n-grams that extend it by one word, stand together in the next order. Each order ends with a
sentinel record whose `child` closes the last node's range of children.

symbol  shape   meaning
memory  (M,)    all records, int32; logs: the same memory as float32
where   (n, 4)  the layout of each order, int64. AT: where its first record begins in the memory; N: the number of
                nodes; WIDTH: the numbers in a record; the last one is the suffix; P: the position of log10 p in
                a record
NODE    -       the record of an order below the highest. word: the last word. child: the first child; the children
                end where those of the next record begin. log10p, log10bow. suffix: the longest proper suffix that is
                a node, as a place in the order below. If that suffix is shorter still, -1 - j stands for far[j].
LAST    -       the record of the highest order: word, log10p, suffix
far     (F, 2)  order and place of suffixes that are more than a word shorter; far[0] is the root, (0, 0); int32
slots   (S,)    open-addressing hash tables, one for each order, of the children of contexts with more than FEW
                children: places in the order, int32
spans   (n + 1, 2)  where the table of an order begins in slots, and its size, a power of two or 0; int64
trie    -       memory, where, slots and spans, as a tuple for kernels

A log10 of -inf is the logarithm of 0. A log10p of nan marks a bare prefix: a node without a probability, needed for its
children. A damaged file may have wrong words, children, suffixes or slots; look-ups keep them within their orders.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.files.bounded import give_back, zeros
from lmtk.machine.jit import inlined

NODE = np.dtype([("word", "<i4"), ("child", "<i4"), ("log10p", "<f4"), ("log10bow", "<f4"), ("suffix", "<i4")])
LAST = np.dtype([("word", "<i4"), ("log10p", "<f4"), ("suffix", "<i4")])
WIDE, NARROW = NODE.itemsize // 4, LAST.itemsize // 4
AT, N, WIDTH, P = range(4)  # columns of `where`
CHILD, BOW = 1, 3  # places in a NODE; the word is at 0 in both kinds
PLACE = {WIDE: 2, NARROW: 1}  # the position of log10 p in a record, by the record's width
ROOT = np.zeros((1, 2), np.int32)  # `far` of a model without far suffixes
ZERO = -99.0  # the logarithm of 0 in an ARPA file
PART = 1 << 18  # n-grams in one step of a pass over all
u64 = np.uint64


def freeze(array):
    """Return a view of the array that cannot be written."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Nodes:
    """The arrays of the table above, all read-only, as a mapped file is. path: the file they come from, or ""."""

    memory: np.ndarray
    where: np.ndarray
    far: np.ndarray
    slots: np.ndarray
    spans: np.ndarray
    path: str = ""

    @cached_property
    def logs(self):
        return self.memory.view(np.float32)

    @property
    def trie(self):
        return self.memory, self.where, self.slots, self.spans

    @property
    def arrays(self):
        return self.memory, self.logs, self.where, self.far

    @property
    def order(self):
        return len(self.where)

    def size(self, k):
        """The number of n-grams of order k, bare prefixes included."""
        return int(self.where[k - 1, N])

    @cached_property
    def levels(self):
        """The records of each order as `view_records` returns them; levels[0] is the root."""
        return view_records(self.memory, self.where)

    def lower(self, order):
        """The Nodes without the orders above `order`."""
        return replace(self, where=freeze(self.where[:order]), spans=self.spans[: order + 1])

    def checked_levels(self, W):
        """The levels. Raises FormatError if a file's children are out of order, or its word ids are not below W."""
        for k, (above, level) in enumerate(pairwise(self.levels if self.path else ()), 1):
            child, word = above["child"], level["word"][:-1]
            if child[0] != 0 or child[-1] != len(level) - 1 or (child[1:] < child[:-1]).any():
                raise FormatError(self.path, f"damaged: its {k - 1}-grams do not match its {k}-grams")
            if word.min(initial=0) < 0 or word.max(initial=0) >= W:
                raise FormatError(self.path, f"damaged: a {k}-gram has a word outside the vocabulary")
        return self.levels

    def parents(self, k):
        """(N_k,): the place of the context of each n-gram of order k, in order k - 1."""
        children = np.diff(self.levels[k - 1]["child"])
        return np.repeat(np.arange(len(children)), children)

    def rows(self, k, first=0, end=None):
        """(N, k) int32: the n-grams of order k from `first` up to `end`, by default all, as word ids."""
        end = self.size(k) if end is None else end
        rows, place = np.empty((end - first, k), np.int32), slice(None)
        for j in range(k, 0, -1):  # the nodes from `first` to `end`, then their contexts, then the contexts of these
            rows[:, j - 1] = self.levels[j]["word"][first:end][place]
            child = self.levels[j - 1]["child"]
            begin, stop = bisect_right(child, first) - 1, bisect_left(child, end)
            place = np.repeat(np.arange(stop - begin), np.diff(child[begin : stop + 1].clip(first, end)))[place]
            first, end = begin, stop
        return rows


def view_records(memory, where):
    """Return the records of orders 0 to n as structured arrays, each with its sentinel record. Order 0 is the root."""
    root = np.zeros(2, NODE)
    root["child"][1] = where[0, N]
    levels = ((memory[at : at + (size + 1) * width], width) for at, size, width, _ in where.tolist())
    return [root, *(level.view(NODE if width == WIDE else LAST) for level, width in levels)]


def plan(sizes):
    """Plan the memory of orders of these sizes, one after the other. Return (where, the length of the memory)."""
    widths = [WIDE] * (len(sizes) - 1) + [NARROW]
    ends = np.cumsum([0, *((size + 1) * width for size, width in zip(sizes, widths))]).tolist()
    where = [[at, size, width, PLACE[width]] for at, size, width in zip(ends, sizes, widths)]
    return np.array(where, np.int64), ends[-1]


def allocate(sizes, home=None):
    """Return (memory, where, the records of orders 1 to n), all 0, with space for `sizes` n-grams of each order. The
    caller fills the records and calls `building.finish`. home: None, or a function home(sizes) that returns the memory.
    """
    where, length = plan(sizes)
    memory = home and home(sizes)
    if memory is None:
        memory = zeros(length, np.int32)
    return memory, where, view_records(memory, where)[1:]


def wrap_records(memory, where, far=ROOT, slots=None, spans=None, path=""):
    """Return the Nodes of these arrays; without slots and spans, they have no hash tables."""
    if slots is None:
        slots, spans = np.empty(0, np.int32), np.zeros((len(where) + 1, 2), np.int64)
    return Nodes(*map(freeze, (memory, where, far, slots, spans)), path)


def find_unigrams(nodes, W):
    """The place of each word's 1-gram, (W,) int32, or -1. Raises FormatError if a 1-gram's word id is not below W."""
    words = nodes.levels[1]["word"][:-1]
    if words.min(initial=0) < 0 or words.max(initial=0) >= W:
        raise FormatError(nodes.path, "damaged: a 1-gram has a word outside the vocabulary")
    place = np.full(W, -1, np.int32)
    place[words] = np.arange(len(words))
    return place


@inlined
def number(memory, at):
    """memory[at] as int64. `at` is made unsigned, since numba tests every signed index for a negative value."""
    return np.int64(memory[u64(at)])


@inlined
def children_of(memory, where, k, node):
    """(first, end) of the children of a node of order k; within the next order even if the file is damaged."""
    at, total = where[u64(k - 1), AT] + WIDE * node, where[u64(k), N]
    low = min(max(number(memory, at + CHILD), 0), total)
    return low, max(min(number(memory, at + WIDE + CHILD), total), low)


@inlined
def suffix_of(memory, where, far, k, node):
    """(order, place) of the longest node that is a suffix of a node of order k; order 0 is the root."""
    if k < 2:
        return np.int64(0), np.int64(0)
    suffix = number(memory, where[u64(k - 1), AT] + where[u64(k - 1), WIDTH] * (node + 1) - 1)
    order = k - 1
    if suffix < 0:
        j = -1 - suffix
        if j >= len(far):
            return np.int64(0), np.int64(0)
        order, suffix = min(order, max(np.int64(far[u64(j), 0]), 0)), max(np.int64(far[u64(j), 1]), 0)
    return (order, suffix) if order and suffix < where[u64(order - 1), N] else (np.int64(0), np.int64(0))


def mark_suffixes(nodes, k, marked):
    """Mark the longest suffix of each k-gram, in place: it gets at least the mark of the k-gram. marked: the marks of
    the n-grams of each order, (N,) bool, uint8 or float32. Calls for k from the highest order down to 2 mark all
    suffixes. A damaged suffix, beyond the end of its order, is skipped.
    """
    suffixes = nodes.levels[k]["suffix"][:-1]
    for begin in range(0, len(suffixes), PART):
        suffix, marks = suffixes[begin : begin + PART], marked[k - 1][begin : begin + PART]
        is_near = (suffix >= 0) & (suffix < nodes.size(k - 1))
        np.maximum.at(marked[k - 2], suffix[is_near], marks[is_near])
        far, marks = -1 - suffix[suffix < 0], marks[suffix < 0]
        far, marks = far[far < len(nodes.far)], marks[far < len(nodes.far)]
        order, place = nodes.far[far].T
        for j in range(1, k - 1):
            is_here = (order == j) & (place >= 0) & (place < nodes.size(j))
            np.maximum.at(marked[j - 1], place[is_here], marks[is_here])


def are_contexts(nodes, k, marks):
    """(N_(k-1),) bool: whether an n-gram of order k - 1 is the context of a marked one of order k. marks (N_k,)."""
    child, marks = nodes.levels[k - 1]["child"], np.append(marks, False)
    is_context = np.empty(len(child) - 1, bool)
    for begin in range(0, len(is_context), PART):
        part = child[begin : begin + PART + 1]
        has_mark = np.logical_or.reduceat(marks[: part[-1] + 1], part)[:-1]
        is_context[begin : begin + PART] = has_mark & (part[1:] > part[:-1])
    return is_context


def memory_of(arrays):
    """Return the int32 memory around these arrays, or None if they are not parts of one array."""
    base = arrays[0]
    while isinstance(base.base, np.ndarray):
        base = base.base
    first, begin = base.ctypes.data, min(a.ctypes.data for a in arrays)
    end = max(a.ctypes.data + a.nbytes for a in arrays)
    if begin < first or end > first + base.nbytes or begin % 4:
        return None
    return base.reshape(-1).view(np.uint8)[begin - first : end - first].view(np.int32)


def writable_memory(nodes):
    """Return the memory of nodes as a writable array, or None if the memory is a mapped file."""
    memory = memory_of([nodes.memory])
    return memory if memory is not None and memory.flags.writeable else None


def release_order(nodes, k):
    """Return the memory of the records of order k to the system, unless the memory is a mapped file."""
    memory = writable_memory(nodes)
    if memory is not None and k <= nodes.order:
        at, size, width, _ = nodes.where[k - 1].tolist()
        give_back(memory[at : at + size * width])


def is_suffix_closed(nodes):
    """Whether the model has every n-gram without its oldest word too, as KenLM requires. Bare prefixes do not count."""
    for k in range(3, nodes.order + 1):
        shorter, level = nodes.levels[k - 1][:-1], nodes.levels[k][:-1]
        suffix = level["suffix"][~np.isnan(level["log10p"])]
        if (suffix < 0).any() or (suffix >= len(shorter)).any() or np.isnan(shorter["log10p"][suffix]).any():
            return False
    return True
