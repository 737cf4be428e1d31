"""The n-grams of a back-off model as they are stored and scored: a trie of records in one memory.

A node of order k is an n-gram w_1 .. w_k. The nodes of an order are sorted by their prefixes, and those with the same
prefix by their last words. One more record follows the last node of each order; it ends the children of that node.

symbol  shape   meaning
memory  (M,)    all records, int32; logs: the same memory as float32
where   (n, 4)  of each order: AT, where its first record begins in the memory; N, the number of nodes; WIDTH, how many
                numbers a record has, the suffix being the last; P, at which of them log10 p stands; int64
NODE    -       the record of an order below the highest: word, the last one; child, the first of its children, which
                end where those of the next record begin; log10p and log10bow; suffix, the longest node that is a
                suffix of it: a place in the order below, or, where that order lacks it, -1 - j for far[j]
LAST    -       the record of the highest order: word, log10p, suffix
far     (F, 2)  order and place of suffixes that are more than a word shorter; far[0] is the root, (0, 0); int32
slots   (S,)    the places of children of contexts with more than FEW of them: an open-addressing table an order, int32
spans   (n + 1, 2)  where the table of an order begins in slots, and its size, a power of two or 0; int64

A log10 of -inf is the logarithm of 0. A log10p of nan marks a bare prefix, which has no probability of its own. The
words, children, suffixes and slots of a file may be wrong: every look-up keeps them within their orders.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.machine.jit import inlined
from lmtk.machine.memory import give_back, zeros

NODE = np.dtype([("word", "<i4"), ("child", "<i4"), ("log10p", "<f4"), ("log10bow", "<f4"), ("suffix", "<i4")])
LAST = np.dtype([("word", "<i4"), ("log10p", "<f4"), ("suffix", "<i4")])
WIDE, NARROW = NODE.itemsize // 4, LAST.itemsize // 4
AT, N, WIDTH, P = range(4)  # columns of `where`
CHILD, BOW = 1, 3  # places in a NODE; the word is at 0 in both kinds
PLACE = {WIDE: 2, NARROW: 1}  # of log10 p
ROOT = np.zeros((1, 2), np.int32)  # `far` of a model without far suffixes
ZERO = -99.0  # the logarithm of 0 in an ARPA file
PART = 1 << 18  # n-grams that `mark_ends` handles together
u64 = np.uint64


def frozen(array):
    """A view of the array that cannot be written."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Nodes:
    """The arrays above. They are read-only, as mapped files are, so that kernels are compiled for one kind of array.

    path: that of the file they are from, or "".
    """

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
    def order(self):
        return len(self.where)

    def size(self, k):
        """How many n-grams of order k there are, bare prefixes included."""
        return int(self.where[k - 1, N])

    @cached_property
    def levels(self):
        """`records_of` these nodes."""
        return records_of(self.memory, self.where)

    def lower(self, order):
        """The Nodes of the orders up to `order`."""
        return replace(self, where=frozen(self.where[:order]), spans=self.spans[: order + 1])

    def checked(self, W):
        """The levels, checked if they are from a file: raises FormatError unless children are in order and words below
        W.
        """
        for k, (above, level) in enumerate(pairwise(self.levels if self.path else ()), 1):
            child, word = above["child"], level["word"][:-1]
            if child[0] != 0 or child[-1] != len(level) - 1 or (child[1:] < child[:-1]).any():
                raise FormatError(self.path, f"damaged: its {k - 1}-grams do not fit together with its {k}-grams")
            if word.min(initial=0) < 0 or word.max(initial=0) >= W:
                raise FormatError(self.path, f"damaged: {k}-grams of words that it does not have")
        return self.levels

    def parents(self, k):
        """(N_k,): the place of each n-gram's context in the order below."""
        children = np.diff(self.levels[k - 1]["child"])
        return np.repeat(np.arange(len(children)), children)

    def rows(self, k):
        """(N_k, k) int32: the n-grams of order k as word ids."""
        rows = np.empty((1, 0), np.int32)
        for j in range(1, k + 1):
            rows = np.column_stack((rows[self.parents(j)], self.levels[j]["word"][:-1]))
        return rows


def records_of(memory, where):
    """The records of each order, from the root, order 0, on; each order with the record that ends it."""
    root = np.zeros(2, NODE)
    root["child"][1] = where[0, N]
    found = [root]
    for at, size, width, _ in where.tolist():
        found.append(memory[at : at + (size + 1) * width].view(NODE if width == WIDE else LAST))
    return found


def ends_of(sizes):
    """(how many numbers a record of each order has; where each order begins in the memory, and the end of the last)."""
    widths = [WIDE] * (len(sizes) - 1) + [NARROW]
    return widths, np.cumsum([0, *((size + 1) * width for size, width in zip(sizes, widths))]).tolist()


