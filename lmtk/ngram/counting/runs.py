"""Counts more n-grams than fit in memory, by sorted runs on disk.

A text, or the lines of count files, is counted piece by piece. The counts of a piece are written to disk as a run: its
nodes sorted by key, (N, 3) int64 (key, count, position where first seen), one order after the other. A key is made of
the place of the n-gram's prefix and the last word, as in `counts`. `merge` adds several runs in one pass over each, an
order at a time, and translates the places of prefixes to those of the merged run. The result, `Spilled`, stays on disk.
"""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.files.bounded import limit_memory
from lmtk.files.column import Column, Shelf
from lmtk.ngram.counting.counts import Counts, Level, check_sum, count_ids, from_rows, ranks
from lmtk.text.vocab import EOS, SOS

FAN = 32  # runs merged at once
MERGE_BYTES = 200  # bytes of memory that merging takes for each node
WRITE_BYTES = 250  # bytes of memory that writing takes for each node
BEHIND = 1 << 40  # added to `first` of nodes that are only prefixes: it puts them after all lines


def tokens_in(memory, order):
    """How many tokens can be counted together in `memory` bytes."""
    return max(1, memory // (16 + 20 * order))


@dataclass(frozen=True)
class Spilled:
    """Counts on disk, or a run of them. The nodes of order k are the rows from ends[k - 1] up to ends[k] of the column.
    words: as in Counts; batch: how many nodes may be in memory at once. A run that will be merged has neither. passed:
    None, or (order,), to read the nodes of each order as if they were first seen one after another from there on.
    """

    column: Column
    ends: list
    words: list = ()
    batch: int = 0
    passed: np.ndarray | None = None

    def level(self, k):
        return self.column.array().reshape(-1, 3)[self.ends[k - 1] : self.ends[k]]

    def size(self, k):
        return self.ends[k] - self.ends[k - 1]

    def rows(self, k, begin, end):
        """A copy of the nodes of order k from `begin` up to `end`, at most."""
        first, end = self.ends[k - 1], min(end, self.size(k))
        rows = self.column.read(3 * (first + begin), 3 * (first + end)).reshape(-1, 3)
        if self.passed is not None:
            rows[:, 2] = self.passed[k - 1] + np.arange(begin, end)
        return rows

    @property
    def order(self):
        return len(self.ends) - 1

    def pieces(self, k):
        """Yield the nodes of order k in pieces, rows (M, 3)."""
        for a in range(0, self.size(k), self.batch):
            yield self.rows(k, a, a + self.batch)

    def nodes(self, k):
        """Yield the n-grams of order k in pieces, (M,) each: the nodes of their contexts, last words and counts."""
        for rows in self.pieces(k):
            yield *np.divmod(rows[:, 0], len(self.words)), np.ascontiguousarray(rows[:, 1])

    tokens, has = Counts.tokens, Counts.has  # by `nodes`

    def context_words(self, k, parent):
        """(M,): the last words of contexts of n-grams of order k, given by their nodes (M,)."""
        return self.level(k - 1)[parent, 0] % len(self.words)

    def in_sentences(self):
        """Whether <s> occurs only as the first word of n-grams, and </s> only as the last."""
        sos, eos = map(self.words.index, (SOS, EOS))
        return not any(
            (word == sos).any() or (self.context_words(k, parent) == eos).any()
            for k in range(2, self.order + 1)
            for parent, word, _ in self.nodes(k)
        )

    def levels(self):
        """The levels of the Counts, in memory."""
        return [Level(*map(np.ascontiguousarray, self.level(k).T)) for k in range(1, self.order + 1)]

    def parts(self, by_bytes):
        """Yield the counts in parts, as Counts. A part has all n-grams with certain first words, and the parts are in
        the order of a count file: sorted by bytes with `by_bytes`, else by first occurrence.
        """
        first, W = np.array(self.level(1)), len(self.words)
        place = np.argsort(ranks(self.words)[first[:, 0]] if by_bytes else first[:, 2])
        ends = [np.arange(len(first) + 1)]  # for each order, where the n-grams of each first word begin
        for k in range(2, len(self.ends)):
            keys = ends[-1] * W
            below = (np.searchsorted(rows[:, 0], keys) for rows in self.pieces(k))
            ends.append(sum(below, np.zeros(len(keys), np.int64)))
        sizes = sum(map(np.diff, ends))[place]
        group = (np.cumsum(sizes) - sizes) // self.batch
        for nodes in map(np.sort, np.split(place, np.flatnonzero(np.diff(group)) + 1)):
            levels, above = [], np.zeros_like(nodes)
            for k, end in enumerate(ends, 1):
                sizes = end[nodes + 1] - end[nodes]
                shift = end[nodes] - np.cumsum(sizes) + sizes  # from a place in the part to one in the whole level
                rows = self.level(k).take(np.arange(sizes.sum()) + np.repeat(shift, sizes), axis=0)
                rows[:, 0] -= np.repeat(above, sizes) * W
                levels.append(Level(*map(np.ascontiguousarray, rows.T)))
                above = shift
            yield Counts(self.words, levels)


class Lines:
    """The lines of count files in pieces: ids and counts of each order. With `memory`, in bytes, they are on disk, and
    a piece has the lines that can be counted together, or one part.
    """

    def __init__(self, floats=False, memory=None):
        self.kind, self.memory, self.shelf = np.float64 if floats else np.int64, memory, Shelf(memory)
        self.order, self.sizes = 0, [0]  # how many lines each piece has

    def add(self, part):
        """Add {k: (ids (N, k), counts (N,))}, as `counts.parse_rows` returns them."""
        size = sum(len(counts) for _, counts in part.values())
        if self.memory and self.sizes[-1] and self.sizes[-1] + size > self.memory // MERGE_BYTES:
            self.sizes.append(0)
        self.sizes[-1] += size
        self.order = max([self.order, *part])
        for k, columns in part.items():
            for name, column in zip(("ids", "counts"), columns):
                self.shelf.add((name, k, len(self.sizes)), column)

    @property
    def size(self):
        return sum(self.sizes)

    def pieces(self, new_id):
        """Yield (rows, weights) of each piece, an array for each order; it is dropped. new_id (W,): of each word."""
        for piece in range(1, len(self.sizes) + 1):
            orders = range(1, self.order + 1)
            rows = [new_id[self.shelf.take(("ids", k, piece), np.int32)].reshape(-1, k) for k in orders]
            yield rows, [self.shelf.take(("counts", k, piece), self.kind) for k in orders]


def text_runs(ids, new_id, starts, order, W, memory):
    """Yield runs of the n-grams of the text new_id[ids], each counted in about `memory` bytes."""
    size = tokens_in(memory, order)
    for begin in range(0, len(ids), size):
        end = min(begin + size, len(ids))
        stop = min(end + order - 1, starts[np.searchsorted(starts, end)])  # of n-grams that start before `end`
        inside = starts[np.searchsorted(starts, begin, "right") : np.searchsorted(starts, stop)]
        sentences = np.concatenate(([begin], inside, [stop])) - begin
        yield spilled(count_ids(new_id[ids[begin:stop]], sentences, order, W, end - begin), begin)


def line_runs(lines, new_id, W, text):
    """Yield a run for each piece of Lines, and then the run `text`, unless it is None. The merged runs have the n-grams
    of the lines first, as `counts.from_rows` counts them, and then those of the text. new_id (W',): for each word id in
    the Lines, its id in the counts. Raises LmtkError if the counts add up to 2^63 or more.
    """
    passed, totals = np.zeros(lines.order, np.int64), np.zeros(lines.order)
    for rows, weights in lines.pieces(new_id):
        sizes = np.array([len(row) for row in rows])
        totals += [weight.sum(dtype=np.float64) for weight in weights]
        check_sum(totals.max())
        begins, placed = np.cumsum(sizes) - sizes, []  # of each order among the lines of the piece
        for k, x in enumerate(from_rows(rows, weights, W)):
            # a node that is only a prefix comes after all lines, by the first n-gram that it begins
            line = x.first + begins[k]
            order = np.searchsorted(begins, line, "right") - 1
            first = line + (passed - begins)[order] + BEHIND * (order - k)
            placed.append(Level(x.keys, x.count, first))
        yield spilled(placed, 0)
        passed += sizes
    if text:
        yield replace(text, passed=passed)


def merged(runs, W, memory):
    """Merge the runs of an iterator into one run, FAN at a time, in about `memory` bytes."""
    limit_memory(memory)
    batch, stack = memory // MERGE_BYTES, []  # stack: (tier, run); FAN runs of a tier become one of the next
    for run in runs:
        tier = 0
        stack.append((tier, run))
        while len(group := [run for t, run in stack if t == tier]) == FAN:
            tier += 1
            stack[-FAN:] = [(tier, merge(group, W, batch))]
    return merge([run for _, run in stack], W, batch)


def spilled(levels, begin):
    """Write levels to disk as a run. begin: the position of the piece in the text, added to each first position."""
    column, ends = Column(np.int64, True), [0]
    for level in levels:
        column.append(np.column_stack((level.keys, level.count, level.first + begin)))
        ends.append(ends[-1] + len(level.keys))
    return Spilled(column, ends)


def merge(runs, W, batch):
    """Merge runs of the same orders, with about `batch` nodes in memory at once."""
    if len(runs) == 1:
        return runs[0]
    column, ends, node = Column(np.int64, True), [0], None
    for k in range(1, runs[0].order + 1):
        sizes, at, size = [run.size(k) for run in runs], [0] * len(runs), 0
        new_node = [Column(np.int64, True) for _ in runs]
        while left := [r for r in range(len(runs)) if at[r] < sizes[r]]:
            rows = [runs[r].rows(k, at[r], at[r] + max(1, batch // len(left))) for r in left]
            if k > 1:
                for r, row in zip(left, rows, strict=True):
                    parent, word = np.divmod(row[:, 0], W)
                    row[:, 0] = node[r].read(parent[0], parent[-1] + 1)[parent - parent[0]] * W + word
            # above the least of the last keys, other runs may have keys that have not been read yet
            last = [row[-1, 0] for r, row in zip(left, rows, strict=True) if at[r] + len(row) < sizes[r]]
            if last:
                rows = [row[: np.searchsorted(row[:, 0], min(last), "right")] for row in rows]
            keys, place = np.unique(np.concatenate([row[:, 0] for row in rows]), return_inverse=True)
            nodes = np.column_stack((keys, np.zeros_like(keys), np.full_like(keys, np.iinfo(np.int64).max)))
            np.add.at(nodes[:, 1], place, np.concatenate([row[:, 1] for row in rows]))
            np.minimum.at(nodes[:, 2], place, np.concatenate([row[:, 2] for row in rows]))
            column.append(nodes)
            parts = np.split(place, np.cumsum([len(row) for row in rows])[:-1])
            for r, row, part in zip(left, rows, parts, strict=True):
                new_node[r].append(part + size)
                at[r] += len(row)
            size += len(keys)
        node = new_node
        ends.append(ends[-1] + size)
    return Spilled(column, ends)
