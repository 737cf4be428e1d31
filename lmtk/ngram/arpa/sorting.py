"""Prints the n-grams of a large model as lines of ARPA files, sorted in any order of their words, in little memory.

The nodes of an order are sorted by their first words. For lines in another order, the nodes become rows. These are
dealt to ranges of the leading word, which is compared first; then each range is sorted by itself.

symbol   shape     meaning
row      (k + 3,)  int32: the numbers of an n-gram's words, log10 p and log10 of its weight (the bits of float32), and
                   the flags of printing.print_rows
stated   (N_k,)    uint8: whether the file states the weight of a node
"""

import numpy as np

from lmtk.files import bounded
from lmtk.files.column import Shelf
from lmtk.machine.threads import Scratch, map_in_order
from lmtk.ngram.arpa.printing import PIECE
from lmtk.ngram.arpa.writer import weights_stated
from lmtk.ngram.estimate.suffix import cut_words
from lmtk.text.sorting import sorted_places

BYTES, LEAST = 512, 1 << 16  # bytes of memory for each row of a range; rows of a range, at least


def write_sections(out, model, rank, lines, context_first=False):
    """Writes the sections of an ARPA file. rank (W,): the numbers of the words. N-grams are sorted by these numbers,
    which are compared from the last word back; with `context_first`, the last word is compared last. lines: as in a
    printing.Layout, for rows of these numbers.
    """
    nodes, scratch, stated = model.nodes, Scratch(), weights_stated(model)
    most = max(bounded.bound // BYTES, LEAST) if bounded.bound else 1 << 40
    for k in range(1, nodes.order + 1):
        out.write(b"\n\\%d-grams:\n" % k)
        columns = [k - 1, *range(k - 1)] if context_first else [*range(k)]  # the last decides first
        for rows in ranges(nodes, k, columns[-1], rank, stated[k - 1], most):
            place = sorted_places(np.ascontiguousarray(rows[:, column]) for column in columns)

            def lines_of(begin, k=k, rows=rows, place=place):
                with scratch.lent() as room:
                    columns = rows[place[begin : begin + PIECE]].T.copy()
                    flags = columns[k + 2].astype(np.uint8)
                    return bytes(lines(columns[:k], *columns[k : k + 2].view(np.float32), flags, k, room))

            out.writelines(map_in_order(lines_of, range(0, len(rows), PIECE)))


def ranges(nodes, k, lead, rank, stated, most):
    """Yields the rows (M, k + 3) of the n-grams of order k, for one range after the other of the numbers of the leading
    word, the word at `lead`. A range has up to `most` rows, or those of a single word.
    """
    sizes, level = np.zeros(len(rank), np.int64), nodes.levels[lead + 1]
    for a in range(0, len(level) - 1, PIECE):
        part = level[a : a + PIECE + 1]
        extensions = np.diff(part["child"]).astype(np.int64) if lead + 1 < k else 1
        np.add.at(sizes, rank[part["word"][:-1]], extensions)
    cuts = cut_words(np.append(0, np.cumsum(sizes)), most, 0)
    pieces = map_in_order(lambda a: rows_of(nodes, k, a, rank, stated), range(0, nodes.size(k), PIECE))
    if len(cuts) == 2:
        yield np.concatenate([*pieces, np.zeros((0, k + 3), np.int32)])
        return
    range_of, shelf = np.repeat(np.arange(len(cuts) - 1, dtype=np.uint16), np.diff(cuts)), Shelf()
    for rows in pieces:
        shelf.deal(rows, range_of[rows[:, lead]])
    for r in range(len(cuts) - 1):
        yield shelf.get((r,), np.int32).reshape(-1, k + 3)


def rows_of(nodes, k, first, rank, stated):
    """The rows of PIECE nodes of order k from `first` on, without bare prefixes."""
    end = min(first + PIECE, nodes.size(k))
    level, rows = nodes.levels[k][first:end], np.empty((end - first, k + 3), np.int32)
    rows[:, :k], rows[:, k] = rank[nodes.rows(k, first, end)], level["log10p"].view(np.int32)
    rows[:, k + 1] = level["log10bow"].view(np.int32) if k < nodes.order else 0
    rows[:, k + 2] = 1 | stated[first:end] << 1
    has_p = ~np.isnan(level["log10p"])
    return rows if has_p.all() else rows[has_p]