def room(sizes, home=None):
    """(memory, where, the records of the orders from 1 on) for `sizes` n-grams of each order, all 0, to be filled for
    `building.finished`. home: as for `building.finished`.
    """
    widths, ends = ends_of(sizes)
    memory = home and home(sizes)
    if memory is None:
        memory = zeros(ends[-1], np.int32)
    where = np.array([[at, size, width, PLACE[width]] for at, size, width in zip(ends, sizes, widths)], np.int64)
    return memory, where, records_of(memory, where)[1:]


def without_tables(memory, where, far, path=""):
    """The Nodes of records with suffixes, without tables."""
    nothing = frozen(np.empty(0, np.int32)), frozen(np.zeros((len(where) + 1, 2), np.int64))
    return Nodes(frozen(memory), frozen(where), frozen(far), *nothing, path)


def unigrams(nodes, W):
    """(W,) int32: the 1-gram of each word, -1 for none. Raises FormatError if a 1-gram's word is out of range."""
    words = nodes.levels[1]["word"][:-1]
    if words.min(initial=0) < 0 or words.max(initial=0) >= W:
        raise FormatError(nodes.path, "damaged: 1-grams of words that it does not have")
    found = np.full(W, -1, np.int32)
    found[words] = np.arange(len(words))
    return found


@inlined
def number(memory, at):
    """memory[at] as int64. The place is made unsigned: numba tests whether signed ones are negative."""
    return np.int64(memory[u64(at)])


@inlined
def children_of(memory, where, k, node):
    """(first, end) of the children of a node of order k, within the next order whatever the file says."""
    at, total = where[u64(k - 1), AT] + WIDE * node, where[u64(k), N]
    low = min(max(number(memory, at + CHILD), 0), total)
    return low, max(min(number(memory, at + WIDE + CHILD), total), low)


@inlined
def suffix_of(memory, where, far, k, node):
    """(order, place) of the longest node that is a suffix of a node of order k; order 0 is the root."""
    if k < 2:
        return np.int64(0), np.int64(0)
    found = number(memory, where[u64(k - 1), AT] + where[u64(k - 1), WIDTH] * (node + 1) - 1)
    order = k - 1
    if found < 0:
        j = -1 - found
        if j >= len(far):
            return np.int64(0), np.int64(0)
        order, found = min(order, max(np.int64(far[u64(j), 0]), 0)), max(np.int64(far[u64(j), 1]), 0)
    return (order, found) if order and found < where[u64(order - 1), N] else (np.int64(0), np.int64(0))


def mark_ends(nodes, k, marked):
    """Marks the longest suffix of each marked k-gram; marked: (N,) for each order, in place. Calls from the highest
    order down mark all suffixes. Suffixes beyond the end of their order are passed over.
    """
    suffixes = nodes.levels[k]["suffix"][:-1]
    for begin in range(0, len(suffixes), PART):
        suffix = suffixes[begin : begin + PART][marked[k - 1][begin : begin + PART] > 0]
        marked[k - 2][suffix[(suffix >= 0) & (suffix < nodes.size(k - 1))]] = True
        far = -1 - suffix[suffix < 0]
        order, place = nodes.far[far[far < len(nodes.far)]].T
        for j in range(1, k - 1):
            marked[j - 1][place[(order == j) & (place >= 0) & (place < nodes.size(j))]] = True


def writable(nodes):
    """The memory of nodes as a writable array; None if it is a mapped file."""
    base = nodes.memory.base
    if not isinstance(base, np.ndarray) or not base.flags.writeable:
        return None
    begin = address(nodes.memory) - address(base)
    return base.reshape(-1).view(np.uint8)[begin : begin + nodes.memory.nbytes].view(np.int32)


def forget(nodes, k):
    """Gives the memory of an order's records back to the system, unless it is a mapped file."""
    memory = writable(nodes)
    if memory is not None and k <= nodes.order:
        at, size, width, _ = nodes.where[k - 1].tolist()
        give_back(memory[at : at + size * width])


def columns(level):
    """The records of an order as a file holds them: (N + 1, WIDE or NARROW) int32."""
    return level.view(np.int32).reshape(len(level), -1)


def address(a):
    return a.__array_interface__["data"][0]


def ends_in_itself(nodes):
    """Whether the suffix of every n-gram, bare prefixes aside, is an n-gram of the model too, as in KenLM's models."""
    for k in range(3, nodes.order + 1):
        shorter, level = nodes.levels[k - 1][:-1], nodes.levels[k][:-1]
        suffix = level["suffix"][~np.isnan(level["log10p"])]
        if (suffix < 0).any() or (suffix >= len(shorter)).any() or np.isnan(shorter["log10p"][suffix]).any():
            return False
    return True
