"""SRILM's order of a hash table, which decides ties between paths and the last digit of sums.

SRILM lists a table slot by slot. Up to four items are listed in the order in which they came. In a larger table, an
item has the first free slot from the slot of its hash on, and the table grows when it is about four fifths full.

symbol  shape  meaning
table          (slots, spare, size, hashes, keys)
slots   (M,)   the items in the table, -1 for a free slot, int64; M is a power of two
spare   (M,)   the old slots, while the table grows
size    (2,)   COUNT, the number of items; BITS, the binary logarithm of the number of slots; int64
hashes  (S,)   the number of each item, from which its first slot is computed, int64
keys    (S,)   what distinguishes an item from others, int64
"""

from itertools import chain

import numpy as np

from lmtk.machine.jit import inlined, sealed

COUNT, BITS = range(2)
LINEAR, UNHASHED = 8, 2  # a table of at most 2**UNHASHED items is not hashed; it takes up LINEAR slots
FULL = np.float32(0.8)
MULTIPLIER, ADDEND, SHIFT = 1103515245, 12345, 30  # of the hash function
u64 = np.uint64


def make_table(items, slots):
    """Arrays for a table of so many items and slots, to be cleared before use."""
    return tuple(np.empty(n, np.int64) for n in (slots, slots, 2, items, items))


def in_order(lists):
    """Sorts lists of whole numbers: each as an SRILM hash table lists its numbers after they are put in one by one. A
    number ~n removes n from the table, so n is not in the result.
    """
    if all(len(numbers) <= 1 << UNHASHED and min(numbers, default=0) >= 0 for numbers in lists):
        return lists
    ends = np.cumsum([len(numbers) for numbers in lists])
    numbers = np.fromiter(chain.from_iterable(lists), np.int64, ends[-1])
    removed, ordered, lengths = numbers < 0, np.empty_like(numbers), np.empty_like(ends)
    keys = np.where(removed, ~numbers, numbers)
    table = make_table(0, LINEAR + 4 * max(len(numbers) for numbers in lists))
    put_in_order((*table[:3], keys, keys), removed, ends, ordered, lengths)
    ordered, starts = ordered.tolist(), [0, *ends[:-1].tolist()]
    return [ordered[start : start + length] for start, length in zip(starts, lengths.tolist())]


@sealed
def put_in_order(table, removed, ends, ordered, lengths):
    """Writes the lists that end before `ends` to `ordered` in the order of a table, and their new lengths."""
    slots, _, _, _, keys = table
    low = 0
    for i in range(len(ends)):
        clear(table)
        for item in range(low, ends[i]):
            if removed[item]:
                remove(table, item)
            else:
                put(table, item)
        lengths[i] = 0
        for j in range(slots_of(table)):
            if slots[j] >= 0:
                ordered[low + lengths[i]] = keys[slots[j]]
                lengths[i] += 1
        low = ends[i]


@inlined
def clear(table):
    """Empties a table."""
    slots, _, size, _, _ = table
    size[COUNT], size[BITS] = 0, UNHASHED
    for i in range(LINEAR):
        slots[i] = -1


@inlined
def slots_of(table):
    """The number of slots in use."""
    return max(np.int64(1) << table[2][BITS], np.int64(LINEAR))


@inlined
def slot_of(table, item):
    """The slot of the item with the same key, or the free slot where it would be put."""
    slots, _, size, hashes, keys = table
    mask = slots_of(table) - 1
    i = np.int64(0)
    if size[BITS] > UNHASHED:
        i = np.int64((u64(hashes[item]) * u64(MULTIPLIER) + u64(ADDEND)) >> u64(SHIFT - size[BITS])) & mask
    while slots[i] >= 0 and keys[slots[i]] != keys[item]:
        i = (i + 1) & mask
    return i


@inlined
def put(table, item):
    """Puts an item into the table unless its key is there already. Returns the item that has the key."""
    slots, _, size, _, _ = table
    i = slot_of(table, item)
    if slots[i] >= 0:
        return slots[i]
    size[COUNT] += 1
    count = size[COUNT]
    needed = count if count < LINEAR else np.int64(np.float32(count + 1) / FULL)
    if needed > 1 << size[BITS]:
        grow(table, needed)
        i = slot_of(table, item)
    slots[i] = item
    return np.int64(item)


@sealed
def grow(table, needed):
    """Doubles the number of slots until there are as many as needed."""
    slots, spare, size, _, _ = table
    old = slots_of(table)
    for i in range(old):
        spare[i] = slots[i]
    while needed > 1 << size[BITS]:
        size[BITS] += 1
    for i in range(slots_of(table)):
        slots[i] = -1
    for i in range(old):
        if spare[i] >= 0:
            slots[slot_of(table, spare[i])] = spare[i]


@sealed
def remove(table, item):
    """Removes the item with this item's key, and moves the items behind it to the slots that they would have now."""
    slots, _, size, _, _ = table
    i = slot_of(table, item)
    if slots[i] < 0:
        return
    slots[i] = -1
    size[COUNT] -= 1
    mask = slots_of(table) - 1
    i = (i + 1) & mask
    while slots[i] >= 0:
        moved = slots[i]
        slots[i] = -1
        slots[slot_of(table, moved)] = moved
        i = (i + 1) & mask
