"""Bytes -> ids, and the lines of ARPA files, for texts that are worth compiling for.

symbol   shape      meaning
text     (n,)       bytes, uint8
letters  (L,)       the words in the table, each followed by a line's end, uint8; this is a text itself
slots    (2^s, 2)   an open-addressing table, uint64: a word's key (0: a free slot), and its entry. The entry has the
                    word's id in its lower half, and in its upper half where the word begins in `letters`
table    -          slots and letters, as a tuple
"""

import numpy as np

from lmtk.machine.jit import inlined, intrinsic, jit, sealed

u64 = np.uint64
NEWLINE = -1  # the id of a line's end
LOW7 = u64(0x7F7F7F7F7F7F7F7F)
HIGH = ~LOW7
BLANKS = u64(0x2121212121212121)  # in each byte, the code of a blank plus one
MIX = u64(0x9E3779B97F4A7C15)
POWER = np.array([10**e for e in range(9)])
BATCH = 512  # words looked up together
SAME = -3  # in place of the id of a word that stood in the same place in the line before
load8, local = intrinsic("load8"), intrinsic("local")
prefetch = intrinsic("prefetch")
trailing_zeros = intrinsic("trailing_zeros")
TEN = np.array([float(f"1e{e}") for e in range(23)])  # the powers of ten that doubles hold exactly


@inlined
def eight(text, at):
    """Eight bytes from text[at] on as a uint64, the lowest first; after the end of the text, line ends (10)."""
    if at + 8 <= len(text):
        return load8(text, at)
    x8 = u64(0)
    for i in range(at + 7, at - 1, -1):
        x8 = x8 << u64(8) | u64(text[i] if i < len(text) else 10)
    return x8


@inlined
def span(text, at):
    """How many bytes from text[at] on belong to a word: up to a space, tab, CR or LF."""
    n = 0
    while True:
        bytes_ = eight(text, at + n)
        low = (bytes_ - BLANKS) & ~bytes_ & HIGH  # the lowest bit set is in the first byte whose code is 32 or less
        if low == u64(0):
            n += 8
            continue
        n += np.int64(trailing_zeros(low)) >> 3
        c = text[at + n] if at + n < len(text) else 10
        if c == 32 or c == 10 or c == 9 or c == 13:
            return n
        n += 1


@inlined
def key_of(text, first, length):
    """The key of the word text[first : first + length].

    The key of a word of up to 7 bytes is the word and its length, so that equal keys mean equal words. The key of a
    longer word is a hash, with 255 for the length, so that the letters have to be compared too.
    """
    if length < 8:
        return eight(text, first) & ((u64(1) << u64(8 * length)) - u64(1)) | u64(length) << u64(56)
    key = u64(length)
    for i in range(first, first + length - 7, 8):
        key = (key ^ load8(text, i)) * MIX
        key ^= key >> u64(32)
    key = (key ^ load8(text, first + length - 8)) * MIX
    return key ^ key >> u64(32) | u64(255) << u64(56)


@inlined
def slot_of(key, slots):
    """The slot where the search for a key begins."""
    h = (key ^ (key >> u64(32))) * MIX
    return (h ^ (h >> u64(32))) & u64(len(slots) - 1)


@inlined
def find_word(text, first, length, key, table):
    """The slot of the word text[first : first + length], or the free slot where it would be."""
    slots, letters = table
    slot, mask = slot_of(key, slots), u64(len(slots) - 1)
    while slots[slot, 0] != u64(0):
        if slots[slot, 0] == key:
            if length < 8:
                return slot
            old = np.int64(slots[slot, 1] >> u64(32))
            same = old + length < len(letters) and letters[old + length] == 10
            i = 0
            while same and i < length:
                j = min(i, length - 8)
                same = load8(letters, old + j) == load8(text, first + j)
                i += 8
            if same:
                return slot
        slot = (slot + u64(1)) & mask
    return slot


@jit
def move_words(old, slots):
    """slots, all free, <- the words of fewer old slots."""
    mask = u64(len(slots) - 1)
    for i in range(len(old)):
        if old[i, 0] != u64(0):
            slot = slot_of(old[i, 0], slots)
            while slots[slot, 0] != u64(0):
                slot = (slot + u64(1)) & mask
            slots[slot, 0], slots[slot, 1] = old[i, 0], old[i, 1]


