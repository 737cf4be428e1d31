"""The order in which SRILM goes over a hash table: which of equals is first depends on it, and the last digit of sums.

It is that of the slots, of which there is a power of two. A table grows when it is about four fifths full. A key stands
in the first slot that was free from that of its hash on, or, of fewer than LINEAR slots, from the first on. `Hashed` is
such a table in Python; `find_or_put` is for kernels.

symbol  shape    meaning
table            slots, spare, size
slots   (M,)     the states in a table, -1 for none, int64; spare (M,), the same while it grows
size    (2,)     how many states are in it, and the binary logarithm of its slots, int64
number  (S,)     a state's number, of which the hash is made, int64
key     (S,)     what tells it from others, int64
"""

import numpy as np

from lmtk.machine.jit import inlined

LINEAR = 8
SMALL = 2  # binary logarithm of the slots at first; below LINEAR it does not matter how many there are
FULL = np.float32(0.8)
MULTIPLIER, ADDEND, SHIFT, BITS = 1103515245, 12345, 30, 0xFFFFFFFF  # of the hash
u64 = np.uint64


def number_of(words):
    """The number of a state of so many words."""
    n = 0
    for word in words:
        n = (n + (n << 12) + word) & BITS
    return n


class Hashed(dict):
    """A dict with `ordered`, its keys in the order of the table; number: a key's."""

    def __init__(self, number=int):
        self.number, self.slots, self.bits = number, [None] * LINEAR, SMALL

    def __setitem__(self, key, value):
        if key not in self:
            count = len(self) + 1
            least = count if count < LINEAR else int(np.float32(count + 1) / FULL)
            if least > 1 << self.bits:
                self.bits = (least - 1).bit_length()
                old, self.slots = self.slots, [None] * (1 << self.bits)
                for k in old:
                    if k is not None:
                        self.slots[self.place(k)] = k
            self.slots[self.place(key)] = key
        super().__setitem__(key, value)

    def __delitem__(self, key):
        super().__delitem__(key)
        i, slots = self.slots.index(key), self.slots
        if self.bits == SMALL:
            del slots[i]
            slots.append(None)
            return
        slots[i] = None
        while slots[i := (i + 1) % len(slots)] is not None:
            k = slots[i]
            if slots[j := self.place(k)] is None:
                slots[i], slots[j] = None, k

    def place(self, key):
        """The slot that a key has, or would have."""
        i = 0 if self.bits == SMALL else (self.number(key) * MULTIPLIER + ADDEND) >> (SHIFT - self.bits)
        while self.slots[i % len(self.slots)] not in (None, key):
            i += 1
        return i % len(self.slots)

    def ordered(self):
        return [k for k in self.slots if k is not None]


def in_order(keys):
    """Different whole numbers, a list, in the order of a table that they were put into one after the other."""
    if len(keys) < LINEAR // 2 + 1:
        return keys
    table = Hashed()
    for key in keys:
        table[key] = True
    return table.ordered()


@inlined
def clear(table):
    """An empty table."""
    slots, _, size = table
    size[0], size[1] = 0, SMALL
    for i in range(LINEAR):
        slots[i] = -1


@inlined
def slots_of(size):
    """How many slots there are to go over."""
    return max(np.int64(1) << size[1], np.int64(LINEAR))


@inlined
def slot_of(slots, size, number, key, s):
    """The slot that state s has, or would have."""
    mask = slots_of(size) - 1
    i = np.int64(0)
    if size[1] > SMALL:
        i = np.int64((u64(number[s]) * u64(MULTIPLIER) + u64(ADDEND)) >> u64(SHIFT - size[1])) & mask
    while slots[i] >= 0 and key[slots[i]] != key[s]:
        i = (i + 1) & mask
    return i


@inlined
def find_or_put(table, number, key, s):
    """The state in the table that has the key of s: s itself if there was none."""
    slots, spare, size = table
    i = slot_of(slots, size, number, key, s)
    if slots[i] >= 0:
        return slots[i]
    count = size[0] + 1
    least = count if count < LINEAR else np.int64(np.float32(count + 1) / FULL)
    size[0] = count
    if least <= 1 << size[1]:
        slots[i] = s
        return s
    old = slots_of(size)
    while least > 1 << size[1]:
        size[1] += 1
    for j in range(slots_of(size)):
        if j < old:
            spare[j] = slots[j]
        slots[j] = -1
    spare[old] = s
    for j in range(old + 1):
        if spare[j] >= 0:
            slots[slot_of(slots, size, number, key, spare[j])] = spare[j]
    return s
