"""Finds a node's child with a given word: by binary search or, among many children, by a hash table."""

from dataclasses import replace

import numpy as np

from lmtk.machine.jit import inlined, jit, of_numba
from lmtk.machine.memory import zeros
from lmtk.machine.threads import all_at_once
from lmtk.ngram.model.nodes import AT, CHILD, WIDTH, N, frozen, number

FEW = 8  # children; a search among so many is as fast as a table
MANY = 1 << 18  # n-grams of a model; from so many on, tables pay
prefetch = of_numba("lmtk.machine.intrinsics", "prefetch")


@inlined
def slot_of(low, word, size):
    """The first place to look for a word among the children from `low` on, in a table of `size` places."""
    h = (np.uint64(low) << np.uint64(32) | np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(32)) & (size - 1)


@inlined
def search(memory, begin, width, low, high, w):
    """The node from low up to high, of the order at `begin`, that has the word w; -1 for none. Among FEW nodes it takes
    three steps whatever it finds, since a processor could not predict a branch that ends the search.
    """
    if low >= high:
        return np.int64(-1)
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
def probe(memory, slots, table, places, slot, begin, width, low, high, w):
    """`search` by a table that takes up `places` slots from `table` on; slot: the first to look at."""
    for _ in range(places):
        found = number(slots, slot)
        if found < 0 or (low <= found < high and number(memory, begin + width * found) == w):
            return found
        slot = table + ((slot - table + 1) & (places - 1))
    return np.int64(-1)


@inlined
def find_some(memory, slots, span, begin, width, words, lows, highs, found, many):
    """found (many,) <- the nodes from lows up to highs, of the order at `begin`, that have these words, -1 for none.
    span: that of the order's table. The random reads of all searches overlap.
    """
    table, places = span[0], span[1]
    for j in range(many):
        found[j] = -1
        if places and highs[j] - lows[j] > FEW:
            found[j] = table + slot_of(lows[j], words[j], places)
            prefetch(slots, found[j])
        else:
            prefetch(memory, begin + width * lows[j])
            prefetch(memory, begin + width * highs[j])
    for j in range(many):
        if found[j] >= 0:
            prefetch(memory, begin + width * number(slots, found[j]))
    for j in range(many):
        if found[j] >= 0:
            found[j] = probe(memory, slots, table, places, found[j], begin, width, lows[j], highs[j], words[j])
        else:
            found[j] = search(memory, begin, width, lows[j], highs[j], words[j])


def children(above, level, node, word):
    """The children with these words (N,) of nodes (N,), in numpy; -1 if there is none, or if node or word is -1. above,
    level: the records of the nodes' order and of the next.
    """
    end = len(level) - 1
    low = np.clip(above["child"][node], 0, end)
    last = np.clip(above["child"][np.where(node < 0, node, node + 1)], low, end)
    high = last
    words = level["word"]
    while (low < high).any():
        middle = (low + high) >> 1
        less = (low < high) & (words[middle] < word)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return np.where((low < last) & (words[low] == word) & (word >= 0) & (node >= 0), low, -1)


def find_rows(nodes, rows):
    """The nodes (N,) of n-grams, rows of ids (N, k); -1 for n-grams that are absent, and for rows with an id of -1."""
    node = np.zeros(len(rows), np.int64)
    for above, level, word in zip(nodes.levels, nodes.levels[1:], rows.T):
        node = children(above, level, node, word)
    return node


def tables(nodes, home=None):
    """(slots, spans) for nodes that have none; home: as for `building.finished`."""
    orders = range(2, nodes.order + 1)
    many = all_at_once(lambda k: count_many(nodes.memory, nodes.where, k), orders)
    sizes = [0, 0, *map(places_for, many)]
    spans = np.array([[end - size, size] for end, size in zip(np.cumsum(sizes), sizes)], np.int64)
    slots = home and home(nodes.where[:, N].tolist(), sum(sizes))
    if slots is None:
        slots = zeros(sum(sizes), np.int32)

    def make(k):
        table = slots[spans[k, 0] :][: spans[k, 1]]
        table.fill(-1)
        fill(nodes.memory, nodes.where, k, table)

    all_at_once(make, sorted(orders, key=lambda k: -sizes[k]))
    return frozen(slots), frozen(spans)


def places_for(many):
    """How many places a table of so many n-grams has: a power of two, at least twice as many."""
    return 1 << (2 * many - 1).bit_length() if many else 0


def table_of(memory, where, k):
    """The table, (places,) int32, of order k alone."""
    table = np.full(places_for(count_many(memory, where, k)), -1, np.int32)
    fill(memory, where, k, table)
    return table


@jit
def count_many(memory, where, k):
    """How many n-grams of order k extend contexts with more than FEW extensions."""
    begin, total, width = where[k - 2, AT], where[k - 1, N], where[k - 2, WIDTH]
    found, last = 0, 0
    for i in range(where[k - 2, N]):
        at = begin + width * i
        low, high = max(memory[at + CHILD], last), min(memory[at + width + CHILD], total)
        if high - low > FEW:
            found += high - low
            last = high
    return found


@jit
def fill(memory, where, k, table):
    """table (places,) int32, full of -1, <- the n-grams that `count_many` counts, by open addressing."""
    begin, total, width = where[k - 2, AT], where[k - 1, N], where[k - 2, WIDTH]
    below, narrow, last = where[k - 1, AT], where[k - 1, WIDTH], 0
    for i in range(where[k - 2, N]):
        at = begin + width * i
        low, high = max(memory[at + CHILD], last), min(memory[at + width + CHILD], total)
        if high - low > FEW:
            last = high
            for child in range(low, high):
                slot = slot_of(low, memory[below + narrow * child], len(table))
                while table[slot] >= 0:
                    slot = (slot + 1) & (len(table) - 1)
                table[slot] = child


def with_tables(nodes, home=None):
    """The Nodes, with new tables if they have none and are so many that tables pay. home: as for `tables`."""
    if len(nodes.slots) or sum(nodes.where[:, N]) < MANY:
        return nodes
    slots, spans = tables(nodes, home)
    return replace(nodes, slots=slots, spans=spans)