@sealed
def look_up(text, start, table, filled, new_id, unk, ids):
    """ids <- the ids of the tokens of text[start:]; a line's end is NEWLINE.

    filled: how many words and letters the table has. New words are added, with the ids from `new_id` on; if `new_id` is
    negative, they are not added and have the id `unk`. Returns where the kernel stopped (the text's end, or a word for
    which the table has no room), the number of ids, and the numbers of words and letters of the table. Words are looked
    up BATCH at a time, so that their random reads overlap.
    """
    (slots, letters), (n_words, n_letters) = table, filled
    size, n_ids, at = len(text), 0, start
    begin, width = local(BATCH, np.int64), local(BATCH, np.int64)
    keys = local(BATCH, np.uint64)
    while at < size:
        waiting = 0
        while at < size and waiting < BATCH:
            first, length = at, span(text, at)
            at += length
            if length:
                keys[waiting] = key_of(text, first, length)
                prefetch(slots, np.int64(2 * slot_of(keys[waiting], slots)))
                at += at < size and text[at] == 32
            else:
                at += 1
                if text[first] != 10:
                    continue
            begin[waiting], width[waiting] = first, length
            waiting += 1
        for i in range(waiting):
            first, length = begin[i], width[i]
            if length == 0:
                ids[n_ids] = NEWLINE
                n_ids += 1
                continue
            slot = find_word(text, first, length, keys[i], table)
            if slots[slot, 0] != u64(0):
                ids[n_ids] = np.int32(slots[slot, 1])
            elif new_id < 0:
                ids[n_ids] = unk
            else:
                end = n_letters + length + 1
                if 2 * n_words == len(slots) or end > len(letters):
                    return first, n_ids, n_words, n_letters
                for j in range(length):
                    letters[n_letters + j] = text[first + j]
                letters[end - 1] = 10
                slots[slot, 0], slots[slot, 1] = keys[i], u64(n_letters) << u64(32) | u64(new_id)
                ids[n_ids] = new_id
                n_words, n_letters, new_id = n_words + 1, end, new_id + 1
            n_ids += 1
    return at, n_ids, n_words, n_letters


@jit
def renumber(ids, new_id, out):
    """out (N,) <- new_id[ids], for ids (N,); the id -1 stands for the last of new_id (W,). `out` may be `ids`."""
    for i in range(len(ids)):
        out[i] = new_id[ids[i]]


@sealed
def join_parts(numbers, starts, lengths, parts, out):
    """out <- numbers[starts[j] : starts[j] + lengths[j]] for each j of `parts` (N,), end to end; the j -1 stands for
    the last of the starts.
    """
    at = 0
    for j in parts:
        first = starts[j]
        for i in range(first, first + lengths[j]):
            out[at] = numbers[i]
            at += 1


@inlined
def read_number(text, i):
    """(where the number at text[i] ends, the number, whether it was read). Minus zero becomes zero.

    A number of up to 15 digits and a power of ten up to 22 is one division or product of exact doubles, so that it is
    rounded as Python rounds it. Other numbers, and those above 1e30, are not read.
    """
    size, c = len(text), text[i]
    minus = c == 45
    if minus or c == 43:
        i += 1
        c = text[i]
    mantissa, digits, first, point, e = 0, 0, i, -1, 0
    if i + 10 < size and text[i + 1] == 46 and 48 <= c <= 57:
        # d.dddd: up to eight digits after the point are read at once, in one uint64
        x8 = load8(text, i + 2) ^ u64(0x3030303030303030)
        non_digits = ((x8 & LOW7) + u64(0x7676767676767676) | x8) & ~LOW7
        d = np.int64(trailing_zeros(non_digits)) >> 3 if non_digits else 8
        after = text[i + 2 + d]
        if d and (after == 32 or after == 10 or after == 9 or after == 13):
            v = x8 << u64(64 - 8 * d)
            v = (v * u64(10) + (v >> u64(8))) & u64(0x00FF00FF00FF00FF)
            v = (v * u64(100) + (v >> u64(16))) & u64(0x0000FFFF0000FFFF)
            v = (v * u64(10000) + (v >> u64(32))) & u64(0xFFFFFFFF)
            mantissa = np.int64(c - 48) * POWER[d] + np.int64(v)
            digits, point = 1, i + 1
            i += 2 + d
            c = after
    while True:
        if 48 <= c <= 57:
            mantissa = mantissa * 10 + (c - 48)
            digits += mantissa != 0
        elif c == 46 and point < 0:
            point = i
        else:
            break
        i += 1
        c = text[i]
        if digits > 15:
            break
    good = digits <= 15 and i - first > (point >= 0)
    if point >= 0:
        e = point + 1 - i
    if good and (c == 101 or c == 69):
        i, power, good = read_power(text, i + 1)
        e += power
        c = text[i]
    if not good or e > 22 or e < -22 or not (c == 32 or c == 10 or c == 9 or c == 13):
        return i, 0.0, False
    number = mantissa * TEN[e] if e > 0 else mantissa / TEN[-e]
    return i, -number if minus and mantissa else number, number <= 1e30


