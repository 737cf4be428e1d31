"""Counting beyond memory: sorted runs of n-grams on disk, merged into one.

A run is a file of nodes, (N, 3) int64: key, count, where it was seen first; an order after the other. Keys are sorted,
and all that a key says of its n-gram's prefix is that one's place: so runs are merged in one pass over each, an order
at a time, the prefixes' places translated.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.files.column import Column
from lmtk.ngram.counts import Level, count_ids

FAN = 32  # runs merged at once
NODE = 100  # bytes that merging takes a node


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


def count_spilling(ids, new_id, starts, order, W, memory):
    """`count_ids` of new_id[ids] in about `memory` bytes besides the result's."""
    some, tiers = tokens_in(memory, order), [[]]  # each run of a tier is made of FAN of the tier below
    for begin in range(0, len(ids), some):
        tiers[0].append(spilled(piece(ids, new_id, starts, begin, min(begin + some, len(ids)), order, W)))
        for t, tier in enumerate(tiers):
            if len(tier) == FAN:
                tiers[t + 1 :] = tiers[t + 1 :] or [[]]
                tiers[t + 1].append(merge(tier, order, W, memory // NODE))
                tier.clear()
    run = merge([run for tier in reversed(tiers) for run in tier], order, W, memory // NODE)
    return [Level(*(np.ascontiguousarray(column) for column in run.level(k).T)) for k in range(1, order + 1)]


def piece(ids, new_id, starts, begin, end, order, W):
    """The levels of the n-grams that start from `begin` up to `end`; those that start later and are not to be counted
    stand there too, with a count of 0.
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
    return [Level(level.keys, level.count, level.first + np.int64(begin)) for level in levels]


def spilled(levels):
    """Levels as a Run."""
    column, ends = Column(np.int64, True), [0]
    for level in levels:
        column.append(np.column_stack((level.keys, level.count, level.first)))
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
