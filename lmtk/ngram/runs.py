"""Counting beyond memory: sorted runs of n-grams on disk, merged into one.

A run is a file of nodes, (N, 3) int64: key, count, where it was seen first; an order after the other. Keys are sorted,
and all that a key says of its n-gram's prefix is that one's place: so runs are merged in one pass over each, an order
at a time, the prefixes' places translated.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.files.column import Column
from lmtk.ngram.counts import Counts, Level, count_ids, ranks

FAN = 32  # runs merged at once
NODE = 150  # bytes that merging takes a node
LINE = 250  # bytes that writing takes a node


@dataclass(frozen=True)
class Run:
    """Nodes on disk: those of order k are the rows from ends[k - 1] up to ends[k]."""

    column: Column
    ends: list

    def level(self, k):
        return self.column.array().reshape(-1, 3)[self.ends[k - 1] : self.ends[k]]


def tokens_in(memory, order):
    """How many tokens can be counted together in so many bytes."""
    return max(1, memory // (16 + 20 * order))


@dataclass(frozen=True)
class Spilled:
    """Counts on disk: words, as in Counts, and a Run; `some`: nodes to be in memory."""

    words: list
    run: Run
    some: int

    def levels(self):
        """Those of Counts."""
        levels = (self.run.level(k) for k in range(1, len(self.run.ends)))
        return [Level(*(np.ascontiguousarray(column) for column in level.T)) for level in levels]

    def parts(self, by_bytes):
        """Counts of the n-grams of some first words, such that their lines, as counts.write_counts has them, are those
        of all one part behind the other.
        """
        first, W = np.array(self.run.level(1)), len(self.words)
        place = np.argsort(ranks(self.words)[first[:, 0]] if by_bytes else first[:, 2])
        ends = [np.arange(len(first) + 1)]  # of each order, where the n-grams of each first word begin
        for k in range(2, len(self.run.ends)):
            ends.append(self.below(k, ends[-1] * W))
        sizes = sum(map(np.diff, ends))[place]
        group = (np.cumsum(sizes) - sizes) // self.some
        for nodes in np.split(place, np.flatnonzero(np.diff(group)) + 1):
            yield Counts(self.words, [*self.levels_of(np.sort(nodes), ends)])

    def below(self, k, keys):
        """(N,), how many keys of order k are below some others."""
        level = self.run.level(k)
        parts = (np.array(level[a : a + self.some, 0]) for a in range(0, len(level), self.some))
        return sum((np.searchsorted(part, keys) for part in parts), np.zeros(len(keys), np.int64))

    def levels_of(self, nodes, ends):
        """Levels of the n-grams that begin with some nodes of order 1; ends: of each order, as in `parts`."""
        above, W = None, len(self.words)
        for k, end in enumerate(ends, 1):
            begin, sizes, level = end[nodes], end[nodes + 1] - end[nodes], self.run.level(k)
            cuts = np.flatnonzero(begin[1:] != end[nodes + 1][:-1]) + 1
            spans = zip(begin[[0, *cuts]], end[nodes + 1][[*(cuts - 1), -1]])
            rows = np.concatenate([level[a:z] for a, z in spans])
            if k > 1:
                rows[:, 0] -= np.repeat(above, sizes) * W
            above = begin - np.cumsum(sizes) + sizes
            yield Level(*(np.ascontiguousarray(column) for column in rows.T))


def count_spilling(ids, new_id, starts, order, W, memory):
    """The Run of `count_ids` of new_id[ids], made in about `memory` bytes."""
    some, tiers = tokens_in(memory, order), [[]]  # each run of a tier is made of FAN of the tier below
    for begin in range(0, len(ids), some):
        levels = piece(ids, new_id, starts, begin, min(begin + some, len(ids)), order, W)
        tiers[0].append(spilled(levels, np.int64(begin)))
        del levels
        for t, tier in enumerate(tiers):
            if len(tier) == FAN:
                tiers[t + 1 :] = tiers[t + 1 :] or [[]]
                tiers[t + 1].append(merge(tier, order, W, memory // NODE))
                tier.clear()
    return merge([run for tier in reversed(tiers) for run in tier], order, W, memory // NODE)


def piece(ids, new_id, starts, begin, end, order, W):
    """The levels of the n-grams that start from `begin` up to `end`, `first` from there on; those that start later and
    are not to be counted stand there too, with a count of 0.
    """
    a, b = np.searchsorted(starts, (begin + 1, end))
    stop = min(end + order - 1, int(starts[b]))
    ids = new_id[ids[begin:stop]]
    levels = count_ids(ids, np.concatenate(([0], starts[a:b] - begin, [stop - begin])), order, W)
    node = None
    for level, over in zip(levels, count_ids(ids[end - begin :], np.array([0, stop - end]), order, W), strict=True):
        keys = over.keys if node is None else node[over.keys // W] * W + over.keys % W
        node = np.searchsorted(level.keys, keys)
        level.count[node] -= over.count
    return levels


def spilled(levels, begin):
    """Levels of a piece of a text from `begin` on as a Run."""
    column, ends = Column(np.int64, True), [0]
    for level in levels:
        column.append(np.column_stack((level.keys, level.count, level.first + begin)))
        ends.append(ends[-1] + len(level.keys))
    return Run(column, ends)


def merge(runs, order, W, some, spill=True):
    """One Run of several, with about `some` nodes in memory where the runs are on disk."""
    if len(runs) == 1:
        return runs[0]
    column, ends, node = Column(np.int64, spill), [0], None
    for k in range(1, order + 1):
        levels, at, size = [run.level(k) for run in runs], [0] * len(runs), 0
        new_node = [Column(np.int64, spill) for _ in runs]
        while left := [r for r, level in enumerate(levels) if at[r] < len(level)]:
            rows = [np.array(levels[r][at[r] : at[r] + max(1, some // len(left))]) for r in left]
            if k > 1:
                for r, row in zip(left, rows, strict=True):
                    row[:, 0] = node[r][row[:, 0] // W] * W + row[:, 0] % W
            # beyond the least of the last keys other runs may have keys that were not read yet
            last = [row[-1, 0] for r, row in zip(left, rows, strict=True) if at[r] + len(row) < len(levels[r])]
            if last:
                rows = [row[: np.searchsorted(row[:, 0], min(last), "right")] for row in rows]
            keys, place = np.unique(np.concatenate([row[:, 0] for row in rows]), return_inverse=True)
            found = np.column_stack((keys, np.zeros_like(keys), np.full_like(keys, np.iinfo(np.int64).max)))
            np.add.at(found[:, 1], place, np.concatenate([row[:, 1] for row in rows]))
            np.minimum.at(found[:, 2], place, np.concatenate([row[:, 2] for row in rows]))
            column.append(found)
            for r, row, part in zip(
                left, rows, np.split(place, np.cumsum([len(row) for row in rows])[:-1]), strict=True
            ):
                new_node[r].append(part + size)
                at[r] += len(row)
            size += len(keys)
        node = [column.array() for column in new_node]
        ends.append(ends[-1] + size)
    return Run(column, ends)
