"""Counting by the ranks of mpiexec. The blocks of a text are dealt to the ranks; then each rank's n-grams are dealt to
ranks by their first words. An n-gram and its prefixes have the same first word, so each rank merges sorted runs.
"""

import numpy as np

from lmtk.files.column import Column
from lmtk.ngram.counting.counts import Level
from lmtk.ngram.counting.runs import Spilled, merge


def common_words(blocks, words, comm):
    """Return the words of all ranks, each once, in the order in which a single process would have met them. blocks:
    (path, place, tokens, words known after it) of each block that this rank has read; words: all words of this rank.
    """
    new_words, before = [], 0
    for path, place, _, end in blocks:
        new_words.append((path, place, words[before:end]))
        before = end
    everywhere = sorted((block for part in comm.gather(new_words) for block in part), key=lambda block: block[:2])
    return list(dict.fromkeys(word for _, _, new in everywhere for word in new))


def shifts(blocks, comm):
    """(where each block of this rank begins among its tokens, (B,); how much later among those of all ranks, (B,))."""
    sizes = sorted((path, place, tokens) for part in comm.gather(blocks) for path, place, tokens, _ in part)
    begins = np.cumsum([0, *(tokens for _, _, tokens in sizes)])
    start = {(path, place): begin for (path, place, _), begin in zip(sizes, begins)}
    own_start = np.cumsum([0, *(tokens for _, _, tokens, _ in blocks)])[:-1]
    return own_start, np.array([start[path, place] for path, place, _, _ in blocks]) - own_start


def gather_levels(levels, blocks, W, comm):
    """Add up the levels of all ranks; only rank 0 gets the sum. blocks: as in `common_words`."""
    starts, shift = shifts(blocks, comm)
    levels = [Level(x.keys, x.count, x.first + shift[np.searchsorted(starts, x.first, "right") - 1]) for x in levels]
    seen = np.zeros(W, np.int64)
    seen[levels[0].keys] = levels[0].count
    seen = np.cumsum(comm.sum(seen))
    cuts = np.searchsorted(seen, seen[-1] * np.arange(1, comm.size) / comm.size, "right")
    runs = [Spilled(Column(np.int64, False), [0]) for _ in range(comm.size)]
    at, above = np.concatenate(([0], cuts, [W])), np.zeros(comm.size, np.int64)
    for level in levels:
        at = np.searchsorted(level.keys, at)
        rows = np.column_stack((level.keys, level.count, level.first))
        parts = [rows[a:b] - np.array([parent * W, 0, 0]) for a, b, parent in zip(at, at[1:], above)]
        for part, run in zip(comm.swap(parts), runs, strict=True):
            run.column.append(part)
            run.ends.append(run.ends[-1] + len(part))
        above, at = at[:-1], at * W
    run = merge(runs, W, 1 << 62, False)
    gathered, above = [], np.zeros(comm.size, np.int64)
    for k in range(1, len(levels) + 1):
        merged_rows = np.ascontiguousarray(run.level(k))
        parts = comm.swap([merged_rows, *[merged_rows[:0]] * (comm.size - 1)])
        rows = np.concatenate([part + np.array([parent * W, 0, 0]) for part, parent in zip(parts, above, strict=True)])
        above = np.cumsum([0, *map(len, parts)])[:-1]
        gathered.append(Level(*(np.ascontiguousarray(column) for column in rows.T)))
    return gathered
