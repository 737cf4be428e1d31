"""Finds the child of a node that has a given word: by binary search or, among many children, in a hash table.

Kernels call `search`, `probe` and, for several searches at once, `find_batch`. In numpy, `find_children` finds one
child for each of many nodes, and `find_rows` finds whole n-grams. `add_tables` makes the hash tables of a model, which
are its arrays slots and spans (see `nodes`). `shell_sort` sorts the children of a node.
"""

from dataclasses import replace

import numpy as np

from lmtk.files.bounded import zeros
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import map_at_once
from lmtk.ngram.model.nodes import AT, CHILD, WIDTH, N, freeze, number

FEW = 8  # children; among so few, binary search is as fast as a hash table
MANY = 1 << 18  # n-grams; a smaller model gets no tables
NO_TABLE = np.empty(0, np.int32)
u64 = np.uint64
prefetch = intrinsic("prefetch")


@inlined
def slot_of(low, word, size):
    """The hash of a word and the first child `low` of its context: where to begin probing a table of `size` places."""
    h = (np.uint64(low) << np.uint64(32) | np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(32)) & (size - 1)


@inlined
def search(memory, where, k, low, high, w):
    """Binary search: the node of order k, from `low` up to `high`, that has the word w; -1 for none. The last FEW nodes
    take three steps without a branch, since a processor could not predict where the search ends.
    """
    if low >= high:
        return np.int64(-1)
    begin, width = where[u64(k - 1), AT], where[u64(k - 1), WIDTH]
    while high - low > FEW:
        middle = (low + high) >> 1
        if number(memory, begin + width * middle) <= w:
            low = middle
        else:
            high = middle
    for step in (4, 2, 1):
        i = min(low + step, high - 1)
        low = i if number(memory, begin + width * i) <= w else low
    return low if number(memory, begin + width * low) == w else np.int64(-1)


@inlined
def count_below(memory, begin, width, size, x):
    """How many of `size` sorted numbers, which stand `width` apart in the memory from `begin` on, are below x."""
    low, high = np.int64(0), size
    while low < high:
        middle = (low + high) >> 1
        if memory[begin + width * middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def shell_sort(items, begin, end):
    """Sort items[begin:end] in place, by Shell's sort (1959): most lists are short."""
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(begin + gap, end):
            item, j = items[i], i
            while j >= begin + gap and items[j - gap] > item:
                items[j] = items[j - gap]
                j -= gap
            items[j] = item
        gap //= 3


@inlined
def probe(trie, k, slot, low, high, w):
    """The node that `search` would find, by the hash table of order k, probed from the place `slot` on."""
    memory, where, slots, spans = trie
    begin, width = where[u64(k - 1), AT], where[u64(k - 1), WIDTH]
    table, places = spans[u64(k), 0], spans[u64(k), 1]
    for _ in range(places):
        node = number(slots, slot)
        if node < 0 or (low <= node < high and number(memory, begin + width * node) == w):
            return node
        slot = table + ((slot - table + 1) & (places - 1))
    return np.int64(-1)


@inlined
def find_batch(trie, k, words, lows, highs, nodes, many):
    """Do `many` searches at once, so that their random reads overlap. nodes (many,) <- for each search j, the node of
    order k, from lows[j] up to highs[j], that has words[j]; -1 for none.
    """
    memory, where, slots, spans = trie
    begin, width = where[u64(k - 1), AT], where[u64(k - 1), WIDTH]
    table, places = spans[u64(k), 0], spans[u64(k), 1]
    for j in range(many):
        nodes[j] = -1
        if places and highs[j] - lows[j] > FEW:
            nodes[j] = table + slot_of(lows[j], words[j], places)
            prefetch(slots, nodes[j])
        else:
            prefetch(memory, begin + width * lows[j])
            prefetch(memory, begin + width * highs[j])
    for j in range(many):
        if nodes[j] >= 0:
            prefetch(memory, begin + width * number(slots, nodes[j]))
    for j in range(many):
        if nodes[j] >= 0:
            nodes[j] = probe(trie, k, nodes[j], lows[j], highs[j], words[j])
        else:
            nodes[j] = search(memory, where, k, lows[j], highs[j], words[j])


def find_children(above, level, node, word):
    """Find the children with these words (N,) of the nodes (N,), in numpy: (N,), -1 for none. A node or word of -1 has
    no child. above, level: the records of the nodes' order and of the next.
    """
    end = len(level) - 1
    low = np.clip(above["child"][node], 0, end)
    high = last = np.clip(above["child"][np.where(node < 0, node, node + 1)], low, end)
    words = level["word"]
    while (low < high).any():
        middle = (low + high) >> 1
        less = (low < high) & (words[middle] < word)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return np.where((low < last) & (words[low] == word) & (word >= 0) & (node >= 0), low, -1)


def find_rows(nodes, rows):
    """Find the nodes (N,) of n-grams, rows of ids (N, k); -1 for an n-gram that the model lacks or with an id of -1."""
    node = np.zeros(len(rows), np.int64)
    for above, level, word in zip(nodes.levels, nodes.levels[1:], rows.T):
        node = find_children(above, level, node, word)
    return node


def table_size(many):
    """The number of places of a table of `many` n-grams: a power of two, at least 2 * many."""
    return 1 << (2 * many - 1).bit_length() if many else 0


def build_table(memory, where, k):
    """Make the table of order k alone, (places,) int32."""
    table = np.empty(table_size(fill_table(memory, where, k, NO_TABLE)), np.int32)
    fill_table(memory, where, k, table)
    return table


@jit
def fill_table(memory, where, k, table):
    """Put the n-grams of order k whose context has more than FEW children into table (places,) int32; the other places
    become -1. Returns their number. With NO_TABLE they are only counted.
    """
    table[:] = -1
    begin, total, width = where[k - 2, AT], where[k - 1, N], where[k - 2, WIDTH]
    below, narrow, n_ngrams, last = where[k - 1, AT], where[k - 1, WIDTH], 0, 0
    for i in range(where[k - 2, N]):
        at = begin + width * i
        low, high = max(memory[at + CHILD], last), min(memory[at + width + CHILD], total)
        if high - low > FEW:
            n_ngrams += high - low
            last = high
            for child in range(low, high if len(table) else low):
                slot = slot_of(low, memory[below + narrow * child], len(table))
                while table[slot] >= 0:
                    slot = (slot + 1) & (len(table) - 1)
                table[slot] = child
    return n_ngrams


def add_tables(nodes, home=None):
    """Return the Nodes with tables of all orders. A model that has tables, or fewer than MANY n-grams, is returned
    unchanged. home: None, or a function home(sizes, places) that returns memory for `places` slots.
    """
    if len(nodes.slots) or sum(nodes.where[:, N]) < MANY:
        return nodes
    orders = range(2, nodes.order + 1)
    many = map_at_once(lambda k: fill_table(nodes.memory, nodes.where, k, NO_TABLE), orders)
    sizes = [0, 0, *map(table_size, many)]
    spans = np.array([[end - size, size] for end, size in zip(np.cumsum(sizes), sizes)], np.int64)
    slots = home and home(nodes.where[:, N].tolist(), sum(sizes))
    if slots is None:
        slots = zeros(sum(sizes), np.int32)
    fill = lambda k: fill_table(nodes.memory, nodes.where, k, slots[spans[k, 0] :][: spans[k, 1]])
    map_at_once(fill, sorted(orders, key=lambda k: -sizes[k]))
    return replace(nodes, slots=freeze(slots), spans=freeze(spans))
