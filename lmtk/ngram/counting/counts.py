"""Counts n-grams of texts and count files, as sorted levels, and writes them to count files.

`count_ids` counts the n-grams of a text, `from_rows` those of count files; both return a Level for each order. An
n-gram w_1 .. w_k is a node of level k. Its key is (node of w_1 .. w_(k-1)) * W + w_k, where W is the number of words.
Its number is the place of that key among the level's sorted keys. The key of a single word is its id.
"""

from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from lmtk.errors import FormatError, LmtkError, shown
from lmtk.files.decoding import blocks
from lmtk.machine.large import pays
from lmtk.ngram.counting import kernels
from lmtk.text.cells import word_cells
from lmtk.text.corpus import NEWLINE, Reader, tokens
from lmtk.text.sorting import sorted_places
from lmtk.text.vocab import EOS, SOS

DIGIT = 12  # bits of a large number that a counting sort takes at once


@dataclass(frozen=True)
class Level:
    """The n-grams of an order: keys (N,) int64, sorted; count (N,); first (N,), where each was first seen."""

    keys: np.ndarray
    count: np.ndarray
    first: np.ndarray


@dataclass(frozen=True)
class Counts:
    """words: by id. levels[k - 1]: the n-grams of order k, and prefixes of longer ones, of count 0 if not counted."""

    words: list
    levels: list

    @property
    def order(self):
        return len(self.levels)

    def parts(self, by_bytes):
        """These counts alone, as one part; `runs.Spilled.parts` yields several."""
        yield self

    def nodes(self, k):
        """Yield the n-grams of order k, (N,) each: the nodes of their contexts, last words and counts."""
        yield *np.divmod(self.levels[k - 1].keys, len(self.words)), self.levels[k - 1].count

    def has(self, word):
        """Whether one of the words occurs in an n-gram."""
        w, orders = self.words.index(word), range(1, self.order + 1)
        return any((words == w).any() for k in orders for _, words, _ in self.nodes(k))

    def recomputed(self):
        """The Counts in which the count of each n-gram that has longer ones is the sum of their counts."""
        levels, W = [self.levels[-1]], len(self.words)
        for level in self.levels[-2::-1]:
            parent, count = levels[0].keys // W, level.count.copy()
            count[parent] = 0
            np.add.at(count, parent, levels[0].count)
            levels.insert(0, Level(level.keys, count, level.first))
        return Counts(self.words, levels)

    def up_to(self, order):
        """The Counts with empty orders added up to `order`."""
        nothing = Level(np.zeros(0, np.int64), self.levels[0].count[:0], np.zeros(0, np.int64))
        return Counts(self.words, self.levels + [nothing] * (order - self.order))

    @property
    def tokens(self):
        """The number of words that were counted, without sentence marks."""
        counts = ((w, c) for _, words, counts in self.nodes(1) for w, c in zip(words, counts))
        return sum(int(c) for w, c in counts if self.words[w] not in (SOS, EOS))


def suits_kernels(N, W, job):
    """Whether kernels do a job on N tokens or n-grams over W words: there are many, and 32 bits number them."""
    return pays("ngrams", N, job) and N < 1 << 31 and W < 1 << 30


def count_ids(ids, starts, order, W, N):
    """Count every n-gram up to `order` inside sentences that begins with one of the first N tokens: ids (N or more,)
    and starts (S + 1,) of sentences -> Levels.
    """
    count = sort_positions if suits_kernels(N, W, "count") else sort_keys
    return count(ids, starts, order, W, N)


def sort_positions(ids, starts, order, W, N):
    """`count_ids` by a single sort of the text's positions."""
    v = np.append(ids, np.resize(ids[:order], order))  # the text counts as a circle
    place, sizes = sorted_places(v[d : d + N] for d in reversed(range(order))), np.empty(order, np.int64)
    v *= 2
    v[starts[1:] - 1] += 1
    # each row has room for as many n-grams as there are positions; pages that are never touched take no memory
    keys, count, first = (np.empty((order, N), kind) for kind in (np.int64, np.int64, np.int32))
    kernels.count_nodes(v, W, place, keys, count, first, sizes)
    return [Level(*(column[k, :size] for column in (keys, count, first))) for k, size in enumerate(sizes.tolist())]


