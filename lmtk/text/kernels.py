"""Bytes -> ids, for texts that are worth compiling for.

symbol   shape      meaning
text     (n,)       bytes, uint8
slots    (2^s, 2)   an open-addressing table, uint64: a word's key (0: a free slot) and its number
letters  (L,)       the words met so far, each with a line's end after it, uint8: it is itself a text
ends     (2^(s-1)+1,)  word j is letters[ends[j] : ends[j + 1] - 1], int64
value    (2^(s-1),) the id of word j, int32
"""

import numpy as np

from lmtk.jit import jit

u64 = np.uint64
NEWLINE = -1  # the id of a line's end, as in corpus


@jit
def look_up(text, start, slots, letters, ends, value, known, new_id, unk, ids):
    """The ids of the tokens of text[start:] into `ids`, one byte after another; a line's end is NEWLINE.

    `known` words are in the table. Others become known, with the ids from `new_id` on, or, where that is negative, stay
    out with the id `unk`. Returns where it stopped (the text's end, or the word for which the table or `letters` has no
    room), the number of ids, and of known words. Bound by the latency of one look-up in a cache a word.

    A key is the word and its length where that is below 8 bytes, so that equal keys are equal words; else a hash, with
    255 for the length, and the letters are compared too.
    """
    size = len(text)
    mask = u64(len(slots) - 1)
    found, at = 0, start
    while at < size:
        c = text[at]
        if c == 10:
            ids[found] = NEWLINE
            found += 1
        if c == 10 or c == 32 or c == 9 or c == 13:
            at += 1
            continue
        first = at
        key = u64(0)
        while at < size:
            c = text[at]
            if c <= 32 and (c == 32 or c == 10 or c == 9 or c == 13):
                break
            key = key << u64(8) | u64(c)
            at += 1
        length = at - first
        if length < 8:
            key |= u64(length) << u64(56)
        else:
            key = u64(length)
            for i in range(first, at):
                key = (key ^ u64(text[i])) * u64(0x9E3779B97F4A7C15)
                key ^= key >> u64(32)
            key |= u64(255) << u64(56)
        h = (key ^ (key >> u64(32))) * u64(0x9E3779B97F4A7C15)
        slot = (h ^ (h >> u64(32))) & mask
        word = -1
        while slots[slot, 0] != u64(0):
            if slots[slot, 0] == key:
                word = np.int64(slots[slot, 1])
                if length < 8:
                    break
                old = ends[word]
                same = ends[word + 1] - old - 1 == length
                i = 0
                while same and i < length:
                    same = letters[old + i] == text[first + i]
                    i += 1
                if same:
                    break
                word = -1
            slot = (slot + u64(1)) & mask
        if word >= 0:
            ids[found] = value[word]
        elif new_id < 0:
            ids[found] = unk
        else:
            end = ends[known] + length + 1
            if known == len(value) or end > len(letters):
                return first, found, known
            for i in range(length):
                letters[ends[known] + i] = text[first + i]
            letters[end - 1] = 10
            slots[slot, 0] = key
            slots[slot, 1] = u64(known)
            value[known] = new_id
            ends[known + 1] = end
            ids[found] = new_id
            known += 1
            new_id += 1
        found += 1
    return at, found, known