@inlined
def read_power(text, i):
    """(where the power of ten at text[i] ends, the power, whether it has a digit)."""
    c = text[i]
    down = c == 45
    if down or c == 43:
        i += 1
        c = text[i]
    power, begun = 0, i
    while 48 <= c <= 57 and power < 1000:
        power = power * 10 + (c - 48)
        i += 1
        c = text[i]
    return i, -power if down else power, i > begun


@inlined
def put_number(text, at, number, end):
    """Puts a whole number and the byte `end` into text. Returns the place after them."""
    digits, rest = 1, np.int64(number)
    while rest >= 10:
        rest //= 10
        digits += 1
    rest = np.int64(number)
    for j in range(digits - 1, -1, -1):
        text[at + j] = 48 + rest % 10
        rest //= 10
    text[at + digits] = end
    return at + digits + 1


@jit
def read_lines(text, at, k, table, unknown, rows, numbers):
    """rows (N, k + 2) <- the n-grams of the lines of text[at:]: log10 p, k words and an optional log10 weight.

    A row has the ids, then log10 p and the weight as float32; `numbers` is the same memory. A word that is not in
    the table has the id `unknown`. A word that was in the same place in the line before, which is usual in sorted
    files, is not looked up again.

    Stops at any other line, at a number that `read_number` does not read, and if `rows` has no room. Returns where it
    stopped; how many n-grams it read; how many lines it passed, including blank ones; how many log p are positive, and
    the largest of these; the place, row * k + column, of the first word that the table lacks, or -1. Bound by
    instructions, about two a byte.
    """
    size, slots = len(text), table[0]
    row, lines, positive, worst, outside = 0, 0, 0, 0.0, -1
    begin, width, keys = np.empty(BATCH + k, np.int64), np.empty(BATCH + k, np.int64), np.empty(BATCH + k, np.uint64)
    waiting, settled = 0, 0  # how many words wait to be looked up; how many rows have all their ids
    last = np.zeros(k, np.uint64)  # the keys of the words of the line before; 0 for a word of 8 bytes or more
    while at < size and row < len(rows):
        i, fields, good = at, 0, True
        x, y = 0.0, 0.0
        while good:
            c = text[i]
            if c == 32 or c == 9 or c == 13:
                i += 1
                continue
            if c == 10:
                break
            if fields == 0 or fields == k + 1:
                i, number, good = read_number(text, i)
                if not good:
                    break
                if fields == 0:
                    x = number
                else:
                    y = number
            elif fields <= k:
                j, n = fields - 1, span(text, i)
                key = key_of(text, i, n)
                rows[row, j] = SAME
                if key != last[j]:
                    begin[waiting], width[waiting], keys[waiting] = i, n, key
                    prefetch(slots, np.int64(2 * slot_of(key, slots)))
                    rows[row, j] = unknown
                    last[j] = key if n < 8 else u64(0)
                    waiting += 1
                i += n
            else:
                good = False
            fields += 1
        if good and fields == 0:
            at, lines = i + 1, lines + 1
            continue
        if not good or fields <= k:
            break
        numbers[row, k], numbers[row, k + 1] = x, y
        if x > 0:
            positive += 1
            worst = max(worst, x)
        row += 1
        lines += 1
        at = i + 1
        if waiting >= BATCH:
            outside = settle(text, k, (begin, width, keys), table, rows, (settled, row), outside)
            waiting, settled = 0, row
    outside = settle(text, k, (begin, width, keys), table, rows, (settled, row), outside)
    return at, row, lines, positive, worst, outside


@jit
def take_second(text, at, words):
    """words <- the second field of each line of a text from `at` on, a line each; lines without one give nothing.
    Returns the number of bytes.
    """
    size, fields = 0, 0
    while at < len(text):
        c = text[at]
        if c == 10:
            fields = 0
        if c == 32 or c == 9 or c == 13 or c == 10:
            at += 1
            continue
        n, fields = span(text, at), fields + 1
        if fields == 2:
            for i in range(n):
                words[size + i] = text[at + i]
            words[size + n] = 10
            size += n + 1
        at += n
    return size


@inlined
def settle(text, k, words, table, rows, span, outside):
    """Sets the ids of the rows from span[0] up to span[1]. words: where each word that is not SAME begins, its length
    and its key, in the order of the rows. Returns `outside` or, if that is -1, the place of the first word that the
    table lacks.
    """
    (begin, width, keys), slots, i = words, table[0], 0
    for row in range(span[0], span[1]):
        for j in range(k):
            if rows[row, j] == SAME:
                rows[row, j] = rows[row - 1, j]
                continue
            slot = find_word(text, begin[i], width[i], keys[i], table)
            if slots[slot, 0] != u64(0):
                rows[row, j] = np.int32(slots[slot, 1])
            elif outside < 0:
                outside = row * k + j
            i += 1
    return outside