def sort_keys(ids, starts, order, W, N):
    """`count_ids` with one sort of 64-bit keys an order: a key is the node of the n-gram's prefix and its last word."""
    left = np.repeat(starts[1:], np.diff(starts)) - np.arange(len(ids))  # tokens to the sentence's end
    at, node = np.arange(N), np.zeros(N, np.int64)
    levels = []
    for k in range(1, order + 1):
        inside = left[at] >= k
        at = at[inside]
        node = node[inside] * W + ids[at + k - 1]
        keys, first, node, count = np.unique(node, return_index=True, return_inverse=True, return_counts=True)
        levels.append(Level(keys, count, at[first]))
    return levels


def find(keys, parent, word, W):
    """Nodes (N,) of the children `word` of `parent` in a level's sorted keys; -1 for none, or if either is -1."""
    if not len(keys):
        return np.full(len(word), -1)
    key = parent * W + word
    place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where((keys[place] == key) & (parent >= 0) & (word >= 0), place, -1)


def find_rows(orders, rows, W):
    """Find the nodes of n-grams, rows of ids (N, k); -1 for none. orders: the keys of orders 1 .. k or more."""
    node = np.zeros(len(rows), np.int64)
    for keys, word in zip(orders, rows.T):
        node = find(keys, node, word, W)
    return node


def values(array, node, default):
    """array[node], or `default` where the node is -1."""
    return np.where(node >= 0, array[node], default) if len(array) else np.full(len(node), default)


def number_ngrams(rows, W):
    """The nodes of n-grams given as rows of ids, rows[k - 1] (N_k, k), and of all their prefixes. Yields for each
    order: keys, sorted; first, the index of each node's first row; node, the node of each row. The rows of an order are
    those given, followed by the prefixes of the next order's rows.
    """
    rows = list(rows)
    for k in range(len(rows) - 1, 0, -1):
        rows[k - 1] = np.concatenate((rows[k - 1], rows[k][:, :-1]))
    levels = []
    for row in rows:
        parent = find_rows(levels, row[:, :-1], W)
        keys, first, node = np.unique(parent * W + row[:, -1], return_index=True, return_inverse=True)
        levels.append(keys)
        yield keys, first, node.ravel()


def from_rows(rows, weights, W):
    """Levels from n-grams given as rows of ids, repeats summed: rows[k - 1] (N, k), weights[k - 1] (N,). Prefixes that
    are not among the rows become nodes of count 0. Large lists of rows and weights are emptied. Raises LmtkError if the
    counts add up to 2^63 or more, or, if they are floats, to infinity.
    """
    for weight in weights:
        check_sum(weight.sum(dtype=np.float64), weight.dtype.kind != "f")
    if suits_kernels(sum(map(len, rows)), W, "sort"):
        return sort_rows(rows, weights, W)
    levels = []
    for (keys, first, node), weight in zip(number_ngrams(rows, W), weights, strict=True):
        count = np.zeros(len(keys), weight.dtype)
        np.add.at(count, node[: len(weight)], weight)
        levels.append(Level(keys, count, first))
    return levels


def check_sum(total, whole=True):
    """Raise LmtkError if a sum of counts, `total`, does not fit into 63 bits or, for float counts, into a double."""
    if total >= (2.0**63 if whole else np.inf):
        raise LmtkError(f"the sum of the counts is above {'2^63' if whole else '1.8e308'}, the largest number possible")


def sort_rows(rows, weights, W):
    """`from_rows` of many, by counting sorts from the last word to the first."""
    n, base = len(rows), np.cumsum([0, *map(len, rows)])
    words = np.zeros((n, base[-1]), np.int32)  # parts that short n-grams leave unwritten take no memory
    for k in range(n):
        np.add(rows[k].T, 1, words[: k + 1, base[k] : base[k + 1]])  # so a prefix comes before its extensions
    rows.clear()
    order = sorted_places(reversed(words))
    weight = np.concatenate(weights)
    weights.clear()
    keys, count, first = (np.empty((n, base[-1]), kind) for kind in (np.int64, weight.dtype, np.int32))
    sizes = np.empty(n, np.int64)
    kernels.count_rows(order, words, base, weight, W, keys, count, first, sizes)
    return [Level(*(column[k, :size] for column in (keys, count, first))) for k, size in enumerate(sizes.tolist())]


def contexts_of(counts, order):
    """How often the n-grams of up to `order` words occurred: (words, parts of Counts or runs.Spilled). A part is (keys,
    times) for each order. A context that was not counted itself occurred as often as the n-grams that extend it.
    """
    W, parts = len(counts.words), []
    for part in counts.parts(by_bytes=False):
        parts.append([(level.keys, level.count) for level in part.levels[:order]])
        for k, longer in enumerate(part.levels[1 : order + 1]):
            keys, count = parts[-1][k]
            parts[-1][k] = keys, np.maximum(count, np.bincount(longer.keys // W, longer.count, len(keys)))
    return counts.words, parts


def to_rows(levels, W):
    """The n-grams of each order as rows of ids, in the order of their keys: (N, k) for each k."""
    rows = []
    for level in levels:
        word = (level.keys % W).astype(np.int32)[:, None]
        rows.append(np.hstack((rows[-1][level.keys // W], word)) if rows else word)
    return rows


def to_closed_rows(levels, W):
    """`to_rows`. Behind the n-grams of each order are the suffixes of longer ones that the levels lack."""
    rows, orders = to_rows(levels, W), [level.keys for level in levels]
    for k in range(len(rows) - 1, 0, -1):
        suffixes = rows[k][:, 1:]
        rows[k - 1] = np.concatenate((rows[k - 1], suffixes[find_rows(orders, suffixes, W) < 0]))
    return rows


class BadLine(Exception):
    """A line that is not words and a count. args: its number in the block, from 1, and the beginning of its text."""


def parse_rows(block, index, order=None, floats=False, tolower=False):
    """Count lines -> {k: (ids (N, k), counts (N,))} up to `order`. index: word -> id. Raises BadLine."""
    fields = tokens(block, tolower)
    ends = np.flatnonzero(np.fromiter(map(b"\n".__eq__, fields), bool, len(fields)))
    length = np.diff(ends, prepend=-1) - 2  # words on the line: neither the count nor the line's end
    kept = length > -1
    last, length = ends[kept] - 1, length[kept]
    counts = parse_counts([fields[i] for i in last], floats)
    if counts is None or (length == 0).any():
        for number, (begin, end) in enumerate(pairwise([0, *(ends + 1)]), 1):
            words = fields[begin : end - 1]
            if len(words) == 1 or (words and parse_counts(words[-1:], floats) is None):
                raise BadLine(number, shown(b" ".join(words))[:60])
    # the words of lines that are too long become line ends, since `index` must not give them ids
    unread = length * (length > (order or len(fields)))
    for i, words in zip(last.tolist(), unread.tolist()):
        fields[i - words : i + 1] = [b"\n"] * (words + 1)
    ids = np.fromiter(map(index.__getitem__, fields), np.int32, len(fields))
    return by_order(ids, last, length - unread, counts)


def parse_many(block, reader, order=None):
    """`parse_rows` of a large block with whole counts, by a Reader. Raises BadLine."""
    text = np.frombuffer(block, np.uint8).copy()
    length, count = np.empty(block.count(b"\n"), np.int32), np.empty(block.count(b"\n"), np.int64)
    at, lines = kernels.read_count_lines(text, order or len(text), length, count)
    if at < len(text):
        words = tokens(block[at : block.index(b"\n", at)], reader.tolower)
        raise BadLine(lines + 1, shown(b" ".join(words))[:60])
    ids = reader.ids(text.tobytes())
    return by_order(ids[ids != NEWLINE], np.cumsum(length), length, count)


def by_order(ids, ends, length, counts):
    """{k: (ids (N, k), counts (N,))} of lines. length (N,): how many words each line has, 0 for lines to skip; the
    words end before ends (N,) in `ids`.
    """
    of_orders = ((k, length == k) for k in np.unique(length[length > 0]).tolist())
    return {k: (ids[ends[is_k][:, None] - np.arange(k, 0, -1)], counts[is_k]) for k, is_k in of_orders}


def read_rows(path, index, order=None, floats=False, tolower=False, text=None):
    """Read a count file: a list of (ids (N, k), counts (N,)) for each order k that its lines have, up to `order`. text:
    the blocks to read, None for the whole file. Raises FormatError.
    """
    parts = [*row_parts(path, index, order, floats, tolower, text)]
    orders = sorted({k for part in parts for k in part})
    return [tuple(map(np.concatenate, zip(*(part[k] for part in parts if k in part)))) for k in orders]


def row_parts(path, index, order=None, floats=False, tolower=False, text=None):
    """Yield the lines of each block of a count file, as `parse_rows` returns them. Raises FormatError."""
    before, reader = 0, Reader(index, tolower, "parse")
    for block in blocks(path) if text is None else text:
        large = not floats and reader.is_large(block)
        try:
            part = parse_many(block, reader, order) if large else parse_rows(block, index, order, floats, tolower)
        except BadLine as e:
            expected = "a count" if floats else "a whole count (-float-counts allows fractions)"
            raise FormatError(path, f"expected words and {expected}, found '{e.args[1]}'", before + e.args[0]) from None
        yield part
        before += block.count(b"\n")
    reader.finish()


def parse_counts(texts, floats):
    """Counts as bytes -> (N,) int64, or float64 with `floats`; None if one is not such a number, or negative."""
    try:
        if not floats:
            return np.array(list(map(int, texts)), np.int64) if all(map(bytes.isdigit, texts)) else None
        # float() and numpy take 1_000, which is not a number elsewhere
        counts = np.array([t.replace(b"_", b"x") for t in texts], dtype="S").astype(np.float64)
    except (OverflowError, ValueError):  # Python converts no more than 4300 digits
        return None
    return counts if (np.isfinite(counts) & (counts >= 0)).all() else None


def write_counts(out, counts, by_bytes=False, only=None):
    """Write "w1 w2<TAB>n" lines of every order, or of the order `only`, without n-grams of count 0. counts: Counts, or
    runs.Spilled. by_bytes: whether the extensions of an n-gram are in the byte order of their words; otherwise they are
    in the order in which they were first seen.
    """
    for part in counts.parts(by_bytes):
        nodes = sum(len(level.keys) for level in part.levels)
        whole = all(level.count.dtype == np.int64 for level in part.levels)
        write = print_counts if whole and suits_kernels(nodes, len(part.words), "print") else format_counts
        write(out, part, by_bytes, only)


def print_counts(out, counts, by_bytes, only):
    """`format_counts` by kernels, of many n-grams with whole counts."""
    W, names = len(counts.words), word_cells(counts.words)
    rank = ranks(counts.words) if by_bytes else None
    lines, place_of = [], np.zeros(1, np.int32)  # of each node of the level above: the place of its line in that level
    for level in counts.levels:
        parent, word = np.divmod(level.keys, W)
        above, nodes = place_of[parent], np.arange(len(word), dtype=np.int32)
        bits = range(0, int(level.first.max(initial=0)).bit_length(), DIGIT)
        digits = ((level.first >> bit & (1 << DIGIT) - 1).astype(np.int32) for bit in bits)
        order = sorted_places(chain([rank[word]] if by_bytes else digits, [above]))
        place_of = np.empty(len(order), np.int32)
        place_of[order] = nodes
        lines.append((above[order], word[order].astype(np.int32), level.count[order]))
    base = np.cumsum([0, *(len(level.keys) for level in counts.levels)])
    columns = tuple(map(np.concatenate, zip(*lines)))
    cursor, depth, room, text = np.zeros(counts.order, np.int64), 0, 1 << 20, np.empty(0, np.uint8)
    while room:
        text = np.empty(max(len(text), room), np.uint8)
        depth, filled, room = kernels.print_counts(cursor, depth, base, columns, only or 0, names, text)
        out.write(text[:filled].data)


def ranks(words):
    """Return the rank of each word in byte order, (W,)."""
    rank = np.empty(len(words), np.int32)
    rank[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
    return rank


def format_counts(out, counts, by_bytes, only):
    """Write the lines of `write_counts`."""
    words, prefix = counts.words, [b""] * (counts.order + 1)
    rank, path, columns = ranks(words) + 1, np.zeros((1, 0), np.int64), []
    for k, level in enumerate(counts.levels, 1):
        parent, last = np.divmod(level.keys, len(words))
        path = np.column_stack((path[parent], rank[last] if by_bytes else level.first + 1))
        padded = np.pad(path, ((0, 0), (0, counts.order - k)))
        columns.append((padded, np.full(len(last), k), last, level.count))
    paths, *columns = map(np.concatenate, zip(*columns))
    place = np.lexsort(paths.T[::-1])
    depths, last, numbers = (column[place].tolist() for column in columns)
    text = b"%s\t%.16g\n" if numbers and isinstance(numbers[0], float) else b"%s\t%d\n"
    for depth, w, number in zip(depths, last, numbers, strict=True):
        ngram = prefix[depth] = words[w] if depth == 1 else prefix[depth - 1] + b" " + words[w]
        if number and only in (None, depth):
            out.write(text % (ngram, number))
